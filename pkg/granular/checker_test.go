/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// grants is an authorizer that knows verbs, and counts the calls.
type grants struct {
	verbs []string
	err   error
	asked []string
	user  string
}

func (g *grants) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	g.asked = append(g.asked, a.GetVerb())
	g.user = fmt.Sprintf("%s %s/%s/%s %s/%s", a.GetUser().GetName(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName())
	if slices.Contains(g.verbs, a.GetVerb()) || slices.Contains(g.verbs, "*") {
		return authorizer.DecisionAllow, "", g.err
	}
	if slices.Contains(g.verbs, "!"+a.GetVerb()) {
		return authorizer.DecisionDeny, "", g.err
	}
	return authorizer.DecisionNoOpinion, "", g.err
}

var updateByBob = authorizer.AttributesRecord{
	User: &user.DefaultInfo{Name: "bob"}, Verb: "update", APIGroup: "example.com", APIVersion: "v1", Resource: "machines", Subresource: "status",
	Namespace: "ns", Name: "one", ResourceRequest: true,
}

// checkRow is a row of include.yaml and exclude.yaml.
type checkRow struct {
	Mappings      []things.MappingRow
	Before, After map[string]any
	Verbs         string
	Untyped       bool   // there is no schema
	Fails         bool   // the authorizer
	Asked         string // in order
	Want          string // the reason of the refusal; "" if it is allowed
}

func (tc checkRow) run(t *testing.T, check func(granular.Checker, context.Context, *mapping.Rules, *changes.Changes, authorizer.Attributes) granular.Result) {
	t.Helper()
	differ := changes.Differ{Types: things.Types(t)}
	if tc.Untyped {
		differ = changes.Differ{}
	}
	changed := changesOf(t, differ, things.Object(tc.Before), things.Object(tc.After))
	g := &grants{verbs: strings.Fields(tc.Verbs)}
	if tc.Fails {
		g.err = errors.New("secret")
	}
	result := check(granular.Checker{Authorizer: g}, t.Context(), mapping.NewTable(things.Mappings(tc.Mappings)...).For(things.Machines), changed, updateByBob)
	checkResult(t, result, tc.Want)
	if result.Allowed && result.Reason != "" {
		t.Errorf("allowed with the reason %s", result.Reason)
	}
	want := strings.Fields(tc.Asked)
	for i := range want {
		want[i] = "granular:" + want[i]
	}
	if diff := cmp.Diff(want, append([]string{}, g.asked...)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if len(g.asked) > 0 && g.user != "bob example.com/machines/status ns/one" {
		t.Errorf("asked about %q", g.user)
	}
}

// changesOf returns what changes between two things.
func changesOf(t *testing.T, differ changes.Differ, before, after runtime.Object) *changes.Changes {
	t.Helper()
	changed, err := differ.Changes(t.Context(), things.Kind, before, after)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// checkResult compares the result of a check with the reason of the refusal. It is "" if the check allows the write.
func checkResult(t *testing.T, got granular.Result, want string) {
	t.Helper()
	if got.Allowed != (want == "") || !strings.Contains(got.Reason, want) {
		t.Errorf("got  allowed %v: %s\nwant %q", got.Allowed, got.Reason, want)
	}
}

func TestInclude(t *testing.T) {
	t.Parallel()
	rows.Run(t, "testdata/include.yaml", func(t *testing.T, tc checkRow) { tc.run(t, granular.Checker.Include) })
}

func TestExclude(t *testing.T) {
	t.Parallel()
	rows.Run(t, "testdata/exclude.yaml", func(t *testing.T, tc checkRow) { tc.run(t, granular.Checker.Exclude) })
}

// TestChecksAreBounded changes 5000 labels.
func TestChecksAreBounded(t *testing.T) {
	t.Parallel()
	labels, own := map[string]any{}, map[string]any{}
	var all []string
	for i := range 5000 {
		labels[fmt.Sprintf("d%d.example.com/x", i)] = "z"
		own[fmt.Sprintf("example.com/x%d", i)] = "z"
		all = append(all, fmt.Sprintf("granular:label(d%d.example.com)", i))
	}
	for _, tc := range []struct {
		name   string
		labels map[string]any
		verbs  []string
		checks int
		want   string
	}{
		{"nothing covers the first", labels, nil, 3, `metadata.labels["d0.example.com/x"] needs the verb`},
		{"each has a permission of its own", labels, all, granular.MaxChecks, "more than the 64 authorization checks"},
		{"one permission covers all", own, []string{"granular:label(example.com)"}, 3, ""},
		{"a general permission", labels, []string{"granular:labels"}, 2, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			changed := changesOf(t, changes.Differ{}, things.Object(map[string]any{}), things.Object(map[string]any{"metadata": map[string]any{"labels": tc.labels}}))
			g := &grants{verbs: tc.verbs}
			result := granular.Checker{Authorizer: g}.Include(t.Context(), mapping.NewTable().For(things.Machines), changed, updateByBob)
			if len(g.asked) != tc.checks || len(result.Verbs) != tc.checks || result.Allowed != (tc.want == "") || !strings.Contains(result.Reason, tc.want) {
				t.Errorf("%d checks, allowed %v: %s\nwant %d checks and %q", len(g.asked), result.Allowed, result.Reason, tc.checks, tc.want)
			}
		})
	}
	created, rules := changesOf(t, changes.Differ{}, nil, things.Decoded(t, "metadata: {name: a}")), mapping.NewTable().For(things.Machines)
	if result := (granular.Checker{}).Include(t.Context(), rules, created, updateByBob); result.Allowed || result.Err == nil {
		t.Errorf("without authorizer: got %+v, want an error", result)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if result := (granular.Checker{Authorizer: &grants{verbs: []string{"*"}}}).Include(ctx, rules, created, updateByBob); result.Allowed || !errors.Is(result.Err, context.Canceled) {
		t.Errorf("with an ended context: got %+v, want an error", result)
	}
}

// naiveVerbs are the verbs that cover a field, as the KEP has them.
func naiveVerbs(path string) []string {
	parts := func(prefix, general, particular string, treat func(string) string) []string {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok {
			return nil
		}
		verbs := []string{"granular:" + general}
		if rest = strings.Trim(rest, `.[]"`); rest != "" && treat(rest) != "" {
			verbs = append(verbs, "granular:"+particular+"("+treat(rest)+")")
		}
		return verbs
	}
	prefix := func(key string) string { before, _, _ := strings.Cut(key, "/"); return before }
	conditionType := func(key string) string {
		key = strings.TrimPrefix(key, `type="`)
		before, _, _ := strings.Cut(key, `"`)
		return before
	}
	top, _, _ := strings.Cut(path, ".")
	verbs := []string{"granular:" + map[string]string{"metadata": "metadata", "spec": "specification", "status": "status"}[top]}
	verbs = append(verbs, parts("metadata.labels", "labels", "label", prefix)...)
	verbs = append(verbs, parts("metadata.annotations", "annotations", "annotation", prefix)...)
	verbs = append(verbs, parts("metadata.finalizers", "finalizers", "finalizer", prefix)...)
	verbs = append(verbs, parts("status.conditions", "conditions", "condition", conditionType)...)
	if strings.HasPrefix(path, "metadata.ownerReferences") {
		verbs = append(verbs, "granular:ownerReferences")
	}
	if path == "spec.replicas" {
		verbs = append(verbs, "granular:replicas")
	}
	return verbs
}

var grantable = []string{
	"metadata", "labels", "label(a)", "label(b)", "label(example.com)", "annotations", "annotation(super.safe.com)", "finalizers", "finalizer(a)", "ownerReferences",
	"specification", "replicas", "status", "conditions", "condition(a)", "condition(super.safe.com/b)",
}

// FuzzInclude makes random writes with random permissions. One is accepted exactly if each
// field that the independent diff finds is covered.
func FuzzInclude(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	differ := changes.Differ{Types: things.Types(f)}
	rules := mapping.NewTable().For(things.Machines)
	f.Fuzz(func(t *testing.T, seed uint64) {
		before, after := things.RandomPair(seed)
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a test must be repeatable
		var verbs []string
		for _, verb := range grantable {
			if r.IntN(3) > 0 {
				verbs = append(verbs, "granular:"+verb)
			}
		}
		want := true
		distinct := map[string]bool{}
		for _, path := range things.Changes(before, after) {
			covering := naiveVerbs(path)
			for _, verb := range covering {
				distinct[verb] = true
			}
			want = want && slices.ContainsFunc(covering, func(verb string) bool { return slices.Contains(verbs, verb) })
		}
		changed := changesOf(t, differ, things.Object(before), things.Object(after))
		g := &grants{verbs: verbs}
		result := granular.Checker{Authorizer: g}.Include(t.Context(), rules, changed, updateByBob)
		if result.Allowed != want {
			t.Errorf("seed %d: got allowed %v (%s), want %v with %q\nbefore %v\nafter %v", seed, result.Allowed, result.Reason, want, verbs, before, after)
		}
		if len(g.asked) > len(distinct) {
			t.Errorf("seed %d: %d checks for %d permissions: %q", seed, len(g.asked), len(distinct), g.asked)
		}
	})
}

// TestExcludeDoesNotLookForever changes more elements than a check looks at: the values of
// the rest are not known, so that they count as excluded.
func TestExcludeDoesNotLookForever(t *testing.T) {
	t.Parallel()
	upToSlash := &policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentSlashDelimitedPrefix}
	isB := &policy.FieldExclusion{NewValues: "value == 'b'"}
	finalizers := policy.FieldPermission{Path: "metadata.finalizers[*]", Permission: "finalizer", Parameter: upToSlash, Exclusion: isB}
	labels := policy.FieldPermission{Path: "metadata.labels[*]", Permission: "label", Parameter: upToSlash, Exclusion: isB}
	tags := policy.FieldPermission{Path: "spec.tags[*]", Permission: "tag", Exclusion: &policy.FieldExclusion{}, Parameter: &policy.FieldPermissionParameter{Treatment: "Expression", Expression: "'one'"}}
	for _, tc := range []struct {
		name     string
		excluded policy.FieldPermission
		n        int
		want     string
	}{
		{"a thousand elements of a list", finalizers, 1000, ""},
		{"nine thousand elements of a list", finalizers, 9000, "too much to look at all values"},
		{"as many expressions as there may be", labels, 9_999, ""},
		{"more expressions than there may be", labels, 10_001, "too much to look at all values"},
		{"as many expressions of parameters as there may be", tags, 10_000, ""},
		{"more expressions of parameters than there may be", tags, 10_001, "more than the 10000 evaluations"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			list, keys := []any{}, map[string]any{}
			for i := range tc.n {
				key := fmt.Sprintf("a/%05d", i)
				list, keys[key] = append(list, key), "x"
			}
			after := map[string]map[string]any{
				finalizers.Path: {"metadata": map[string]any{"finalizers": list}}, labels.Path: {"metadata": map[string]any{"labels": keys}}, tags.Path: {"spec": map[string]any{"tags": list}},
			}[tc.excluded.Path]
			changed := changesOf(t, changes.Differ{Types: things.Types(t)}, things.Object(map[string]any{}), things.Object(after))
			rules := mapping.NewTable(things.Mapping("m", things.Spec(tc.excluded))).For(things.Machines)
			result := granular.Checker{Authorizer: &grants{verbs: []string{"granular:tag(one)"}}}.Exclude(t.Context(), rules, changed, updateByBob)
			checkResult(t, result, tc.want)
		})
	}
}

// TestKeysThatAreNumbers writes one number in two ways, which are stored as one.
func TestKeysThatAreNumbers(t *testing.T) {
	t.Parallel()
	excluded := things.Excluded(`metadata.ownerReferences[uid="80"]`, "owner", "")
	for _, tc := range []struct {
		uid     any
		allowed bool
	}{{int64(80), false}, {80.0, false}, {"80", false}, {80.5, true}, {int64(81), true}, {1e300, true}} {
		owned := map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"uid": tc.uid}}}}
		changed := changesOf(t, changes.Differ{}, things.Object(map[string]any{}), things.Object(owned))
		rules := mapping.NewTable(things.Mapping("m", things.Spec(excluded))).For(things.Machines)
		if got := (granular.Checker{Authorizer: &grants{}}).Exclude(t.Context(), rules, changed, updateByBob); got.Allowed != tc.allowed {
			t.Errorf("the key %T %v: got allowed %t: %s, want %t", tc.uid, tc.uid, got.Allowed, got.Reason, tc.allowed)
		}
	}
}

// TestNewValuesThatAreNumbers looks at numbers as typed objects have them, and as they are
// decoded: requests and reviews must come to the same.
func TestNewValuesThatAreNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		expression string
		value      any
		allowed    bool
	}{
		{"value * 2 > 10", int64(3), true}, {"value * 2 > 10", 3.0, true}, {"value * 2 > 10", 6.0, false},
		{"value[0].a * 2 > 10", []any{map[string]any{"a": 3.0}}, true},
		{"value == 0.5", 0.5, false}, {"value > 0.4", 0.3, true}, {"value < 1e20", 1e300, true}, {"value == null", []any{nil}, true}, {"value == [null]", []any{nil}, false},
	} {
		changed := changesOf(t, changes.Differ{}, things.Object(map[string]any{}), things.Object(map[string]any{"spec": map[string]any{"a": tc.value}}))
		rules := mapping.NewTable(things.Mapping("m", things.Spec(things.Excluded("spec.a", "beauty", tc.expression)))).For(things.Machines)
		if got := (granular.Checker{Authorizer: &grants{}}).Exclude(t.Context(), rules, changed, updateByBob); got.Allowed != tc.allowed {
			t.Errorf("%s of %T %v: got allowed %t: %s, want %t", tc.expression, tc.value, tc.value, got.Allowed, got.Reason, tc.allowed)
		}
	}
}
