/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	upstream "k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// BenchmarkFilter passes a request on as somebody else, beside the filter of Kubernetes. The
// authorizer that grants answers at once, as one with a warm cache does; in the mode
// conditional a policy grants. One operation is one request, without storage or network.
func BenchmarkFilter(b *testing.B) {
	compiler, err := cel.NewCompiler()
	if err != nil {
		b.Fatal(err)
	}
	compiling, err := partial.NewPolicyCompiler(compiler)
	if err != nil {
		b.Fatal(err)
	}
	partial, err := partial.NewConditionCompiler(compiler)
	if err != nil {
		b.Fatal(err)
	}
	compiled := map[engine.Key]*engine.Policy{}
	for name, condition := range map[string]string{"carol": `impersonatedRequest.verb == "get" && impersonatedRequest.resource == "pods"`, "dave": `object.metadata.labels["mark"] == "true"`} {
		key := engine.Key{Name: name}
		spec := policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectAllow, Condition: condition, Subjects: []rbacv1.Subject{{Kind: "User", Name: "agent"}},
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{impersonation.VerbConditional}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users"}, ResourceNames: []string{name}}},
		}
		if compiled[key], err = engine.New(key, &spec, compiling); err != nil {
			b.Fatal(err)
		}
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	grants := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetVerb() == "impersonate" && a.GetName() == "lucas" || a.GetName() == "bob" && a.GetVerb() == "impersonate:user-info" || a.GetVerb() == "impersonate-on:user-info:get" && a.GetUser().GetName() == "agent" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	denials := authorization.Member{Name: "restricting", Decider: &engine.Authorizer{Source: source}}
	chain, err := authorization.NewChain(denials, authorization.Member{Name: "others", Decider: authorization.DeciderOf(unconditional{grants})},
		authorization.Member{Name: "granting", Decider: &engine.Authorizer{Source: source, Part: engine.Granting}})
	if err != nil {
		b.Fatal(err)
	}
	restrictions, err := authorization.NewChain(denials)
	if err != nil {
		b.Fatal(err)
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	var passed user.Info
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed, _ = genericapirequest.UserFrom(r.Context()) })
	filter, err := impersonation.NewFilter(impersonation.FilterConfig{
		Authorizer: chain, Constrained: true, Serializer: codecs,
		Conditional:     impersonation.Conditional{Chain: chain, Denials: restrictions, Compiler: compiler, Partial: partial},
		EnforceResidual: func(context.Context, ...authorization.Set) error { return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	own := filter(next)
	kubernetes := upstream.WithConstrainedImpersonation(next, chain, codecs)
	ctx := genericapirequest.WithUser(b.Context(), &user.DefaultInfo{Name: "agent", Groups: []string{"system:authenticated"}})
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true, Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: "ns", Name: "p", Path: "/api/v1/namespaces/ns/pods/p",
	})
	for _, bc := range []struct {
		name, as string
		filter   http.Handler
	}{
		{"nobody/kubernetes", "", kubernetes}, {"nobody/proviso", "", own},
		{"user-info/kubernetes", "bob", kubernetes}, {"user-info/proviso", "bob", own},
		{"legacy/kubernetes", "lucas", kubernetes}, {"legacy/proviso", "lucas", own},
		{"conditional/proviso", "carol", own},
		{"on-the-object/proviso", "dave", own},
	} {
		b.Run(bc.name, func(b *testing.B) {
			want := bc.as
			if want == "" {
				want = "agent"
			}
			w := httptest.NewRecorder()
			for b.Loop() {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/namespaces/ns/pods/p", nil)
				if err != nil {
					b.Fatal(err)
				}
				if bc.as != "" {
					r.Header.Set("Impersonate-User", bc.as)
				}
				bc.filter.ServeHTTP(w, r)
				if passed.GetName() != want {
					b.Fatalf("passed on as %q: %s", passed.GetName(), w.Body)
				}
			}
		})
	}
}
