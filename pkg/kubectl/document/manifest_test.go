/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package document_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/proviso-authz/proviso/pkg/kubectl/document"
)

// pieces are texts that have a meaning in YAML, in JSON, or for a reader of documents.
var pieces = []string{
	"\n---\n", "---", "...", "\n...\n", "%YAML", ": ", "- ", " #", "\n", "\r", "\t", "\r\n", " ", "  ", "'", `"`, "`", "\\", "|", ">", "&a", "*a", "!t", "!!binary ", "{", "}", "[", "]", ",", "?",
	"yes", "no", "on", "null", "~", "true", "0x1F", "0o7", "017", "1e3", ".inf", ".NaN", "1_0", "1:30", "2026-01-01", "<<", "=", "@",
	"\x00", "\x1b[2J", "\x7f", "\u0085", "\u009b", "\u00a0", "\u2028", "\u2029", "\u202e", "\ufeff", "\ufffe", "\U000e0041", "🙂", "日本", "a", "B",
}

// TestReadAgain writes objects with texts at random, and reads them as kubectl does: they are the same.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	text := func() string {
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	for range 500 {
		var want []map[string]any
		for range 1 + random.IntN(3) {
			want = append(want, map[string]any{"kind": text(), "spec": map[string]any{"a": text(), "list": []any{text(), map[string]any{"b": text(), "c": []any{}}}}})
		}
		var asYAML, asJSON bytes.Buffer
		if err := document.WriteManifests(&asYAML, want, document.YAML); err != nil {
			t.Fatal(err)
		}
		if err := document.WriteManifests(&asJSON, want, document.JSON); err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal(asJSON.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, list.Items); diff != "" {
			t.Fatalf("JSON: %s\n%s", diff, &asJSON)
		}
		if diff := cmp.Diff(want, decoded(t, asYAML.Bytes())); diff != "" {
			t.Fatalf("YAML: %s\n%s", diff, &asYAML)
		}
	}
}

// decoded reads documents as kubectl does.
func decoded(t *testing.T, manifests []byte) (objects []map[string]any) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, manifests)
		}
		objects = append(objects, object)
	}
}
