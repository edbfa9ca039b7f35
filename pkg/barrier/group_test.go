/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/test/testutil/barrierlaw"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

// policiesOf returns the policies of the groups, and whether their objects are a group, by the name of their objects.
func policiesOf(objects []barrier.Objects) (groups, alone []string) {
	for _, o := range objects {
		if o.Policy.Name != o.Binding.Name || o.Binding.Spec.PolicyName != o.Policy.Name {
			groups = append(groups, "the binding is of another policy")
		}
		if policies := o.Policy.Annotations[barrier.GroupAnnotation]; policies != "" {
			groups = append(groups, policies)
		} else {
			alone = append(alone, o.Policy.Annotations[barrier.PolicyAnnotation])
		}
	}
	slices.Sort(groups)
	slices.Sort(alone)
	return groups, alone
}

// TestGroup has policies that share objects, and policies that do not.
func TestGroup(t *testing.T) {
	t.Parallel()
	compiler := newCompiler()
	claims := func(condition string) *policyv1alpha1.AuthorizationPolicySpec {
		return denial(condition, ruleFor([]string{"create", "update", "patch"}, "persistentvolumeclaims"))
	}
	forAlice, audited := claims("object.metadata.name == 'a'"), claims("object.metadata.name == 'b'")
	forAlice.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "alice"}}
	audited.Enforcement = policyv1alpha1.PolicyEnforcementAudit
	expensive := claims("object.metadata.labels.all(k, object.metadata.annotations.all(l, k != l))")
	quadratic := claims("sets.equivalent(request.userInfo.groups, request.userInfo.groups)")
	asks := claims("!authorizer.group('').resource('claims').check('use').allowed()")
	ofNamespaces := denial("", ruleFor([]string{"delete"}, "namespaces"))
	specs := map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{
		{Name: "a"}: claims("object.metadata.name == 'a'"), {Name: "b"}: claims("object.metadata.name == 'b'"),
		{Name: "alice-1"}: forAlice, {Name: "alice-2"}: forAlice,
		{Namespace: "x", Name: "a"}: claims("object.metadata.name == 'a'"), {Namespace: "y", Name: "a"}: forAlice,
		{Name: "pods"}:    denial("object.metadata.name == 'a'", ruleFor([]string{"create"}, "pods")),
		{Name: "audited"}: audited, {Name: "expensive"}: expensive, {Name: "asks"}: asks, {Name: "quadratic"}: quadratic, {Name: "member"}: claims("'a' in request.userInfo.groups"), {Name: "reads"}: denial("", ruleFor([]string{"get"}, "pods")),
		{Namespace: "x", Name: "namespaces"}: ofNamespaces,
	}
	var barriers []*barrier.Barrier
	for key, spec := range specs {
		barriers = append(barriers, compileWith(t, compiler, key, spec))
	}
	objects := barrier.Group(barriers)
	groups, alone := policiesOf(objects)
	if want := []string{"a,b,member", "alice-1,alice-2", "x/a,y/a"}; !slices.Equal(groups, want) {
		t.Errorf("groups %q, want %q", groups, want)
	}
	if want := []string{"asks", "audited", "expensive", "pods", "quadratic", "x/namespaces"}; !slices.Equal(alone, want) {
		t.Errorf("not in a group: %q, want %q", alone, want)
	}
	for _, o := range objects {
		if o.Policy.Annotations[barrier.GroupAnnotation] != "x/a,y/a" {
			continue
		}
		if got := len(o.Policy.Spec.MatchConditions); got != 2 {
			t.Errorf("%d match conditions, want one for exempt users, and one for the namespaces: %+v", got, o.Policy.Spec.MatchConditions)
		}
		for i, want := range []string{"x/a", "y/a"} {
			v := o.Policy.Spec.Validations[i]
			if !strings.Contains(v.Message, "policy="+want+" ") || !strings.HasSuffix(v.Expression, fmt.Sprintf("// %q", want)) {
				t.Errorf("the refusal of %s does not name it: %+v", want, v)
			}
		}
	}
}

// TestGroupScopes has groups of policies of two namespaces, and for two users: each policy refuses the requests in its namespace, or of its user.
func TestGroupScopes(t *testing.T) {
	t.Parallel()
	l := newLaw(t)
	only := func(name string) *policyv1alpha1.AuthorizationPolicySpec {
		spec := denial("", ruleFor([]string{"create"}, "pods"))
		spec.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: name}}
		return spec
	}
	objects := barrier.Group([]*barrier.Barrier{
		mustCompile(t, l, engine.Key{Namespace: "demo", Name: "all"}, denial("", ruleFor([]string{"create"}, "pods"))),
		mustCompile(t, l, engine.Key{Namespace: "infra", Name: "alice"}, only("alice")),
		mustCompile(t, l, engine.Key{Name: "bob"}, only("bob")), mustCompile(t, l, engine.Key{Name: "carol"}, only("carol")),
	})
	if groups, _ := policiesOf(objects); !slices.Equal(groups, []string{"bob,carol", "demo/all,infra/alice"}) {
		t.Fatalf("groups %q", groups)
	}
	loaded := l.cluster.loadObjects(t, objects...)
	defer loaded.close()
	for _, test := range []struct{ user, namespace, want string }{
		{"alice", "demo", "policy=demo/all "}, {"alice", "infra", "policy=infra/alice "}, {"dave", "infra", ""}, {"dave", "demo", "policy=demo/all "},
		{"bob", "infra", "policy=bob "}, {"carol", "infra", "policy=carol "},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: test.namespace}}
		create := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), test.namespace, "p", corev1.SchemeGroupVersion.WithResource("pods"), "",
			admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: test.user})
		err := loaded.Validate(t.Context(), create, objectInterfaces{})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s in %s: got %v, want %q", test.user, test.namespace, err, test.want)
		}
	}
}

// TestGroupSizes has policies with many subjects, and with texts that JSON writes in more bytes: kube-apiserver and kubectl apply accept each group.
func TestGroupSizes(t *testing.T) {
	t.Parallel()
	compiler := newCompiler()
	subjects := make([]rbacv1.Subject, 0, 250)
	for i := range cap(subjects) {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: fmt.Sprintf("%s%d", strings.Repeat("g", 220), i)})
	}
	var barriers []*barrier.Barrier
	for i := range 6 {
		many := denial(fmt.Sprintf(`object.metadata.name == "n%d"`, i), ruleFor([]string{"create"}, "pods"))
		many.Subjects = subjects
		for j := range many.Subjects {
			many.Subjects[j].Name = fmt.Sprintf("%d%s", i, many.Subjects[j].Name[1:])
		}
		long := denial(fmt.Sprintf(`object.metadata.name == "%d%s"`, i, strings.Repeat("<", 9900)), ruleFor([]string{"create"}, "secrets"))
		for name, spec := range map[string]*policyv1alpha1.AuthorizationPolicySpec{"many": many, "long": long} {
			barriers = append(barriers, compileWith(t, compiler, engine.Key{Namespace: "aaa", Name: fmt.Sprintf("%s-%d", name, i)}, spec))
		}
	}
	// Many entries of rules, which all policies share.
	var rules []policyv1alpha1.PolicyRule
	for i := range 60 {
		rule := ruleFor([]string{"create"})
		for j := range 60 {
			rule.Resources = append(rule.Resources, fmt.Sprintf("things%s%d-%d", strings.Repeat("0", 20), i, j))
		}
		rules = append(rules, rule)
	}
	for i := range 8 {
		barriers = append(barriers, compileWith(t, compiler, engine.Key{Name: fmt.Sprintf("rules-%d", i)}, denial("", rules...)))
	}
	barriers = slices.DeleteFunc(barriers, func(b *barrier.Barrier) bool { return b.Policy == nil })
	objects := barrier.Group(barriers)
	if len(objects) < 4 || len(objects) >= len(barriers) { // some share objects, and not all
		t.Errorf("%d barriers have %d objects", len(barriers), len(objects))
	}
	for _, o := range objects {
		// kubectl apply stores the object in an annotation. All annotations have at most 256 KiB.
		if text, err := json.Marshal(o.Policy); err != nil || len(text) > 200<<10 {
			t.Errorf("%s: %d bytes, %v", o.Policy.Annotations[barrier.GroupAnnotation], len(text), err)
		}
		for _, condition := range o.Policy.Spec.MatchConditions {
			if len(condition.Expression) > 80_000 { // kube-apiserver compiles 100,000 characters
				t.Errorf("%s: a match condition of %d bytes", o.Policy.Annotations[barrier.GroupAnnotation], len(condition.Expression))
			}
		}
	}
}

// TestGroupErrorsHideSubjects has a policy that ends in an error for a member of one of its groups: the refusal names the policy, and none of the others.
func TestGroupErrorsHideSubjects(t *testing.T) {
	t.Parallel()
	l := newLaw(t)
	spec := denying(`object.spec.missing == "a"`, "widgets.example.com")
	spec.Subjects = []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "devs"}, {Kind: rbacv1.GroupKind, Name: "secret-team"}}
	loaded := l.cluster.loadObjects(t, barrier.Group([]*barrier.Barrier{
		mustCompile(t, l, engine.Key{Namespace: "demo", Name: "o"}, denying(`object.metadata.name == "a"`, "widgets.example.com")),
		mustCompile(t, l, engine.Key{Namespace: "demo", Name: "p"}, spec),
	})...)
	defer loaded.close()
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{}}}
	create := admission.NewAttributesRecord(object, nil, kind, "demo", "w", kind.GroupVersion().WithResource("widgets"), "", admission.Create, &metav1.CreateOptions{}, false,
		&user.DefaultInfo{Name: "dave", Groups: []string{"devs"}})
	err := loaded.Validate(t.Context(), create, objectInterfaces{})
	if err == nil || !strings.Contains(err.Error(), `// "demo/p"' resulted in error`) || strings.Contains(err.Error(), "secret-team") {
		t.Errorf("got %v", err)
	}
}

// TestGroupsOfExamples lists the Deny policies of all recipes and templates that can be in a group: most of them.
func TestGroupsOfExamples(t *testing.T) {
	t.Parallel()
	compiler := newCompiler()
	total, grouped := 0, 0
	for name, spec := range examples(t) {
		spec.Enforcement = policyv1alpha1.PolicyEnforcementEnforce
		b, same := compileWith(t, compiler, engine.Key{Name: "p"}, spec), compileWith(t, compiler, engine.Key{Name: "q"}, spec)
		if b.Policy == nil {
			continue
		}
		total++
		if groups, _ := policiesOf(barrier.Group([]*barrier.Barrier{b, same})); len(groups) > 0 {
			grouped++
		} else {
			t.Logf("%s is not in a group", name)
		}
	}
	t.Logf("%d of %d can be in a group", grouped, total)
	if grouped*2 < total {
		t.Errorf("%d of %d can be in a group, less than half", grouped, total)
	}
}

// similar returns random policies with the rules of the first.
func similar(tb testing.TB, l *law, seed, number uint64, n int) (barriers []*barrier.Barrier, writes []*barrierlaw.Write) {
	tb.Helper()
	g := barrierlaw.NewGenerator(seed, number)
	_, first := g.Policy()
	for i := range n {
		key, spec := g.Policy()
		key.Name, spec.Rules = fmt.Sprintf("p%d", i), first.Rules
		b, err := l.barriers.Compile(key, spec)
		if err != nil {
			tb.Fatal(err)
		}
		if b.Policy != nil {
			barriers = append(barriers, b)
		}
		for range *lawRequests / n {
			writes = append(writes, g.Write(spec))
		}
	}
	return barriers, writes
}

// TestGroupLaw compares groups of random policies with the barriers of the same policies. Both refuse the same writes, and a refusal by a group names a
// policy whose barrier refuses the write.
func TestGroupLaw(t *testing.T) {
	const policies = 8
	l := newLaw(t)
	var total, refused, failed, joined atomic.Int64
	var workers errgroup.Group
	workers.SetLimit(lawWorkers / policies)
	for c := cases.For(lawTime, max(50, *lawPolicies/(40*policies))); c.Next(); { // each case waits for nine plugins
		i := c.Number()
		if t.Failed() {
			break
		}
		workers.Go(func() error {
			barriers, writes := similar(t, l, *lawSeed+1, uint64(i), policies) //nolint:gosec // an index
			objects := barrier.Group(barriers)
			joined.Add(int64(len(barriers) - len(objects)))
			var alone []*plugin
			for _, b := range barriers {
				alone = append(alone, l.cluster.load(t, b))
			}
			together := l.cluster.loadObjects(t, objects...)
			for _, w := range writes {
				total.Add(1)
				got := together.Validate(t.Context(), w.Attributes(), objectInterfaces{})
				var want []string
				for j, p := range alone {
					if err := p.Validate(t.Context(), w.Attributes(), objectInterfaces{}); err != nil {
						want = append(want, refusalsOf(barriers[j], err)...)
					}
				}
				if got != nil {
					refused.Add(1)
				}
				if (got == nil) != (len(want) == 0) || got != nil && !slices.ContainsFunc(want, func(refusal string) bool { return strings.Contains(got.Error(), refusal) }) {
					groups, single := policiesOf(objects)
					t.Errorf("the groups: %v\nthe barriers: %q\nwrite: %v\ngroups: %q and %q of %d", got, want, w, groups, single, i)
				}
				if got != nil && strings.Contains(got.Error(), "resulted in error") {
					failed.Add(1)
				}
			}
			for _, p := range append(alone, together) {
				p.close()
			}
			return nil
		})
	}
	_ = workers.Wait()
	t.Logf("%d writes, %d refused, %d by an error, %d barriers joined to others", total.Load(), refused.Load(), failed.Load(), joined.Load())
	if refused.Load()*20 < total.Load() || failed.Load() == 0 || joined.Load() == 0 {
		t.Error("the test compares too little")
	}
}

// refusalsOf returns what tells a refusal by a barrier: its message, or the policy in the expression of its group that cannot be evaluated, or the name of the
// barrier if it is in no group.
func refusalsOf(b *barrier.Barrier, refusal error) []string {
	if message := b.Policy.Spec.Validations[0].Message; strings.Contains(refusal.Error(), message) {
		return []string{message}
	}
	return []string{fmt.Sprintf("// %q' resulted in error", b.Policy.Annotations[barrier.PolicyAnnotation]), "'" + b.Policy.Name + "'"}
}

// TestGroupsAreStable adds and removes policies: few groups change, and the order of the policies does not matter.
func TestGroupsAreStable(t *testing.T) {
	t.Parallel()
	compiler := newCompiler()
	var barriers []*barrier.Barrier
	for i := range 300 {
		spec := denial(fmt.Sprintf("object.metadata.name == 'n%d'", i), ruleFor([]string{"create"}, "pods"))
		barriers = append(barriers, compileWith(t, compiler, engine.Key{Namespace: fmt.Sprintf("n%d", i%100), Name: fmt.Sprintf("p%d", i)}, spec))
	}
	texts := func(barriers []*barrier.Barrier) map[string]string {
		found := map[string]string{}
		for _, o := range barrier.Group(barriers) {
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			found[o.Policy.Name] = string(text)
		}
		return found
	}
	before := texts(barriers)
	if len(before) < 300/50 || len(before) > 300/10 {
		t.Errorf("%d groups of 300 policies", len(before))
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(barriers), func(i, j int) { barriers[i], barriers[j] = barriers[j], barriers[i] })
	if !maps.Equal(before, texts(barriers)) {
		t.Error("the groups depend on the order of the policies")
	}
	changed := 0
	for i := range 20 {
		after := texts(slices.Delete(slices.Clone(barriers), i, i+1))
		for name, text := range after {
			switch was, ok := before[name]; {
			case !ok:
				changed++
			case was != text: // while manifests are applied one after the other, a policy would be without objects
				t.Errorf("the group %s has other policies than before", name)
			}
		}
	}
	if changed > 20*2 {
		t.Errorf("20 deletions change %d groups", changed)
	}
}

// TestGroupCost has a group whose policies cost as much as they may, and a write of the largest object: no policy uses up what another one needs. The last
// one, which is cheap, refuses.
func TestGroupCost(t *testing.T) {
	t.Parallel()
	l := newLaw(t)
	var barriers []*barrier.Barrier
	for i := range 45 { // no name from d00 to d44 begins a group
		// To compare two texts costs a tenth of a unit for each byte.
		condition := fmt.Sprintf(`oldObject != null && object.spec.text == oldObject.spec.text && object.metadata.name == "n%d"`, i)
		barriers = append(barriers, mustCompile(t, l, engine.Key{Name: fmt.Sprintf("d%02d", i)}, denying(condition, "widgets.example.com")))
	}
	barriers = append(barriers, mustCompile(t, l, engine.Key{Name: "z"}, denying(`object.spec.flag == true`, "widgets.example.com")))
	objects := barrier.Group(barriers)
	groups, alone := policiesOf(objects)
	if len(groups) < 2 {
		t.Fatalf("groups %q, alone %q, want several groups", groups, alone)
	}
	loaded := l.cluster.loadObjects(t, objects...)
	defer loaded.close()
	for flag, want := range map[bool]string{false: "", true: "policy=z "} {
		object := func(flag bool) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"text": strings.Repeat("a", 3<<20), "flag": flag},
			}}
		}
		w := &barrierlaw.Write{
			AttributesRecord: authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "update", APIGroup: "example.com", APIVersion: "v1", Resource: "widgets", Namespace: "demo"},
			Operation:        admission.Update, Object: object(flag), OldObject: object(false), Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
		}
		err := loaded.Validate(t.Context(), w.Attributes(), objectInterfaces{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("flag %t: %v", flag, err)
		}
	}
}

// BenchmarkGroup compares a write of a Pod in the admission plugin of kube-apiserver under 1,000 conditional Deny policies: none, a ValidatingAdmissionPolicy for each,
// and groups. The policies are of one namespace each ("namespaces"), of the cluster for a team each ("subjects"), or of the cluster for everybody ("everybody").
// The writer is in one of the namespaces and teams, or in none ("elsewhere"). "hand" has a ValidatingAdmissionPolicy for each namespace, as one would write it by hand.
func BenchmarkGroup(b *testing.B) {
	const n = 1000
	compiler := newCompiler()
	namespaces := make([]*corev1.Namespace, 0, n+1)
	for i := range n + 1 {
		name := fmt.Sprintf("n%d", i)
		namespaces = append(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}})
	}
	cluster := newAdmissionCluster(b, barrierlaw.NamesWithA{}, namespaces...)
	scopes := map[string]func(i int) (engine.Key, []rbacv1.Subject){
		"namespaces": func(i int) (engine.Key, []rbacv1.Subject) {
			return engine.Key{Namespace: fmt.Sprintf("n%d", i), Name: "p"}, nil
		},
		"subjects": func(i int) (engine.Key, []rbacv1.Subject) {
			return engine.Key{Name: fmt.Sprintf("p%d", i)}, []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: fmt.Sprintf("team-%d", i)}}
		},
		"everybody": func(i int) (engine.Key, []rbacv1.Subject) { return engine.Key{Name: fmt.Sprintf("p%d", i)}, nil },
	}
	for _, scope := range []string{"namespaces", "subjects", "everybody"} {
		var barriers []*barrier.Barrier
		for i := range n {
			key, subjects := scopes[scope](i)
			spec := denial(fmt.Sprintf(`object.metadata.?labels.?tier.orValue("") == "tier-%d"`, i), ruleFor([]string{"create", "update", "patch"}, "pods"))
			spec.Subjects = subjects
			barriers = append(barriers, compileWith(b, compiler, key, spec))
		}
		sets := []struct {
			name    string
			objects []barrier.Objects
		}{{"none", nil}, {"each", objectsOf(barriers...)}, {"groups", barrier.Group(barriers)}}
		if scope == "namespaces" {
			sets = append(sets, struct {
				name    string
				objects []barrier.Objects
			}{"hand", byHand(n)})
		}
		for _, set := range sets {
			loaded := cluster.loadObjects(b, set.objects...)
			for where, number := range map[string]int{"within": n / 2, "elsewhere": n} {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"tier": "none"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
				u := &user.DefaultInfo{Name: "alice", Groups: []string{fmt.Sprintf("team-%d", number), "system:authenticated"}}
				a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), fmt.Sprintf("n%d", number), "p", corev1.SchemeGroupVersion.WithResource("pods"), "",
					admission.Create, &metav1.CreateOptions{}, false, u)
				b.Run(scope+"/"+set.name+"/"+where, func(b *testing.B) {
					for b.Loop() {
						if err := loaded.Validate(b.Context(), a, objectInterfaces{}); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(len(set.objects)), "policies")
				})
			}
			loaded.close()
		}
	}
}

// byHand returns a ValidatingAdmissionPolicy for each namespace of BenchmarkGroup.
func byHand(n int) (objects []barrier.Objects) {
	for i := range n {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("hand-%d", i)}
		objects = append(objects, barrier.Objects{
			Policy: barrier.NewPolicy(meta, admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: ptr.To(admissionregistrationv1.Fail),
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: fmt.Sprintf("n%d", i)}},
					ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{barrier.NewRule([]string{""}, []string{"pods"}, nil, admissionregistrationv1.Create, admissionregistrationv1.Update)},
				},
				Validations: []admissionregistrationv1.Validation{{Expression: fmt.Sprintf(`object.metadata.?labels.?tier.orValue("") != "tier-%d"`, i)}},
			}),
			Binding: barrier.NewBinding(meta, nil, admissionregistrationv1.Deny),
		})
	}
	return objects
}
