/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package krew_test checks the manifest of the plugin for krew.
package krew_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"
)

// plugin has the fields of krew.googlecontainertools.github.com/v1alpha2. krew refuses others.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	URI      string `json:"uri"`
	SHA256   string `json:"sha256"`
	Bin      string `json:"bin"`
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Files []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
}

const tag = "v0.1.0"

// render renders the template as krew-release-bot does, with a hash that stands for those of the archives.
func render(t *testing.T, text string) []byte {
	t.Helper()
	values := map[string]string{"TagName": tag}
	functions := template.FuncMap{"addURIAndSha": func(uri, _ string) (string, error) {
		var rendered strings.Builder
		inner, err := template.New("uri").Parse(uri)
		if err == nil {
			err = inner.Execute(&rendered, values)
		}
		return fmt.Sprintf("uri: %s\n    sha256: %064x", &rendered, len(uri)), err
	}}
	parsed, err := template.New("manifest").Funcs(functions).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var manifest bytes.Buffer
	if err := parsed.Execute(&manifest, values); err != nil {
		t.Fatal(err)
	}
	return manifest.Bytes()
}

// mistakes returns what krew refuses in a manifest.
func mistakes(manifest []byte) (found []string) {
	p := plugin{}
	if err := yaml.UnmarshalStrict(manifest, &p); err != nil {
		return []string{err.Error()}
	}
	fail := func(failed bool, message string) {
		if failed {
			found = append(found, message)
		}
	}
	fail(p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin", "apiVersion and kind")
	fail(p.Metadata.Name != "proviso", "name")
	fail(!regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(p.Spec.Version), "version")
	fail(p.Spec.ShortDescription == "" || len(p.Spec.ShortDescription) > 50 || strings.ContainsAny(p.Spec.ShortDescription, "\n."), "shortDescription")
	fail(p.Spec.Description == "" || p.Spec.Homepage == "", "description and homepage")
	fail(len(p.Spec.Platforms) == 0, "platforms")
	seen := map[string]bool{}
	for _, platform := range p.Spec.Platforms {
		os, arch := platform.Selector.MatchLabels["os"], platform.Selector.MatchLabels["arch"]
		fail(os == "" || arch == "" || len(platform.Selector.MatchLabels) != 2 || seen[os+"/"+arch], "selector")
		seen[os+"/"+arch] = true
		fail(platform.URI != fmt.Sprintf("%s/releases/download/%s/kubectl-proviso_%s_%s.tar.gz", p.Spec.Homepage, tag, os, arch), "uri: "+platform.URI)
		fail(!regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(platform.SHA256), "sha256")
		fail(platform.Bin != "kubectl-proviso", "bin")
		fail(platform.Files != nil && len(platform.Files) == 0, "files")
	}
	return found
}

// TestManifest checks the manifest of a release, and that Go compiles for its platforms.
func TestManifest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("proviso.yaml.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	manifest := render(t, string(text))
	if found := mistakes(manifest); len(found) > 0 {
		t.Errorf("got %q in\n%s", found, manifest)
	}
	platforms, err := exec.CommandContext(t.Context(), "go", "tool", "dist", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	p := plugin{}
	if err := yaml.Unmarshal(manifest, &p); err != nil {
		t.Fatal(err)
	}
	for _, platform := range p.Spec.Platforms {
		if name := platform.Selector.MatchLabels["os"] + "/" + platform.Selector.MatchLabels["arch"]; !strings.Contains("\n"+string(platforms), "\n"+name+"\n") {
			t.Errorf("Go has no platform %s", name)
		}
	}
	if _, err := os.Stat(filepath.Join("..", "..", "kubectl", "kubectl_complete-proviso")); err != nil {
		t.Error(err)
	}
	for name, change := range map[string][2]string{
		"an unknown field":  {"homepage:", "website:"},
		"a version":         {tag, "0.1"},
		"a platform twice":  {"arch: arm64", "arch: amd64"},
		"no executable":     {"bin: kubectl-proviso", ""},
		"no hash":           {"sha256: 00", "sha256: x"},
		"no description":    {"Explain and test authorization on conditions", ""},
		"another kind":      {"kind: Plugin", "kind: Plug"},
		"a long short text": {"Explain and test", strings.Repeat("Explain and test ", 5)},
	} {
		if found := mistakes(bytes.ReplaceAll(manifest, []byte(change[0]), []byte(change[1]))); len(found) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
}
