/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package document_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/proviso-authz/proviso/pkg/kubectl/document"
)

// TestReadText reads documents from texts, with the lines in which they begin.
func TestReadText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		lines      []int
		wrong      int // the line of the document with an error
	}{
		{name: "nothing"},
		{name: "one document", text: "a: 1", lines: []int{1}},
		{name: "comments first", text: "# one\n\na: 1\n", lines: []int{1}},
		{name: "a separator first", text: "---\na: 1\n", lines: []int{1}},
		{name: "the same document twice", text: "a: 1\n---\na: 1\n---\n\na: 1", lines: []int{1, 3, 5}},
		{name: "an empty document", text: "a: 1\n---\n# none\n---\nb: 1\n", lines: []int{1, 5}},
		{name: "JSON", text: "{\"a\": 1}\n{\"b\": 1}\n", lines: []int{1, 1}},
		{name: "other line breaks", text: "a: 1\r\n---\r\nb: 1\r\n", lines: []int{0, 0}},
		{name: "a mistake", text: "a: 1\n---\nb: [", wrong: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			documents, err := document.ReadText("text", tc.text)
			var lines []int
			for _, d := range documents {
				lines = append(lines, d.Source.Line)
			}
			if !slices.Equal(lines, tc.lines) || (err != nil) != (tc.wrong > 0) {
				t.Errorf("got the lines %v, %v, want %v", lines, err, tc.lines)
			}
			if located, ok := errors.AsType[*document.Error](err); tc.wrong > 0 && (!ok || located.Source.Line != tc.wrong) {
				t.Errorf("got %#v", err)
			}
		})
	}
}
