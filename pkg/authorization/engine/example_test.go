/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// A condition on its way from a policy to a decision about an object. The review shows the residual: what is left of the
// condition once the request is known. Enforcement runs the whole condition of the policy again, and never the residual.
func Example() {
	residuals, err := cel.NewCompiler()
	if err != nil {
		panic(err)
	}
	policies, err := partial.NewPolicyCompiler(residuals)
	if err != nil {
		panic(err)
	}

	// The policy is compiled, and published in a snapshot.
	key := engine.Key{Name: "own-objects"}
	policy, err := engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
		Effect:    policyv1alpha1.PolicyEffectAllow,
		Subjects:  []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "devs"}},
		Rules:     []policyv1alpha1.PolicyRule{{Verbs: []string{"create", "update"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}},
		Condition: `request.verb == "create" && object.metadata.labels["owner"] == request.userInfo.username`,
	}, policies)
	if err != nil {
		panic(err)
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{key: policy}))
	chain, err := authorization.NewChain(authorization.Member{
		Name: engine.GrantingName, Decider: &engine.Authorizer{Source: source, Part: engine.Granting},
	})
	if err != nil {
		panic(err)
	}

	for _, verb := range []string{"create", "update"} {
		request := authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "alice", Groups: []string{"devs"}},
			Verb: verb, APIVersion: "v1", Resource: "configmaps", Namespace: "n", ResourceRequest: true,
		}
		// The chain decides without the object, for the authorization filter and for reviews.
		decision := chain.Begin(context.Background(), request)
		fmt.Printf("%s can be allowed: %v\n", verb, decision.Decision().CanBecomeAllowed())
		for _, set := range authorization.Status(decision.Decision()).ConditionsChain {
			for _, condition := range set.Conditions {
				fmt.Printf("  review: %s if %s\n", condition.Effect, condition.Condition)
			}
		}
		// Admission evaluates the same decision with the object.
		for _, owner := range []string{"alice", "eve"} {
			object := map[string]any{"metadata": map[string]any{"labels": map[string]any{"owner": owner}}}
			data := conditionsData{attributes: request, operation: "CREATE", object: object}
			enforced := decision.Evaluate(context.Background(), authorization.EvaluatorFor(data, nil))
			fmt.Printf("  object of %s: allowed %v\n", owner, enforced.IsAllow())
		}
	}

	// Output:
	// create can be allowed: true
	//   review: Allow if object.metadata.labels["owner"] == "alice"
	//   object of alice: allowed true
	//   object of eve: allowed false
	// update can be allowed: false
	//   object of alice: allowed false
	//   object of eve: allowed false
}
