/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	upstream "k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/metrics/legacyregistry"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// came is what came of a request.
type came struct {
	Code int
	Body string
	// User is who makes the request behind the filter, nil if it did not get there.
	User *user.DefaultInfo
	// Headers are the names of those that are left behind the filter.
	Headers []string
	// Impersonated and Constraint are what is audited.
	Impersonated, Constraint string
	// Residual are the texts of the residual conditions.
	Residual []string
}

type cameKey struct{}

func cameOf(ctx context.Context) *came { return ctx.Value(cameKey{}).(*came) }

// behind is what is behind a filter.
var behind = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	c := cameOf(r.Context())
	by, _ := genericapirequest.UserFrom(r.Context())
	c.User = copyOf(by)
	c.Headers = slices.Sorted(maps.Keys(r.Header))
	w.WriteHeader(http.StatusNoContent)
})

// enforceResidual records the residual conditions of a request.
func enforceResidual(ctx context.Context, sets ...authorization.Set) error {
	cameOf(ctx).Residual = append(cameOf(ctx).Residual, textsOf(sets)...)
	return nil
}

// event keeps an audit event.
type event struct{ auditinternal.Event }

func (e *event) ProcessEvents(events ...*auditinternal.Event) bool {
	events[0].DeepCopyInto(&e.Event)
	return true
}

// send makes a request through a filter.
func send(ctx context.Context, tb testing.TB, filter http.Handler, a authorizer.AttributesRecord, headers http.Header) *came {
	tb.Helper()
	c := &came{}
	ctx = audit.WithAuditContext(context.WithValue(ctx, cameKey{}, c))
	audited := &event{}
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, audited); err != nil {
		tb.Fatal(err)
	}
	if a.User != nil {
		ctx = genericapirequest.WithUser(ctx, a.User)
	}
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: a.ResourceRequest, Path: a.Path, Verb: a.Verb, APIGroup: a.APIGroup, APIVersion: a.APIVersion,
		Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
	})
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
	request.Header = http.Header{"Accept": {"application/json"}, "X-Other": {"x"}, "X-Remote-User": {"somebody"}}
	for name, values := range headers {
		request.Header[name] = slices.Clone(values)
	}
	recorder := httptest.NewRecorder()
	filter.ServeHTTP(recorder, request)
	c.Code, c.Body = recorder.Code, recorder.Body.String()
	audit.AuditContextFrom(ctx).ProcessEventStage(ctx, auditinternal.StageResponseComplete)
	if audited.ImpersonatedUser != nil {
		c.Impersonated = fmt.Sprintf("%+v", *audited.ImpersonatedUser)
	}
	if audited.AuthenticationMetadata != nil {
		c.Constraint = audited.AuthenticationMetadata.ImpersonationConstraint
	}
	return c
}

// compilers are shared: they remember what they have compiled.
var compilers = sync.OnceValues(func() (c struct {
	conditions        *cel.Compiler
	policies, partial *partial.Compiler
}, err error,
) {
	if c.conditions, err = cel.NewCompiler(); err != nil {
		return c, err
	}
	if c.policies, err = partial.NewPolicyCompiler(c.conditions); err != nil {
		return c, err
	}
	c.partial, err = partial.NewConditionCompiler(c.conditions)
	return c, err
})

// publish lets a source decide from policies, named by letters.
func publish(tb testing.TB, source *engine.Source, policies []policyv1alpha1.AuthorizationPolicySpec) {
	tb.Helper()
	c, err := compilers()
	if err != nil {
		tb.Fatal(err)
	}
	compiled := map[engine.Key]*engine.Policy{}
	for i := range policies {
		key := engine.Key{Name: string(rune('a' + i))}
		if compiled[key], err = engine.New(key, &policies[i], c.policies); err != nil {
			tb.Fatal(err)
		}
	}
	source.Publish(engine.NewBuilder().Apply(compiled))
}

// conditionalOver is the mode conditional that decides from a source, from what others grant,
// and from what those say who come last.
func conditionalOver(tb testing.TB, source *engine.Source, others authorizer.AuthorizerFunc, last ...authorization.Member) impersonation.Conditional {
	tb.Helper()
	c, err := compilers()
	if err != nil {
		tb.Fatal(err)
	}
	chain, err := authorization.NewChain(append([]authorization.Member{
		{Name: "restricting", Decider: &engine.Authorizer{Source: source}},
		{Name: "others", Decider: authorization.DeciderOf(unconditional{others})},
		{Name: "granting", Decider: &engine.Authorizer{Source: source, Part: engine.Granting}},
	}, last...)...)
	if err != nil {
		tb.Fatal(err)
	}
	denials, err := authorization.NewChain(authorization.Member{Name: "restricting", Decider: &engine.Authorizer{Source: source}})
	if err != nil {
		tb.Fatal(err)
	}
	return impersonation.Conditional{Chain: chain, Denials: denials, Compiler: c.conditions, Partial: c.partial}
}

// newFilter makes a filter that decides from policies and what others grant.
func newFilter(tb testing.TB, policies policies, others authorizer.AuthorizerFunc, adjust func(*impersonation.FilterConfig)) http.Handler {
	tb.Helper()
	source := &engine.Source{}
	publish(tb, source, policies)
	return newFilterOver(tb, source, others, adjust)
}

func newFilterOver(tb testing.TB, source *engine.Source, others authorizer.AuthorizerFunc, adjust func(*impersonation.FilterConfig)) http.Handler {
	tb.Helper()
	conditional := conditionalOver(tb, source, others)
	config := impersonation.FilterConfig{Authorizer: conditional.Chain, Constrained: true, Conditional: conditional, EnforceResidual: enforceResidual, Serializer: scheme.Codecs}
	if adjust != nil {
		adjust(&config)
	}
	return wrapped(tb, config)
}

// wrapped makes a filter before behind.
func wrapped(tb testing.TB, config impersonation.FilterConfig) http.Handler {
	tb.Helper()
	filter, err := impersonation.NewFilter(config)
	if err != nil {
		tb.Fatal(err)
	}
	return filter(behind)
}

// headers are pairs.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for pair := range slices.Chunk(pairs, 2) {
		h[pair[0]] = append(h[pair[0]], pair[1])
	}
	return h
}

// sorts is a condition that is false, costs a twentieth of cel.AuthorizationBudget and takes
// little time: sorting has the cost of comparing all elements with each other.
const sorts = `lists.range(240).sort()[0] == 1`

// TestChecksShareOneBudget asks that the checks on all parts of a user cost together what one decision may cost: a
// requester without any permission can name as many parts as fit into headers, before flow control.
func TestChecksShareOneBudget(t *testing.T) {
	t.Parallel()
	const affordable, named = 20, 40
	asBob := headers("Impersonate-User", "bob")
	for i := range named {
		asBob["Impersonate-Group"] = append(asBob["Impersonate-Group"], fmt.Sprintf("g%02d", i))
	}
	onGroups := func(verb, apiGroup string) policies {
		p := denyIf(sorts, "groups")
		p.Rules[0].Verbs, p.Rules[0].APIGroups = []string{verb}, []string{apiGroup}
		return policies{p}
	}
	for _, tc := range []struct {
		name     string
		policies policies
		granted  []string // verbs
		want     string   // the verb that is denied for a group
	}{
		{name: "without any permission", policies: policies{denyIf(sorts, "groups")}, want: "constrainedimpersonate"},
		{name: "with the legacy permission", policies: policies{denyIf(sorts, "groups")}, granted: []string{"impersonate"}, want: "constrainedimpersonate"},
		{name: "constrained modes", policies: onGroups("impersonate:user-info", "authentication.k8s.io"), granted: []string{"impersonate:user-info", "impersonate-on:user-info:get"}, want: "impersonate:user-info"},
		{name: "legacy mode", policies: onGroups("impersonate", ""), granted: []string{"impersonate"}, want: "impersonate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			grants := func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if slices.Contains(tc.granted, a.GetVerb()) && a.GetName() != "*" {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			}
			answer, err := conditionalReviewer(t, tc.policies, grants).Review(t.Context(), getPod, &user.DefaultInfo{Name: "bob", Groups: asBob["Impersonate-Group"]})
			if err != nil || answer.User != nil {
				t.Fatalf("a review: got %v, %v, want a refusal", answer.User, err)
			}
			denied := slices.IndexFunc(answer.Checks, func(c impersonation.Check) bool {
				return c.Attributes.Verb == tc.want && c.Decision == authorizer.DecisionDeny && errors.Is(c.Err, cel.ErrCost)
			})
			if denied < 0 || answer.Checks[denied].Attributes.Name > fmt.Sprintf("g%02d", affordable) {
				t.Errorf("a review: no group up to g%d is denied for its cost: %+v", affordable, answer.Checks)
			}
			got := send(t.Context(), t, newFilter(t, tc.policies, grants, nil), getPod, asBob)
			if got.Code != http.StatusForbidden {
				t.Errorf("a request: got %d %s, want 403", got.Code, got.Body)
			}
		})
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	const (
		onUserInfo = "impersonate-on:user-info:get pods@ns p"
		bob        = "impersonate:user-info users.authentication.k8s.io bob"
		legacy     = "impersonate users bob"
		reserved   = "Impersonate-Extra-Authorization.proviso.dev%2fimpersonation-Conditions"
	)
	asBob := headers("Impersonate-User", "bob")
	bobs := &user.DefaultInfo{Name: "bob", Groups: []string{"system:authenticated"}}
	everything := []string{"*"}
	for _, tc := range []struct {
		name           string
		policies       policies
		granted        []string
		headers        http.Header
		request        *authorizer.AttributesRecord
		adjust         func(*impersonation.FilterConfig)
		want           *user.DefaultInfo // nil means refused
		wantCode       int
		wantBody       string
		wantConstraint string
		wantResidual   []string
	}{
		{name: "nobody", headers: headers(), want: &user.DefaultInfo{Name: "agent", Groups: []string{"agents"}}},
		{name: "nobody, by headers without a value", headers: http.Header{"Impersonate-User": {""}, "Impersonate-Uid": {""}, "Impersonate-Group": {}}, want: &user.DefaultInfo{Name: "agent", Groups: []string{"agents"}}},
		{name: "nobody, by a second value", headers: http.Header{"Impersonate-User": {"", "bob"}}, granted: everything, want: &user.DefaultInfo{Name: "agent", Groups: []string{"agents"}}},

		// The modes in order.
		{name: "constrained", headers: asBob, policies: policies{allowIf("", "users")}, granted: []string{onUserInfo, bob, legacy}, want: bobs, wantConstraint: "impersonate:user-info"},
		{name: "conditional", headers: asBob, policies: policies{allowIf("", "users")}, granted: []string{onUserInfo, legacy}, want: bobs, wantConstraint: "constrainedimpersonate"},
		{name: "legacy", headers: asBob, granted: []string{onUserInfo, legacy}, want: bobs},
		{name: "constrained off", headers: asBob, granted: []string{onUserInfo, bob}, adjust: func(c *impersonation.FilterConfig) { c.Constrained = false }, wantCode: 403, wantBody: `users \"bob\" is forbidden: User \"agent\" cannot impersonate resource`},
		{name: "constrained off, conditional", headers: asBob, policies: policies{allowIf("", "users")}, granted: []string{onUserInfo, bob}, adjust: func(c *impersonation.FilterConfig) { c.Constrained = false }, want: bobs, wantConstraint: "constrainedimpersonate"},
		{name: "constrained off, legacy", headers: asBob, granted: []string{legacy}, adjust: func(c *impersonation.FilterConfig) { c.Constrained = false }, want: bobs},

		// Conditions on the request and the user.
		{name: "on the request", headers: asBob, policies: policies{allowIf(`impersonatedRequest.verb == "get"`, "users")}, want: bobs, wantConstraint: "constrainedimpersonate"},
		{name: "on another request", headers: asBob, policies: policies{allowIf(`impersonatedRequest.verb == "list"`, "users")}, wantCode: 403, wantBody: "impersonate-on:user-info:get"},
		{name: "on a path", headers: asBob, request: &authorizer.AttributesRecord{User: getPod.User, Verb: "get", Path: "/metrics"}, policies: policies{allowIf(`impersonatedRequest.path == "/metrics"`, "users")}, want: bobs, wantConstraint: "constrainedimpersonate"},
		{name: "on a group", headers: headers("Impersonate-User", "bob", "Impersonate-Group", "g", "Impersonate-Group", "h"), policies: policies{allowIf(`impersonatedUser.groups.exists(g, g == "h")`, "users", "groups")},
			want: &user.DefaultInfo{Name: "bob", Groups: []string{"g", "h", "system:authenticated"}}, wantConstraint: "constrainedimpersonate"},
		{name: "on extra", headers: headers("Impersonate-User", "bob", "Impersonate-Uid", "7", "Impersonate-Extra-Example.com%2fK", "V"), policies: policies{allowIf(`impersonatedUser.extra["example.com/k"] == ["V"]`, "users", "uids", "userextras/example.com/k")},
			want: &user.DefaultInfo{Name: "bob", UID: "7", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"example.com/k": {"V"}}}, wantConstraint: "constrainedimpersonate"},
		{name: "without the part", headers: headers("Impersonate-User", "bob", "Impersonate-Group", "g"), policies: policies{allowIf("", "users")}, wantCode: 403, wantBody: "cannot impersonate-on"},

		// A denial is final.
		{name: "denied", headers: asBob, policies: policies{denyIf("", "users")}, granted: []string{legacy}, wantCode: 403, wantBody: `users.authentication.k8s.io \"bob\" is forbidden: User \"agent\" cannot constrainedimpersonate`},
		{name: "denied, and legacy does not allow", headers: asBob, policies: policies{denyIf("", "users")}, wantCode: 403, wantBody: `cannot constrainedimpersonate`},
		{name: "denied behind a part that only legacy allows", headers: headers("Impersonate-User", "bob", "Impersonate-Group", "g"), policies: policies{denyIf("", "groups")}, granted: []string{legacy, "impersonate groups g"}, wantCode: 403, wantBody: `groups.authentication.k8s.io \"g\" is forbidden`},
		{name: "denied with a uid that a service account cannot have", headers: headers("Impersonate-User", "system:serviceaccount:a:b", "Impersonate-Uid", "7"), policies: policies{denyIf("", "serviceaccounts")}, granted: everything, wantCode: 403, wantBody: "cannot constrainedimpersonate"},
		{name: "constrained comes before", headers: asBob, policies: policies{denyIf("", "users")}, granted: []string{onUserInfo, bob}, want: bobs, wantConstraint: "impersonate:user-info"},

		// What depends on the object.
		{name: "residual", headers: asBob, policies: policies{allowIf(`object.x == 1`, "users")}, want: bobs, wantConstraint: "constrainedimpersonate", wantResidual: []string{"0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: !(object.x == 1)"}},
		{name: "legacy is better", headers: asBob, policies: policies{allowIf(`object.x == 1`, "users")}, granted: []string{legacy}, want: bobs},
		{name: "legacy is denied some", headers: asBob, policies: policies{denyIf(`object.x == 1`, "users")}, granted: []string{legacy}, want: bobs, wantResidual: []string{"0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1"}},
		{name: "legacy is denied some by a later part", headers: headers("Impersonate-User", "bob", "Impersonate-Group", "g"), policies: policies{denyIf(`object.x == 1`, "groups")}, granted: []string{legacy, "impersonate groups g"},
			want: &user.DefaultInfo{Name: "bob", Groups: []string{"g", "system:authenticated"}}, wantResidual: []string{"0.impersonation.proviso.dev Deny cluster.policy.proviso.dev/a: object.x == 1"}},
		{name: "residual not enforced", headers: asBob, policies: policies{allowIf(`object.x == 1`, "users")}, adjust: failingResidual, wantCode: 500, wantBody: "are not enforced: made by the test"},
		{name: "legacy, residual not enforced", headers: asBob, policies: policies{denyIf(`object.x == 1`, "users")}, granted: []string{legacy}, adjust: failingResidual, wantCode: 500, wantBody: "are not enforced"},
		{name: "no residual", headers: asBob, policies: policies{allowIf("", "users")}, adjust: failingResidual, want: bobs, wantConstraint: "constrainedimpersonate"},
		{name: "cannot be said", headers: asBob, policies: policies{allowIf(`object.x == 1 || authorizer.path("/x").check("get").allowed()`, "users")}, granted: []string{legacy}, wantCode: 403, wantBody: "cannot be enforced"},

		// The reserved extra, in every encoding.
		{name: "reserved", headers: headers("Impersonate-User", "bob", reserved, "[]"), policies: policies{allowIf("", "*", "*/*")}, granted: everything, wantCode: 403, wantBody: "is reserved"},
		{name: "reserved, with an upper-case escape", headers: headers("Impersonate-User", "bob", strings.ReplaceAll(reserved, "%2f", "%2F"), "[]"), granted: everything, wantCode: 403, wantBody: "is reserved"},
		{name: "reserved, escaped whole", headers: headers("Impersonate-User", "bob", "Impersonate-Extra-"+escaped(impersonation.ExtraConditions), "[]"), granted: everything, wantCode: 403, wantBody: "is reserved"},
		{name: "reserved, escaped upper case", headers: headers("Impersonate-User", "bob", "Impersonate-Extra-"+escaped(strings.ToUpper(impersonation.ExtraConditions)), "[]"), granted: everything, wantCode: 403, wantBody: "is reserved"},
		{name: "reserved, several values", headers: headers("Impersonate-User", "bob", reserved, "[]", reserved, "[]", "Impersonate-Extra-K", "v"), granted: everything, wantCode: 403, wantBody: "is reserved"},
		{name: "reserved, an empty value", headers: headers("Impersonate-User", "bob", reserved, ""), granted: everything, wantCode: 403, wantBody: "is reserved"},
		{name: "reserved, a bare slash", headers: headers("Impersonate-User", "bob", "Impersonate-Extra-Authorization.proviso.dev/impersonation-Conditions", "[]"), granted: everything, wantCode: 403, wantBody: "is reserved"},
		{name: "reserved, without values", headers: http.Header{"Impersonate-User": {"bob"}, reserved: {}}, granted: []string{legacy}, want: bobs},
		{name: "reserved, of the requester", headers: asBob, request: &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "agent", Extra: map[string][]string{"Authorization.proviso.dev/impersonation-conditions": {"[]"}}}, Verb: "get", Path: "/x"}, granted: everything, wantCode: 403, wantBody: "is reserved"},

		// Bad requests.
		{name: "no name, but a uid", headers: headers("Impersonate-Uid", "7"), granted: everything, wantCode: 400, wantBody: "without impersonating a user name"},
		{name: "no name, but a group", headers: headers("Impersonate-Group", ""), granted: everything, wantCode: 400, wantBody: "without impersonating a user name"},
		{name: "no name, but extra", headers: http.Header{"Impersonate-Extra-": {}}, granted: everything, wantCode: 400, wantBody: "without impersonating a user name"},
		{name: "an empty name, and the reserved extra", headers: headers("Impersonate-User", "", reserved, "[]"), granted: everything, wantCode: 400, wantBody: "without impersonating a user name"},
		{name: "no requester", headers: asBob, request: &authorizer.AttributesRecord{Verb: "get", Path: "/x"}, granted: everything, wantCode: 500, wantBody: "no User found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request := getPod
			if tc.request != nil {
				request = *tc.request
			}
			grants := allowing(tc.granted...)
			if slices.Equal(tc.granted, everything) {
				grants = allButConditional
			}
			got := send(t.Context(), t, newFilter(t, tc.policies, grants, tc.adjust), request, tc.headers)
			if diff := cmp.Diff(tc.want, got.User); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
			if tc.want != nil {
				tc.wantCode = http.StatusNoContent
				if want := []string{"Accept", "X-Other", "X-Remote-User"}; !slices.Equal(got.Headers, want) {
					t.Errorf("got headers %q, want %q", got.Headers, want)
				}
			}
			if got.Code != tc.wantCode || !strings.Contains(got.Body, tc.wantBody) {
				t.Errorf("got %d %s, want %d %s", got.Code, got.Body, tc.wantCode, tc.wantBody)
			}
			if impersonated := tc.want != nil && tc.want.Name != "agent"; got.Constraint != tc.wantConstraint || (got.Impersonated != "") != impersonated {
				t.Errorf("audited %q by %q, want %q", got.Impersonated, got.Constraint, tc.wantConstraint)
			}
			if diff := cmp.Diff(tc.wantResidual, got.Residual); diff != "" {
				t.Errorf("residual (-want +got):\n%s", diff)
			}
		})
	}
}

var errResidual = errors.New("made by the test")

func failingResidual(c *impersonation.FilterConfig) {
	c.EnforceResidual = func(context.Context, ...authorization.Set) error { return errResidual }
}

// escaped escapes every byte.
func escaped(key string) string {
	var b strings.Builder
	for i := range len(key) {
		fmt.Fprintf(&b, "%%%02x", key[i])
	}
	return b.String()
}

var allButConditional = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == impersonation.VerbConditional {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, "", nil
})

func TestNewFilterNeedsEverything(t *testing.T) {
	t.Parallel()
	complete := impersonation.FilterConfig{Authorizer: allButConditional, EnforceResidual: enforceResidual, Serializer: scheme.Codecs, Conditional: conditionalOver(t, &engine.Source{}, allowing())}
	if _, err := impersonation.NewFilter(complete); err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func(*impersonation.FilterConfig){
		"authorizer": func(c *impersonation.FilterConfig) { c.Authorizer = nil },
		"residual":   func(c *impersonation.FilterConfig) { c.EnforceResidual = nil },
		"serializer": func(c *impersonation.FilterConfig) { c.Serializer = nil },
		"chain":      func(c *impersonation.FilterConfig) { c.Conditional.Chain = nil },
		"denials":    func(c *impersonation.FilterConfig) { c.Conditional.Denials = nil },
		"compiler":   func(c *impersonation.FilterConfig) { c.Conditional.Compiler = nil },
		"partial":    func(c *impersonation.FilterConfig) { c.Conditional.Partial = nil },
	} {
		without := complete
		remove(&without)
		if _, err := impersonation.NewFilter(without); err == nil {
			t.Errorf("a filter without %s", name)
		}
	}
}

// scattered grants by the hash of what is asked: the same check has the same answer.
func scattered(seed uint64, denies bool) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetVerb() == impersonation.VerbConditional {
			return authorizer.DecisionNoOpinion, "", nil
		}
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%d %s %s", seed, a.GetUser().GetName(), describe(a))
		switch n := h.Sum64() % 16; {
		case n < 10:
			return authorizer.DecisionAllow, "granted", nil
		case n < 11 && denies:
			return authorizer.DecisionDeny, "forbidden by the test", nil
		case n < 12:
			return authorizer.DecisionNoOpinion, "with a reason", errResidual
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}

// pick returns one of several.
func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func generatedHeaders(r *rand.Rand, maxExtra int) http.Header {
	h := http.Header{}
	switch r.IntN(24) {
	case 0:
	case 1:
		h["Impersonate-User"] = []string{""}
	case 2:
		h["Impersonate-User"] = []string{"bob", "carol"}
	default:
		h.Set("Impersonate-User", pick(r, "bob", "bob", "carol", "system:anonymous", "system:node:n1", "system:node:n1", "system:node:N_", "system:serviceaccount:a:b", "system:serviceaccount:a:b", "system:serviceaccount:a", "a/b", " "))
	}
	if r.IntN(4) == 0 {
		h.Set("Impersonate-Uid", pick(r, "7", "8", ""))
	}
	if r.IntN(3) == 0 {
		h["Impersonate-Group"] = pick(r, []string{"g"}, []string{"g", "h"}, []string{""}, []string{}, []string{"system:masters"}, []string{"system:unauthenticated"}, []string{"system:authenticated"}, []string{"1", "2", "3", "4", "5"})
	}
	for range r.IntN(maxExtra + 1) {
		key := pick(r, "K", "K", "Example.com%2fK", "Example.com%2FK", "%4b", "A%20b", "", "%zz", "*")
		h["Impersonate-Extra-"+key] = pick(r, []string{"v"}, []string{"V"}, []string{""}, []string{})
	}
	return h
}

// TestFilterAgreesWithKubernetes: where nobody speaks about the mode conditional, requests
// are answered, audited and counted as the filter of Kubernetes does it.
func TestFilterAgreesWithKubernetes(t *testing.T) { //nolint:paralleltest // it counts, and others count, too
	const requests = 5000
	var current authorizer.AuthorizerFunc
	source := &engine.Source{}
	publish(t, source, nil)
	conditional := conditionalOver(t, source, func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		return current(ctx, a)
	})
	ours := func(constrained bool) http.Handler {
		return wrapped(t, impersonation.FilterConfig{Authorizer: conditional.Chain, Constrained: constrained, Conditional: conditional, EnforceResidual: enforceResidual, Serializer: scheme.Codecs})
	}
	theirs := func(constrained bool) http.Handler {
		if constrained {
			return upstream.WithConstrainedImpersonation(behind, conditional.Chain, scheme.Codecs)
		}
		return upstream.WithImpersonation(behind, conditional.Chain, scheme.Codecs)
	}
	for _, constrained := range []bool{true, false} {
		run := func(build func(bool) http.Handler) ([]*came, map[string]uint64) {
			r := rand.New(rand.NewPCG(5, 284))
			before := counted(t, false)
			results := make([]*came, requests)
			for i := range results {
				current = scattered(r.Uint64(), r.IntN(2) == 0)
				request := pick(r, getPod, getPod, as(getPod, onNode), authorizer.AttributesRecord{User: getPod.User, Verb: "get", Path: "/metrics"}, requestFor("create", "pods"))
				results[i] = send(t.Context(), t, build(constrained), request, generatedHeaders(r, 1))
			}
			counts := map[string]uint64{}
			add(counts, before, counted(t, false))
			return results, counts
		}
		wants, wantCounts := run(theirs)
		gots, gotCounts := run(ours)
		codes := map[int]int{}
		for i, want := range wants {
			codes[want.Code]++
			want.Headers = slices.DeleteFunc(want.Headers, func(name string) bool { return strings.HasPrefix(name, "Impersonate-") })
			if !constrained && want.Code != http.StatusNoContent {
				want.Body, gots[i].Body = "", "" // that filter has another order and other words
			}
			if diff := cmp.Diff(want, gots[i], cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("request %d, constrained %v (-filter of Kubernetes +ours):\n%s", i, constrained, diff)
			}
		}
		if diff := cmp.Diff(wantCounts, gotCounts); constrained && diff != "" { // the other one counts nothing
			t.Errorf("counted (-filter of Kubernetes +ours):\n%s", diff)
		}
		for _, code := range []int{http.StatusNoContent, http.StatusForbidden, http.StatusBadRequest} {
			if codes[code] < requests/100 {
				t.Errorf("only %d answers are %d: %v", codes[code], code, codes)
			}
		}
	}
}

// counted returns what the metrics of attempts say, by labels.
func counted(t *testing.T, conditional bool) map[string]uint64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "apiserver_impersonation_") || strings.Contains(name, "authorization") != conditional {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			if m.GetHistogram() != nil {
				counts[name] += m.GetHistogram().GetSampleCount()
			} else {
				counts[name] += uint64(m.GetCounter().GetValue())
			}
			name = family.GetName()
		}
	}
	return counts
}

func add(sum, before, after map[string]uint64) {
	for name, n := range after {
		if d := n - before[name]; d > 0 {
			sum[name] += d
		}
	}
}

// TestFilterCountsTheModeConditional: its checks are counted, and its grants.
func TestFilterCountsTheModeConditional(t *testing.T) { //nolint:paralleltest // it counts, and others count, too
	filter := newFilter(t, policies{allowIf(`impersonatedRequest.verb == "get"`, "users")}, allowing(), nil)
	attempts, checks := counted(t, false), counted(t, true)
	send(t.Context(), t, filter, getPod, headers("Impersonate-User", "bob"))
	send(t.Context(), t, filter, requestFor("list", "pods"), headers("Impersonate-User", "bob"))
	got := map[string]uint64{}
	add(got, attempts, counted(t, false))
	add(got, checks, counted(t, true))
	want := map[string]uint64{}
	for metric, labels := range map[string][]string{
		"apiserver_impersonation_attempts_":               {"allowed conditional", "denied "},
		"apiserver_impersonation_authorization_attempts_": {"denied user-info", "denied user-info", "allowed conditional", "denied conditional", "denied legacy"},
	} {
		for _, l := range labels {
			want[metric+"total "+l]++
			want[metric+"duration_seconds "+l]++
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFilterRemembers: the constrained modes ask nobody the second time, and what the mode
// conditional allows ends with the policy.
func TestFilterRemembers(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	source := &engine.Source{}
	publish(t, source, nil)
	constrained := allowing("impersonate-on:user-info:get pods@ns p", "impersonate:user-info users.authentication.k8s.io bob")
	counting := func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		asked.Add(1)
		return constrained(ctx, a)
	}
	filter := newFilterOver(t, source, counting, nil)
	for range 3 {
		if got := send(t.Context(), t, filter, getPod, headers("Impersonate-User", "bob")); got.Constraint != "impersonate:user-info" {
			t.Fatalf("got %+v", got)
		}
	}
	if asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	if got := send(t.Context(), t, filter, getPod, headers("Impersonate-User", "bob", "Impersonate-Group", "g")); got.Code != http.StatusForbidden {
		t.Errorf("another user passes: %+v", got)
	}
	if got := send(t.Context(), t, filter, as(getPod, &user.DefaultInfo{Name: "agent"}), headers("Impersonate-User", "bob")); got.Code != http.StatusNoContent || asked.Load() == 2 {
		t.Errorf("another requester of the same name is not asked about: %+v", got)
	}

	asCarol := headers("Impersonate-User", "carol")
	for _, step := range []struct {
		policies policies
		want     int
	}{
		{nil, 403},
		{policies{allowIf("", "users")}, 204},
		{nil, 403},
		{policies{allowIf("", "users")}, 204},
		{policies{allowIf("", "users"), denyIf("", "users")}, 403},
	} {
		publish(t, source, step.policies)
		if got := send(t.Context(), t, filter, getPod, asCarol); got.Code != step.want {
			t.Errorf("with %d policies: got %+v, want %d", len(step.policies), got, step.want)
		}
	}
}

// TestFilterConcurrently sends requests of different users through one filter at once.
func TestFilterConcurrently(t *testing.T) {
	t.Parallel()
	filter := newFilter(t, policies{
		allowIf(`impersonatedUser.username == "c0" || object.owner == impersonatedUser.username`, "users"), denyIf(`impersonatedUser.username == "c3"`, "users"),
	}, allowing("impersonate users c2", "impersonate users c3"), nil)
	want := []struct {
		code     int
		mode     string
		residual int
	}{{204, "constrainedimpersonate", 0}, {204, "constrainedimpersonate", 1}, {204, "", 0}, {403, "", 0}}
	var group sync.WaitGroup
	for i := range 400 {
		group.Go(func() {
			name, want := fmt.Sprintf("c%d", i%4), want[i%4]
			got := send(t.Context(), t, filter, getPod, headers("Impersonate-User", name))
			if got.Code != want.code || got.Constraint != want.mode || len(got.Residual) != want.residual || got.User != nil && got.User.Name != name {
				t.Errorf("%s: got %+v, want %+v", name, got, want)
			}
		})
	}
	group.Wait()
}

// TestFilterContextEnds: who is asked knows that the request has ended, and sees its values.
func TestFilterContextEnds(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		if ended {
			cancel()
		}
		verbs := map[string]bool{}
		filter := newFilter(t, policies{allowIf(`impersonatedRequest.verb == "get"`, "users")}, func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if (ctx.Err() != nil) != ended || ctx.Value(cameKey{}) == nil {
				t.Errorf("%s is asked with %v in a context without values of the request", describe(a), ctx.Err())
			}
			verbs[a.GetVerb()] = true
			return authorizer.DecisionNoOpinion, "", ctx.Err()
		}, nil)
		got := send(ctx, t, filter, getPod, headers("Impersonate-User", "bob"))
		if want := map[bool]int{false: http.StatusNoContent, true: http.StatusForbidden}[ended]; got.Code != want {
			t.Errorf("ended %v: got %+v, want %d", ended, got, want)
		}
		if !verbs["impersonate-on:user-info:get"] || ended && len(verbs) < 2 {
			t.Errorf("asked about %v", verbs)
		}
		cancel()
	}
}

// TestFilterDecidesAboutOneUser: two headers that name the same key have no order, but what
// is decided is decided about the user who makes the request.
func TestFilterDecidesAboutOneUser(t *testing.T) {
	t.Parallel()
	filter := newFilter(t, policies{denyIf(`impersonatedUser.extra["k"][0] == "evil"`, "users")}, allButConstrained, nil)
	for range 200 {
		got := send(t.Context(), t, filter, getPod, headers("Impersonate-User", "bob", "Impersonate-Extra-K", "evil", "Impersonate-Extra-%6b", "good"))
		if got.User != nil && got.User.Extra["k"][0] == "evil" {
			t.Fatal("what is denied of one order was decided about the other")
		}
	}
}

var allButConstrained = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "impersonate" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})
