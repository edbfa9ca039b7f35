/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shBlocks are the blocks of a document that a reader is meant to type.
var shBlocks = regexp.MustCompile("(?s)```sh\n(.*?)```")

// consoleMake are commands that start things in blocks of their own kind, with variables such as MODE=managed.
var consoleMake = regexp.MustCompile(`(?m)^\$ make ([a-z0-9-]+(?: [A-Z]+=[a-z0-9]+)*)`)

func documents(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"}
	more, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range more {
		files = append(files, filepath.Join("docs", filepath.Base(file)))
	}
	return files
}

// TestDocumentedCommands runs every command of the documents against the cluster of the
// tests.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	ran := 0
	for _, name := range documents(t) {
		content, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		blocks := shBlocks.FindAllStringSubmatch(string(content), -1)
		ran += len(blocks)
		if name != fineGrainedDocument && name != pluginDocument { // which TestFields and the tests of the plugin run
			runBlocks(t, name, blocks)
		}
		for _, target := range consoleMake.FindAllStringSubmatch(string(content), -1) {
			cmd := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run"}, strings.Fields(target[1])...)...)
			cmd.Dir = repository
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: make %s is no target: %s", name, target[1], out)
			}
		}
	}
	if ran < 6 {
		t.Errorf("only %d blocks were found, so the test proves little", ran)
	}
}

// fineGrainedDocument tells of what is off by default.
var fineGrainedDocument = filepath.Join("docs", "fine-grained.md")

// pluginDocument applies barriers, which bind the users of other tests, too.
var pluginDocument = filepath.Join("docs", "kubectl-proviso.md")

// devCluster is the line with which a reader chooses the cluster of `make demo`. Tests use their own.
var devCluster = regexp.MustCompile(`(?m)^export KUBECONFIG=.*$`)

// runBlocks runs the blocks of a document in one shell, as a reader pastes them: what a block changes, such as the
// directory, holds for those after it.
func runBlocks(t *testing.T, name string, blocks [][]string) {
	t.Helper()
	if len(blocks) == 0 {
		return
	}
	var script strings.Builder
	for i, block := range blocks {
		fmt.Fprintf(&script, "echo '--- block %d'\n%s", i+1, devCluster.ReplaceAllString(block[1], ""))
	}
	t.Run(name, func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), "bash", "-o", "errexit", "-o", "nounset", "-o", "pipefail", "-c", script.String())
		cmd.Dir = repository
		cmd.Env = append(os.Environ(), "KUBECONFIG="+stack.Kubeconfig(), "PATH="+stack.Bin+":"+os.Getenv("PATH"), "HOME="+stack.Dir, "GOPATH="+goEnv(t, "GOPATH"), "GOCACHE="+goEnv(t, "GOCACHE"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\nprinted\n%s", err, script.String(), out)
		}
	})
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

var (
	links = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	// quoted is text that is no link, whatever it looks like.
	quoted = regexp.MustCompile("`[^`\n]*`")
)

// TestDocumentLinks checks that what documents refer to is there.
func TestDocumentLinks(t *testing.T) {
	t.Parallel()
	for _, name := range documents(t) {
		content, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links.FindAllStringSubmatch(quoted.ReplaceAllString(string(content), ""), -1) {
			if strings.HasPrefix(link[1], "http") {
				continue
			}
			if _, err := os.Stat(filepath.Join(repository, filepath.Dir(name), link[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", name, link[1])
			}
		}
	}
}
