/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package sbom_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"

	"github.com/proviso-authz/proviso/hack/release/sbom"
)

// TestDocument writes a document about two artifacts that share a module, and reads it with the library of SPDX.
func TestDocument(t *testing.T) {
	t.Parallel()
	info := func(dependencies ...*debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/main", Version: "(devel)"}, Deps: dependencies}
	}
	shared := &debug.Module{Path: "example.com/a_b", Version: "v1.0.0+incompatible"}
	artifacts := []sbom.Artifact{
		{Name: "one.tar.gz", SHA256: strings.Repeat("1", 64), Modules: []*debug.BuildInfo{info(shared)}},
		{Name: "two.tar.gz", SHA256: strings.Repeat("2", 64), Modules: []*debug.BuildInfo{info(shared, &debug.Module{Path: "example.com/c", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/d", Version: "v2.0.0"}})}},
	}
	d, dir := &sbom.Document{Name: "plugin", Version: "v0.1.0", Created: time.Unix(1800000000, 0)}, t.TempDir()
	if err := d.Write(dir, artifacts); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "plugin.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[spdx.ElementID]string{"DOCUMENT": "DOCUMENT"}
	for _, p := range document.Packages {
		if ids[p.PackageSPDXIdentifier] != "" {
			t.Errorf("two packages have the identifier %s", p.PackageSPDXIdentifier)
		}
		ids[p.PackageSPDXIdentifier] = p.PackageName + " " + p.PackageVersion
	}
	var related []string
	for _, r := range document.Relationships {
		related = append(related, ids[r.RefA.ElementRefID]+" "+r.Relationship+" "+ids[r.RefB.ElementRefID])
	}
	want := `DOCUMENT DESCRIBES one.tar.gz v0.1.0
one.tar.gz v0.1.0 CONTAINS example.com/a_b v1.0.0+incompatible
one.tar.gz v0.1.0 CONTAINS example.com/main v0.1.0
one.tar.gz v0.1.0 CONTAINS stdlib 1.26.8
DOCUMENT DESCRIBES two.tar.gz v0.1.0
two.tar.gz v0.1.0 CONTAINS example.com/a_b v1.0.0+incompatible
two.tar.gz v0.1.0 CONTAINS example.com/d v2.0.0
two.tar.gz v0.1.0 CONTAINS example.com/main v0.1.0
two.tar.gz v0.1.0 CONTAINS stdlib 1.26.8`
	if got := strings.Join(related, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(string(text), `"pkg:golang/example.com/a_b@v1.0.0%2Bincompatible"`) || !strings.Contains(string(text), `"created": "2027-01-15T08:00:00Z"`) {
		t.Errorf("got %s", text)
	}
	if err := d.Verify(dir, artifacts); err != nil {
		t.Error(err)
	}
	artifacts[0].Modules[0].Deps = []*debug.Module{{Path: "example.com/e", Version: "v1.0.0"}}
	artifacts[1].SHA256 = strings.Repeat("3", 64)
	err = d.Verify(dir, artifacts)
	for _, want := range []string{"example.com/e@v1.0.0", "two.tar.gz/333"} {
		if err == nil || !strings.Contains(err.Error(), "plugin.spdx.json does not name") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
