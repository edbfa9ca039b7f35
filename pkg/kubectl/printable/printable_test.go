/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package printable_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{
		{text: "", want: ""},
		{text: "a plain text", want: "a plain text"},
		{text: "日本 é 🙂", want: "日本 é 🙂"},
		{text: "\x1b[2J", want: `\x1b[2J`},
		{text: "a\nb\tc\rd", want: `a\nb\tc\x0dd`},
		{text: "\u009b2J\x7f", want: `\x9b2J\x7f`},
		{text: "\u202eabc\u2066", want: `\u202eabc\u2066`},
		{text: "\u2028\u2029\ufeff", want: `\u2028\u2029\ufeff`},
		{text: "\U000e0041", want: `\U000e0041`},
		{text: "\xff\ufffd", want: `\xff` + "\ufffd"},
		{text: "a\u00a0b", want: `a\xa0b`},
	} {
		if got := printable.Text(tc.text); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.text, got, tc.want)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{
		{text: "one", want: "one"},
		{text: "one\n", want: "one"},
		{text: "one\nerror: two\r\n\x1b", want: "one\n  error: two\\x0d\n  \\x1b"},
	} {
		if got := printable.Lines(tc.text); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.text, got, tc.want)
		}
	}
}

// TestJSON compares what JSON means before and after.
func TestJSON(t *testing.T) {
	t.Parallel()
	want := "a\u0000\x1b\x7f\u009b\u202e\u2028\ufeff\U000e0041 🙂 日本 \\ \" \n\t"
	text, err := json.MarshalIndent([]string{want}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	escaped := printable.JSON(string(text))
	if strings.ContainsFunc(escaped, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("got %q", escaped)
	}
	var got []string
	if err := json.Unmarshal([]byte(escaped), &got); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
