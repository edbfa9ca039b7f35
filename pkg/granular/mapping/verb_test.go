/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// The elements of a path: a key of a map, an element of a set, and an element of a list of objects with keys.
func name(key string) fieldpath.PathElement { return fieldpath.PathElement{FieldName: &key} }
func element(v any) fieldpath.PathElement {
	return fieldpath.PathElement{Value: ptr.To(value.NewValueInterface(v))}
}
func keyed(pairs ...any) fieldpath.PathElement {
	keys := value.FieldList{}
	for i := 0; i < len(pairs); i += 2 {
		keys = append(keys, value.Field{Name: pairs[i].(string), Value: value.NewValueInterface(pairs[i+1])})
	}
	return fieldpath.PathElement{Key: &keys}
}
func path(elements ...fieldpath.PathElement) fieldpath.Path {
	return append(fieldpath.Path{name("spec"), name("things")}, elements...)
}

// ruleFor returns the most specific rule for things in machines.
func ruleFor(t *testing.T, f policy.FieldPermission) (rule *mapping.Rule) {
	t.Helper()
	for r := range mapping.NewTable(things.Mapping("m", things.Spec(f))).For(things.Machines).All() {
		if r.Matches(path(name("x"))) {
			rule = r
		}
	}
	return rule
}

func free() error { return nil }

// TestParametersOfKeys makes verbs of keys of every kind. A key that has no clear text makes no verb, so that no
// permission covers it, and no two keys share a verb.
func TestParametersOfKeys(t *testing.T) {
	t.Parallel()
	const noKey, which, empty, wrong = "no key that could be the parameter", "does not say which", "would be empty", "must be printable and have at most 317 bytes"
	prefix := policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentSlashDelimitedPrefix}
	computed := func(expression string) policy.FieldPermissionParameter {
		return policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentExpression, Expression: expression}
	}
	for _, tc := range []struct {
		name      string
		parameter policy.FieldPermissionParameter
		element   fieldpath.PathElement
		want      string // the parameter
		wantErr   string
	}{
		{name: "a key of a map", element: name("x"), want: "x"},
		{name: "a key with parentheses", element: name("a(b)"), want: "a(b)"},
		{name: "a key in another script", element: name("größe-大小"), want: "größe-大小"},
		{name: "an empty key", element: name(""), wantErr: empty},
		{name: "a key with a line break", element: name("a\nb"), wantErr: wrong},
		{name: "a key with a zero byte", element: name("a\x00"), wantErr: wrong},
		{name: "a key that is not UTF-8", element: name("a\xff"), wantErr: wrong},
		{name: "a key that turns the text around", element: name("a\u202eb"), wantErr: wrong},
		{name: "the longest key", element: name(strings.Repeat("x", 317)), want: strings.Repeat("x", 317)},
		{name: "a longer key", element: name(strings.Repeat("x", 318)), wantErr: wrong},
		{name: "a long key of long letters", element: name(strings.Repeat("ß", 159)), wantErr: wrong},

		{name: "a text of a set", element: element("x"), want: "x"},
		{name: "an integer", element: element(int64(-7)), want: "-7"},
		{name: "the greatest integer", element: element(int64(math.MaxInt64)), want: "9223372036854775807"},
		{name: "a whole number that was a float", element: element(3.0), want: "3"},
		{name: "a whole number beyond what a float can count", element: element(float64(1 << 53)), wantErr: noKey},
		{name: "a fraction", element: element(0.5), wantErr: noKey},
		{name: "infinity", element: element(math.Inf(1)), wantErr: noKey},
		{name: "true", element: element(true), want: "true"},
		{name: "null", element: element(nil), wantErr: noKey},
		{name: "a list", element: element([]any{"x"}), wantErr: noKey},

		{name: "the only key of a list", element: keyed("port", int64(80)), want: "80"},
		{name: "one of two keys", element: keyed("port", int64(80), "protocol", "TCP"), wantErr: which},
		{name: "one of two keys, by name", parameter: policy.FieldPermissionParameter{Key: "protocol"}, element: keyed("port", int64(80), "protocol", "TCP"), want: "TCP"},
		{name: "a key by a name that it has not", parameter: policy.FieldPermissionParameter{Key: "hostIP"}, element: keyed("port", int64(80)), wantErr: noKey},
		{name: "a key by name, of a map", parameter: policy.FieldPermissionParameter{Key: "port"}, element: name("port"), wantErr: noKey},
		{name: "a key by name, of a set", parameter: policy.FieldPermissionParameter{Key: "port"}, element: element("port"), wantErr: noKey},
		{name: "no key", element: keyed(), wantErr: which},
		{name: "an index", element: fieldpath.PathElement{Index: ptr.To(0)}, wantErr: noKey},

		{name: "what is before the slash", parameter: prefix, element: name("example.com/x/y"), want: "example.com"},
		{name: "no slash", parameter: prefix, element: name("x"), want: "x"},
		{name: "nothing before the slash", parameter: prefix, element: name("/x"), wantErr: empty},
		{name: "what is unprintable only after the slash", parameter: prefix, element: name("a/\n"), want: "a"},

		{name: "an expression", parameter: computed(`parameter.split("-")[0]`), element: name("a-b"), want: "a"},
		{name: "an expression of an integer", parameter: computed(`parameter + "0"`), element: element(int64(8)), want: "80"},
		{name: "an expression that fails", parameter: computed(`parameter.split("-")[1]`), element: name("secret"), wantErr: "the expression failed"},
		{name: "an expression that is empty", parameter: computed(`""`), element: name("a"), wantErr: empty},
		{name: "an expression that breaks lines", parameter: computed(`parameter + "\n"`), element: name("a"), wantErr: wrong},
		{name: "an expression that is long", parameter: computed(`parameter.replace("a", "aaaaaaaaaa")`), element: name(strings.Repeat("a", 32)), wantErr: wrong},
		{name: "an expression that takes too long", parameter: computed(`lists.range(100000).map(i, parameter).join("").size() == 0 ? "a" : "b"`), element: name("a"), wantErr: "the expression failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rule := ruleFor(t, policy.FieldPermission{Path: "spec.things[*]", Permission: "thing", Parameter: &tc.parameter})
			for _, at := range []fieldpath.Path{path(tc.element), path(tc.element, name("below"))} {
				verb, err := rule.Verb(t.Context(), at, free)
				if tc.wantErr != "" {
					if verb != "" || err == nil || !strings.Contains(err.Error(), tc.wantErr) {
						t.Errorf("got %q, %v, want an error with %q", verb, err, tc.wantErr)
					}
					if err != nil && (strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), `permission "thing" of FieldPermissionMapping "m"`)) {
						t.Errorf("got %v, want an error that names the permission and its mapping, and no value", err)
					}
					continue
				}
				if want := "granular:thing(" + tc.want + ")"; verb != want || err != nil {
					t.Errorf("got %q, %v, want %q", verb, err, want)
				}
			}
		})
	}
}

// TestVerbWithoutItsElement asks for the verb at a field that is above the key.
func TestVerbWithoutItsElement(t *testing.T) {
	t.Parallel()
	rule := ruleFor(t, policy.FieldPermission{Path: "spec.things[*]", Permission: "thing", Parameter: &policy.FieldPermissionParameter{}})
	if verb, err := rule.Verb(t.Context(), path(), free); verb != "" || err == nil || !strings.Contains(err.Error(), `permission "thing"`) {
		t.Errorf("got %q, %v, want an error that names the permission", verb, err)
	}
}

// TestEffortIsAskedBeforeItIsSpent lets a caller refuse to evaluate an expression. Rules without one cost nothing.
func TestEffortIsAskedBeforeItIsSpent(t *testing.T) {
	t.Parallel()
	spent := errors.New("spent")
	for _, tc := range []struct {
		name      string
		parameter *policy.FieldPermissionParameter
		wantAsked int
	}{
		{name: "no parameter"},
		{name: "the key as it is", parameter: &policy.FieldPermissionParameter{}},
		{name: "an expression", parameter: &policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentExpression, Expression: `parameter`}, wantAsked: 1},
	} {
		asked := 0
		rule := ruleFor(t, policy.FieldPermission{Path: "spec.things[*]", Permission: "thing", Parameter: tc.parameter})
		verb, err := rule.Verb(t.Context(), path(name("x")), func() error { asked++; return spent })
		if asked != tc.wantAsked || errors.Is(err, spent) != (tc.wantAsked > 0) || (verb == "") != (tc.wantAsked > 0) {
			t.Errorf("%s: got %q, %v after %d calls, want %d", tc.name, verb, err, asked, tc.wantAsked)
		}
	}
}

// TestExclusionOfChanges evaluates newValues. A change for which it fails is excluded, so that a mistake in it opens
// nothing.
func TestExclusionOfChanges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, newValues string
		before, after   any
		want, wantErr   bool
	}{
		{name: "no expression", want: true},
		{name: "true", newValues: `value == "root"`, before: "a", after: "root", want: true},
		{name: "false", newValues: `value == "root"`, before: "root", after: "a"},
		{name: "removed", newValues: `value == null`, before: "a", want: true},
		{name: "added", newValues: `oldValue == null`, after: "a", want: true},
		{name: "of another type", newValues: `value > 3`, before: int64(1), after: "x", want: true, wantErr: true},
		{name: "null where a number is expected", newValues: `value > 3`, before: int64(1), want: true, wantErr: true},
		{name: "a field that is not there", newValues: `value.missing == 1`, after: map[string]any{}, want: true, wantErr: true},
		{name: "a whole number that was a float", newValues: `value == 3 && type(value) == int`, after: 3.0, want: true},
		{name: "whole numbers in lists and objects", newValues: `value.a[0] == 3 && type(value.a[0]) == int`, after: map[string]any{"a": []any{3.0}}, want: true},
		{name: "a fraction stays one", newValues: `value == 0.5 && type(value) == double`, after: 0.5, want: true},
		{name: "a number that is too large for an integer", newValues: `type(value) == double`, after: 1e300, want: true},
		{name: "the least number that is too large", newValues: `type(value) == double`, after: float64(1 << 63), want: true},
		{name: "the cost of many elements", newValues: `value.all(x, value.all(y, x == y))`, after: make([]any, 2000), want: true, wantErr: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rule := ruleFor(t, things.Excluded("spec.things", "thing", tc.newValues))
			if !rule.Excludes() || rule.LimitsValues() != (tc.newValues != "") {
				t.Errorf("excludes %v, limits values %v", rule.Excludes(), rule.LimitsValues())
			}
			got, err := rule.ExcludesChange(t.Context(), tc.before, tc.after)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("got %v, %v, want %v, and an error %v", got, err, tc.want, tc.wantErr)
			}
			if err != nil && err.Error() != "the expression failed" {
				t.Errorf("got %v, which may quote the object", err)
			}
		})
	}
}

// TestValuesAreNotChanged evaluates an exclusion of an object in memory, several times at once.
func TestValuesAreNotChanged(t *testing.T) {
	t.Parallel()
	rule := ruleFor(t, things.Excluded("spec.things", "thing", `value.list.all(x, x == 3)`))
	after := map[string]any{"list": []any{3.0, 3.0}}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := rule.ExcludesChange(t.Context(), nil, after); !got || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	group.Wait()
	if got := fmt.Sprintf("%T", after["list"].([]any)[0]); got != "float64" {
		t.Errorf("an element has become %s", got)
	}
}

// TestEndOfTheRequest excludes a change if the request has ended before the expression is evaluated.
func TestEndOfTheRequest(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	rule := ruleFor(t, things.Excluded("spec.things", "thing", `value.exists(x, x == "never")`))
	if got, err := rule.ExcludesChange(ended, nil, []any{"a", "b"}); !got || err == nil {
		t.Errorf("got %v, %v, want the change excluded", got, err)
	}
}
