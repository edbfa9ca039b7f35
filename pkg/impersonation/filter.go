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

// FilterConfig configures the impersonation filter.
type FilterConfig struct {
	// Authorizer decides the checks of the constrained modes and of legacy mode. It must not
	// return conditional decisions.
	Authorizer authorizer.UnconditionalAuthorizer
	// Constrained turns on the constrained modes.
	Constrained bool
	// Conditional is conditional mode.
	Conditional Conditional
	// EnforceResidual adds residual conditions to a request. They can only deny, and must be evaluated before everything
	// that decides the request. An error refuses the request.
	EnforceResidual func(ctx context.Context, sets ...authorization.Set) error
	// Serializer encodes refusals.
	Serializer runtime.NegotiatedSerializer
}

type filter struct {
	next            http.Handler
	modes           modes
	enforceResidual func(ctx context.Context, sets ...authorization.Set) error
	serializer      runtime.NegotiatedSerializer
}

var (
	errIncomplete = errors.New("the impersonation filter needs an authorizer, a chain, compilers, a serializer and a way to restrict requests")
	errNoDenials  = errors.New("Conditional.Denials is missing: without it, legacy mode could allow what a Deny policy denies")
)

// NewFilter returns the impersonation filter, which wraps a handler. The filter tries the constrained modes of Kubernetes
// (KEP-5284) first, if they are on, then conditional mode (KEP-5681), and legacy mode last. It stops at the mode that decides
// (modes.run has the rules). As in the filter of Kubernetes, an impersonation that a constrained mode has allowed remains
// allowed for a few seconds. All handlers that the filter wraps share this memory. The handlers are safe for concurrent use.
func NewFilter(config FilterConfig) (func(http.Handler) http.Handler, error) {
	conditional := config.Conditional
	if config.Authorizer == nil || config.EnforceResidual == nil || config.Serializer == nil ||
		conditional.Chain == nil || conditional.Compiler == nil || conditional.Partial == nil {
		return nil, errIncomplete
	}
	metrics.RegisterMetrics()
	conditional.record = metrics.RecordImpersonationAuthorizationCall
	modes, err := newModes(config.Authorizer, config.Constrained, &conditional, config.Serializer, conditional.record)
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		return &filter{next: next, modes: modes, enforceResidual: config.EnforceResidual, serializer: config.Serializer}
	}, nil
}

// ServeHTTP passes on a request as the user that it impersonates, or refuses it. A request without impersonation headers is
// passed on unchanged.
func (f *filter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		if err := f.enforceResidual(ctx, result.Residual...); err != nil {
			result.User, result.refusal = nil, apierrors.NewInternalError(fmt.Errorf("the residual conditions of the impersonation are not enforced: %w", err))
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

// serveWithoutUser serves a request that has impersonation headers, but no user name in them, or no requester. Upstream's
// filter in legacy mode decides: it refuses the request, unless the headers have no values.
func (f *filter) serveWithoutUser(w http.ResponseWriter, r *http.Request) {
	if result := f.modes.legacy.run(r.Context(), r, nil); result.User == nil {
		f.refuse(w, r, result)
		return
	}
	TakeHeaders(r.Header)
	f.next.ServeHTTP(w, r)
}

func (f *filter) refuse(w http.ResponseWriter, r *http.Request, result result) {
	if result.refusal == nil {
		result.response.copyTo(w)
		return
	}
	klog.FromContext(r.Context()).V(4).Info("Forbidden", "URI", r.RequestURI, "err", result.refusal)
	responsewriters.RespondWithError(w, r, result.refusal, f.serializer)
}
