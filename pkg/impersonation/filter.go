/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation/metrics"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/httplog"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
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
	next       http.Handler
	modes      modes
	narrow     func(ctx context.Context, sets ...authorization.Set) error
	serializer runtime.NegotiatedSerializer
}

var errIncomplete = errors.New("the impersonation filter needs an authorizer, a chain, compilers, a serializer and a way to narrow requests")

// NewFilter makes a Filter before another handler. It keeps what the filter of Kubernetes
// remembers: the constrained modes allow for a few seconds what they allowed.
func NewFilter(next http.Handler, config FilterConfig) (*Filter, error) {
	conditional := config.Conditional
	if config.Authorizer == nil || config.Narrow == nil || config.Serializer == nil ||
		conditional.Chain == nil || conditional.Compiler == nil || conditional.Partial == nil {
		return nil, errIncomplete
	}
	metrics.RegisterMetrics()
	conditional.record = metrics.RecordImpersonationAuthorizationCall
	modes, err := newModes(config.Authorizer, config.Constrained, &conditional, config.Serializer, conditional.record)
	return &Filter{next: next, modes: modes, narrow: config.Narrow, serializer: config.Serializer}, err
}

// ServeHTTP passes on the request as the user that it impersonates, or refuses it.
func (f *Filter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !hasImpersonation(r.Header) {
		f.next.ServeHTTP(w, r)
		return
	}
	ctx, wanted := r.Context(), wantedFrom(r.Header)
	attributes, err := genericapifilters.GetAuthorizerAttributes(ctx)
	if wanted == nil || err != nil || attributes.GetUser() == nil {
		f.serveWithoutUser(w, r)
		return
	}
	start := time.Now()
	result := f.modes.run(ctx, r, recordOf(attributes), wanted)
	if len(result.Residual) > 0 {
		if err := f.narrow(ctx, result.Residual...); err != nil {
			result.User, result.refusal = nil, apierrors.NewInternalError(fmt.Errorf("what remains of the impersonation is not in force: %w", err))
		}
	}
	duration := time.Since(start)
	genericapirequest.TrackImpersonationLatency(ctx, duration)
	if result.User == nil {
		metrics.RecordImpersonationAttempt("", "denied", duration)
		f.refuse(w, r, result)
		return
	}
	metrics.RecordImpersonationAttempt(string(result.Mode), "allowed", duration)
	httplog.LogOf(r, w).Addf("%q is impersonating %q", attributes.GetUser().GetName(), result.User.GetName())
	audit.LogImpersonatedUser(ctx, result.User, result.Constraint)
	TakeHeaders(r.Header) // Handlers must not know that the user is impersonated.
	f.next.ServeHTTP(w, r.WithContext(genericapirequest.WithUser(ctx, result.User)))
}

// serveWithoutUser serves a request whose headers name no user, or that has no requester. Upstream's filter refuses it,
// unless the headers have no values.
func (f *Filter) serveWithoutUser(w http.ResponseWriter, r *http.Request) {
	if result := f.modes.legacy.run(r.Context(), r, nil); result.User == nil {
		f.refuse(w, r, result)
		return
	}
	TakeHeaders(r.Header)
	f.next.ServeHTTP(w, r)
}

func (f *Filter) refuse(w http.ResponseWriter, r *http.Request, result result) {
	if result.refusal == nil {
		result.response.copyTo(w)
		return
	}
	klog.FromContext(r.Context()).V(4).Info("Forbidden", "URI", r.RequestURI, "err", result.refusal)
	responsewriters.RespondWithError(w, r, result.refusal, f.serializer)
}
