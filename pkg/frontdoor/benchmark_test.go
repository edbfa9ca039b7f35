/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// BenchmarkOneAuthorsPolicies measures a request that sixteen policies of one namespace match, of which
// each costs almost as much as one evaluation may. It reports what an evaluation of all of them would cost.
func BenchmarkOneAuthorsPolicies(b *testing.B) {
	compiler := compilers.Policies(b)
	// Loops in loops: in each step a look at the request and a comparison.
	numbers := "[" + strings.TrimSuffix(strings.Repeat("1, ", 50), ", ") + "]"
	condition := fmt.Sprintf(`!%[1]s.exists(a, %[1]s.exists(b, %[1]s.exists(c, request.verb == "a" + string(a + b + c))))`, numbers)
	for _, tc := range []struct {
		name      string
		namespace string
	}{{name: "of the namespace", namespace: "n"}, {name: "of the cluster"}} {
		b.Run(tc.name, func(b *testing.B) {
			changes := map[engine.Key]*engine.Policy{}
			for i := range 16 {
				key := engine.Key{Namespace: tc.namespace, Name: fmt.Sprintf("p%02d", i)}
				p, err := engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
					Effect:    policyv1alpha1.PolicyEffectAllow,
					Rules:     []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}},
					Condition: "!(" + condition + ")",
				}, compiler)
				if err != nil {
					b.Fatal(err)
				}
				changes[key] = p
			}
			source := &engine.Source{}
			source.Publish(engine.NewBuilder().Apply(changes))
			door, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(b, source), Source: source}, Places: places{enforces: func(authorizer.Attributes) bool { return false }}.table()})
			if err != nil {
				b.Fatal(err)
			}
			plan, err := compiler.Prepare(condition, cel.Request)
			if err != nil {
				b.Fatal(err)
			}
			one := plan.Eval(b.Context(), cel.Values{cel.Request: cel.Known(map[string]any{"verb": "get"})})
			attributes := authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}},
				Verb: "get", APIVersion: "v1", Resource: "configmaps", Namespace: "n", Name: "x", ResourceRequest: true,
			}
			for b.Loop() {
				if _, err := door.Decide(b.Context(), attributes); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(one.Cost()), "units/policy")
		})
	}
}
