/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package things

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// MarkedSchemas parses the schemas of a document. In it "(verb", "(source", "(by", "(treatment" and
// "(excluded" stand for the markers. The schema of things has the name thing.
func MarkedSchemas(t testing.TB, document string) map[string]*spec.Schema {
	t.Helper()
	text := strings.NewReplacer(
		"(verb", "x-kubernetes-permission-verb", "(source", "x-kubernetes-permission-parameter-source", "(by", "x-kubernetes-permission-parameterized-by",
		"(treatment", "x-kubernetes-permission-parameter-treatment", "(excluded", "x-kubernetes-permission-excluded", "(other", "x-kubernetes-permission-verbs",
		"(set", "x-kubernetes-list-type: set", "(map", "x-kubernetes-list-type: map, x-kubernetes-list-map-keys",
	).Replace(document)
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	schemas := map[string]*spec.Schema{}
	if err := json.Unmarshal(content, &schemas); err != nil {
		t.Fatal(err)
	}
	if s := schemas["thing"]; s != nil {
		s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": Kind.Group, "version": Kind.Version, "kind": Kind.Kind}})
	}
	return schemas
}
