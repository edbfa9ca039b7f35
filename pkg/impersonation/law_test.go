/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"

	api "github.com/proviso-authz/proviso/apis/authorization"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/impersonation"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

// atoms are conditions on everything that a condition of the mode conditional can read,
// some of which fail for some users and objects.
var atoms = []string{
	`impersonatedRequest.verb == "get"`, `impersonatedRequest.verb == "create"`, `impersonatedRequest.name == "p"`,
	`impersonatedUser.username == "bob"`, `"g" in impersonatedUser.groups`, `impersonatedUser.extra["example.com/k"] == ["v"]`, `impersonatedUser.groups[1] == "h"`,
	`request.name == "bob"`, `request.name == "g"`, `request.userInfo.username == "agent"`, `request.resource == "groups"`,
	`object.x == 1`, `object.y == 1`, `object.owner == impersonatedUser.username`, `object.owner in impersonatedUser.groups`, `has(object.x)`, `object == null`, `oldObject.x == object.x`, `oldObject == null`,
	`dryRun`, `operation == "CREATE"`, `true`, `false`, `object.list.exists(e, e == request.name)`, `object.list.all(e, e in impersonatedUser.groups)`,
}

func generatedCondition(r *rand.Rand, depth int) string {
	if depth == 0 || r.IntN(3) == 0 {
		return pick(r, atoms...)
	}
	a, b := generatedCondition(r, depth-1), generatedCondition(r, depth-1)
	switch r.IntN(8) {
	case 0, 1, 2:
		return "(" + a + " && " + b + ")"
	case 3, 4, 5:
		return "(" + a + " || " + b + ")"
	case 6:
		return "!(" + a + ")"
	}
	return "(" + a + " ? " + b + " : " + generatedCondition(r, depth-1) + ")"
}

func generatedPolicies(r *rand.Rand) (generated policies) {
	for range 1 + r.IntN(5) {
		effect := pick(r, policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny, policyv1alpha1.PolicyEffectNoOpinion)
		condition := ""
		if r.IntN(6) > 0 {
			condition = generatedCondition(r, 2)
		}
		resources := pick(r, []string{"users"}, []string{"users"}, []string{"groups"}, []string{"uids"}, []string{"userextras/example.com/k"}, []string{"*"}, []string{"*", "*/*"}, []string{"*", "*/*"})
		spec := policy(effect, condition, resources...)
		if r.IntN(8) == 0 {
			spec.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "agents"}}
		}
		generated = append(generated, spec)
	}
	return generated
}

// objects are what requests turn out to be about.
var objects = []cel.Values{
	{cel.Object: cel.Known(map[string]any{"x": int64(1), "owner": "bob", "list": []any{"bob", "g"}}), cel.OldObject: cel.Known(nil), cel.Operation: "CREATE", cel.DryRun: false},
	{cel.Object: cel.Known(map[string]any{"x": int64(2), "y": int64(1), "owner": "g", "list": []any{}}), cel.OldObject: cel.Known(map[string]any{"x": int64(2)}), cel.Operation: "UPDATE", cel.DryRun: true},
	{cel.Object: cel.Known(map[string]any{"list": []any{"g", "h"}}), cel.OldObject: cel.Known(map[string]any{"x": "1"}), cel.Operation: "UPDATE", cel.DryRun: false},
	{cel.Object: cel.Known(nil), cel.OldObject: cel.Known(map[string]any{"x": int64(1)}), cel.Operation: "DELETE", cel.DryRun: false},
}

// partsOf returns the attributes of the checks of the mode conditional, as KEP-5681 lists
// the parts of a user.
func partsOf(u *user.DefaultInfo) (parts []authorizer.AttributesRecord) {
	part := func(resource, subresource, name string) {
		parts = append(parts, authorizer.AttributesRecord{
			User: getPod.User, Verb: "constrainedimpersonate", APIGroup: "authentication.k8s.io", APIVersion: "v1", Resource: resource, Subresource: subresource, Name: name, ResourceRequest: true,
		})
	}
	part("users", "", u.Name)
	if u.UID != "" {
		part("uids", "", u.UID)
	}
	for _, g := range u.Groups {
		part("groups", "", g)
	}
	for key, values := range u.Extra {
		for _, v := range values {
			part("userextras", key, v)
		}
	}
	return parts
}

// checked is what is asked about all parts of a user, and what was answered.
type checked struct {
	answers []authorization.Decision
	// known is what is known of the impersonation.
	known cel.Values
}

func check(ctx context.Context, t *testing.T, chain *authorization.Chain, request authorizer.AttributesRecord, wanted *user.DefaultInfo) (c checked) {
	t.Helper()
	groups := []any{}
	for _, g := range wanted.Groups {
		groups = append(groups, g)
	}
	extra := map[string]any{}
	for key, values := range wanted.Extra {
		extra[key] = []any{values[0]}
	}
	c.known = cel.Values{
		cel.ImpersonatedUser: cel.Known(map[string]any{"username": wanted.Name, "uid": wanted.UID, "groups": append(groups, "system:authenticated"), "extra": extra}),
		cel.ImpersonatedRequest: cel.Known(map[string]any{
			"verb": request.Verb, "apiGroup": request.APIGroup, "apiVersion": request.APIVersion, "resource": request.Resource, "subresource": request.Subresource, "namespace": request.Namespace, "name": request.Name, "path": request.Path,
		}),
	}
	for _, part := range partsOf(wanted) {
		decision := chain.Decide(ctx, authorization.Request{Attributes: part, Mode: api.ConditionsModeHumanReadable})
		if status := authorization.Status(decision); len(status.ConditionsChain) > 0 {
			sets, err := authorization.SetsFromWire(status.ConditionsChain)
			if err != nil {
				t.Fatal(err)
			}
			decision = authorization.Chained(sets...)
		}
		c.answers = append(c.answers, decision)
	}
	return c
}

// atOnce decides with all data at once whether the mode conditional denies, and whether it
// allows.
func (c checked) atOnce(ctx context.Context, t *testing.T, object cel.Values) (denied, allowed bool) {
	t.Helper()
	values := maps.Clone(object)
	maps.Copy(values, c.known)
	allowed = true
	for _, decision := range c.answers {
		decision = decision.Evaluate(ctx, &celeval.Evaluator{Compiler: compilerOf(t), Values: values})
		denied, allowed = denied || decision.IsDeny(), allowed && decision.IsAllow()
	}
	return denied, allowed
}

// TestConditionalLaw: what is decided before the object is known, and what remains to be
// enforced on it, come to what would have been decided at once: nobody is impersonated whom
// some part denies, or who is neither allowed in all parts nor by the legacy mode. The only
// other refusals are of what cannot be enforced, and say so.
func TestConditionalLaw(t *testing.T) {
	t.Parallel()
	const requests = 25
	sites := cases.Of(250)
	r := rand.New(rand.NewPCG(56, 81))
	outcomes := map[string]int{}
	for sites.Next() {
		generated := generatedPolicies(r)
		legacy, elsewhere := r.IntN(2) == 0, scatteredConditional(r.Uint64(), r.IntN(2) == 0)
		source := &engine.Source{}
		publish(t, source, generated)
		conditional := conditionalOver(t, source, func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			switch {
			case a.GetVerb() == "constrainedimpersonate":
				return elsewhere(ctx, a)
			case a.GetVerb() == "impersonate" && legacy:
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		}, authorization.Member{Name: "last", Decider: authorization.DeciderOf(unconditional{lastDenying(r.IntN(4) == 0)})})
		var residual []authorization.Set
		filter := wrapped(t, impersonation.FilterConfig{
			Authorizer: conditional.Chain, Constrained: r.IntN(2) == 0, Conditional: conditional, Serializer: scheme.Codecs,
			EnforceResidual: func(_ context.Context, sets ...authorization.Set) error {
				residual = append(residual, sets...)
				return nil
			},
		})
		for range requests {
			wanted := &user.DefaultInfo{
				Name: pick(r, "bob", "bob", "carol"), UID: pick(r, "", "", "7"), Groups: pick(r, nil, []string{"g"}, []string{"g", "h"}, []string{"h"}), Extra: pick(r, nil, nil, map[string][]string{"example.com/k": {"v"}}, map[string][]string{"example.com/k": {"w"}}),
			}
			request := pick(r, getPod, requestFor("create", "pods"))
			residual = nil
			first := send(t.Context(), t, filter, request, impersonation.HeadersOf(wanted))
			asked := check(t.Context(), t, conditional.Chain, request, wanted)
			for i, object := range objects {
				denied, allowed := asked.atOnce(t.Context(), t, object)
				want := !denied && (allowed || legacy)
				got := first.Code == http.StatusNoContent
				if got && len(residual) > 0 {
					// As another server would do it, and as this one does.
					carried, err := authorization.SetsToWire(residual)
					if err != nil {
						t.Fatal(err)
					}
					sets, err := authorization.SetsFromWire(carried)
					if err != nil {
						t.Fatal(err)
					}
					decision := authorization.Chained(sets...).Evaluate(t.Context(), &celeval.Evaluator{Compiler: compilerOf(t), Values: object})
					if decision.IsAllow() || !decision.IsUnconditional() {
						t.Fatalf("the residual %q is more than a denial: %+v", textsOf(residual), decision)
					}
					got = !decision.IsDeny()
				}
				unenforceable := first.Code == http.StatusForbidden && strings.Contains(first.Body, "cannot be enforced")
				switch {
				case got == want:
					outcomes[fmt.Sprintf("allowed %v, residual %v, legacy %v, denied %v", got, len(residual) > 0, legacy, denied)]++
				case unenforceable:
					outcomes["refused since it cannot be enforced"]++
				default:
					t.Fatalf("object %d, %s as %+v, legacy %v: got %v, want %v (denied %v, allowed %v)\npolicies %s\nresidual %q\n%s",
						i, request.Verb, wanted, legacy, got, want, denied, allowed, textOfPolicies(generated), textsOf(residual), first.Body)
				}
			}
		}
	}
	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%6d %s", outcomes[outcome], outcome)
	}
	for _, needed := range []string{
		"allowed true, residual true, legacy true, denied false", "allowed false, residual true, legacy true, denied true", "allowed true, residual true, legacy false, denied false",
		"allowed false, residual true, legacy false, denied false", "allowed false, residual true, legacy false, denied true", "allowed false, residual false, legacy true, denied true",
	} {
		if outcomes[needed] < sites.Share(100) {
			t.Errorf("%s: only %d cases", needed, outcomes[needed])
		}
	}
	if n := outcomes["refused since it cannot be enforced"]; n > sites.Tried()*requests*len(objects)/10 {
		t.Errorf("%d cases cannot be enforced", n)
	}
}

// lastDenying has somebody deny behind everybody else, if at all, whatever has not been
// allowed of user names: they are always asked about, unless somebody has denied already.
func lastDenying(denies bool) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if denies && a.GetVerb() == "constrainedimpersonate" && a.GetResource() == "users" && a.GetName() == "bob" {
			return authorizer.DecisionDeny, "forbidden by the test", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}

// scatteredConditional has others speak about parts of users, too. They deny nothing: that
// would be final only for parts that they are asked about.
func scatteredConditional(seed uint64, speak bool) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		r := rand.New(rand.NewPCG(seed, uint64(len(describe(a))))) //nolint:gosec // not for secrets
		if speak && r.IntN(3) == 0 {
			return authorizer.DecisionAllow, "granted", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}

func textOfPolicies(policies policies) string {
	var b strings.Builder
	for i, p := range policies {
		fmt.Fprintf(&b, "\n  %c %s %v: %s", 'a'+i, p.Effect, p.Rules[0].Resources, p.Condition)
	}
	return b.String()
}
