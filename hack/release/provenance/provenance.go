/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package provenance writes and reads the provenance of a release: an unsigned in-toto statement with the predicate of SLSA v1.
package provenance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/proviso-authz/proviso/hack/release/checksums"
)

// Name is the name of the file.
const Name = "provenance.intoto.json"

const (
	project       = "https://github.com/proviso-authz/proviso"
	predicateType = "https://slsa.dev/provenance/v1"
)

// Build is what a release was built from.
type Build struct {
	Tag, Commit, LinkerFlags string
	// Created is the time of the commit.
	Created time.Time
	// Repository is the name of the image without a tag.
	Repository string
}

// Write writes the provenance of all files of a directory into it.
func Write(dir string, b Build) error {
	files, err := checksums.Files(dir, Name, checksums.Name)
	if err != nil {
		return err
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: predicateType}
	for _, file := range files {
		statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{Name: file.Name, Digest: map[string]string{"sha256": file.SHA256}})
	}
	if statement.Predicate, err = b.predicate(); err != nil {
		return err
	}
	text, err := protojson.Marshal(statement)
	if err != nil {
		return err
	}
	var indented bytes.Buffer // protojson adds blanks at random
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return err
	}
	indented.WriteByte('\n')
	return os.WriteFile(filepath.Join(dir, Name), indented.Bytes(), 0o644)
}

func (b *Build) predicate() (*structpb.Struct, error) {
	parameters := func(values map[string]any) *structpb.Struct {
		s, err := structpb.NewStruct(values)
		if err != nil {
			panic(err) // all values are texts
		}
		return s
	}
	predicate := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{
			BuildType:          project + "/blob/main/CONTRIBUTING.md#make-a-release",
			ExternalParameters: parameters(map[string]any{"tag": b.Tag, "image": b.Repository}),
			InternalParameters: parameters(map[string]any{"linkerFlags": b.LinkerFlags, "go": runtime.Version(), "created": b.Created.UTC().Format(time.RFC3339)}),
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{Uri: "git+" + project + "@refs/tags/" + b.Tag, Digest: map[string]string{"gitCommit": b.Commit}},
			},
		},
		RunDetails: &slsa.RunDetails{Builder: &slsa.Builder{Id: project + "/blob/main/Makefile"}},
	}
	converted := &structpb.Struct{}
	text, err := protojson.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	return converted, protojson.Unmarshal(text, converted)
}

// Read returns what a release was built from, and an error if the subjects are not exactly the files of the directory.
func Read(dir string) (b Build, err error) {
	text, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		return b, err
	}
	statement, predicate := &intoto.Statement{}, &slsa.Provenance{}
	if err := protojson.Unmarshal(text, statement); err != nil {
		return b, fmt.Errorf("%s: %w", Name, err)
	}
	if err := statement.Validate(); err != nil {
		return b, fmt.Errorf("%s: %w", Name, err)
	}
	if text, err = protojson.Marshal(statement.GetPredicate()); err != nil {
		return b, err
	}
	if err := protojson.Unmarshal(text, predicate); err != nil {
		return b, fmt.Errorf("%s: %w", Name, err)
	}
	if err := predicate.Validate(); err != nil {
		return b, fmt.Errorf("%s: %w", Name, err)
	}
	files, err := checksums.Files(dir, Name, checksums.Name)
	if err != nil {
		return b, err
	}
	if !slices.EqualFunc(statement.GetSubject(), files, func(subject *intoto.ResourceDescriptor, file checksums.File) bool {
		return proto.Equal(subject, &intoto.ResourceDescriptor{Name: file.Name, Digest: map[string]string{"sha256": file.SHA256}})
	}) {
		return b, fmt.Errorf("%s: the subjects are not the files of the release", Name)
	}
	definition := predicate.GetBuildDefinition()
	external, internal := definition.GetExternalParameters().GetFields(), definition.GetInternalParameters().GetFields()
	b = Build{Tag: external["tag"].GetStringValue(), Repository: external["image"].GetStringValue(), LinkerFlags: internal["linkerFlags"].GetStringValue()}
	if b.Created, err = time.Parse(time.RFC3339, internal["created"].GetStringValue()); err != nil {
		return b, fmt.Errorf("%s: %w", Name, err)
	}
	if dependencies := definition.GetResolvedDependencies(); len(dependencies) == 1 {
		b.Commit = dependencies[0].GetDigest()["gitCommit"]
	}
	if statement.GetPredicateType() != predicateType || b.Tag == "" || b.Commit == "" || b.Repository == "" {
		return b, fmt.Errorf("%s does not say from what the release was built", Name)
	}
	return b, nil
}
