/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

func newCompiler() *barrier.Compiler {
	residuals, err := cel.NewCompiler()
	if err != nil {
		panic(err)
	}
	policies, err := partial.NewPolicyCompiler(residuals)
	if err != nil {
		panic(err)
	}
	compiler, err := barrier.NewCompiler(barrier.Config{Policies: policies, Exempt: manifest.Identities{Users: []string{"system:kube-scheduler"}}})
	if err != nil {
		panic(err)
	}
	return compiler
}

// Secrets of the tier prod stay as they are, for all users but the group release-managers.
func ExampleCompiler_Compile() {
	compiled, err := newCompiler().Compile(engine.Key{Name: "prod-secrets"}, &policyv1alpha1.AuthorizationPolicySpec{
		Description: "secrets of the tier prod stay as they are",
		Effect:      policyv1alpha1.PolicyEffectDeny,
		Subjects:    []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "developers"}},
		Rules: []policyv1alpha1.PolicyRule{{
			Verbs: []string{"get", "update", "patch", "delete"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"},
		}},
		Condition: `oldObject != null && oldObject.metadata.?labels.?tier.orValue("") == "prod" && request.userInfo.username != "alice"`,
	})
	if err != nil {
		panic(err)
	}
	text, err := yaml.Marshal(compiled.Policy.Spec)
	if err != nil {
		panic(err)
	}
	fmt.Print(string(text))
	for _, r := range compiled.Report {
		fmt.Printf("rules[%d], %v of %v: %q\n", r.Rule, r.Verbs, r.Resources, r.Reason)
	}
	// Output:
	// failurePolicy: Fail
	// matchConditions:
	// - expression: '!(((has(request.userInfo.username) ? request.userInfo.username : "")
	//     == "system:kube-scheduler") || ((has(request.userInfo.groups) ? request.userInfo.groups
	//     : []).exists(g, g == "system:masters")))'
	//   name: not-exempt
	// - expression: '(has(request.userInfo.groups) ? request.userInfo.groups : []).exists(g,
	//     g == "developers")'
	//   name: subjects
	// matchConstraints:
	//   matchPolicy: Exact
	//   resourceRules:
	//   - apiGroups:
	//     - ""
	//     apiVersions:
	//     - '*'
	//     operations:
	//     - UPDATE
	//     - DELETE
	//     resources:
	//     - secrets
	// validations:
	// - expression: '!variables.denied'
	//   message: 'policy=prod-secrets reason=Denied: secrets of the tier prod stay as they
	//     are'
	//   reason: Forbidden
	// variables:
	// - expression: '((request.operation == "UPDATE") || ((request.operation == "DELETE")
	//     && ((has(request.name) && request.name != "")))) && (oldObject != null && oldObject.metadata.?labels.?tier.orValue("")
	//     == "prod" && (has(request.userInfo.username) ? request.userInfo.username : "")
	//     != "alice")'
	//   name: denied
	// rules[0], [get] of [secrets]: "admission sees create, update, patch, delete and deletecollection, and connections with get and create"
	// rules[0], [delete patch update] of [secrets]: ""
}
