/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
)

// The generated cluster.
const (
	lawSeed     = 5681
	bindings    = 300
	lawPolicies = 100
)

var (
	lawNamespaces = []string{"", "blue", "red", "green"}
	lawNames      = []string{"", "a", "b"}
	lawVerbs      = []string{"get", "list", "create", "update", "delete", "deletecollection", "impersonate", "*"}
	lawResources  = []string{"pods", "pods/exec", "secrets", "deployments", "deployments/scale", "subjectaccessreviews"}
	lawPaths      = []string{"/metrics", "/metrics/cadvisor", "/healthz", "/"}
	lawSubjects   = func() (subjects []rbacv1.Subject) {
		for i := range 8 {
			subjects = append(subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprintf("user-%d", i)})
		}
		for _, group := range []string{"devs", "ops", "system:authenticated", "system:unauthenticated", "system:serviceaccounts", "system:serviceaccounts:blue", "system:masters"} {
			subjects = append(subjects, rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: group})
		}
		for _, namespace := range lawNamespaces[1:] {
			subjects = append(subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: "robot"})
		}
		return append(subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "system:anonymous"},
			rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "system:serviceaccount:red:robot"})
	}()
	// lawBound are mostly single users: groups of all users would get most permissions.
	lawBound = slices.Concat(lawSubjects, lawSubjects[:8], lawSubjects[:8], lawSubjects[15:])
	// strangers are in no binding and no policy.
	strangers = []rbacv1.Subject{{Kind: "User", Name: "stranger"}, {Kind: "ServiceAccount", Namespace: "blue", Name: "stranger"}, {Kind: "Group", Name: "strangers"},
		{Kind: "Group", Name: "system:serviceaccounts:green"}}
	// lawConditions need nothing of the user.
	lawConditions = []string{
		"", `object.metadata.name == "a"`, `object.metadata.name == "b"`, `object.spec.size < 3 || request.name == "b"`, `request.name == "a"`, `request.namespace == "blue"`, `request.namespace != "red" && oldObject.metadata.name == "b"`,
		`request.verb == "get" || object.spec.size < 3`, `request.subresource == "exec"`, "false", "true", `dryRun`, `int(request.name) == 1`,
		`request.labelSelector.requirements.exists(r, r.key == "owner" && r.operator == "In" && r.values == ["bob"])`,
		`!request.labelSelector.requirements.exists(r, r.key == "owner") || object.spec.size < 3`,
		`namespaceObject.metadata.labels["tier"] == "dev"`, `namespaceObject.metadata.labels["tier"] == "prod" || object.spec.size < 3`,
	}
	userConditions = []string{
		`request.userInfo.username == "user-1"`, `request.userInfo.username.startsWith("user-") && object.spec.size < 3`, `"devs" in request.userInfo.groups`,
		`!("ops" in request.userInfo.groups)`, `request.userInfo.uid == ""`, `"k" in request.userInfo.extra`, `request.userInfo.username != "user-2"`,
	}
)

func some[T any](r *rand.Rand, most int, values []T) (chosen []T) {
	for _, i := range r.Perm(len(values))[:1+r.IntN(min(most, len(values)))] {
		chosen = append(chosen, values[i])
	}
	return chosen
}

func one[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

var lawGroups = []string{"", "apps", "authorization.k8s.io", "authorization.proviso.dev", "*"}

func randomRule(r *rand.Rand) rbacv1.PolicyRule {
	if r.IntN(8) == 0 {
		return rbacv1.PolicyRule{Verbs: some(r, 2, []string{"get", "post", "*"}), NonResourceURLs: some(r, 2, []string{"/metrics", "/metrics/*", "/healthz*", "*"})}
	}
	rule := rbacv1.PolicyRule{
		Verbs: some(r, 2, lawVerbs[:7]), APIGroups: some(r, 2, lawGroups), Resources: some(r, 3, append([]string{"*/scale"}, lawResources...)),
	}
	if r.IntN(10) == 0 {
		rule.Verbs, rule.Resources = []string{"*"}, []string{"*"}
	}
	if r.IntN(4) == 0 {
		rule.ResourceNames = some(r, 2, lawNames[1:])
	}
	return rule
}

// generate returns a random cluster.
func generate(r *rand.Rand, conditions []string) (*rbac.Objects, map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec) {
	o := &rbac.Objects{}
	for i := range 40 {
		rules := []rbacv1.PolicyRule{}
		for range 1 + r.IntN(2) {
			rules = append(rules, randomRule(r))
		}
		name := fmt.Sprintf("role-%d", i)
		o.ClusterRoles = append(o.ClusterRoles, rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
		for _, namespace := range lawNamespaces[1:] {
			o.Roles = append(o.Roles, rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Rules: []rbacv1.PolicyRule{randomRule(r)}})
		}
	}
	for i := range bindings {
		meta, ref := metav1.ObjectMeta{Name: fmt.Sprintf("binding-%d", i)}, rbacv1.RoleRef{Kind: one(r, "Role", "ClusterRole"), Name: fmt.Sprintf("role-%d", r.IntN(42))}
		if r.IntN(20) == 0 {
			o.ClusterRoleBindings = append(o.ClusterRoleBindings, rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: some(r, 2, lawBound)})
			continue
		}
		meta.Namespace = one(r, lawNamespaces[1:]...)
		subjects := append(some(r, 2, lawBound), rbacv1.Subject{Kind: "ServiceAccount", Name: "robot"})[r.IntN(2):]
		o.RoleBindings = append(o.RoleBindings, rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	}
	policies := map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}
	for i := range lawPolicies {
		spec := &policyv1alpha1.AuthorizationPolicySpec{
			Effect:   one(r, policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny, policyv1alpha1.PolicyEffectNoOpinion),
			Subjects: some(r, 3, lawSubjects), Condition: one(r, conditions...), Enforcement: one(r, policyv1alpha1.PolicyEnforcementEnforce, "", "", policyv1alpha1.PolicyEnforcementAudit),
		}
		if spec.Effect != policyv1alpha1.PolicyEffectAllow && r.IntN(4) == 0 {
			spec.Subjects = nil
		}
		key := engine.Key{Namespace: one(r, lawNamespaces...), Name: fmt.Sprintf("policy-%d", i)}
		rule := randomRule(r)
		if key.Namespace != "" {
			rule.NonResourceURLs = nil
		}
		spec.Rules = []policyv1alpha1.PolicyRule{{Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames, NonResourceURLs: rule.NonResourceURLs}}
		if len(rule.Resources) > 0 {
			spec.Rules[0].APIVersions = one(r, nil, nil, []string{"v1"}, []string{"v2"}, []string{"*"})
		}
		policies[key] = spec
	}
	return o, policies
}

// rbacOracle decides as the authorizer of kube-apiserver, from the objects themselves.
type rbacOracle struct{ objects *rbac.Objects }

func (o rbacOracle) Decide(_ context.Context, a authorizer.Attributes) authorization.Decision {
	for _, b := range o.objects.ClusterRoleBindings {
		if o.allows(b.RoleRef, "", b.Subjects, a) {
			return authorization.Allow("", nil)
		}
	}
	for _, b := range o.objects.RoleBindings {
		if a.GetNamespace() != "" && b.Namespace == a.GetNamespace() && o.allows(b.RoleRef, b.Namespace, b.Subjects, a) {
			return authorization.Allow("", nil)
		}
	}
	return authorization.NoOpinion("", nil)
}

func (o rbacOracle) allows(ref rbacv1.RoleRef, namespace string, subjects []rbacv1.Subject, a authorizer.Attributes) bool {
	if !slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return applies(s, namespace, a.GetUser()) }) {
		return false
	}
	var rules []rbacv1.PolicyRule
	for _, role := range o.objects.ClusterRoles {
		if ref.Kind == "ClusterRole" && role.Name == ref.Name {
			rules = role.Rules
		}
	}
	for _, role := range o.objects.Roles {
		if ref.Kind == "Role" && namespace != "" && role.Name == ref.Name && role.Namespace == namespace {
			rules = role.Rules
		}
	}
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return ruleAllows(rule, a) })
}

func applies(s rbacv1.Subject, namespace string, u user.Info) bool {
	switch s.Kind {
	case "User":
		return u.GetName() == s.Name
	case "Group":
		return slices.Contains(u.GetGroups(), s.Name)
	}
	if s.Namespace != "" {
		namespace = s.Namespace
	}
	return namespace != "" && serviceaccount.MatchesUsername(namespace, s.Name, u.GetName())
}

func ruleAllows(rule rbacv1.PolicyRule, a authorizer.Attributes) bool {
	has := func(values []string, value string) bool {
		return slices.Contains(values, "*") || slices.Contains(values, value)
	}
	if !a.IsResourceRequest() {
		return has(rule.Verbs, a.GetVerb()) && slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool {
			return url == "*" || url == a.GetPath() || strings.HasSuffix(url, "*") && strings.HasPrefix(a.GetPath(), strings.TrimRight(url, "*"))
		})
	}
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	return has(rule.Verbs, a.GetVerb()) && has(rule.APIGroups, a.GetAPIGroup()) &&
		(has(rule.Resources, resource) || a.GetSubresource() != "" && slices.Contains(rule.Resources, "*/"+a.GetSubresource())) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName()))
}

// privileged allows everything to system:masters.
type privileged struct{}

func (privileged) Decide(_ context.Context, a authorizer.Attributes) authorization.Decision {
	if slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorization.Allow("", nil)
	}
	return authorization.NoOpinion("", nil)
}

// world is a cluster, with the chain that decides there.
type world struct {
	in       *input
	compiler *partial.Compiler
	chain    *authorization.Chain
}

func newWorld(t *testing.T, r *rand.Rand, conditions []string) *world {
	t.Helper()
	residuals, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	if w.compiler, err = partial.NewPolicyCompiler(residuals); err != nil {
		t.Fatal(err)
	}
	objects, policies := generate(r, conditions)
	w.in = &input{permissions: objects.Permissions(), policies: policies, namespaces: knownNamespaces}
	compiled := map[engine.Key]*engine.Policy{}
	for key, spec := range policies {
		if compiled[key], err = engine.New(key, spec, w.compiler); err != nil {
			t.Fatal(err)
		}
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	w.chain, err = authorization.NewChain(
		authorization.Member{Name: "privileged", Decider: privileged{}},
		authorization.Member{Name: engine.RestrictingName, Decider: &engine.Authorizer{Source: source, Part: engine.Restricting}},
		authorization.Member{Name: "rbac", Decider: rbacOracle{objects}},
		authorization.Member{Name: engine.GrantingName, Decider: &engine.Authorizer{Source: source, Part: engine.GrantingCluster}},
		authorization.Member{Name: engine.NamespacedName, Decider: &engine.Authorizer{Source: source, Part: engine.GrantingNamespaced}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// userOf returns a user with the groups that an authenticator gives to all such users, or a member of a group without a name.
func userOf(s rbacv1.Subject) *user.DefaultInfo {
	if namespace, name, err := serviceaccount.SplitUsername(s.Name); err == nil {
		s = rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
	}
	switch {
	case s.Kind == "ServiceAccount":
		u := (&serviceaccount.ServiceAccountInfo{Namespace: s.Namespace, Name: s.Name}).UserInfo().(*user.DefaultInfo)
		u.Groups = append(u.Groups, "system:authenticated")
		return u
	case s.Name == "system:anonymous":
		return &user.DefaultInfo{Name: s.Name, Groups: []string{"system:unauthenticated"}}
	case s.Kind == "User":
		return &user.DefaultInfo{Name: s.Name, Groups: []string{"system:authenticated"}}
	case s.Name == "system:unauthenticated", s.Name == "system:authenticated":
		return &user.DefaultInfo{Groups: []string{s.Name}}
	case strings.HasPrefix(s.Name, "system:serviceaccounts:"):
		return &user.DefaultInfo{Groups: []string{s.Name, "system:serviceaccounts", "system:authenticated"}}
	}
	return &user.DefaultInfo{Groups: []string{s.Name, "system:authenticated"}}
}

// knownNamespaces are the namespaces that are known. The others are not.
func knownNamespaces(name string) (map[string]any, bool) {
	tier := map[string]any{"blue": "dev", "red": "prod"}[name]
	return map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"tier": tier}}}, tier != nil
}

// ask returns the answer of the chain for one user.
func (w *world) ask(ctx context.Context, u user.Info, record authorizer.AttributesRecord) answer.Verdict {
	record.User = u
	ctx = authorization.WithNamespaces(authorization.WithPolicyBudgets(authorization.WithBudget(w.chain.Pin(ctx))), knownNamespaces)
	switch d := w.chain.Decide(ctx, authorization.Request{Attributes: record, Mode: authorizationapi.ConditionsModeHumanReadable}); {
	case d.IsAllow():
		return answer.Yes
	case !d.IsUnconditional() && d.CanBecomeAllowed():
		return answer.YesIf
	}
	return answer.No
}

// answerFor returns the answer of a report for a subject: its own, or of its most special group that is listed.
func answerFor(r *report, s rbacv1.Subject) answer.Verdict {
	q := requesterOf(normalized(s))
	names := []subjectName{nameOf(s)}
	groups := slices.Clone(q.user.Groups)
	slices.SortStableFunc(groups, func(a, b string) int { return len(groupsOfMembers(b)) - len(groupsOfMembers(a)) })
	for _, group := range groups {
		names = append(names, nameOf(rbacv1.Subject{Kind: "Group", Name: group}))
	}
	for _, name := range names {
		for i := range r.Subjects {
			if r.Subjects[i].subjectName == name {
				return r.Subjects[i].Answer
			}
		}
	}
	return answer.No
}

// questions returns all requests of the generated cluster.
func questions() (records []authorizer.AttributesRecord) {
	for _, verb := range lawVerbs {
		for _, path := range lawPaths {
			records = append(records, authorizer.AttributesRecord{Verb: verb, Path: path})
		}
		for i, resource := range lawResources {
			resource, subresource, _ := strings.Cut(resource, "/")
			group := []string{"", "", "", "apps", "apps", "authorization.proviso.dev"}[i]
			for _, namespace := range lawNamespaces {
				for _, name := range lawNames {
					records = append(records, authorizer.AttributesRecord{
						Verb: verb, APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: subresource, Namespace: namespace, Name: name, ResourceRequest: true,
					})
				}
			}
		}
	}
	return records
}

// variants returns the requests that a question is about: itself, and if it has no name, no namespace or selectors may be added, those with one. Requests
// with a selector are at the end. all are the requests that a "yes" promises: those with any name.
func variants(record authorizer.AttributesRecord) (some, all []authorizer.AttributesRecord) {
	names, namespaces := []string{record.Name}, []string{record.Namespace}
	if record.Name == "" && canHaveName(record) {
		names = append(names, lawNames[1:]...)
	}
	if record.Namespace == "" && record.ResourceRequest {
		namespaces = append(namespaces, lawNamespaces[1:]...)
	}
	for _, namespace := range namespaces {
		for _, name := range names {
			one := record
			one.Name, one.Namespace = name, namespace
			some = append(some, one)
			if namespace == record.Namespace && (name == record.Name || !slices.Contains(selecting, record.Verb)) {
				all = append(all, one)
			}
		}
	}
	if slices.Contains(selecting, record.Verb) {
		for _, one := range some {
			one.LabelSelectorRequirements, _ = labels.ParseToRequirements("owner=bob")
			some = append(some, one)
		}
	}
	return some, all
}

// TestBruteForce compares the list for each request with the answers for each subject, in a cluster whose conditions need nothing of
// the user. The answer to a question that stands for one request is the answer to the request. Otherwise a "no" means that no request passes, a "yes"
// that all do whatever their name is, and the answer is as open as the one to the request of the question.
func TestBruteForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rand.New(rand.NewPCG(lawSeed, 1)), lawConditions)
	subjects := append(slices.Clone(lawSubjects), strangers...)
	answers := map[answer.Verdict]int{}
	for _, record := range questions() {
		r := reportOf(t.Context(), w.in, record, w.compiler)
		if len(r.Gaps) != r.missingRoles() {
			t.Fatalf("gaps: %v", r.Gaps)
		}
		some, all := variants(record)
		for _, s := range subjects {
			u, got := userOf(s), answerFor(r, s)
			ask := func(one authorizer.AttributesRecord) answer.Verdict { return w.ask(t.Context(), u, one) }
			want := ask(record)
			isRight := got == want
			switch {
			case len(some) == 1:
			case got == answer.Yes:
				isRight = !slices.ContainsFunc(all, func(one authorizer.AttributesRecord) bool { return ask(one) != answer.Yes })
			case got == answer.No:
				isRight = !slices.ContainsFunc(some, func(one authorizer.AttributesRecord) bool { return ask(one) != answer.No })
			default:
				isRight = true
				if want == answer.No {
					want = "narrower"
				}
			}
			if answers[want]++; !isRight {
				t.Errorf("%+v: %v: got %s, want %s", record, nameOf(s), got, want)
			}
		}
	}
	if t.Logf("answers: %v", answers); answers[answer.Yes] < 300 || answers[answer.YesIf] < 300 || answers[answer.No] < 300 || answers["narrower"] < 300 {
		t.Errorf("the questions have too few different answers: %v", answers)
	}
}

func (r *report) missingRoles() (count int) {
	for _, gap := range r.Gaps {
		if strings.Contains(gap, "are missing") {
			count++
		}
	}
	return count
}

// TestBruteForceUsers has conditions on users, and users with any groups. A user whom the chain may allow must be listed, by its name or by a
// group. For users with no other groups, "yes" and "no" must be true.
func TestBruteForceUsers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(lawSeed, 2))
	w := newWorld(t, r, userConditions)
	counts := map[answer.Verdict]int{}
	for _, record := range questions() {
		list := reportOf(t.Context(), w.in, record, w.compiler)
		for _, s := range append(slices.Clone(lawSubjects), strangers...) {
			alone := userOf(s)
			if want, got := w.ask(t.Context(), alone, record), answerFor(list, s); got != answer.YesIf && got != want && s.Kind != rbacv1.GroupKind {
				t.Errorf("%+v: %v: got %s, want %s", record, nameOf(s), got, want)
			}
			u := &user.DefaultInfo{Name: alone.Name, UID: one(r, "", "1"), Groups: slices.Clone(alone.Groups), Extra: map[string][]string{one(r, "k", "l"): {"v"}}}
			if u.Name == "" {
				u.Name = one(r, "user-1", "user-2", "member")
			}
			u.Groups = append(u.Groups, some(r, 2, []string{"devs", "ops", "others"})...)
			want := w.ask(t.Context(), u, record)
			if counts[want]++; want != answer.No && !mentions(list, u) {
				t.Errorf("%+v: %+v is answered %s, and not listed", record, u, want)
			}
		}
	}
	if t.Logf("answers: %v", counts); counts[answer.Yes] < 300 || counts[answer.YesIf] < 300 || counts[answer.No] < 300 {
		t.Errorf("the questions have too few different answers: %v", counts)
	}
}

// mentions reports whether a list has a user, or one of its groups, with an answer other than no.
func mentions(r *report, u user.Info) bool {
	return slices.ContainsFunc(r.Subjects, func(a subjectAnswer) bool {
		if a.Answer == answer.No {
			return false
		}
		if a.Kind == rbacv1.GroupKind {
			return slices.Contains(u.GetGroups(), a.Name)
		}
		return requesterOf(rbacv1.Subject{Kind: a.Kind, Namespace: a.Namespace, Name: a.Name}).user.Name == u.GetName()
	})
}
