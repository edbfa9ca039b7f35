/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// trace is what happened to requests, in order.
type trace struct {
	mu     sync.Mutex
	steps  []string
	events []*auditinternal.Event
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, fmt.Sprintf(format, args...))
}

// ProcessEvents keeps what is audited.
func (t *trace) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		t.add("audit %s %s", e.Stage, e.User.Username)
		t.mu.Lock()
		t.events = append(t.events, e.DeepCopy())
		t.mu.Unlock()
	}
	return true
}

func (*trace) Run(<-chan struct{}) error { return nil }
func (*trace) Shutdown()                 {}
func (*trace) String() string            { return "test" }

var _ audit.Backend = &trace{}

// fairness is flow control that lets everybody pass.
type fairness struct {
	utilflowcontrol.Interface
	trace *trace
}

func (f fairness) Handle(_ context.Context, digest utilflowcontrol.RequestDigest, note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	estimate func() flowcontrolrequest.WorkEstimate, _ fq.QueueNoteFn, execute func(),
) {
	f.trace.add("flow control %s", digest.User.GetName())
	note(&flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, "")
	estimate()
	execute()
}

func (fairness) GetMaxSeats(string) uint64                                  { return 1 }
func (fairness) GetInterestedWatchCount(*genericapirequest.RequestInfo) int { return 0 }

// site is a handler chain in which everything that matters leaves a trace.
type site struct {
	trace   trace
	handler http.Handler
	// allowed are the verbs that everybody may use.
	allowed []string
	behind  http.HandlerFunc
}

type siteConfig struct {
	// own is the chain with the filter of our own.
	own         bool
	flowControl bool
	allowed     []string
	adjust      func(*genericapiserver.Config)
	filter      func(*impersonation.FilterConfig)
	behind      http.HandlerFunc
}

func newSite(t *testing.T, config siteConfig) *site {
	t.Helper()
	s := &site{allowed: config.allowed, behind: config.behind}
	generic := &genericapiserver.NewRecommendedConfig(Codecs).Config
	generic.FeatureGate = utilfeature.DefaultFeatureGate
	generic.RequestInfoResolver = genericapiserver.NewRequestInfoResolver(generic)
	generic.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name := r.Header.Get("X-Test-User")
		s.trace.add("authenticate %s", name)
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, name != "", nil
	})
	generic.AuditBackend, generic.AuditPolicyRuleEvaluator = &s.trace, policy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, nil)
	asked := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		s.trace.add("authorize %s %s", a.GetUser().GetName(), a.GetVerb())
		if a.GetVerb() == "panic" {
			panic("in an authorizer")
		}
		if slices.Contains(s.allowed, a.GetVerb()) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	generic.Authorization.Authorizer = asked
	if config.flowControl {
		generic.FlowControl = fairness{trace: &s.trace}
	}
	if config.adjust != nil {
		config.adjust(generic)
	}
	build := genericapiserver.DefaultBuildHandlerChain
	if config.own {
		build = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
			return withImpersonation(handler, c, filterOf(t, asked, config.filter))
		}
	}
	s.handler = build(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, _ := genericapirequest.UserFrom(r.Context())
		s.trace.add("handle %s", by.GetName())
		for name := range r.Header {
			if strings.HasPrefix(name, "Impersonate-") {
				s.trace.add("handle the header %s", name)
			}
		}
		if s.behind != nil {
			s.behind(w, r)
		}
	}), generic)
	return s
}

// unconditional never asks for conditions.
type unconditional struct {
	authorizer.UnconditionalAuthorizer
}

func (u unconditional) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if decision, reason, err := u.Authorize(ctx, a); decision == authorizer.DecisionAllow {
		return authorizer.ConditionsAwareDecisionAllow(reason, err)
	}
	return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
}

func (unconditional) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", nil
}

func filterOf(t *testing.T, a authorizer.UnconditionalAuthorizer, adjust func(*impersonation.FilterConfig)) func(http.Handler) http.Handler {
	t.Helper()
	compiler, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	inPart, err := partial.NewConditionCompiler(compiler)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := authorization.NewChain(authorization.Member{Name: "test", Decider: authorization.DeciderOf(unconditional{a})})
	if err != nil {
		t.Fatal(err)
	}
	config := impersonation.FilterConfig{
		Authorizer: a, Constrained: true, Conditional: impersonation.Conditional{Chain: chain, Denials: chain, Compiler: compiler, Partial: inPart},
		EnforceResidual: func(context.Context, ...authorization.Set) error { return nil }, Serializer: Codecs,
	}
	if adjust != nil {
		adjust(&config)
	}
	filter, err := impersonation.NewFilter(config)
	if err != nil {
		t.Fatal(err)
	}
	return filter
}

// send sends a request of alice. Headers are pairs.
func (s *site) send(t *testing.T, path string, headers ...string) (recorder *httptest.ResponseRecorder) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	request.Header.Set("X-Test-User", "alice")
	for pair := range slices.Chunk(headers, 2) {
		if request.Header.Add(pair[0], pair[1]); pair[1] == "" {
			request.Header.Del(pair[0])
		}
	}
	recorder = httptest.NewRecorder()
	defer func() { _ = recover() }() // the chain answers and panics on; net/http ends it
	s.handler.ServeHTTP(recorder, request)
	return recorder
}

// told returns what happened, and what was audited at last.
func (s *site) told() (steps []string, last *auditinternal.Event) {
	s.trace.mu.Lock()
	defer s.trace.mu.Unlock()
	if len(s.trace.events) > 0 {
		last = s.trace.events[len(s.trace.events)-1]
	}
	return s.trace.steps, last
}

// TestHandlerChain: with a filter of our own, everything happens in the order and for the
// users of the generic chain: it is audited for who asks, and the rest is for whom they are.
func TestHandlerChain(t *testing.T) {
	t.Parallel()
	const path = "/apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines"
	conditional := []string{"authorize alice impersonate-on:user-info:list", "authorize alice constrainedimpersonate"}
	for _, tc := range []struct {
		name    string
		allowed []string
		headers []string
		code    int
		// generic and own are what happens between the first audit event and the last.
		generic, own []string
		// impersonated is the user in the audit event.
		impersonated, constraint string
	}{
		{name: "nobody else", allowed: []string{"list"}, code: 200, generic: []string{"flow control alice", "authorize alice list", "handle alice"}},
		{name: "not allowed", code: 403, generic: []string{"flow control alice", "authorize alice list"}},
		{name: "legacy", allowed: []string{"list", "impersonate"}, headers: []string{"Impersonate-User", "bob"}, code: 200, impersonated: "bob",
			generic: []string{conditional[0], "authorize alice impersonate", "flow control bob", "authorize bob list", "handle bob"},
			own:     append(slices.Clone(conditional), "authorize alice impersonate", "flow control bob", "authorize bob list", "handle bob")},
		{name: "legacy, and then not allowed", allowed: []string{"impersonate"}, headers: []string{"Impersonate-User", "bob"}, code: 403, impersonated: "bob",
			generic: []string{conditional[0], "authorize alice impersonate", "flow control bob", "authorize bob list"},
			own:     append(slices.Clone(conditional), "authorize alice impersonate", "flow control bob", "authorize bob list")},
		{name: "constrained", allowed: []string{"list", "impersonate-on:user-info:list", "impersonate:user-info"}, headers: []string{"Impersonate-User", "bob"}, code: 200, impersonated: "bob", constraint: "impersonate:user-info",
			generic: []string{conditional[0], "authorize alice impersonate:user-info", "flow control bob", "authorize bob list", "handle bob"}},
		{name: "refused", allowed: []string{"list"}, headers: []string{"Impersonate-User", "bob"}, code: 403,
			generic: []string{conditional[0], "authorize alice impersonate"}, own: append(slices.Clone(conditional), "authorize alice impersonate")},
		{name: "a bad request", allowed: []string{"list"}, headers: []string{"Impersonate-Uid", "7"}, code: 400},
	} {
		for _, own := range []bool{false, true} {
			for _, flowControl := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/own %v/flow control %v", tc.name, own, flowControl), func(t *testing.T) {
					t.Parallel()
					s := newSite(t, siteConfig{own: own, flowControl: flowControl, allowed: tc.allowed})
					if got := s.send(t, path, tc.headers...); got.Code != tc.code {
						t.Errorf("got %d %s, want %d", got.Code, got.Body, tc.code)
					}
					want := []string{"authenticate alice", "audit RequestReceived alice"}
					middle := tc.generic
					if own && tc.own != nil {
						middle = tc.own
					}
					for _, step := range middle {
						if flowControl || !strings.HasPrefix(step, "flow control") {
							want = append(want, step)
						}
					}
					want = append(want, "audit ResponseComplete alice")
					steps, event := s.told()
					if diff := cmp.Diff(want, steps); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
					impersonated, constraint := "", ""
					if event.ImpersonatedUser != nil {
						impersonated = event.ImpersonatedUser.Username
					}
					if event.AuthenticationMetadata != nil {
						constraint = event.AuthenticationMetadata.ImpersonationConstraint
					}
					if impersonated != tc.impersonated || constraint != tc.constraint || event.User.Username != "alice" || event.ResponseStatus.Code != int32(tc.code) {
						t.Errorf("audited %s as %q by %q, %d; want %q by %q, %d", event.User.Username, impersonated, constraint, event.ResponseStatus.Code, tc.impersonated, tc.constraint, tc.code)
					}
				})
			}
		}
	}
}

// TestHandlerChainConditional: a grant of the mode conditional is audited with its verb.
func TestHandlerChainConditional(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteConfig{own: true, flowControl: true, allowed: []string{"get", "constrainedimpersonate"}})
	if got := s.send(t, "/metrics", "Impersonate-User", "bob"); got.Code != 200 {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	steps, event := s.told()
	if event.ImpersonatedUser.Username != "bob" || event.AuthenticationMetadata.ImpersonationConstraint != "constrainedimpersonate" || !slices.Contains(steps, "flow control bob") || !slices.Contains(steps, "handle bob") {
		t.Errorf("got %+v, %q", event, steps)
	}
}

// TestHandlerChainUnauthenticated: nobody is impersonated by somebody unknown.
func TestHandlerChainUnauthenticated(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		s := newSite(t, siteConfig{own: own, allowed: []string{"get", "impersonate", "constrainedimpersonate"}})
		if got := s.send(t, "/metrics", "X-Test-User", "", "Impersonate-User", "bob"); got.Code != http.StatusUnauthorized {
			t.Errorf("own %v: got %d %s", own, got.Code, got.Body)
		}
		if steps, _ := s.told(); slices.ContainsFunc(steps, func(step string) bool {
			return strings.HasPrefix(step, "authorize") || strings.HasPrefix(step, "handle")
		}) {
			t.Errorf("own %v: %q", own, steps)
		}
	}
}

// TestHandlerChainPanics: a panic behind the filter, or of who is asked, ends the request only.
func TestHandlerChainPanics(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		for _, flowControl := range []bool{false, true} {
			s := newSite(t, siteConfig{own: own, flowControl: flowControl, allowed: []string{"get", "impersonate"}, behind: func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/panic" {
					panic("in a handler")
				}
			}})
			for path, want := range map[string]int{"/panic": 500, "/metrics": 200} {
				if got := s.send(t, path, "Impersonate-User", "bob"); got.Code != want {
					t.Errorf("own %v, %s: got %d, want %d", own, path, got.Code, want)
				}
			}
		}
	}
	s := newSite(t, siteConfig{own: true, allowed: []string{"get", "impersonate"}, filter: func(c *impersonation.FilterConfig) {
		c.Authorizer = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			panic("in an authorizer")
		})
	}})
	if got := s.send(t, "/metrics", "Impersonate-User", "bob"); got.Code != 500 {
		t.Errorf("an authorizer panics: got %d", got.Code)
	}
	if got := s.send(t, "/metrics"); got.Code != 200 {
		t.Errorf("afterwards: got %d", got.Code)
	}
}

// TestHandlerChainMaxInFlight: without flow control, the bounds are those of the generic
// chain, and count a request once.
func TestHandlerChainMaxInFlight(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		for _, headers := range [][]string{nil, {"Impersonate-User", "bob"}} {
			arrived, leave, done := make(chan struct{}), make(chan struct{}), make(chan int)
			s := newSite(t, siteConfig{own: own, allowed: []string{"get", "impersonate"}, behind: func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/waits" {
					arrived <- struct{}{}
					<-leave
				}
			}, adjust: func(c *genericapiserver.Config) { c.MaxRequestsInFlight = 1 }})
			go func() { done <- s.send(t, "/waits", headers...).Code }()
			<-arrived
			if got := s.send(t, "/other", headers...); got.Code != http.StatusTooManyRequests {
				t.Errorf("own %v: a second request: got %d", own, got.Code)
			}
			close(leave)
			if code := <-done; code != 200 {
				t.Errorf("own %v: the first request: got %d", own, code)
			}
			if got := s.send(t, "/other", headers...); got.Code != 200 {
				t.Errorf("own %v: afterwards: got %d", own, got.Code)
			}
		}
	}
}

// TestUnknownClients answers clients without a token with 503, and closes their connections, until the server verifies client certificates.
func TestUnknownClients(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, path, token string
		areKnown          bool
		want              int
	}{
		{name: "a resource", path: "/apis/policy.proviso.dev/v1alpha1/authorizationpolicies", want: http.StatusServiceUnavailable},
		{name: "with a token", path: "/apis", token: "Bearer token", want: http.StatusOK},
		{name: "with an empty token", path: "/apis", token: "Bearer ", want: http.StatusServiceUnavailable},
		{name: "with two spaces before the token", path: "/apis", token: "Bearer  token", want: http.StatusServiceUnavailable},
		{name: "with a password", path: "/apis", token: "Basic YTpi", want: http.StatusServiceUnavailable},
		{name: "later", path: "/apis", areKnown: true, want: http.StatusOK},
		{name: "a check of health", path: "/readyz", want: http.StatusOK},
		{name: "one check of health", path: "/livez/ping", want: http.StatusOK},
		{name: "what begins like one", path: "/livezoo", want: http.StatusServiceUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			handler := withKnownClients(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Codecs, func() bool { return tc.areKnown })
			request, recorder := httptest.NewRequest(http.MethodGet, tc.path, nil), httptest.NewRecorder()
			if tc.token != "" {
				request.Header.Set("Authorization", tc.token)
			}
			handler.ServeHTTP(recorder, request)
			closed := recorder.Header().Get("Connection") == "close" && recorder.Header().Get("Retry-After") == "1"
			if recorder.Code != tc.want || closed != (tc.want != http.StatusOK) {
				t.Errorf("got %d %v %s, want %d", recorder.Code, recorder.Header(), recorder.Body, tc.want)
			}
		})
	}
}
