/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"

	api "github.com/proviso-authz/proviso/apis/authorization"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// policy is about parts of users that agent may impersonate on conditions.
func policy(effect policyv1alpha1.PolicyEffect, condition string, resources ...string) policyv1alpha1.AuthorizationPolicySpec {
	return policyv1alpha1.AuthorizationPolicySpec{
		Effect: effect, Condition: condition,
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "agent"}},
		Rules:    []policyv1alpha1.PolicyRule{{Verbs: []string{impersonation.VerbConditional}, APIGroups: []string{"authentication.k8s.io"}, Resources: resources}},
	}
}

func allowIf(condition string, resources ...string) policyv1alpha1.AuthorizationPolicySpec {
	return policy(policyv1alpha1.PolicyEffectAllow, condition, resources...)
}

func denyIf(condition string, resources ...string) policyv1alpha1.AuthorizationPolicySpec {
	return policy(policyv1alpha1.PolicyEffectDeny, condition, resources...)
}

// conditionalReviewer decides from policies, named by letters, and from what others grant.
func conditionalReviewer(t *testing.T, policies []policyv1alpha1.AuthorizationPolicySpec, others authorizer.AuthorizerFunc) *impersonation.Reviewer {
	t.Helper()
	compiler, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	compiling, err := partial.NewPolicyCompiler(compiler)
	if err != nil {
		t.Fatal(err)
	}
	partial, err := partial.NewConditionCompiler(compiler)
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[engine.Key]*engine.Policy{}
	for i := range policies {
		key := engine.Key{Name: string(rune('a' + i))}
		if compiled[key], err = engine.New(key, &policies[i], compiling); err != nil {
			t.Fatal(err)
		}
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	chain, err := authorization.NewChain(
		authorization.Member{Name: "restricting", Decider: &engine.Authorizer{Source: source}},
		authorization.Member{Name: "others", Decider: authorization.DeciderOf(unconditional{others})},
		authorization.Member{Name: "granting", Decider: &engine.Authorizer{Source: source, Part: engine.Granting}},
	)
	if err != nil {
		t.Fatal(err)
	}
	denials, err := authorization.NewChain(authorization.Member{Name: "restricting", Decider: &engine.Authorizer{Source: source}})
	if err != nil {
		t.Fatal(err)
	}
	reviewer, err := impersonation.NewReviewer(chain, true, &impersonation.Conditional{Chain: chain, Denials: denials, Compiler: compiler, Partial: partial})
	if err != nil {
		t.Fatal(err)
	}
	return reviewer
}

type unconditional struct{ authorizer.AuthorizerFunc }

func (u unconditional) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	decision, reason, err := u.Authorize(ctx, a)
	switch decision {
	case authorizer.DecisionAllow:
		return authorizer.ConditionsAwareDecisionAllow(reason, err)
	case authorizer.DecisionNoOpinion:
		return authorizer.ConditionsAwareDecisionNoOpinion(reason, err)
	default:
		return authorizer.ConditionsAwareDecisionDeny(reason, err)
	}
}

func (unconditional) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", nil
}

func requestFor(verb, resource string) authorizer.AttributesRecord {
	a := getPod
	a.Verb, a.Resource, a.Name = verb, resource, ""
	return a
}

type policies = []policyv1alpha1.AuthorizationPolicySpec

func TestConditionalReview(t *testing.T) {
	t.Parallel()
	const (
		reading  = `impersonatedRequest.verb in ["get", "list", "watch"]`
		onUsers  = "constrainedimpersonate users.authentication.k8s.io bob"
		isLegacy = "impersonate users bob"
	)
	// The two that permissions of KEP-5284, which are a union, cannot tell apart.
	twoUsers := policies{
		allowIf(`request.name == "bob" && impersonatedRequest.verb == "list" && impersonatedRequest.resource == "pods"`, "users"),
		allowIf(`request.name == "carol" && impersonatedRequest.verb == "create" && impersonatedRequest.resource == "secrets"`, "users"),
	}
	together := policies{allowIf(`request.name == "lucas" && "ai-agent" in impersonatedUser.groups`, "users"), allowIf(`request.name == "ai-agent"`, "groups")}
	attenuated := policies{allowIf(`request.name == "bob" || `+reading, "users")}
	for _, tc := range []struct {
		name     string
		policies policies
		granted  []string
		request  authorizer.AttributesRecord
		wanted   user.DefaultInfo
		// wantMode is empty for a refusal.
		wantMode   string
		wantGroups []string
		wantReason string
		wantChecks int
		// wantResidual is what remains, which implies that somebody else may be asked.
		wantResidual []string
	}{
		{name: "list pods as bob", policies: twoUsers, request: requestFor("list", "pods"), wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "create secrets as carol", policies: twoUsers, request: requestFor("create", "secrets"), wanted: user.DefaultInfo{Name: "carol"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "create secrets as bob", policies: twoUsers, request: requestFor("create", "secrets"), wanted: user.DefaultInfo{Name: "bob"}, wantReason: "impersonate-on:user-info:create", wantChecks: 3},
		{name: "list pods as carol", policies: twoUsers, request: requestFor("list", "pods"), wanted: user.DefaultInfo{Name: "carol"}, wantReason: "impersonate-on:user-info:list", wantChecks: 3},

		{name: "lucas together with the group", policies: together, request: getPod, wanted: user.DefaultInfo{Name: "lucas", Groups: []string{"ai-agent"}}, wantMode: "conditional", wantGroups: []string{"ai-agent", "system:authenticated"}, wantChecks: 3},
		{name: "lucas alone", policies: together, request: getPod, wanted: user.DefaultInfo{Name: "lucas"}, wantReason: "cannot", wantChecks: 3},
		{name: "lucas together with more", policies: together, request: getPod, wanted: user.DefaultInfo{Name: "lucas", Groups: []string{"ai-agent", "admins"}}, wantReason: "cannot", wantChecks: 5},
		{name: "lucas with a uid that nothing allows", policies: together, request: getPod, wanted: user.DefaultInfo{Name: "lucas", UID: "7", Groups: []string{"ai-agent"}}, wantReason: "cannot", wantChecks: 4},
		{name: "alice read-only, reading", policies: attenuated, request: getPod, wanted: user.DefaultInfo{Name: "alice"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "alice read-only, writing", policies: attenuated, request: requestFor("create", "pods"), wanted: user.DefaultInfo{Name: "alice"}, wantReason: "cannot", wantChecks: 3},
		{name: "bob everything", policies: attenuated, request: requestFor("create", "pods"), wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "a path", policies: policies{allowIf(`impersonatedRequest.path == "/metrics" && impersonatedRequest.resource == ""`, "users")}, request: authorizer.AttributesRecord{User: getPod.User, Verb: "get", Path: "/metrics"}, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "a resource has no path, though its request has a URL", policies: policies{allowIf(`impersonatedRequest.path == ""`, "users")}, request: withPath(getPod, "/api/v1/namespaces/ns/pods/p"), wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "everything of the request and the user", policies: policies{allowIf(`impersonatedRequest.apiGroup == "" && impersonatedRequest.apiVersion == "v1" && impersonatedRequest.namespace == "ns" && impersonatedRequest.name == "p" &&
			impersonatedRequest.subresource == "" && impersonatedUser.username == "bob" && impersonatedUser.uid == "7" && impersonatedUser.extra["example.com/k"] == ["v"] && request.userInfo.username == "agent"`, "users", "uids", "userextras/example.com/k")},
			request: getPod, wanted: user.DefaultInfo{Name: "bob", UID: "7", Extra: map[string][]string{"example.com/k": {"v"}}}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 4},

		{name: "a node", policies: policies{allowIf(`request.name == "n1"`, "nodes")}, request: getPod, wanted: user.DefaultInfo{Name: "system:node:n1"}, wantMode: "conditional", wantGroups: []string{"system:nodes", "system:authenticated"}, wantChecks: 2},
		{name: "a service account", policies: policies{allowIf(`request.name == "b" && request.namespace == "a"`, "serviceaccounts")}, request: getPod, wanted: user.DefaultInfo{Name: "system:serviceaccount:a:b"}, wantMode: "conditional",
			wantGroups: []string{"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"}, wantChecks: 2},
		{name: "anonymous", policies: policies{allowIf("", "users", "groups")}, request: getPod, wanted: user.DefaultInfo{Name: "system:anonymous"}, wantMode: "conditional", wantGroups: []string{"system:unauthenticated"}, wantChecks: 2},
		{name: "somebody who is not authenticated", policies: policies{allowIf("", "users", "groups")}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{"system:unauthenticated"}}, wantMode: "conditional", wantGroups: []string{"system:unauthenticated"}, wantChecks: 3},

		// What the constrained modes refuse, this one does not try.
		{name: "system:masters", policies: policies{allowIf("", "*", "*/*")}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{"system:masters"}}, wantReason: "cannot", wantChecks: 2},
		{name: "a service account with groups", policies: policies{allowIf("", "*", "*/*")}, request: getPod, wanted: user.DefaultInfo{Name: "system:serviceaccount:a:b", Groups: []string{"g"}}, wantReason: `serviceaccounts "b" is forbidden`, wantChecks: 1},
		{name: "a node with a uid", policies: policies{allowIf("", "*", "*/*")}, request: getPod, wanted: user.DefaultInfo{Name: "system:node:n1", UID: "1"}, wantReason: `users "system:node:n1" is forbidden`, wantChecks: 1},
		{name: "the empty group", policies: policies{allowIf("", "*", "*/*")}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{""}}, wantReason: "cannot", wantChecks: 2},
		{name: "an upper-case key", policies: policies{allowIf("", "*", "*/*")}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Extra: map[string][]string{"example.com/K": {"v"}}}, wantReason: "cannot", wantChecks: 2},
		{name: "a key that is no path", policies: policies{allowIf("", "*", "*/*")}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Extra: map[string][]string{"": {"v"}}}, wantReason: "cannot", wantChecks: 2},
		{name: "an empty value", policies: policies{allowIf("", "*", "*/*")}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Extra: map[string][]string{"example.com/k": {""}}}, wantReason: "cannot", wantChecks: 2},

		// Order of the modes.
		{name: "constrained first", policies: policies{allowIf("", "users")}, granted: []string{"impersonate-on:user-info:get pods@ns p", "impersonate:user-info users.authentication.k8s.io bob", isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "user-info", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "conditional before legacy", policies: policies{allowIf(reading, "users")}, granted: []string{isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "legacy last", policies: policies{allowIf(`impersonatedRequest.verb == "list"`, "users")}, granted: []string{isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "legacy", wantGroups: []string{"system:authenticated"}, wantChecks: 3},
		{name: "granted by somebody else", granted: []string{onUsers}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "a constrained verb is not asked about again", granted: []string{"impersonate-on:user-info:get pods@ns p"}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantReason: `users.authentication.k8s.io "bob" is forbidden: User "agent" cannot impersonate:user-info`, wantChecks: 4},

		// A denial is final.
		{name: "denied", policies: policies{denyIf("!("+reading+")", "users"), allowIf("", "users")}, granted: []string{isLegacy}, request: requestFor("create", "pods"), wanted: user.DefaultInfo{Name: "bob"}, wantReason: "policy=a", wantChecks: 2},
		{name: "denied, but not this", policies: policies{denyIf("!("+reading+")", "users"), allowIf("", "users")}, granted: []string{isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "denied whatever others grant", policies: policies{denyIf("", "groups")}, granted: []string{onUsers, isLegacy, "impersonate groups g"}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{"g"}}, wantReason: "cannot constrainedimpersonate", wantChecks: 3},
		{name: "a denial that fails denies", policies: policies{denyIf(`impersonatedUser.extra["missing"] == []`, "users"), allowIf("", "users")}, granted: []string{isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantReason: "cannot constrainedimpersonate", wantChecks: 2},
		{name: "an allowance that fails allows nothing", policies: policies{allowIf(`impersonatedUser.extra["missing"] == []`, "users")}, granted: []string{isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "legacy", wantGroups: []string{"system:authenticated"}, wantChecks: 3},

		{name: "a part denied after one that nobody allows", policies: policies{denyIf("", "groups")}, granted: []string{isLegacy, "impersonate groups g"}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{"g"}}, wantReason: "cannot constrainedimpersonate resource \"groups\"", wantChecks: 3},
		{name: "a name denied to whoever becomes system:masters", policies: policies{denyIf("", "users")}, granted: []string{isLegacy, "impersonate groups system:masters"}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{"system:masters"}}, wantReason: "cannot constrainedimpersonate resource \"users\"", wantChecks: 2},
		{name: "a service account denied with groups, too", policies: policies{denyIf("", "serviceaccounts")}, granted: []string{"impersonate serviceaccounts@a b", "impersonate groups g"}, request: getPod, wanted: user.DefaultInfo{Name: "system:serviceaccount:a:b", Groups: []string{"g"}}, wantReason: "cannot constrainedimpersonate resource \"serviceaccounts\"", wantChecks: 1},
		{name: "system:masters denied for some objects", policies: policies{denyIf("object.x == 1", "users")}, granted: []string{isLegacy, "impersonate groups system:masters"}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{"system:masters"}}, wantMode: "legacy", wantGroups: []string{"system:masters", "system:authenticated"}, wantChecks: 4,
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1`}},

		// What depends on the object is left over, as conditions that deny.
		{name: "allowed for some objects", policies: policies{allowIf(`object.x == 1`, "users")}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 3,
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: !(object.x == 1)`}},
		{name: "allowed for some objects, and by the legacy verb", policies: policies{allowIf(`object.x == 1`, "users")}, granted: []string{isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "legacy", wantGroups: []string{"system:authenticated"}, wantChecks: 3},
		{name: "allowed for some objects of some requests", policies: policies{allowIf(reading+` && object.x == 1 && impersonatedUser.username == object.owner`, "users")}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 3,
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: !(object.x == 1 && "bob" == object.owner)`}},
		{name: "allowed for some objects of other requests", policies: policies{allowIf(reading+` && object.x == 1`, "users")}, request: requestFor("create", "pods"), wanted: user.DefaultInfo{Name: "bob"}, wantReason: "cannot", wantChecks: 3},
		{name: "several allow for some objects", policies: policies{allowIf(`object.x == 1`, "users"), allowIf(`object.x == 2 || dryRun`, "users")}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 3,
			wantResidual: []string{`0.impersonation.proviso.dev Deny impersonation.proviso.dev/nothing-allows: !(object.x == 1 || object.x == 2 || dryRun)`}},
		{name: "denied for some objects", policies: policies{denyIf(`object.x == 1`, "users")}, granted: []string{onUsers}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 3,
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1`}},
		{name: "denied for some objects, whatever else allows", policies: policies{denyIf(`object.x == 1`, "users")}, granted: []string{onUsers, isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "legacy", wantGroups: []string{"system:authenticated"}, wantChecks: 3,
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1`}},
		{name: "denied for some objects, allowed by the legacy verb only", policies: policies{denyIf(`object.x == 1`, "users")}, granted: []string{isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "legacy", wantGroups: []string{"system:authenticated"}, wantChecks: 3,
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1`}},
		{name: "denied for some objects before a part that is not allowed", policies: policies{denyIf(`object.x == 1`, "users"), allowIf("", "users")}, granted: []string{isLegacy, "impersonate groups g"}, request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{"g"}}, wantMode: "legacy", wantGroups: []string{"g", "system:authenticated"}, wantChecks: 5,
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1`}},
		{name: "denied for some objects and allowed for none", policies: policies{denyIf(`object.x == 1`, "users")}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantReason: "cannot", wantChecks: 3},
		{name: "no opinion on some objects", policies: policies{policy(policyv1alpha1.PolicyEffectNoOpinion, `object.x == 1`, "users"), allowIf("", "users")}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 3,
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1`, `1.impersonation.proviso.dev Deny cluster.policy.proviso.dev/b: !true`}},
		{name: "no opinion on some objects that somebody allows", policies: policies{policy(policyv1alpha1.PolicyEffectNoOpinion, `object.x == 1`, "users")}, granted: []string{onUsers}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "everything at once", policies: policies{denyIf(`object.x == 1`, "users", "groups"), policy(policyv1alpha1.PolicyEffectNoOpinion, `object.x == 2`, "groups"), allowIf(`oldObject == null`, "users"), allowIf(`object.g == impersonatedUser.groups[0]`, "groups")},
			request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{"g"}}, wantMode: "conditional", wantGroups: []string{"g", "system:authenticated"}, wantChecks: 4,
			wantResidual: []string{
				`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1`,
				`1.impersonation.proviso.dev Deny cluster.policy.proviso.dev/c: !(oldObject == null)`,
				`2.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1`,
				`3.impersonation.proviso.dev Deny cluster.policy.proviso.dev/b: object.x == 2`,
				`4.impersonation.proviso.dev Deny cluster.policy.proviso.dev/d: !(object.g == "g")`,
			}},
		{name: "a condition on the object that makes a check", policies: policies{allowIf(`object.x == 1 || authorizer.path("/x").check("get").allowed()`, "users")}, granted: []string{isLegacy}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantReason: "must not make authorization checks", wantChecks: 2},
		{name: "the reserved extra", policies: policies{allowIf("", "*", "*/*")}, granted: []string{isLegacy, "impersonate userextras.authentication.k8s.io/authorization.proviso.dev/impersonation-conditions []"}, request: getPod,
			wanted: user.DefaultInfo{Name: "bob", Extra: map[string][]string{impersonation.ExtraConditions: {"[]"}}}, wantReason: "is reserved"},
		{name: "an object that does not matter", policies: policies{allowIf(`impersonatedRequest.verb == "get" || object.x == 1`, "users")}, request: getPod, wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},

		// A condition is written for one version of one resource.
		{name: "any version, on conditions", policies: policies{allowIf(reading, "users")}, request: inVersion(getPod, "*"), wanted: user.DefaultInfo{Name: "bob"}, wantReason: "cannot", wantChecks: 3},
		{name: "any version, without conditions", policies: policies{allowIf("", "users")}, request: inVersion(getPod, "*"), wanted: user.DefaultInfo{Name: "bob"}, wantMode: "conditional", wantGroups: []string{"system:authenticated"}, wantChecks: 2},
		{name: "any version, perhaps denied", policies: policies{denyIf(reading, "users")}, granted: []string{onUsers, isLegacy}, request: inVersion(getPod, "*"), wanted: user.DefaultInfo{Name: "bob"}, wantReason: "cannot constrainedimpersonate", wantChecks: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := conditionalReviewer(t, tc.policies, allowing(tc.granted...)).Review(t.Context(), tc.request, copyOf(&tc.wanted))
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Mode) != tc.wantMode || (got.User == nil) != (tc.wantMode == "") || (got.Constraint == "constrainedimpersonate") != (tc.wantMode == "conditional") {
				t.Errorf("got mode %q, constraint %q, user %v, reason %q; want %q", got.Mode, got.Constraint, got.User, got.Reason, tc.wantMode)
			}
			if !strings.Contains(got.Reason, tc.wantReason) || (got.Reason == "") != (tc.wantReason == "") {
				t.Errorf("got reason %q, want %q", got.Reason, tc.wantReason)
			}
			if len(got.Checks) != tc.wantChecks {
				t.Errorf("got checks %q, want %d", checksOf(got), tc.wantChecks)
			}
			if diff := cmp.Diff(tc.wantResidual, textsOf(got.Residual)); diff != "" {
				t.Errorf("residual (-want +got):\n%s", diff)
			}
			if got.User != nil {
				if diff := cmp.Diff(tc.wantGroups, got.User.GetGroups()); diff != "" {
					t.Errorf("groups (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func textsOf(sets []authorization.Set) []string {
	var texts []string
	for _, set := range sets {
		for _, c := range set.Decision.Conditions() {
			texts = append(texts, fmt.Sprintf("%s %s %s: %s", set.AuthorizerName, c.Effect, c.ID, c.Text))
		}
	}
	return texts
}

func withPath(a authorizer.AttributesRecord, path string) authorizer.AttributesRecord {
	a.Path = path
	return a
}

func inVersion(a authorizer.AttributesRecord, version string) authorizer.AttributesRecord {
	a.APIVersion = version
	return a
}

// TestConditionalReviewShowsConditions: what a check depended on is there to be seen,
// with what was known of the requester in it.
func TestConditionalReviewShowsConditions(t *testing.T) {
	t.Parallel()
	reviewer := conditionalReviewer(t, policies{allowIf(`request.name == "bob" && impersonatedRequest.verb == "get"`, "users")}, allowing())
	got, err := reviewer.Review(t.Context(), getPod, &user.DefaultInfo{Name: "bob"})
	if err != nil || got.User == nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	check := got.Checks[1]
	if len(check.Conditions) != 1 || check.Conditions[0].Conditions[0].Condition != `impersonatedRequest.verb == "get"` || check.Attributes.APIVersion != "v1" {
		t.Errorf("got %+v", check)
	}
}

// consoleBy is a connection to a console by a verb.
func consoleBy(verb string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: getPod.User, Verb: verb, APIGroup: "demo.proviso.dev", APIVersion: "v1alpha1", Resource: "virtualmachines", Subresource: "console",
		Namespace: "ns", Name: "m", ResourceRequest: true,
	}
}

// TestConditionalConnection puts the create that a connection needs to the conditions of the
// impersonation, too, in requests and in reviews.
func TestConditionalConnection(t *testing.T) {
	t.Parallel()
	const legacy = "impersonate users bob"
	for _, tc := range []struct {
		name     string
		policies policies
		granted  []string
		request  authorizer.AttributesRecord
		// wantMode is empty for a refusal.
		wantMode     string
		wantReason   string
		wantResidual []string
	}{
		{name: "only for get", policies: policies{allowIf(`impersonatedRequest.verb == "get"`, "users")}, request: consoleBy("get"), wantReason: "cannot"},
		{name: "only for reading", policies: policies{allowIf(`impersonatedRequest.verb in ["get", "list", "watch"]`, "users")}, request: consoleBy("get"), wantReason: "cannot"},
		{name: "only for create, by GET", policies: policies{allowIf(`impersonatedRequest.verb == "create"`, "users")}, request: consoleBy("get"), wantReason: "cannot"},
		{name: "only for create, by POST", policies: policies{allowIf(`impersonatedRequest.verb == "create"`, "users")}, request: consoleBy("create"), wantMode: "conditional"},
		{name: "for both verbs", policies: policies{allowIf(`impersonatedRequest.verb in ["get", "create"]`, "users")}, request: consoleBy("get"), wantMode: "conditional"},
		{name: "for both verbs by two policies", policies: policies{allowIf(`impersonatedRequest.verb == "get"`, "users"), allowIf(`impersonatedRequest.verb == "create"`, "users")}, request: consoleBy("get"), wantMode: "conditional"},
		{name: "for consoles", policies: policies{allowIf(`impersonatedRequest.subresource == "console"`, "users")}, request: consoleBy("get"), wantMode: "conditional"},
		{name: "only for get, of what is no connection", policies: policies{allowIf(`impersonatedRequest.verb == "get"`, "users")}, request: getPod, wantMode: "conditional"},
		{name: "denied for create", policies: policies{denyIf(`impersonatedRequest.verb == "create"`, "users"), allowIf("", "users")}, granted: []string{legacy}, request: consoleBy("get"), wantReason: "policy=a"},
		{name: "denied for create and not allowed for get", policies: policies{denyIf(`impersonatedRequest.verb == "create"`, "users")}, granted: []string{legacy}, request: consoleBy("get"), wantReason: "policy=a"},
		{
			name: "create for some objects only", policies: policies{allowIf(`impersonatedRequest.verb == "get" || object.stdin == false`, "users")}, request: consoleBy("get"), wantMode: "conditional",
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: !(object.stdin == false)`},
		},
		{
			name: "both for some objects only", policies: policies{allowIf(`impersonatedRequest.verb == object.verb`, "users")}, request: consoleBy("get"), wantMode: "conditional",
			wantResidual: []string{
				`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: !("get" == object.verb)`,
				`1.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: !("create" == object.verb)`,
			},
		},
		{
			name: "create denied for some objects, and allowed by the legacy verb", policies: policies{denyIf(`impersonatedRequest.verb == "create" && object.stdin == true`, "users")}, granted: []string{legacy}, request: consoleBy("get"), wantMode: "legacy",
			wantResidual: []string{`0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.stdin == true`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source := &engine.Source{}
			publish(t, source, tc.policies)
			conditional := conditionalOver(t, source, allowing(tc.granted...))
			conditional.NeedsCreate = func(a authorizer.Attributes) bool { return a.GetSubresource() == "console" }
			reviewer, err := impersonation.NewReviewer(conditional.Chain, true, &conditional)
			if err != nil {
				t.Fatal(err)
			}
			got, err := reviewer.Review(t.Context(), tc.request, &user.DefaultInfo{Name: "bob"})
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Mode) != tc.wantMode || !strings.Contains(got.Reason, tc.wantReason) {
				t.Errorf("the review has mode %q, reason %q, checks %q; want mode %q, reason %q", got.Mode, got.Reason, checksOf(got), tc.wantMode, tc.wantReason)
			}
			if diff := cmp.Diff(tc.wantResidual, textsOf(got.Residual)); diff != "" {
				t.Errorf("residual (-want +got):\n%s", diff)
			}
			var residual []authorization.Set
			filter := wrapped(t, impersonation.FilterConfig{
				Authorizer: conditional.Chain, Constrained: true, Conditional: conditional, Serializer: scheme.Codecs,
				EnforceResidual: func(_ context.Context, sets ...authorization.Set) error {
					residual = append(residual, sets...)
					return nil
				},
			})
			sent := send(t.Context(), t, filter, tc.request, impersonation.HeadersOf(&user.DefaultInfo{Name: "bob"}))
			if allowed := sent.Code == http.StatusNoContent; allowed != (tc.wantMode != "") {
				t.Errorf("the filter answers %d %s, want mode %q", sent.Code, sent.Body, tc.wantMode)
			}
			if diff := cmp.Diff(tc.wantResidual, textsOf(residual)); diff != "" {
				t.Errorf("residual of the filter (-want +got):\n%s", diff)
			}
		})
	}
}

// TestConditionalAgreesWithTheFilter: for every user, implicit groups and refusals are
// those of the constrained modes of the filter.
func TestConditionalAgreesWithTheFilter(t *testing.T) {
	t.Parallel()
	only := func(prefix string) authorizer.AuthorizerFunc {
		return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if strings.HasPrefix(a.GetVerb(), prefix) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		}
	}
	filter, conditional := newReviewer(t, allButLegacy), conditionalReviewer(t, nil, only("constrainedimpersonate"))
	refused, extra := 0, map[string][]string{"example.com/k": {"v"}}
	for _, name := range []string{"bob", "system:anonymous", "system:node:n1", "system:node:N_", "system:node:", "system:serviceaccount:a:b", "system:serviceaccount:a", "system:masters", "ldap/bob"} {
		for _, uid := range []string{"", "7"} {
			for _, groups := range [][]string{nil, {"g"}, {""}, {"system:masters"}, {"system:authenticated"}, {"g", "system:unauthenticated"}, {"1", "2", "3", "4"}} {
				for _, extra := range []map[string][]string{nil, extra, {"A": {"v"}}, {"": {"v"}}, {"a b": {"v"}}, {"k": {""}}, {"*": {"*"}}} {
					wanted := &user.DefaultInfo{Name: name, UID: uid, Groups: groups, Extra: extra}
					want, err := filter.Review(t.Context(), getPod, copyOf(wanted))
					if err != nil {
						t.Fatal(err)
					}
					got, err := conditional.Review(t.Context(), getPod, copyOf(wanted))
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(copyOf(want.User), copyOf(got.User)); diff != "" {
						t.Errorf("%+v (-filter +conditional):\n%s", wanted, diff)
					}
					if got.User == nil {
						refused++
					}
				}
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// allButLegacy allows every constrained mode.
var allButLegacy = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "impersonate" {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, "", nil
})

// TestConditionalReviewBounds: whoever names many groups does not make the server evaluate a
// condition on all of them for each of them.
func TestConditionalReviewBounds(t *testing.T) {
	t.Parallel()
	onGroups := policies{denyIf(`impersonatedUser.groups.exists(g, g == "x" || g == request.name + "x")`, "groups")}
	legacy := func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetVerb() == "impersonate" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
	for _, tc := range []struct {
		name       string
		policies   policies
		groups     int
		bytes      int
		wantReason string // empty if it is allowed
	}{
		{name: "many without conditions", policies: policies{denyIf("", "uids")}, groups: 5000, bytes: 8},
		{name: "as many as may be checked for denials", policies: policies{denyIf("", "uids")}, groups: 8192, bytes: 8},
		{name: "one more than may be checked for denials", policies: policies{denyIf("", "uids")}, groups: 8193, bytes: 8, wantReason: "more than 8192 parts of the user"},
		{name: "as many as a review may name", policies: onGroups, groups: api.MaxImpersonatedGroups, bytes: 8},
		{name: "as many as have conditions at most", policies: policies{denyIf(`impersonatedUser.uid == "7"`, "groups")}, groups: 258, bytes: 8},
		{name: "one more", policies: policies{denyIf(`impersonatedUser.uid == "7"`, "groups")}, groups: 259, bytes: 8, wantReason: "more than 258 parts of the user have conditions"},
		{name: "costly", policies: policies{denyIf(`impersonatedUser.groups.exists(g, g.contains(request.name + "x"))`, "groups")}, groups: 200, bytes: 200, wantReason: "may cost 10000000 together"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			wanted := &user.DefaultInfo{Name: "bob"}
			for i := range tc.groups {
				wanted.Groups = append(wanted.Groups, fmt.Sprintf("%0*d", tc.bytes, i))
			}
			answer, err := conditionalReviewer(t, tc.policies, legacy).Review(t.Context(), getPod, wanted)
			if err != nil || (answer.User != nil) != (tc.wantReason == "") || !strings.Contains(answer.Reason, tc.wantReason) {
				t.Errorf("got %v, %s, %v, want %q", answer.User != nil, answer.Reason, err, tc.wantReason)
			}
		})
	}
}

// TestDenialsThatSearchGroups has Deny policies that do not apply. They are evaluated for each group of the user, and refuse
// beyond the budget (docs/impersonation.md).
func TestDenialsThatSearchGroups(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		policies, groups int
		wantAllowed      bool
	}{
		{"one policy and many groups", 1, 500, true},
		{"some policies and some groups", 5, 128, true},
		{"some policies and many groups", 5, 500, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var policies []policyv1alpha1.AuthorizationPolicySpec
			for range tc.policies {
				p := denyIf(`request.userInfo.groups.exists(g, g == "contractors")`, "groups", "users")
				p.Rules[0].Verbs, p.Rules[0].APIGroups = []string{"*"}, []string{"*"}
				policies = append(policies, p)
			}
			r := conditionalReviewer(t, policies, func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetVerb() == "impersonate" {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			})
			numbered := func(prefix string, n int) (names []string) {
				for i := range n {
					names = append(names, fmt.Sprint(prefix, i))
				}
				return names
			}
			request := requestFor("list", "pods")
			request.User = &user.DefaultInfo{Name: "agent", Groups: numbered("team-", 100)}
			got, err := r.Review(t.Context(), request, &user.DefaultInfo{Name: "bob", Groups: numbered("g", tc.groups)})
			if err != nil || (got.User != nil) != tc.wantAllowed {
				t.Errorf("got %+v, %v, want allowed %v", got, err, tc.wantAllowed)
			}
		})
	}
}
