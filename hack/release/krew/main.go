/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command krew writes the archives of a release of kubectl proviso, one for each platform, and its manifest for krew.
package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// manifestTemplate has the platforms. It has the form that krew-release-bot reads.
//
//go:embed proviso.yaml.tmpl
var manifestTemplate string

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error: "+err.Error())
		os.Exit(1)
	}
}

var errArguments = errors.New("want four arguments: the tag, the flags for the linker, the root of the repository, and the directory to write to")

func run(args []string) error {
	if len(args) != 4 {
		return errArguments
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &release{tag: args[0], root: args[2], build: goBuild(args[1])}
	return r.write(ctx, args[3])
}

// release is a release of the plugin.
type release struct {
	tag, root string
	// build writes the executable for a platform to a file.
	build func(ctx context.Context, root, goos, goarch, file string) error
}

// goBuild returns a function that builds the executable as the Makefile does.
func goBuild(linkerFlags string) func(ctx context.Context, root, goos, goarch, file string) error {
	return func(ctx context.Context, root, goos, goarch, file string) error {
		fmt.Printf("building kubectl-proviso for %s/%s …\n", goos, goarch)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", linkerFlags, "-o", file, "./cmd/kubectl-proviso")
		cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
		return cmd.Run()
	}
}

var (
	tagPattern     = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)
	archivePattern = regexp.MustCompile(`^kubectl-proviso_([a-z0-9]+)_([a-z0-9]+)\.tar\.gz$`)

	errTag = errors.New("the tag must be like v0.1.0")
)

// write writes the archives, and the manifest with their hashes.
func (r *release) write(ctx context.Context, dir string) error {
	if !tagPattern.MatchString(r.tag) {
		return fmt.Errorf("%q: %w", r.tag, errTag)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	manifest, err := r.manifest(func(name string) (string, error) {
		m := archivePattern.FindStringSubmatch(name)
		if m == nil {
			return "", fmt.Errorf("the manifest names %q, want kubectl-proviso_OS_ARCH.tar.gz", name)
		}
		file := filepath.Join(dir, name)
		if err := r.archive(ctx, file, m[1], m[2]); err != nil {
			return "", err
		}
		content, err := os.ReadFile(file)
		return fmt.Sprintf("%x", sha256.Sum256(content)), err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "proviso.yaml"), []byte(manifest), 0o644)
}

// manifest renders the template as krew-release-bot does. hash returns the hash of the archive with a name.
func (r *release) manifest(hash func(name string) (string, error)) (string, error) {
	values := map[string]string{"TagName": r.tag}
	render := func(text string, functions template.FuncMap) (string, error) {
		var rendered strings.Builder
		parsed, err := template.New("manifest").Funcs(functions).Parse(text)
		if err == nil {
			err = parsed.Execute(&rendered, values)
		}
		return rendered.String(), err
	}
	return render(manifestTemplate, template.FuncMap{"addURIAndSha": func(uri, _ string) (string, error) {
		rendered, err := render(uri, nil)
		if err != nil {
			return "", err
		}
		sum, err := hash(path.Base(rendered))
		return "uri: " + rendered + "\n    sha256: " + sum, err
	}})
}

// archive writes the archive for a platform: the executable, the script with which kubectl completes its arguments, and the license. The same commit and the
// same version of Go give the same bytes.
func (r *release) archive(ctx context.Context, file, goos, goarch string) error {
	work, err := os.MkdirTemp("", "kubectl-proviso")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	executable := filepath.Join(work, "kubectl-proviso")
	if err := r.build(ctx, r.root, goos, goarch, executable); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(writeArchive(out, []string{filepath.Join(r.root, "LICENSE"), executable, filepath.Join(r.root, "hack", "kubectl", "kubectl_complete-proviso")}), out.Close())
}

// writeArchive writes files, which are in the order of their names. Their times and owners do not count: all files have the time of the environment variable
// SOURCE_DATE_EPOCH. All but the license are executable.
func writeArchive(out io.Writer, files []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: filepath.Base(file), Mode: 0o755, Size: int64(len(content)), ModTime: time.Unix(seconds, 0), Format: tar.FormatUSTAR}
		if header.Name == "LICENSE" {
			header.Mode = 0o644
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}
