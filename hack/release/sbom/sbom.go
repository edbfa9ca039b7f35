/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package sbom writes and reads bills of materials in the form SPDX 2.3, with the Go modules of executables.
package sbom

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
)

// Artifact is what a document is about: an image, or an archive.
type Artifact struct {
	Name, SHA256 string
	// Modules are the modules of its executables.
	Modules []*debug.BuildInfo
}

// Document is the name of a document, the version of Proviso, and the time of its source.
type Document struct {
	Name, Version string
	Created       time.Time
}

// Write writes a document about artifacts into a directory.
func (d *Document) Write(dir string, artifacts []Artifact) error {
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: d.Name,
		DocumentNamespace: "https://github.com/proviso-authz/proviso/releases/download/" + d.Version + "/" + d.file(),
		CreationInfo: &spdx.CreationInfo{
			Creators: []spdx.Creator{{CreatorType: "Organization", Creator: "The Proviso Authors"}, {CreatorType: "Tool", Creator: "hack/release-" + d.Version}},
			Created:  d.Created.UTC().Format(time.RFC3339),
		},
	}
	relate := func(a, relationship, b string) {
		document.Relationships = append(document.Relationships, &spdx.Relationship{RefA: spdx.DocElementID{ElementRefID: spdx.ElementID(a)}, Relationship: relationship, RefB: spdx.DocElementID{ElementRefID: spdx.ElementID(b)}})
	}
	ids := map[string]string{} // of the modules, by their locators
	for i, artifact := range artifacts {
		whole := newPackage(fmt.Sprintf("Artifact-%d", i+1), artifact.Name, d.Version, "")
		whole.PackageChecksums = []spdx.Checksum{{Algorithm: spdx.SHA256, Value: artifact.SHA256}}
		document.Packages = append(document.Packages, whole)
		relate("DOCUMENT", "DESCRIBES", string(whole.PackageSPDXIdentifier))
		for _, locator := range d.locators(artifact.Modules) {
			if ids[locator] == "" {
				name, version, _ := strings.Cut(strings.TrimPrefix(locator, "pkg:golang/"), "@")
				ids[locator] = fmt.Sprintf("Module-%d", len(ids)+1)
				document.Packages = append(document.Packages, newPackage(ids[locator], name, strings.ReplaceAll(version, "%2B", "+"), locator))
			}
			relate(string(whole.PackageSPDXIdentifier), "CONTAINS", ids[locator])
		}
	}
	var text bytes.Buffer
	if err := json.Write(document, &text, json.Indent(" ")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, d.file()), text.Bytes(), 0o644)
}

func (d *Document) file() string { return d.Name + ".spdx.json" }

// locators returns the package URLs of modules, in order.
func (d *Document) locators(infos []*debug.BuildInfo) (locators []string) {
	add := func(module, version string) {
		locators = append(locators, "pkg:golang/"+module+"@"+strings.ReplaceAll(version, "+", "%2B"))
	}
	for _, info := range infos {
		add(info.Main.Path, d.Version)
		add("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
		for _, module := range info.Deps {
			module = cmp.Or(module.Replace, module)
			add(module.Path, module.Version)
		}
	}
	slices.Sort(locators)
	return slices.Compact(locators)
}

func newPackage(id, name, version, locator string) *spdx.Package {
	p := &spdx.Package{
		PackageName: name, PackageSPDXIdentifier: spdx.ElementID(id), PackageVersion: version, PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
	}
	if locator != "" {
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: locator}}
	}
	return p
}

// Verify returns an error if the document in a directory does not name all artifacts with their hashes, and all of their modules.
func (d *Document) Verify(dir string, artifacts []Artifact) error {
	text, err := os.ReadFile(filepath.Join(dir, d.file()))
	if err != nil {
		return err
	}
	document, err := json.Read(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", d.file(), err)
	}
	named := map[string]bool{}
	for _, p := range document.Packages {
		for _, reference := range p.PackageExternalReferences {
			named[reference.Locator] = true
		}
		for _, sum := range p.PackageChecksums {
			named[path.Join(p.PackageName, sum.Value)] = true
		}
	}
	var missing []error
	for _, artifact := range artifacts {
		for _, want := range append(d.locators(artifact.Modules), path.Join(artifact.Name, artifact.SHA256)) {
			if !named[want] {
				missing = append(missing, fmt.Errorf("%s does not name %s", d.file(), want))
			}
		}
	}
	return errors.Join(missing...)
}
