/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package rows reads tables of tests from YAML. A table whose rows are long objects is easier to read there than in Go.
package rows

import (
	"maps"
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// Run runs a test for each row of a file, in parallel. The file maps the names of the rows to the rows. The test fails if a
// name is there twice, if a row has a field that Row does not have, or if there is no row.
func Run[Row any](t *testing.T, file string, test func(t *testing.T, row Row)) {
	t.Helper()
	table := Read[Row](t, file)
	for _, name := range slices.Sorted(maps.Keys(table)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, table[name])
		})
	}
}

// Read returns the rows of a file by name.
func Read[Row any](t testing.TB, file string) map[string]Row {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]Row{}
	if err := yaml.UnmarshalStrict(content, &table); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(table) == 0 {
		t.Fatalf("%s has no rows", file)
	}
	return table
}
