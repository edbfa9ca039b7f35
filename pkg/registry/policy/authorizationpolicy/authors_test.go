/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/registry/policy/authorizationpolicy"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

const escalateCluster = "alice: escalate policy.proviso.dev/v1alpha1/clusterauthorizationpolicies  /one"

func numbered(prefix string, n int) []string {
	var result []string
	for i := range n {
		result = append(result, fmt.Sprintf("%s%d", prefix, i))
	}
	return result
}

// TestGrant creates Allow policies as somebody who holds this and that.
func TestGrant(t *testing.T) {
	t.Parallel()
	type row struct {
		Rules     []policy.PolicyRule
		Answers   map[string]string
		Otherwise string
		Asked     []string
		Want      string
	}
	known := map[string]answer{
		"allowed": allow, "no opinion": noOpinion, "denied": {decision: authorizer.DecisionDeny, reason: "forbidden by law"},
		"failed": {decision: authorizer.DecisionAllow, err: errors.New("the secret is 42")},
	}
	// grant creates a policy, and returns the checks for it.
	grant := func(t *testing.T, tc row) []string {
		t.Helper()
		answers := map[string]answer{}
		for check, name := range tc.Answers {
			answers[check] = known[name]
		}
		f := newFixture(t, false)
		f.chain.reset(answers, known[tc.Otherwise])
		_, err := f.create(f.ctx(t), f.policy("one", policy.PolicyEffectAllow, func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Rules = tc.Rules }))
		switch {
		case tc.Want == "" && err != nil:
			t.Errorf("got %v, want it to be created", err)
		case tc.Want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(store.MessageOf(err), tc.Want) || strings.Contains(store.MessageOf(err), "42")):
			t.Errorf("got  %v\nwant 403 with %s", err, tc.Want)
		}
		return f.chain.asked
	}
	check := func(t *testing.T, tc row) {
		t.Helper()
		if diff := cmp.Diff(append([]string{escalateCluster}, tc.Asked...), grant(t, tc)); diff != "" {
			t.Errorf("checks (-want +got):\n%s", diff)
		}
	}
	rows.Run(t, "testdata/grants.yaml", check)
	// As many checks as possible, and more.
	few := policy.PolicyRule{Verbs: []string{"get", "create"}, APIGroups: []string{"", "x"}, Resources: []string{"pods", "pods/exec"}}
	wide := policy.PolicyRule{Verbs: numbered("v", 32), APIGroups: []string{""}, Resources: numbered("r", 32)}
	names := policy.PolicyRule{Verbs: numbered("v", 4), APIGroups: []string{""}, APIVersions: numbered("v", 4), Resources: numbered("r", 4), ResourceNames: numbered("n", 4)}
	paths := policy.PolicyRule{Verbs: numbered("v", 64), NonResourceURLs: numbered("/", 64)}
	mayNot := map[string]string{"escalate": "no opinion"}
	t.Run("as many checks as possible", func(t *testing.T) {
		t.Parallel()
		if asked := grant(t, row{Rules: []policy.PolicyRule{wide}, Answers: mayNot, Otherwise: "allowed"}); len(asked) != authorizationpolicy.MaxChecks+1 {
			t.Errorf("asked %d checks, want %d", len(asked), authorizationpolicy.MaxChecks+1)
		}
	})
	for name, tc := range map[string]row{
		"too many checks": {Rules: []policy.PolicyRule{wide, few}, Answers: mayNot, Otherwise: "allowed",
			Want: "is attempting to grant 1032 permissions, and at most 1024 can be checked; use fewer rules, or get the verb escalate on"},
		"too many checks for names, versions and paths": {Rules: []policy.PolicyRule{names, paths}, Answers: mayNot, Otherwise: "allowed", Want: "grant 4352 permissions"},
		"too many checks for those who may escalate":    {Rules: []policy.PolicyRule{wide, few}, Answers: map[string]string{"escalate": "allowed"}, Otherwise: "no opinion"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, tc)
		})
	}
}

// TestChecksOfANamespace are about the namespace of the policy, and have its name, even
// if the server made it.
func TestChecksOfANamespace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, true)
	f.chain.reset(nil, noOpinion)
	_, err := f.create(f.ctx(t), f.policy("one", policy.PolicyEffectAllow, nil))
	if !apierrors.IsForbidden(err) || !strings.Contains(store.MessageOf(err), `{Verbs:["get"], APIGroups:[""], Resources:["pods"]} in namespace "n"; the author`) {
		t.Errorf("got %v, want a refusal that names the namespace", err)
	}
	want := []string{"alice: escalate policy.proviso.dev/v1alpha1/authorizationpolicies  n/one", "alice: get /*/pods  n/"}
	if diff := cmp.Diff(want, f.chain.asked); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	f.chain.reset(nil, noOpinion)
	generated := f.policy("", policy.PolicyEffectDeny, func(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) { m.GenerateName = "made-" })
	if _, err := f.create(f.ctx(t), generated); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want 403", err)
	}
	if len(f.chain.asked) != 1 || !strings.HasPrefix(f.chain.asked[0], "alice: restrict policy.proviso.dev/v1alpha1/authorizationpolicies  n/made-") {
		t.Errorf("asked %q, want the verb restrict on the generated name", f.chain.asked)
	}
}

// TestPoliciesChecksForOthers has alice write policies whose conditions show what others may do, without permission to create SubjectAccessReviews.
func TestPoliciesChecksForOthers(t *testing.T) {
	t.Parallel()
	const review = "alice: create authorization.k8s.io/v1/subjectaccessreviews  /"
	to := func(condition string) func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec) {
		return func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Condition = condition }
	}
	eachKind(t, func(t *testing.T, f *fixture) {
		others := "others but " + f.namespace()
		update := func(change func(*metav1.ObjectMeta, *policy.AuthorizationPolicySpec)) func(context.Context, policy.PolicyEffect) error {
			return func(ctx context.Context, effect policy.PolicyEffect) error {
				_, err := f.update(ctx, "of-"+strings.ToLower(string(effect)), &metav1.UpdateOptions{}, false, changing(change))
				return err
			}
		}
		for _, tc := range []struct {
			name string
			// stored is the condition before.
			stored string
			write  func(context.Context, policy.PolicyEffect) error
			answer answer
			want   bool
		}{
			{name: "create", write: func(ctx context.Context, effect policy.PolicyEffect) error {
				_, err := f.create(ctx, f.policy("new", effect, to(others)))
				return err
			}, answer: noOpinion},
			{name: "create, denied", write: func(ctx context.Context, effect policy.PolicyEffect) error {
				_, err := f.create(ctx, f.policy("new", effect, to(others)))
				return err
			}, answer: answer{decision: authorizer.DecisionDeny, reason: "by law"}},
			{name: "create, and the check fails", write: func(ctx context.Context, effect policy.PolicyEffect) error {
				_, err := f.create(ctx, f.policy("new", effect, to(others)))
				return err
			}, answer: answer{decision: authorizer.DecisionAllow, err: errors.New("the secret is 42")}},
			{name: "create without such checks", write: func(ctx context.Context, effect policy.PolicyEffect) error {
				_, err := f.create(ctx, f.policy("plain-"+strings.ToLower(string(effect)), effect, to("others but those of another namespace")))
				return err
			}, answer: noOpinion, want: true},
			{name: "create with permission", write: func(ctx context.Context, effect policy.PolicyEffect) error {
				_, err := f.create(ctx, f.policy("permitted-"+strings.ToLower(string(effect)), effect, to(others)))
				return err
			}, answer: allow, want: true},
			{name: "apply", write: func(ctx context.Context, effect policy.PolicyEffect) error {
				_, err := f.update(ctx, "new", &metav1.UpdateOptions{}, true, func(context.Context, runtime.Object, runtime.Object) (runtime.Object, error) {
					return f.policy("new", effect, to(others)), nil
				})
				return err
			}, answer: noOpinion},
			{name: "change the condition", stored: "old", write: update(to(others)), answer: noOpinion},
			{name: "change something else", stored: others, write: update(func(_ *metav1.ObjectMeta, s *policy.AuthorizationPolicySpec) { s.Description = "d" }), answer: noOpinion},
			{name: "take the checks away", stored: others, write: update(to("new")), answer: noOpinion, want: true},
			{name: "leave the specification", stored: others, write: update(func(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) { m.Labels = map[string]string{"a": "b"} }), answer: noOpinion, want: true},
			{name: "delete", stored: others, write: func(ctx context.Context, effect policy.PolicyEffect) error {
				_, _, err := f.Objects.Delete(ctx, "of-"+strings.ToLower(string(effect)), nil, &metav1.DeleteOptions{})
				return err
			}, answer: noOpinion, want: true},
		} {
			for _, effect := range []policy.PolicyEffect{policy.PolicyEffectAllow, policy.PolicyEffectDeny, policy.PolicyEffectNoOpinion} {
				what := tc.name + ", " + string(effect)
				if tc.stored != "" {
					f.mustCreate(t, f.policy("of-"+strings.ToLower(string(effect)), effect, to(tc.stored)))
				}
				f.chain.reset(map[string]answer{review: tc.answer}, allow)
				err := tc.write(f.ctx(t), effect)
				if tc.want && err != nil {
					t.Errorf("%s: got %v", what, err)
				}
				const refusal = `user "alice" (groups=["devs"]) is attempting to write a condition that checks what service accounts`
				message := store.MessageOf(err)
				if !tc.want && (!apierrors.IsForbidden(err) || !strings.Contains(message, refusal) || !strings.Contains(message, "needs the verb create on subjectaccessreviews.authorization.k8s.io") || strings.Contains(message, "42")) {
					t.Errorf("%s: got %v, want a refusal that says what is needed", what, err)
				}
				if !tc.want && f.namespaced != strings.Contains(message, `outside namespace "n" may do`) {
					t.Errorf("%s: got %v, want the own namespace in it if there is one", what, err)
				}
				if tc.stored != "" && tc.name != "delete" {
					f.chain.reset(nil, allow)
					if _, _, err := f.Objects.Delete(f.ctx(t), "of-"+strings.ToLower(string(effect)), nil, &metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// conditionally allows everything on a condition.
type conditionally struct{}

func (conditionally) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

func (conditionally) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	decision := authorization.Conditions(authorization.Condition{ID: "example.com/c", Effect: authorization.EffectAllow, Type: "k8s.io/authorization-cel", Text: "object.x"})
	return authorization.ToUpstream(decision)
}

func (conditionally) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// TestConditionalRightsAreNotDelegable uses a real chain, whose answers are conditional.
func TestConditionalRightsAreNotDelegable(t *testing.T) {
	t.Parallel()
	folding, err := authorization.NewChain(authorization.Member{Name: "c", Decider: authorization.DeciderOf(conditionally{})})
	if err != nil {
		t.Fatal(err)
	}
	if !folding.Decide(t.Context(), authorizer.AttributesRecord{}).CanBecomeAllowed() {
		t.Fatal("the chain is not conditional, so the test proves nothing")
	}
	authors, err := authorizationpolicy.NewAuthors(folding, unrestricted)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{}
	scheme, options := storeOf(t, "clusterauthorizationpolicies")
	f.Storage, err = authorizationpolicy.NewClusterStorage(scheme, options, checker{}, authors)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Objects.Destroy)
	for _, effect := range []policy.PolicyEffect{policy.PolicyEffectAllow, policy.PolicyEffectDeny} {
		if _, err := f.create(f.ctx(t), f.policy("one", effect, nil)); !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want 403", effect, err)
		}
	}
}

func TestNobodyWritesPolicies(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, f *fixture) {
		f.mustCreate(t, f.policy("one", policy.PolicyEffectAllow, nil))
		ctx := f.anonymous(t)
		if _, err := f.create(ctx, f.policy("two", policy.PolicyEffectAllow, nil)); !apierrors.IsForbidden(err) || !strings.Contains(store.MessageOf(err), "the request has no user") {
			t.Errorf("create: got %v, want 403", err)
		}
		if _, err := f.update(ctx, "one", &metav1.UpdateOptions{}, false, changing(func(m *metav1.ObjectMeta, _ *policy.AuthorizationPolicySpec) { m.Labels = map[string]string{"a": "b"} })); !apierrors.IsForbidden(err) {
			t.Errorf("update: got %v, want 403", err)
		}
		if _, _, err := f.Objects.Delete(ctx, "one", nil, &metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("delete: got %v, want 403", err)
		}
	})
}

func TestIncompleteStorage(t *testing.T) {
	t.Parallel()
	if _, err := authorizationpolicy.NewAuthors(nil, unrestricted); err == nil {
		t.Error("a guard without authorizer was made")
	}
	authors, err := authorizationpolicy.NewAuthors(&chain{}, unrestricted)
	if err != nil {
		t.Fatal(err)
	}
	scheme, options := storeOf(t, "authorizationpolicies")
	if _, err := authorizationpolicy.NewClusterStorage(scheme, options, nil, authors); err == nil {
		t.Error("a store without checker was made")
	}
	if _, err := authorizationpolicy.NewStorage(scheme, options, checker{}, nil); err == nil {
		t.Error("a store without guard was made")
	}
}

// unrestricted restricts nobody.
func unrestricted(context.Context, authorizer.Attributes) (string, bool) { return "", false }

// TestAuthorsWhoAreRestrictedInPart writes policies as somebody who is allowed every verb,
// but whom a policy restricts in one.
func TestAuthorsWhoAreRestrictedInPart(t *testing.T) {
	t.Parallel()
	f := &fixture{chain: &chain{otherwise: allow}}
	restricted := func(_ context.Context, check authorizer.Attributes) (string, bool) {
		verb := check.GetVerb()
		return `ClusterAuthorizationPolicy "keep-out"`, verb == "*" || verb == "delete"
	}
	authors, err := authorizationpolicy.NewAuthors(f.chain, restricted)
	if err != nil {
		t.Fatal(err)
	}
	scheme, options := storeOf(t, "clusterauthorizationpolicies")
	f.Storage, err = authorizationpolicy.NewClusterStorage(scheme, options, checker{}, authors)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Objects.Destroy)
	allowing := func(name, verb string) runtime.Object {
		return f.policy(name, policy.PolicyEffectAllow, func(_ *metav1.ObjectMeta, spec *policy.AuthorizationPolicySpec) {
			spec.Rules = []policy.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}}
		})
	}
	f.chain.reset(map[string]answer{"escalate": noOpinion}, allow)
	if _, err := f.create(f.ctx(t), allowing("one", "get")); err != nil {
		t.Errorf("a verb that is not restricted: %v", err)
	}
	if _, err := f.create(f.ctx(t), allowing("two", "*")); !apierrors.IsForbidden(err) || !strings.Contains(store.MessageOf(err), `which ClusterAuthorizationPolicy "keep-out" restricts in part`) {
		t.Errorf("every verb: got %v, want 403 that names the restriction", err)
	}
	f.chain.reset(nil, allow)
	if _, err := f.create(f.ctx(t), allowing("three", "*")); err != nil {
		t.Errorf("who may escalate: %v", err)
	}
}
