/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation/metrics"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/httplog"
	"k8s.io/klog/v2"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/impersonation/internal/upstreamfilter"
)

// FilterConfig configures a Filter.
type FilterConfig struct {
	// Authorizer decides the constrained modes and the legacy one. It must not give
	// conditional answers.
	Authorizer authorizer.UnconditionalAuthorizer
	// Constrained tries the constrained modes.
	Constrained bool
	// Conditional is the mode conditional.
	Conditional Conditional
	// Narrow adds to a request conditions that precede everything that decides it, each of
	// which denies. An error refuses the request.
	Narrow func(ctx context.Context, sets ...authorization.Set) error
	// Serializer encodes refusals.
	Serializer runtime.NegotiatedSerializer
}

// Filter lets requests be made as somebody else, in all modes in order: those of the
// impersonation filter of Kubernetes (KEP-5284) and, before the last of them, the mode
// conditional (KEP-5681). It is safe for concurrent use.
type Filter struct {
	next        http.Handler
	constrained http.Handler // nil if those modes are not tried
	legacy      http.Handler
	conditional Conditional
	narrow      func(ctx context.Context, sets ...authorization.Set) error
	serializer  runtime.NegotiatedSerializer
}

var errIncomplete = errors.New("the impersonation filter needs an authorizer, a chain, compilers, a serializer and a way to narrow requests")

// NewFilter makes a Filter before another handler. It keeps what the filter of Kubernetes
// remembers: the constrained modes allow for a few seconds what they allowed.
func NewFilter(next http.Handler, config FilterConfig) (*Filter, error) {
	c := config.Conditional
	if config.Authorizer == nil || config.Narrow == nil || config.Serializer == nil || c.Chain == nil || c.Compiler == nil || c.Partial == nil {
		return nil, errIncomplete
	}
	metrics.RegisterMetrics()
	c.count = func(decision string, duration time.Duration) {
		metrics.RecordImpersonationAuthorizationCall(string(api.ImpersonationModeConditional), decision, duration)
	}
	f := &Filter{next: next, conditional: c, narrow: config.Narrow, serializer: config.Serializer}
	var err error
	if config.Constrained {
		if f.constrained, err = newPass(counting{config.Authorizer, isLegacy}, config.Serializer); err != nil {
			return nil, err
		}
	}
	f.legacy, err = newPass(counting{config.Authorizer, isConstrained}, config.Serializer)
	return f, err
}

// newPass makes a filter of Kubernetes that does not answer the request itself: what it
// came to is in the attempt in the context.
func newPass(a authorizer.UnconditionalAuthorizer, serializer runtime.NegotiatedSerializer) (http.Handler, error) {
	passed := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if a := attemptFrom(r.Context()); a != nil {
			a.user, _ = genericapirequest.UserFrom(r.Context())
		}
	})
	return upstreamfilter.New(passed, a, serializer, func(ctx context.Context, mode, _ string, _ time.Duration) {
		if a := attemptFrom(ctx); a != nil {
			a.mode, a.decided = mode, true
		}
	})
}

// attempt is what one pass came to.
type attempt struct {
	//nolint:containedctx // it lives as long as the request
	ctx     context.Context // of the request, for those who are asked
	user    user.Info       // nil if it was refused
	mode    string
	decided bool  // false if the request was no impersonation that could be decided
	asked   bool  // somebody was asked
	refused Check // the last that was not allowed
	refusal response
}

type attemptKey struct{}

func attemptFrom(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// try runs one pass. It gets copies of the headers, since it takes away those that it has
// understood, and a context without the audit event, since what it comes to may not count.
// If the headers have been read, it gets what they came to: two that name the same key of
// extra have no order, and every mode must decide about the same user.
func try(pass http.Handler, r *http.Request, wanted *user.DefaultInfo) *attempt {
	a := &attempt{ctx: r.Context()}
	ctx := context.WithValue(withoutValues{r.Context()}, attemptKey{}, a)
	if requester, ok := genericapirequest.UserFrom(r.Context()); ok {
		ctx = genericapirequest.WithUser(ctx, requester)
	}
	if info, ok := genericapirequest.RequestInfoFrom(r.Context()); ok {
		ctx = genericapirequest.WithRequestInfo(ctx, info)
	}
	clone := r.WithContext(ctx)
	clone.Header = maps.Clone(r.Header)
	if wanted != nil {
		TakeHeaders(clone.Header)
		maps.Copy(clone.Header, headersOf(wanted))
	}
	pass.ServeHTTP(&a.refusal, clone)
	return a
}

// constraint is the verb that audit records (KEP-5284, "Auditing").
func (a *attempt) constraint() string {
	switch a.mode {
	case string(api.ImpersonationModeLegacy):
		return ""
	case string(api.ImpersonationModeConditional):
		return VerbConditional
	}
	return verbImpersonate + a.mode
}

// ServeHTTP passes on requests as whom they are to be made, and refuses those that may not.
func (f *Filter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := false
	for name := range r.Header {
		asked = asked || isImpersonation(name)
	}
	if !asked {
		f.next.ServeHTTP(w, r)
		return
	}
	start := time.Now()
	a := f.impersonate(r)
	duration := time.Since(start)
	if !a.decided {
		if a.user == nil {
			a.refusal.copyTo(w)
			return
		}
		// The headers are there, but ask for nobody. The request is the requester's own.
		TakeHeaders(r.Header)
		f.next.ServeHTTP(w, r)
		return
	}
	genericapirequest.TrackImpersonationLatency(r.Context(), duration)
	if a.user == nil {
		metrics.RecordImpersonationAttempt("", "denied", duration)
		a.refusal.copyTo(w)
		return
	}
	metrics.RecordImpersonationAttempt(a.mode, "allowed", duration)
	requester, _ := genericapirequest.UserFrom(r.Context())
	httplog.LogOf(r, w).Addf("%q is impersonating %q", requester.GetName(), a.user.GetName())
	audit.LogImpersonatedUser(r.Context(), a.user, a.constraint())
	TakeHeaders(r.Header) // nothing behind may know that the user is impersonated
	f.next.ServeHTTP(w, r.WithContext(genericapirequest.WithUser(r.Context(), a.user)))
}

// impersonate decides.
func (f *Filter) impersonate(r *http.Request) *attempt {
	wanted := wantedFrom(r.Header)
	attributes, err := genericapifilters.GetAuthorizerAttributes(r.Context())
	if wanted == nil || err != nil || attributes.GetUser() == nil {
		return try(f.legacy, r, wanted) // which answers what is wrong with it
	}
	if err := refuseReserved(attributes.GetUser(), wanted); err != nil {
		return f.refuse(r, err)
	}
	constrained := &attempt{}
	if f.constrained != nil {
		if constrained = try(f.constrained, r, wanted); constrained.user != nil {
			return constrained
		}
	}
	conditional := f.conditional.review(r.Context(), recordOf(attributes), wanted)
	if conditional.final {
		return f.refuse(r, conditional.last().forbidden())
	}
	allowed := &attempt{user: conditional.User, mode: string(conditional.Mode), decided: true}
	if allowed.user != nil && len(conditional.Residual) == 0 {
		return allowed
	}
	// What holds for every object is better than what depends on it.
	legacy := try(f.legacy, r, wanted)
	switch {
	case legacy.user != nil:
		return f.narrowed(r, legacy, conditional.denials)
	case allowed.user != nil:
		return f.narrowed(r, allowed, conditional.Residual)
	case legacy.decided && constrained.asked:
		legacy.refusal = constrained.refusal // the filter's own choice: that of the first mode that was for such a user
	case legacy.asked && f.constrained == nil:
		return f.refuse(r, legacy.refused.forbidden()) // the first mode that was for such a user is off
	}
	return legacy
}

// narrowed puts in force what an impersonation still depends on.
func (f *Filter) narrowed(r *http.Request, a *attempt, sets []authorization.Set) *attempt {
	if len(sets) == 0 {
		return a
	}
	if err := f.narrow(r.Context(), sets...); err != nil {
		return f.refuse(r, apierrors.NewInternalError(fmt.Errorf("what remains of the impersonation is not in force: %w", err)))
	}
	return a
}

func (f *Filter) refuse(r *http.Request, err error) *attempt {
	klog.FromContext(r.Context()).V(4).Info("Forbidden", "URI", r.RequestURI, "err", err)
	a := &attempt{decided: true}
	responsewriters.RespondWithError(&a.refusal, r, err, f.serializer)
	return a
}

// counting asks about the verbs of some modes, and counts what it asks.
type counting struct {
	authorizer authorizer.UnconditionalAuthorizer
	// masked are the verbs that nobody is asked about: they are not allowed.
	masked func(verb string) bool
}

var _ authorizer.UnconditionalAuthorizer = counting{}

func (c counting) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if c.masked(attributes.GetVerb()) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	a := attemptFrom(ctx)
	if a != nil {
		a.asked, ctx = true, a.ctx
	}
	start := time.Now()
	decision, reason, err := c.authorizer.Authorize(ctx, attributes)
	label := "denied"
	if decision == authorizer.DecisionAllow {
		label = "allowed"
	} else if a != nil {
		a.refused = Check{Attributes: recordOf(attributes), Decision: decision, Reason: reason} // that filter tells no errors
	}
	metrics.RecordImpersonationAuthorizationCall(string(modeOf(attributes.GetVerb())), label, time.Since(start))
	return decision, reason, err
}
