/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/artifacts"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
)

// denying returns a policy that denies writes of resources, such as pods or deployments.apps, on a condition.
func denying(condition string, resources ...string) *policyv1alpha1.AuthorizationPolicySpec {
	spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectDeny, Condition: condition}
	for _, r := range resources {
		name, group, _ := strings.Cut(r, ".")
		spec.Rules = append(spec.Rules, policyv1alpha1.PolicyRule{Verbs: []string{"create", "update", "patch", "delete"}, APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{name}})
	}
	return spec
}

func mustCompile(t *testing.T, l *law, key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) *barrier.Barrier {
	t.Helper()
	compiled, err := l.barriers.Compile(key, spec)
	if err != nil {
		t.Fatal(err)
	}
	if compiled.Policy == nil {
		t.Fatalf("no barrier: %+v", compiled.Report)
	}
	return compiled
}

func TestOverWork(t *testing.T) {
	t.Parallel()
	l := newLaw(t)
	const (
		twice    = `oldObject != null && oldObject.data.exists(a, oldObject.data.exists(b, a + "x" == b + "y"))`
		pattern  = `object != null && object.data.x.matches("a{0,12}b")`
		compared = `oldObject != null && object != null && object.data == oldObject.data`
		linear   = `object != null && object.spec.containers.exists(c, c.image.startsWith("b"))`
	)
	repeated := func(n int, condition, resource string) (specs []*policyv1alpha1.AuthorizationPolicySpec) {
		for range n {
			specs = append(specs, denying(condition, resource))
		}
		return specs
	}
	for _, tc := range []struct {
		name      string
		namespace string
		others    []*policyv1alpha1.AuthorizationPolicySpec
		added     *policyv1alpha1.AuthorizationPolicySpec
		over      bool
	}{
		{name: "each pair of keys", namespace: "a", added: denying(twice, "configmaps"), over: true},
		{name: "each pair of keys, of the cluster", added: denying(twice, "configmaps"), over: true},
		{name: "a large pattern alone", namespace: "a", added: denying(pattern, "configmaps")},
		{name: "two of them", namespace: "a", others: repeated(1, pattern, "configmaps"), added: denying(pattern, "configmaps"), over: true},
		{name: "two of them about different resources", namespace: "a", others: repeated(1, pattern, "configmaps"), added: denying(pattern, "secrets")},
		{name: "two of them, one about all resources", namespace: "a", others: repeated(1, pattern, "configmaps"), added: denying(pattern, "*"), over: true},
		{name: "one about all resources first", namespace: "a", others: repeated(1, pattern, "*"), added: denying(pattern, "configmaps"), over: true},
		{name: "others about different resources", namespace: "a", others: append(repeated(1, pattern, "secrets"), repeated(1, pattern, "configmaps")...), added: denying(compared, "secrets", "configmaps")},
		{name: "two of the cluster", others: repeated(1, pattern, "configmaps"), added: denying(pattern, "configmaps")},
		{name: "many of the cluster", others: repeated(6, pattern, "configmaps"), added: denying(pattern, "configmaps"), over: true},
		{name: "four comparisons", namespace: "a", others: repeated(3, compared, "configmaps"), added: denying(compared, "configmaps")},
		{name: "twenty comparisons", namespace: "a", others: repeated(19, compared, "configmaps"), added: denying(compared, "configmaps"), over: true},
		{name: "twenty macros over lists of a built-in kind", namespace: "a", others: repeated(19, linear, "pods"), added: denying(linear, "pods")},
		{name: "a hundred plain conditions", namespace: "a", others: repeated(99, `object != null && object.metadata.name == "a"`, "configmaps"), added: denying(`object != null && object.metadata.name == "b"`, "configmaps")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var others []*barrier.Barrier
			for i, spec := range tc.others {
				others = append(others, mustCompile(t, l, engine.Key{Namespace: tc.namespace, Name: "other" + string(rune('a'+i))}, spec))
			}
			added := mustCompile(t, l, engine.Key{Namespace: tc.namespace, Name: "added"}, tc.added)
			reason := barrier.OverWork(added, append(others, added)) // itself does not count twice
			if isOver := reason != ""; isOver != tc.over {
				t.Errorf("got %q, want it to be over the bound: %v", reason, tc.over)
			}
			if tc.over && !strings.Contains(reason, "KiB could cost kube-apiserver up to ") {
				t.Errorf("the reason does not explain itself: %q", reason)
			}
		})
	}
}

func TestCostsNoMore(t *testing.T) {
	t.Parallel()
	l := newLaw(t)
	cheap := mustCompile(t, l, engine.Key{Name: "a"}, denying(`object != null && object.metadata.name == "a"`, "pods"))
	dear := mustCompile(t, l, engine.Key{Name: "a"}, denying(`object != null && oldObject != null && object.spec == oldObject.spec`, "pods"))
	if !cheap.CostsNoMore(dear) || dear.CostsNoMore(cheap) || !dear.CostsNoMore(dear) {
		t.Error("a barrier costs more than one that works longer, or less than one that works shorter")
	}
	for _, resources := range [][]string{{"secrets"}, {"pods", "secrets"}, {"*"}} {
		elsewhere := mustCompile(t, l, engine.Key{Name: "a"}, denying(`object != null && object.metadata.name == "a"`, resources...))
		if elsewhere.CostsNoMore(dear) {
			t.Errorf("a barrier of %v costs no more than one of pods, although others of its resources count with it", resources)
		}
	}
}

// TestNoBarrierWithoutBound checks that functions whose work kube-apiserver does not end have no barrier, and why.
func TestNoBarrierWithoutBound(t *testing.T) {
	t.Parallel()
	l := newLaw(t)
	for _, condition := range []string{`object.data.a.matches(object.data.b)`, `sets.contains(object.l, object.m)`} {
		compiled, err := l.barriers.Compile(engine.Key{Name: "a"}, &policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectDeny, Condition: condition,
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"x.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"xs"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if compiled.Policy != nil || compiled.Binding != nil || len(compiled.Report) != 1 || !strings.Contains(compiled.Report[0].Reason, "no limit of kube-apiserver ends the work of") {
			t.Errorf("%s: got %+v, want no barrier, and the reason", condition, compiled.Report)
		}
	}
}

// TestDeepConditionsHaveNoBarrier has short conditions with nested calls and macros, whose texts in a barrier would be too long, whose barriers would take
// kube-apiserver seconds to minutes to compile, or which take a replica seconds to evaluate in part.
func TestDeepConditionsHaveNoBarrier(t *testing.T) {
	t.Parallel()
	l := newLaw(t)
	nested := func(depth int, level, inner string) string {
		for range depth {
			inner = strings.ReplaceAll(level, "%", inner)
		}
		return inner
	}
	quantities := func(depth int, of string) string { return nested(depth, "(isQuantity(%) ? 'a' : 'b')", of) }
	numbers := "[0" + strings.Repeat(", 1", 99) + "]"
	for name, tc := range map[string]struct {
		condition, want string
		rules           []policyv1alpha1.PolicyRule
	}{
		"a long text":        {condition: nested(40, "string(quantity(%).asInteger())", "object.q") + ` == "1"`, want: "have more than 65536 bytes"},
		"copied macros":      {condition: quantities(2, nested(5, "%.optMap(x, x)", "optional.of(request.userInfo.username)")+".orValue('')") + " == 'a' || object.a == 1", want: "macros expand to more than 16384 parts"},
		"copied comparisons": {condition: quantities(6, "object.a") + " == 'a'", want: "regular expressions are larger"},
		"nested macros":      {condition: nested(5, "(%.exists(x, x == 1) ? object.a : object.b)", nested(5, "%.optMap(x, x)", "object.?a")+".orValue('')") + ".size() > 3", want: "it has more than 10 macros"},
		"comparisons that differ for each class of requests": {
			condition: `oldObject != null && ((request.verb == "delete" ? oldObject.x : request.verb == "deletecollection" ? oldObject.y : oldObject.z) == 1` + strings.Repeat(" || oldObject.a == oldObject.b", 300) + ")",
			want:      "copies of type variables", rules: []policyv1alpha1.PolicyRule{ruleFor([]string{"update", "patch", "delete", "deletecollection"}, "configmaps")},
		},
		"many situations": {
			condition: fmt.Sprintf(`request.verb == "x" || %[1]s.exists(x, %[1]s.exists(y, %[1]s.exists(z, x + y + z == 400))) || object.a == 1`, numbers), want: "costs too much",
			rules: []policyv1alpha1.PolicyRule{ruleFor(everyWrite, "pods", "configmaps"), ruleFor([]string{"create", "get"}, "pods/exec")},
		},
	} {
		if tc.rules == nil {
			tc.rules = []policyv1alpha1.PolicyRule{ruleFor([]string{"create"}, "configmaps")}
		}
		compiled, err := l.barriers.Compile(engine.Key{Name: "a"}, denial(tc.condition, tc.rules...))
		if err != nil {
			t.Fatal(name, err)
		}
		if compiled.Policy != nil || len(compiled.Report) == 0 || !strings.Contains(compiled.Report[0].Reason, tc.want) {
			t.Errorf("%s: got %+v, want no barrier, because %q", name, compiled.Report, tc.want)
		}
	}
}

// TestBarriersOfExamples lists the Deny policies of all recipes and templates: each has a barrier for which there is room, also in a namespace.
func TestBarriersOfExamples(t *testing.T) {
	t.Parallel()
	l := newLaw(t)
	found := 0
	for name, spec := range examples(t) {
		compiled, err := l.barriers.Compile(engine.Key{Namespace: "a", Name: "p"}, spec)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, entry := range compiled.Report {
			if strings.Contains(entry.Reason, "no limit") || strings.Contains(entry.Reason, "bytes") {
				t.Errorf("%s: %s", name, entry.Reason)
			}
		}
		if compiled.Policy == nil {
			continue
		}
		found++
		if reason := barrier.OverWork(compiled, nil); reason != "" {
			t.Errorf("%s: %s", name, reason)
		}
	}
	if found < 12 {
		t.Errorf("got %d barriers, too few to be those of all examples", found)
	}
}

// examples returns the Deny policies of the recipes and templates, by their file and name.
func examples(t *testing.T) map[string]*policyv1alpha1.AuthorizationPolicySpec {
	t.Helper()
	found := map[string]*policyv1alpha1.AuthorizationPolicySpec{}
	err := fs.WalkDir(artifacts.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		content, err := fs.ReadFile(artifacts.Files, path)
		if err != nil {
			return err
		}
		for _, document := range strings.Split(string(content), "\n---\n") {
			var p policyv1alpha1.AuthorizationPolicy
			if yaml.Unmarshal([]byte(document), &p) == nil && strings.HasSuffix(p.Kind, "AuthorizationPolicy") && p.Spec.Effect == policyv1alpha1.PolicyEffectDeny {
				found[path+" "+p.Name] = &p.Spec
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
