/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
)

func named(name string) step        { return step{kind: stepName, name: name} }
func withKey(key, v string) step    { return step{kind: stepKey, key: key, name: v} }
func steps(list ...step) pattern    { return list }
func deep(n int, sep string) string { return "a" + strings.Repeat(sep, n-1) }

// TestParsePattern has paths of every form, and what looks like one. A path that is read as another one would protect the wrong field.
func TestParsePattern(t *testing.T) {
	t.Parallel()
	anyStep := step{kind: stepAny}
	for _, tc := range []struct {
		name, text string
		want       pattern
		wantText   string // if it is not the text itself
		wantErr    error
	}{
		{name: "a field", text: "spec", want: steps(named("spec"))},
		{name: "fields", text: "spec.a.b", want: steps(named("spec"), named("a"), named("b"))},
		{name: "letters, digits, and other marks", text: "_a9.b-c.d_e", want: steps(named("_a9"), named("b-c"), named("d_e"))},
		{name: "a dollar", text: "$schema.$ref", want: steps(named("$schema"), named("$ref")), wantText: `["$schema"]["$ref"]`},
		{name: "every element", text: "a[*]", want: steps(named("a"), anyStep)},
		{name: "every element of every element", text: "a[*][*].b", want: steps(named("a"), anyStep, anyStep, named("b"))},
		{name: "a key", text: `a["example.com/x"]`, want: steps(named("a"), named("example.com/x"))},
		{name: "a key that could be a field", text: `a["b"]`, want: steps(named("a"), named("b")), wantText: "a.b"},
		{name: "an empty key", text: `a[""]`, want: steps(named("a"), named(""))},
		{name: "a key that is a star", text: `a["*"]`, want: steps(named("a"), named("*"))},
		{name: "a key with a bracket and a quote", text: `a["b\"]"].c`, want: steps(named("a"), named(`b"]`), named("c"))},
		{name: "a key in another script", text: `a["größe"]`, want: steps(named("a"), named("größe"))},
		{name: "a key with an escape", text: `a["\u0062\x2fc"]`, want: steps(named("a"), named("b/c")), wantText: `a["b/c"]`},
		{name: "a key that is not UTF-8", text: `a["\xff"]`, want: steps(named("a"), named("\xff"))},
		{name: "a list key", text: `a[type="Ready"]`, want: steps(named("a"), withKey("type", "Ready"))},
		{name: "an empty list key", text: `a[type=""].b`, want: steps(named("a"), withKey("type", ""), named("b"))},
		{name: "a list key with an equals sign", text: `a[type="x=\"y\""]`, want: steps(named("a"), withKey("type", `x="y"`))},
		{name: "as many steps as may be", text: deep(32, ".a"), want: steps(named("a")), wantText: deep(32, ".a")},
		{name: "as many bytes as may be", text: strings.Repeat("a", 1024), want: steps(named(strings.Repeat("a", 1024)))},

		{name: "nothing", text: "", wantErr: errPathStart},
		{name: "a step too many", text: deep(33, ".a"), wantErr: errPathDeep},
		{name: "a step too many, of elements", text: deep(33, "[*]"), wantErr: errPathDeep},
		{name: "a byte too many", text: strings.Repeat("a", 1025), wantErr: errPathLong},
		{name: "a byte too many, and wrong", text: strings.Repeat(".", 1025), wantErr: errPathLong},
		{name: "a space", text: " spec", wantErr: errPathSyntax},
		{name: "a space behind", text: "spec ", wantErr: errPathSyntax},
		{name: "a line break behind", text: "spec\n", wantErr: errPathSyntax},
		{name: "a space in brackets", text: "a[ *]", wantErr: errPathSyntax},
		{name: "a dot", text: ".", wantErr: errPathSyntax},
		{name: "two dots", text: "a..b", wantErr: errPathSyntax},
		{name: "a dot before brackets", text: "a.[*]", wantErr: errPathSyntax},
		{name: "no dot behind brackets", text: "a[*]b", wantErr: errPathSyntax},
		{name: "a digit first", text: "a.1b", wantErr: errPathSyntax},
		{name: "a mark first", text: "a.-b", wantErr: errPathSyntax},
		{name: "a letter that is not ASCII", text: "größe", wantErr: errPathSyntax},
		{name: "a slash", text: "a/b", wantErr: errPathSyntax},
		{name: "a JSON pointer", text: "/spec/a", wantErr: errPathSyntax},
		{name: "a key first", text: `["a"]`, wantErr: errPathSyntax},
		{name: "a list key first", text: `[a="b"]`, wantErr: errPathSyntax},
		{name: "a star without brackets", text: "a.*", wantErr: errPathSyntax},
		{name: "empty brackets", text: "a[]", wantErr: errPathSyntax},
		{name: "brackets that do not end", text: "a[*", wantErr: errPathSyntax},
		{name: "a key that does not end", text: `a["b`, wantErr: errPathSyntax},
		{name: "a key in brackets that do not end", text: `a["b"`, wantErr: errPathSyntax},
		{name: "a key with more behind it", text: `a["b"c]`, wantErr: errPathSyntax},
		{name: "a key without quotes", text: "a[b]", wantErr: errPathSyntax},
		{name: "a letter as a key", text: "a['b']", wantErr: errPathSyntax},
		{name: "a key in raw quotes", text: "a[`b`]", wantErr: errPathSyntax},
		{name: "a key with an escape that is none", text: `a["\q"]`, wantErr: errPathSyntax},
		{name: "a key with a line break", text: "a[\"b\nc\"]", wantErr: errPathSyntax},
		{name: "a list key without value", text: "a[type=]", wantErr: errPathSyntax},
		{name: "a list key whose value has no quotes", text: "a[type=b]", wantErr: errPathSyntax},
		{name: "a list key whose value is in raw quotes", text: "a[type=`b`]", wantErr: errPathSyntax},
		{name: "a list key without name", text: `a[="b"]`, wantErr: errPathSyntax},
		{name: "a list key whose name has quotes", text: `a["type"="b"]`, wantErr: errPathSyntax},
		{name: "two list keys", text: `a[b="c",d="e"]`, wantErr: errPathSyntax},
		{name: "a list key of every value", text: "a[type=*]", wantErr: errPathSyntax},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := parsePattern(tc.text)
			if !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
				t.Fatalf("got %v, want %v", err, tc.wantErr)
			}
			if tc.wantErr != nil {
				if got != nil {
					t.Errorf("got the pattern %s beside the error", got)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got[:len(tc.want)], cmp.AllowUnexported(step{})); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if len(got) != len(tc.want) && len(got) != maxSteps {
				t.Errorf("got %d steps, want %d", len(got), len(tc.want))
			}
			want := tc.text
			if tc.wantText != "" {
				want = tc.wantText
			}
			if got := got.String(); got != want {
				t.Errorf("written as %s, want %s", got, want)
			}
		})
	}
}

// FuzzPatterns reads texts. A path that can be read has one text, by which rules are compared, and which is read as the same path.
func FuzzPatterns(f *testing.F) {
	for _, seed := range []string{"spec.a", `a["b.c/d"]`, `a[type="Ready"].b`, "a[*][*]", `a["\xff\u2028"]`, `a["$b"]`, "$a.b", `a[$k="v"]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parsePattern(text)
		if err != nil {
			return
		}
		written := parsed.String()
		if strings.HasPrefix(written, "[") { // a field with a dollar has no text that is a path, if it is first
			parsed = append(steps(named("x")), parsed...)
			written = parsed.String()
		}
		again, err := parsePattern(written)
		if tooLarge := len(written) > 1024 || len(parsed) > maxSteps; tooLarge {
			return
		}
		if err != nil {
			t.Fatalf("%q is written as %q, which cannot be read: %v", text, written, err)
		}
		if diff := cmp.Diff(parsed, again, cmp.AllowUnexported(step{})); diff != "" {
			t.Errorf("%q is written as %q (-read +read again):\n%s", text, written, diff)
		}
	})
}

// TestOwnedFieldsHaveNoRules tries every field that the server owns, and its surroundings.
func TestOwnedFieldsHaveNoRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		path string
		want string // a part of the reason, or nothing
	}{
		{path: "apiVersion", want: "the server owns apiVersion, so that its changes need no permission"},
		{path: "kind", want: "the server owns kind"},
		{path: "metadata.namespace", want: "the server owns metadata.namespace"},
		{path: "metadata.resourceVersion", want: "the server owns metadata.resourceVersion"},
		{path: "metadata.generation", want: "the server owns metadata.generation"},
		{path: "metadata.uid", want: "the server owns metadata.uid"},
		{path: "metadata.creationTimestamp", want: "the server owns metadata.creationTimestamp"},
		{path: "metadata.deletionTimestamp", want: "the server owns metadata.deletionTimestamp"},
		{path: "metadata.deletionGracePeriodSeconds", want: "the server owns metadata.deletionGracePeriodSeconds"},
		{path: "metadata.selfLink", want: "the server owns metadata.selfLink"},
		{path: "metadata.managedFields", want: "whose changes need the permissions of the fields that it lists"},
		{path: "metadata.managedFields[*]", want: "metadata.managedFields"},
		{path: `metadata.managedFields[*].fieldsV1["f:spec"]`, want: "metadata.managedFields"},
		{path: `metadata["uid"]`, want: "the server owns metadata.uid"},
		{path: "metadata.uid.x", want: "the server owns metadata.uid"},
		{path: "metadata[*]", want: "the server owns metadata."},
		{path: "metadata"},
		{path: "metadata.name"},
		{path: "metadata.generateName"},
		{path: "spec.kind"},
		{path: "spec.metadata.uid"},
		{path: "kinds"},
		{path: `metadata[uid="x"]`},
	} {
		parsed, err := parsePattern(tc.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.isOwned(); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.path, got, tc.want)
		}
	}
	for _, owned := range changes.ServerOwned() {
		if parsed, err := parsePattern(changes.NameOf(owned)); err != nil || parsed.isOwned() == "" {
			t.Errorf("%s: got no reason, %v", changes.NameOf(owned), err)
		}
	}
}
