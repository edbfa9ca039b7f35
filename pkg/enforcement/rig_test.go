/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/demo"
	demoinstall "github.com/proviso-authz/proviso/apis/demo/install"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

// decide is an authorizer that is a function, and cannot evaluate what it did not make.
type decide func(context.Context, authorizer.Attributes) authorization.Decision

var _ authorizer.Authorizer = decide(nil)

func (f decide) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return f(ctx, a).Fold().Concrete()
}

func (f decide) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorization.ToUpstream(f(ctx, a))
}

var errNotMine = errors.New("not mine")

func (f decide) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", errNotMine
}

// always decides the same about everything.
func always(d authorization.Decision) decide {
	return func(context.Context, authorizer.Attributes) authorization.Decision { return d }
}

// byVerb decides by the verb; what is not listed is denied.
func byVerb(decisions map[string]authorization.Decision) decide {
	return func(_ context.Context, a authorizer.Attributes) authorization.Decision { return decisions[a.GetVerb()] }
}

// allowIf is an Allow on a condition.
func allowIf(id string, holds func(authorizer.ConditionsData) authorization.Outcome) authorization.Decision {
	return conditional(authorization.EffectAllow, id, holds)
}

func conditional(effect authorization.Effect, id string, holds func(authorizer.ConditionsData) authorization.Outcome) authorization.Decision {
	return authorization.Conditions(authorization.Condition{
		ID: "example.com/" + id, Effect: effect, Type: "example.com/go", Description: "description of " + id,
		EvaluateFunc: func(_ context.Context, data authorizer.ConditionsData) authorization.Outcome { return holds(data) },
	})
}

func outcome(o authorization.Outcome) func(authorizer.ConditionsData) authorization.Outcome {
	return func(authorizer.ConditionsData) authorization.Outcome { return o }
}

var (
	allow  = authorization.Allow("allowed", nil)
	holds  = allowIf("holds", outcome(authorization.True()))
	fails  = allowIf("fails", outcome(authorization.False()))
	denies = conditional(authorization.EffectDeny, "denies", outcome(authorization.True()))
)

func chainOf(tb testing.TB, authorizers ...authorizer.Authorizer) *authorization.Chain {
	tb.Helper()
	var members []authorization.Member
	for i, a := range authorizers {
		members = append(members, authorization.Member{Name: string(rune('a' + i)), Decider: authorization.DeciderOf(a)})
	}
	chain, err := authorization.NewChain(members...)
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

const machines = "/apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines"

// rig is a server that has the filters of a real one, and instead of its handlers what a
// test wants to happen behind them.
type rig struct {
	enforcer *enforcement.Enforcer
	// handlers is the authorizer that the handlers ask.
	handlers authorizer.UnconditionalAuthorizer
	// admission is what the handlers admit requests by.
	admission admission.Interface
	handler   http.Handler

	mu     sync.Mutex
	events []*auditinternal.Event
}

type rigConfig struct {
	chain    *authorization.Chain
	storages map[string]rest.Storage
	adjust   func(*enforcement.Config)
	// constrained uses the filter for constrained impersonation.
	constrained bool
	// authorizations is how often the request is authorized, once if it is nil.
	authorizations *int
	// residual is what restricts the request before it is authorized.
	residual []authorization.Set
	// admission is what the handlers admit requests by.
	admission admission.Interface
	// behind is what is behind the filters. The answer is 200 with the body if it is nil or returns nil.
	behind func(ctx context.Context, r *rig) error
	body   string
	// panicsLast has the handler panic once it has answered.
	panicsLast bool
}

func newRig(tb testing.TB, config rigConfig) *rig {
	tb.Helper()
	enforcing := enforcement.Config{Chain: config.chain, Conditional: true, ConnectWithCreate: true}
	if config.adjust != nil {
		config.adjust(&enforcing)
	}
	r := &rig{}
	var err error
	if r.enforcer, err = enforcement.New(enforcing); err != nil {
		tb.Fatal(err)
	}
	r.enforcer.MarkEnforced()
	group := genericapiserver.NewDefaultAPIGroupInfo(demo.GroupName, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.VersionedResourcesStorageMap["v1alpha1"] = config.storages
	r.enforcer.Cover(&group)
	generic := &genericapiserver.Config{Serializer: codecs, AdmissionControl: config.admission, BuildHandlerChainFunc: func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return r.filters(handler, c, config)
	}}
	if err := r.enforcer.ApplyTo(generic); err != nil {
		tb.Fatal(err)
	}
	r.handlers, r.admission = generic.Authorization.Authorizer, generic.AdmissionControl
	r.handler = generic.BuildHandlerChainFunc(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if config.panicsLast {
			defer panic("after the answer")
		}
		if config.behind != nil {
			if err := config.behind(request.Context(), r); err != nil {
				responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{}, w, request)
				return
			}
		}
		_, _ = w.Write([]byte(config.body))
	}), generic)
	return r
}

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

//nolint:gochecknoinits // a scheme is filled once
func init() {
	demoinstall.Install(scheme)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(metav1.AddMetaToScheme(scheme))
}

// filters are those of the generic server that matter here, in its order.
func (r *rig) filters(handler http.Handler, c *genericapiserver.Config, config rigConfig) http.Handler {
	for range ptr.Deref(config.authorizations, 1) {
		handler = genericapifilters.WithAuthorization(handler, c.Authorization.Authorizer, codecs)
	}
	handler = restrictedBy(handler, config.residual)
	if config.constrained {
		handler = impersonation.WithConstrainedImpersonation(handler, c.Authorization.Authorizer, codecs)
	} else {
		handler = impersonation.WithImpersonation(handler, c.Authorization.Authorizer, codecs)
	}
	handler = genericapifilters.WithAudit(handler, r, policy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, nil), nil)
	handler = genericapifilters.WithAuthentication(handler, authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: r.Header.Get("X-Test-User"), Extra: map[string][]string{r.Header.Get("X-Test-Extra"): {"[]"}}}}, true, nil
	}), http.NotFoundHandler(), nil, nil)
	handler = genericapifilters.WithRequestInfo(handler, &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()})
	handler = genericapifilters.WithWarningRecorder(handler)
	return genericapifilters.WithAuditInit(handler)
}

// restrictedBy restricts requests where an impersonation filter does it.
func restrictedBy(handler http.Handler, sets []authorization.Set) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := enforcement.EnforceResidual(r.Context(), sets...); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// ProcessEvents keeps what is audited.
func (r *rig) ProcessEvents(events ...*auditinternal.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
	return true
}

// annotations returns those of the last event.
func (r *rig) annotations() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[len(r.events)-1].Annotations
}

// send sends a request of alice. Headers are pairs.
func (r *rig) send(method, path string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, strings.NewReader("{}"))
	request.Header.Set("X-Test-User", "alice")
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Add(pair[0], pair[1])
	}
	recorder := httptest.NewRecorder()
	r.handler.ServeHTTP(recorder, request)
	return recorder
}

// admit runs admission for the request in a context, changed.
func admit(ctx context.Context, operation admission.Operation, change func(*target)) error {
	to := targetOf(ctx)
	if change != nil {
		change(to)
	}
	return enforcement.Enforce(ctx, to.attributes(operation), admission.NewObjectInterfacesFromScheme(scheme))
}

// targetOf is what the request in a context is about.
func targetOf(ctx context.Context) *target {
	info, _ := genericapirequest.RequestInfoFrom(ctx)
	by, _ := genericapirequest.UserFrom(ctx)
	return &target{
		kind:     demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine"),
		resource: schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}, subresource: info.Subresource,
		namespace: info.Namespace, name: info.Name, user: by, object: &demo.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
	}
}

func (t *target) attributes(operation admission.Operation) admission.Attributes {
	return admission.NewAttributesRecord(t.object, t.old, t.kind, t.namespace, t.name, t.resource, t.subresource, operation, nil, false, t.user)
}

type target struct {
	kind                         schema.GroupVersionKind
	resource                     schema.GroupVersionResource
	subresource, namespace, name string
	user                         user.Info
	object, old                  runtime.Object
}

func admitting(operation admission.Operation) func(context.Context, *rig) error {
	return func(ctx context.Context, _ *rig) error { return admit(ctx, operation, nil) }
}

func typeName(key any) string { return fmt.Sprintf("%T", key) }

// attributesOf returns the attributes of the request in ctx with another verb, as handlers
// make them.
func attributesOf(ctx context.Context, verb string) authorizer.AttributesRecord {
	info, _ := genericapirequest.RequestInfoFrom(ctx)
	by, _ := genericapirequest.UserFrom(ctx)
	return authorizer.AttributesRecord{
		User: by, Verb: verb, APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name, Path: info.Path, ResourceRequest: true,
	}
}
