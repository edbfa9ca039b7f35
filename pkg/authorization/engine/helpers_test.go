/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// spec and rule keep the tables short.
type (
	spec = policyv1alpha1.AuthorizationPolicySpec
	rule = policyv1alpha1.PolicyRule
)

const (
	allow     = policyv1alpha1.PolicyEffectAllow
	deny      = policyv1alpha1.PolicyEffectDeny
	noOpinion = policyv1alpha1.PolicyEffectNoOpinion
)

var (
	anything = []rule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	anyPath  = []rule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}
)

// keyOf reads a namespace and a name, or a name.
func keyOf(name string) engine.Key {
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		return engine.Key{Namespace: namespace, Name: name}
	}
	return engine.Key{Name: name}
}

// compiled compiles policies. Those without rules match every request for a resource.
func compiled(tb testing.TB, specs map[string]spec) map[engine.Key]*engine.Policy {
	tb.Helper()
	compiler := newPolicyCompiler(tb)
	policies := map[engine.Key]*engine.Policy{}
	for name, s := range specs {
		if s.Rules == nil {
			s.Rules = anything
		}
		p, err := engine.New(keyOf(name), &s, compiler)
		if err != nil {
			tb.Fatal(err)
		}
		policies[keyOf(name)] = p
	}
	return policies
}

// publish makes a source of policies.
func publish(tb testing.TB, specs map[string]spec) *engine.Source {
	tb.Helper()
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled(tb, specs)))
	return source
}

// chainOf has the two parts in the order of the server.
func chainOf(tb testing.TB, restricting, granting *engine.Authorizer) *authorization.Chain {
	tb.Helper()
	chain, err := authorization.NewChain(
		authorization.Member{Name: "restricting", Decider: restricting},
		authorization.Member{Name: "granting", Decider: granting},
	)
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

func chainFrom(tb testing.TB, source *engine.Source) *authorization.Chain {
	tb.Helper()
	return chainOf(tb, partOf(source, false), partOf(source, true))
}

// show describes a decision with its conditions in their order.
func show(tb testing.TB, d authorization.Decision) string {
	tb.Helper()
	switch {
	case d.IsAllow():
		return "Allow"
	case d.IsDeny():
		return "Deny"
	case d.IsNoOpinion():
		return "NoOpinion"
	}
	var parts []string
	for _, s := range d.Chain() {
		parts = append(parts, show(tb, s.Decision))
	}
	for _, c := range d.Conditions() {
		parts = append(parts, string(c.Effect)+" "+c.ID[strings.LastIndex(c.ID, "/")+1:]+": "+textOf(tb, c))
	}
	return "[" + strings.Join(parts, "; ") + "]"
}

func textOf(tb testing.TB, c authorization.Condition) string {
	tb.Helper()
	if c.TextFunc == nil {
		return c.Text
	}
	text, err := c.TextFunc()
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// podsOf is a request of alice, who is authenticated.
func podsOf(verb string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}},
		Verb: verb, APIVersion: "v1", Resource: "pods", Namespace: "n", Name: "p", ResourceRequest: true,
	}
}

func partOf(source *engine.Source, granting bool) *engine.Authorizer {
	if granting {
		return &engine.Authorizer{Source: source, Part: engine.Granting}
	}
	return &engine.Authorizer{Source: source}
}

// decided shows what the parts decide, as "restricting, granting".
func decided(tb testing.TB, source *engine.Source, a authorizer.Attributes) string {
	tb.Helper()
	return decidedIn(context.Background(), tb, source, a)
}

func decidedIn(ctx context.Context, tb testing.TB, source *engine.Source, a authorizer.Attributes) string {
	tb.Helper()
	ctx = source.Pin(ctx)
	return show(tb, partOf(source, false).Decide(ctx, a)) + ", " + show(tb, partOf(source, true).Decide(ctx, a))
}

// conditionsData is what admission knows.
type conditionsData struct {
	attributes     authorizer.Attributes
	operation      authorizer.AdmissionOperation
	object, before map[string]any
}

var _ authorizer.ConditionsData = conditionsData{}

func objectOf(content map[string]any) runtime.Object {
	if content == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}

func (d conditionsData) GetName() string      { return d.attributes.GetName() }
func (d conditionsData) GetNamespace() string { return d.attributes.GetNamespace() }
func (d conditionsData) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: d.attributes.GetAPIGroup(), Version: d.attributes.GetAPIVersion(), Resource: d.attributes.GetResource()}
}
func (d conditionsData) GetSubresource() string                      { return d.attributes.GetSubresource() }
func (d conditionsData) GetOperation() authorizer.AdmissionOperation { return d.operation }
func (d conditionsData) GetOperationOptions() runtime.Object         { return nil }
func (d conditionsData) IsDryRun() bool                              { return false }
func (d conditionsData) GetObject() runtime.Object                   { return objectOf(d.object) }
func (d conditionsData) GetOldObject() runtime.Object                { return objectOf(d.before) }
func (d conditionsData) GetKind() schema.GroupVersionKind            { return schema.GroupVersionKind{} }
func (d conditionsData) GetUserInfo() user.Info                      { return d.attributes.GetUser() }

// values are the data as conditions read them.
func (d conditionsData) values() cel.Values {
	values := cel.Values{cel.Operation: string(d.operation), cel.DryRun: false, cel.Object: nil, cel.OldObject: nil, cel.Options: nil}
	if d.object != nil {
		values[cel.Object] = d.object
	}
	if d.before != nil {
		values[cel.OldObject] = d.before
	}
	return values
}
