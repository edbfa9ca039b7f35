/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

func compilerOf(tb testing.TB) *cel.Compiler {
	tb.Helper()
	c, err := compilers()
	if err != nil {
		tb.Fatal(err)
	}
	return c.conditions
}

// denial is a set of one condition that denies.
func denial(name, text string) authorization.Set {
	return authorization.Set{AuthorizerName: name, FailureMode: authorization.FailureModeDeny, Decision: authorization.Conditions(authorization.Condition{
		ID: "example.com/d", Effect: authorization.EffectDeny, Type: authorization.ConditionTypeCEL, Text: text,
	})}
}

// describeSets writes everything that an extra carries.
func describeSets(sets []authorization.Set) (lines []string) {
	for _, set := range sets {
		for _, c := range set.Decision.Conditions() {
			lines = append(lines, fmt.Sprintf("%s %s %s %s %q: %q", set.AuthorizerName, c.Effect, c.Type, c.ID, c.Description, c.Text))
		}
	}
	return lines
}

// TestExtraRoundTrip: what is encoded is decoded as the same, whatever characters are in it.
func TestExtraRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "\"", `\`, "é", "日本", "😀", "\x7f", "\u2028", "<&>", "\n", "\t", "%2f", ",", ";", "\u0000", "\ufffd", "'"}
	word := func() string {
		var b strings.Builder
		for range r.IntN(6) {
			b.WriteString(pick(r, words...))
		}
		return b.String()
	}
	for range 500 {
		var sets []authorization.Set
		for i := range 1 + r.IntN(4) {
			var conditions []authorization.Condition
			for j := range 1 + r.IntN(3) {
				conditions = append(conditions, authorization.Condition{
					ID: fmt.Sprintf("example.com/c%d", j), Effect: authorization.EffectDeny, Type: authorization.ConditionTypeCEL,
					Text: fmt.Sprintf("object.x == %q || dryRun", strings.ToValidUTF8(strings.ReplaceAll(word(), "\u0000", ""), "")), Description: word(),
				})
			}
			sets = append(sets, authorization.Set{AuthorizerName: fmt.Sprintf("%d.impersonation.proviso.dev", i), FailureMode: authorization.FailureModeDeny, Decision: authorization.Conditions(conditions...)})
		}
		value, err := impersonation.EncodeExtra(sets)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q is not printable ASCII", value)
		}
		got, err := impersonation.DecodeExtra(compilerOf(t), []string{value})
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		if diff := cmp.Diff(describeSets(sets), describeSets(got)); diff != "" {
			t.Fatalf("(-encoded +decoded):\n%s", diff)
		}
	}
}

// TestExtraBounds: what is as long as allowed is carried on, and one byte more is not.
func TestExtraBounds(t *testing.T) {
	t.Parallel()
	ofLength := func(n int) []authorization.Set {
		sets := []authorization.Set{denial("a", `object.x == ""`), denial("b", `object.x == ""`)}
		value, err := impersonation.EncodeExtra(sets)
		if err != nil {
			t.Fatal(err)
		}
		rest := n - len(value)
		half := min(rest, 9000)
		return []authorization.Set{
			denial("a", `object.x == "`+strings.Repeat("x", half)+`"`), denial("b", `object.x == "`+strings.Repeat("x", rest-half)+`"`),
		}
	}
	for _, tc := range []struct {
		bytes  int
		wantOK bool
	}{{impersonation.MaxExtraBytes - 1, true}, {impersonation.MaxExtraBytes, true}, {impersonation.MaxExtraBytes + 1, false}} {
		value, err := impersonation.EncodeExtra(ofLength(tc.bytes))
		if (err == nil) != tc.wantOK || tc.wantOK && len(value) != tc.bytes {
			t.Errorf("%d bytes: got %d, %v", tc.bytes, len(value), err)
		}
		if tc.wantOK {
			if _, err := impersonation.DecodeExtra(compilerOf(t), []string{value}); err != nil {
				t.Errorf("%d bytes cannot be decoded: %v", tc.bytes, err)
			}
			if _, err := impersonation.DecodeExtra(compilerOf(t), []string{value + strings.Repeat(" ", impersonation.MaxExtraBytes-len(value))}); err != nil {
				t.Errorf("%d bytes and white space cannot be decoded: %v", tc.bytes, err)
			}
			if _, err := impersonation.DecodeExtra(compilerOf(t), []string{value + strings.Repeat(" ", impersonation.MaxExtraBytes-len(value)+1)}); err == nil {
				t.Error("more than the maximum can be decoded")
			}
		}
	}
	value, err := impersonation.EncodeExtra([]authorization.Set{denial("a", "dryRun")})
	if err != nil {
		t.Fatal(err)
	}
	for n, wantOK := range map[int]bool{api.MaxConditionSets - 1: true, api.MaxConditionSets: true, api.MaxConditionSets + 1: false} {
		sets, err := impersonation.DecodeExtra(compilerOf(t), slices.Repeat([]string{value}, n))
		if (err == nil) != wantOK || wantOK && len(sets) != n {
			t.Errorf("%d values: got %d sets, %v", n, len(sets), err)
		}
	}
}

func condition(fields string) string {
	return `[{"authorizerName":"a","conditions":[{"id":"example.com/d","effect":"Deny","type":"` + authorization.ConditionTypeCEL + `","condition":"dryRun"` + fields + `}]}]`
}

// TestDecodeExtra: anything that could do more than deny, or is not what was written, is an
// error.
func TestDecodeExtra(t *testing.T) {
	t.Parallel()
	good := condition("")
	replace := func(old, text string) []string { return []string{strings.Replace(good, old, text, 1)} }
	for _, tc := range []struct {
		name   string
		values []string
		want   int // sets; 0 means an error
	}{
		{name: "a set", values: []string{good}, want: 1},
		{name: "several values", values: []string{good, good, good}, want: 3},
		{name: "several sets of different names", values: []string{good[:len(good)-1] + "," + strings.Replace(good[1:], `"a"`, `"b"`, 1)}, want: 2},
		{name: "failure mode Deny", values: replace(`"authorizerName"`, `"failureMode":"Deny","authorizerName"`), want: 1},
		{name: "white space around", values: []string{" " + good + "\t "}, want: 1},

		{name: "no values", values: nil},
		{name: "an empty value", values: []string{""}},
		{name: "a good and an empty value", values: []string{good, ""}},
		{name: "a good and a broken value", values: []string{good, good[:len(good)-1]}},
		{name: "an empty list", values: []string{"[]"}},
		{name: "null", values: []string{"null"}},
		{name: "a null set", values: []string{"[null]"}},
		{name: "an object", values: []string{good[1 : len(good)-1]}},
		{name: "no JSON", values: []string{"x"}},
		{name: "something follows", values: []string{good + good}},
		{name: "a bracket follows", values: []string{good + "]"}},
		{name: "an unknown field", values: []string{condition(`,"x":1`)}},
		{name: "an unknown field of the set", values: replace(`"authorizerName"`, `"x":1,"authorizerName"`)},
		{name: "a duplicate field", values: []string{condition(`,"condition":"!dryRun"`)}},
		{name: "a duplicate list", values: replace(`"conditions"`, `"conditions":[],"conditions"`)},
		{name: "a field in another case", values: replace(`"effect"`, `"Effect"`)},
		{name: "a duplicate in another case", values: []string{condition(`,"Condition":"false"`)}},
		{name: "no authorizer", values: replace(`"a"`, `""`)},
		{name: "two of the same name", values: []string{good[:len(good)-1] + "," + good[1:]}},
		{name: "Allow", values: replace(`"Deny"`, `"Allow"`)},
		{name: "NoOpinion", values: replace(`"Deny"`, `"NoOpinion"`)},
		{name: "another effect", values: replace(`"Deny"`, `"deny"`)},
		{name: "no effect", values: replace(`"effect":"Deny",`, "")},
		{name: "another type", values: replace(`"`+authorization.ConditionTypeCEL+`"`, `"example.com/rego"`)},
		{name: "bound to a request", values: replace(`"`+authorization.ConditionTypeCEL+`"`, `"`+authorization.ConditionTypeCELBound+`"`)},
		{name: "no type", values: replace(`"type":"`+authorization.ConditionTypeCEL+`",`, "")},
		{name: "failure mode NoOpinion", values: replace(`"authorizerName"`, `"failureMode":"NoOpinion","authorizerName"`)},
		{name: "another failure mode", values: replace(`"authorizerName"`, `"failureMode":"Allow","authorizerName"`)},
		{name: "allowed", values: []string{`[{"authorizerName":"a","allowed":true}]`}},
		{name: "denied", values: []string{`[{"authorizerName":"a","denied":true}]`}},
		{name: "no opinion", values: []string{`[{"authorizerName":"a"}]`}},
		{name: "allowed besides", values: replace(`"authorizerName"`, `"allowed":true,"authorizerName"`)},
		{name: "a good set and one that allows", values: []string{good, `[{"authorizerName":"b","allowed":true}]`}},
		{name: "nested", values: []string{`[{"authorizerName":"b","conditionsChain":` + good + `}]`}},
		{name: "no conditions", values: []string{`[{"authorizerName":"a","conditions":[]}]`}},
		{name: "does not compile", values: replace("dryRun", "dryRun &&")},
		{name: "no boolean", values: replace("dryRun", "1")},
		{name: "an unknown variable", values: replace("dryRun", "request.name == 'x'")},
		{name: "no text", values: replace("dryRun", "")},
		{name: "makes checks", values: replace("dryRun", "authorizer.path('/x').check('get').allowed()")},
		{name: "the same ID twice", values: []string{strings.Replace(good, "}]}]", `},{"id":"example.com/d","effect":"Deny","type":"`+authorization.ConditionTypeCEL+`","condition":"dryRun"}]}]`, 1)}},
		{name: "huge", values: []string{strings.Replace(good, "dryRun", "dryRun"+strings.Repeat(" ", api.MaxConditionBytes), 1)}},
		{name: "longer than an extra", values: []string{good + strings.Repeat(" ", impersonation.MaxExtraBytes)}},
		{name: "deep", values: []string{strings.Repeat("[", 5000) + strings.Repeat("]", 5000)}},
		{name: "deep chains", values: []string{strings.Repeat(`[{"authorizerName":"a","conditionsChain":`, 300) + "[]" + strings.Repeat("}]", 300)}},
		{name: "deep expression", values: replace("dryRun", strings.Repeat("(", 3000)+"dryRun"+strings.Repeat(")", 3000))},
		{name: "not ASCII", values: []string{condition(`,"description":"é"`)}},
		{name: "not UTF-8", values: []string{condition(",\"description\":\"\xff\"")}},
		{name: "a delete character", values: []string{condition(",\"description\":\"\x7f\"")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			sets, err := impersonation.DecodeExtra(compilerOf(t), tc.values)
			if (err == nil) != (tc.want > 0) || len(sets) != tc.want {
				t.Fatalf("got %d sets, %v; want %d", len(sets), err, tc.want)
			}
			for i, set := range sets {
				if want := fmt.Sprintf("%d.impersonation.proviso.dev", i); set.AuthorizerName != want || set.Decision.CanBecomeAllowed() || !set.Decision.CanBecomeDenied() {
					t.Errorf("got %+v", set)
				}
			}
		})
	}
}

// FuzzDecodeExtra: nothing that somebody sends is more than a set of denials, or panics.
func FuzzDecodeExtra(f *testing.F) {
	compiler := compilerOf(f)
	for _, seed := range []string{
		"", "[]", "null", condition(""), condition(`,"description":"x"`), `[{"authorizerName":"a","allowed":true}]`, `[{"authorizerName":"a","conditionsChain":` + condition("") + `}]`,
		strings.Replace(condition(""), `"Deny"`, `"Allow"`, 1), strings.Replace(condition(""), "dryRun", `object.x == \"\\u00e9\"`, 1), strings.Replace(condition(""), `"authorizerName"`, `"failureMode":"NoOpinion","authorizerName"`, 1),
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		sets, err := impersonation.DecodeExtra(compiler, []string{first, second})
		if err != nil {
			if len(sets) > 0 {
				t.Fatalf("got sets with the error %v", err)
			}
			return
		}
		if len(sets) == 0 || authorization.Chained(sets...).CanBecomeAllowed() {
			t.Fatalf("%q, %q do more than deny", first, second)
		}
		// Whatever is true or fails, nothing lets the request pass that a condition denies.
		for _, o := range []authorization.Outcome{authorization.True(), authorization.Failed(errors.New("x")), authorization.Unsupported(errors.New("x")), {}} {
			all := authorization.ConditionEvaluatorFunc(func(_ context.Context, _ authorization.Condition) authorization.Outcome { return o })
			for _, set := range sets {
				if d := authorization.Chained(set).Evaluate(t.Context(), all); !d.IsDeny() {
					t.Fatalf("%q: %+v evaluates to %+v", first, set, d)
				}
			}
		}
		none := authorization.ConditionEvaluatorFunc(func(context.Context, authorization.Condition) authorization.Outcome { return authorization.False() })
		if d := authorization.Chained(sets...).Evaluate(t.Context(), none); !d.IsNoOpinion() {
			t.Fatalf("%q, %q have an opinion without a condition that holds: %+v", first, second, d)
		}
		if value, err := impersonation.EncodeExtra(sets); err == nil {
			again, err := impersonation.DecodeExtra(compiler, []string{value})
			if err != nil {
				t.Fatalf("what was decoded cannot be encoded and decoded: %v", err)
			}
			if diff := cmp.Diff(describeSets(sets), describeSets(again)); diff != "" {
				t.Fatalf("(-decoded +encoded and decoded):\n%s", diff)
			}
		}
	})
}

func TestWithExtra(t *testing.T) {
	t.Parallel()
	u := &user.DefaultInfo{Name: "bob", UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	same, err := impersonation.WithExtra(u, nil)
	if err != nil || same != user.Info(u) {
		t.Errorf("without anything to carry: got %v, %v", same, err)
	}
	sets := []authorization.Set{denial("a", "dryRun")}
	for _, from := range []*user.DefaultInfo{u, {Name: "carol"}, {Name: "dave", Extra: map[string][]string{impersonation.ExtraConditions: {"[]"}}}} {
		before := copyOf(from)
		before.Extra = maps.Clone(from.Extra)
		got, err := impersonation.WithExtra(from, sets)
		if err != nil {
			t.Fatal(err)
		}
		value, err := impersonation.EncodeExtra(sets)
		if err != nil {
			t.Fatal(err)
		}
		want := copyOf(from)
		if want.Extra = maps.Clone(from.Extra); want.Extra == nil {
			want.Extra = map[string][]string{}
		}
		want.Extra[impersonation.ExtraConditions] = []string{value}
		if diff := cmp.Diff(want, copyOf(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, copyOf(from)); diff != "" {
			t.Errorf("the user was changed:\n%s", diff)
		}
		if impersonation.RefuseReserved(got) == nil {
			t.Error("the user with the extra is not refused")
		}
	}
	if impersonation.RefuseReserved(u) != nil {
		t.Error("a user without the extra is refused")
	}
	for _, key := range []string{strings.ToUpper(impersonation.ExtraConditions), "Authorization.proviso.dev/impersonation-conditions"} {
		if impersonation.RefuseReserved(&user.DefaultInfo{Extra: map[string][]string{key: nil}}) == nil {
			t.Errorf("%q is not refused", key)
		}
	}
	if _, err := impersonation.WithExtra(u, []authorization.Set{{AuthorizerName: "", Decision: authorization.Allow("", nil)}}); err == nil {
		t.Error("what cannot be carried on is")
	}
}
