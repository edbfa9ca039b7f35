/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/lazy"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/client-go/kubernetes"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// oracle decides in one phase, with everything known, what two phases must decide: written
// from KEP-5681 and on plain cel-go, it shares nothing with the server.
type oracle struct {
	env  *celgo.Env
	kube kubernetes.Interface
}

func newOracle(t *testing.T, kube kubernetes.Interface) *oracle {
	t.Helper()
	var variables []celgo.EnvOption
	for _, name := range []string{"request", "object", "oldObject", "options", "operation", "dryRun", "namespaceObject", "variables"} {
		variables = append(variables, celgo.Variable(name, celgo.DynType))
	}
	for _, name := range []string{"authorizer", "authorizer.requestResource"} {
		declared := library.AuthorizerType
		if name != "authorizer" {
			declared = library.ResourceCheckType
		}
		variables = append(variables, celgo.Variable(name, declared))
	}
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: environment.DefaultCompatibilityVersion(), EnvOptions: variables,
	})
	must(t, err)
	return &oracle{env: set.StoredExpressionsEnv(), kube: kube}
}

// verdict is what one authorizer, or all of them, say of one check.
type verdict int

const (
	noOpinion verdict = iota
	allow
	deny
)

// decide reports whether everything that a request needs is allowed.
func (x *oracle) decide(t *testing.T, set *tableSet, username string, data []admitted) bool {
	t.Helper()
	for _, o := range data {
		for _, q := range o.checks {
			if x.answer(t, set, username, o, q) != allow {
				return false
			}
		}
	}
	return true
}

// answer asks the chain: Deny policies, RBAC, NoOpinion and Allow policies. The first that
// is not NoOpinion is final.
func (x *oracle) answer(t *testing.T, set *tableSet, username string, o admitted, q check) verdict {
	t.Helper()
	values := x.values(t, set, username, o, q)
	if x.applies(t, set, policyv1alpha1.PolicyEffectDeny, username, o, q, values) {
		return deny
	}
	if rbacAllows(username, o.subresource, q.verb) {
		return allow
	}
	if x.applies(t, set, policyv1alpha1.PolicyEffectNoOpinion, username, o, q, values) {
		return noOpinion
	}
	if x.applies(t, set, policyv1alpha1.PolicyEffectAllow, username, o, q, values) {
		return allow
	}
	return noOpinion
}

func rbacAllows(username, subresource, verb string) bool {
	resource := machines
	if subresource != "" {
		resource += "/" + subresource
	}
	for _, right := range tableRights {
		if right.user == username && slices.Contains(right.resources, resource) && (slices.Contains(right.verbs, verb) || slices.Contains(right.verbs, "*")) {
			return true
		}
	}
	return false
}

// applies reports whether a policy of an effect applies. An error counts as true where it
// restricts, and as false where it allows.
func (x *oracle) applies(t *testing.T, set *tableSet, effect policyv1alpha1.PolicyEffect, username string, o admitted, q check, values map[string]any) bool {
	t.Helper()
	applies := false
	for i := range set.Policies {
		p := &set.Policies[i]
		if p.Effect != effect || !p.matches(username, o.subresource, q) {
			continue
		}
		switch {
		case !slices.Contains(p.Versions, machinesVersion): // written for versions that are not this one
			applies = applies || effect != policyv1alpha1.PolicyEffectAllow
		case p.Condition == "":
			applies = true
		default:
			holds, err := x.evaluate(t, p, values)
			applies = applies || holds || err != nil && effect != policyv1alpha1.PolicyEffectAllow
		}
	}
	return applies
}

func (p *tablePolicy) matches(username, subresource string, q check) bool {
	resource := machines
	if subresource != "" {
		resource += "/" + subresource
	}
	return (len(p.Users) == 0 || slices.Contains(p.Users, username)) &&
		(slices.Contains(p.Verbs, "*") || slices.Contains(p.Verbs, q.verb)) &&
		slices.Contains(p.Resources, resource) &&
		(len(p.Names) == 0 || slices.Contains(p.Names, q.name))
}

// values are the variables of a condition. Of a request that admission does not see there
// is no object, nor will there be: what reads one fails.
func (x *oracle) values(t *testing.T, set *tableSet, username string, o admitted, q check) map[string]any {
	t.Helper()
	info := &user.DefaultInfo{Name: username, Groups: []string{user.AllAuthenticated}}
	values := map[string]any{
		"request": map[string]any{
			"verb": q.verb, "apiGroup": demov1alpha1.GroupName, "apiVersion": machinesVersion, "resource": machines, "subresource": o.subresource,
			"namespace": set.namespace(), "name": q.name, "path": "",
			"userInfo": map[string]any{"username": username, "uid": "", "groups": []string{user.AllAuthenticated}, "extra": map[string][]string{}},
		},
		"authorizer": library.NewAuthorizerVal(info, rightsOf{x.kube}),
		"authorizer.requestResource": library.NewResourceAuthorizerVal(info, rightsOf{x.kube},
			requestedResource{namespace: set.namespace(), subresource: o.subresource, name: o.name}),
	}
	if o.operation == "" {
		return values
	}
	namespace, err := x.kube.CoreV1().Namespaces().Get(t.Context(), set.namespace(), metav1.GetOptions{})
	must(t, err)
	metadata := map[string]any{"name": namespace.Name, "labels": namespace.Labels}
	if len(namespace.Annotations) > 0 {
		metadata["annotations"] = namespace.Annotations
	}
	values["namespaceObject"] = map[string]any{"metadata": metadata}
	values["operation"], values["dryRun"] = o.operation, o.dryRun
	for name, object := range map[string]map[string]any{"object": o.object, "oldObject": o.oldObject, "options": o.options} {
		values[name] = any(object)
		if object == nil {
			values[name] = nil
		}
	}
	return values
}

// evaluate evaluates the condition of a policy, whose variables are evaluated where they are
// read.
func (x *oracle) evaluate(t *testing.T, p *tablePolicy, values map[string]any) (bool, error) {
	t.Helper()
	run := func(expression string) ref.Val {
		ast, issues := x.env.Compile(expression)
		if issues.Err() != nil {
			t.Fatalf("policy %s: %v", p.Name, issues.Err())
		}
		program, err := x.env.Program(ast)
		if err != nil {
			t.Fatalf("policy %s: %v", p.Name, err)
		}
		result, _, err := program.Eval(values)
		if err != nil {
			return types.WrapErr(err)
		}
		return result
	}
	variables := lazy.NewMapValue(types.NewObjectType("variables"))
	for _, v := range p.Variables {
		variables.Append(v.Name, func(*lazy.MapValue) ref.Val { return run(v.Expression) })
	}
	values["variables"] = variables
	defer delete(values, "variables")
	result := run(p.Condition)
	if types.IsError(result) {
		return false, fmt.Errorf("%v", result)
	}
	return result == types.True, nil
}

// requestedResource is what authorizer.requestResource is about.
type requestedResource struct{ namespace, subresource, name string }

func (r requestedResource) GetName() string        { return r.name }
func (r requestedResource) GetNamespace() string   { return r.namespace }
func (r requestedResource) GetSubresource() string { return r.subresource }

func (r requestedResource) GetResource() schema.GroupVersionResource {
	return demov1alpha1.SchemeGroupVersion.WithResource(machines)
}

// rightsOf is RBAC, as kube-apiserver tells those whom it delegates to: without policies.
type rightsOf struct{ kube kubernetes.Interface }

var _ authorizer.UnconditionalAuthorizer = rightsOf{}

func (r rightsOf) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	answer, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: a.GetUser().GetName(), Groups: a.GetUser().GetGroups(), Extra: map[string]authorizationv1.ExtraValue{authorization.DelegationMarker: {"true"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
			Namespace: a.GetNamespace(), Name: a.GetName(),
		},
	}}, metav1.CreateOptions{})
	if err != nil || !answer.Status.Allowed {
		return authorizer.DecisionNoOpinion, "", err
	}
	return authorizer.DecisionAllow, "", nil
}
