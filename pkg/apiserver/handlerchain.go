/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/filterlatency"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// isStored reports whether objects of an API group are stored. Unknown fields of stored objects
// are refused unless the client requests otherwise, because a policy whose restriction is misspelt
// must not be accepted without the restriction.
func isStored(group string) bool {
	return slices.ContainsFunc(StorageVersions, func(gv schema.GroupVersion) bool { return gv.Group == group })
}

// buildHandlerChain builds the handler chain of requests. Each line wraps the handlers of the lines
// above it, so that a request passes the lines from the last to the first.
func (c *completedConfig) buildHandlerChain(handler http.Handler, config *genericapiserver.Config) http.Handler {
	filters := *config
	filters.Authorization.Authorizer = c.extra.Enforcer.FilterAuthorizer()

	handler = enforcement.WithWitness(handler, config.Serializer)
	if c.extra.Mappings != nil {
		handler = withFieldTrail(handler)
	}
	handler = withoutValuesInLogs(handler)
	handler = withStrictFieldValidation(handler)
	if c.impersonate == nil {
		handler = genericapiserver.DefaultBuildHandlerChain(handler, &filters)
	} else {
		handler = withImpersonation(handler, &filters, c.impersonate)
	}
	if c.extra.ClientsAreKnown != nil {
		handler = withKnownClients(handler, config.Serializer, c.extra.ClientsAreKnown)
	}
	return c.extra.Enforcer.WithSlot(handler)
}

var errUnknownClients = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
	Message: "the server does not verify client certificates yet: it has not read from kube-apiserver which CAs sign them", Details: &metav1.StatusDetails{RetryAfterSeconds: 1},
}}

// withKnownClients answers 503 to a request without a token until clients are known, and closes its connection. Its client may have a certificate, which the server
// cannot verify yet, and would be anonymous. Checks of health are answered. These requests are not audited: nothing of them is decided.
func withKnownClients(handler http.Handler, serializer runtime.NegotiatedSerializer, areKnown func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		//guard:anonymous-before-the-cas
		if !areKnown() && !hasToken.MatchString(r.Header.Get("Authorization")) && !isHealth.MatchString(r.URL.Path) {
			w.Header().Set("Connection", "close")
			responsewriters.ErrorNegotiated(errUnknownClients, serializer, schema.GroupVersion{}, w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

var hasToken = regexp.MustCompile(`^(?i:bearer) [^ ]`)

var isHealth = regexp.MustCompile(`^/(healthz|livez|readyz)(/.*)?$`)

// withImpersonation builds the handler chain around Proviso's own impersonation filter. The generic
// chain cannot be configured with another filter. Therefore its first half is used, up to the audit,
// and its second half is repeated here: authorization, flow control and impersonation (ADR 14).
func withImpersonation(handler http.Handler, config *genericapiserver.Config, impersonate func(http.Handler) http.Handler) http.Handler {
	handler = filterlatency.TrackCompleted(handler)
	handler = genericapifilters.WithAuthorization(handler, config.Authorization.Authorizer, config.Serializer)
	handler = filterlatency.TrackStarted(handler, config.TracerProvider, "authorization")

	handler = withFlowControl(handler, config)

	handler = filterlatency.TrackCompleted(handler)
	handler = impersonate(handler)
	handler = withHeaders(handler)
	handler = filterlatency.TrackStarted(handler, config.TracerProvider, "constrainedimpersonation")

	firstHalf := *config
	firstHalf.Authorization.Authorizer, firstHalf.FlowControl = nil, nil
	firstHalf.MaxRequestsInFlight, firstHalf.MaxMutatingRequestsInFlight = 0, 0
	klog.InfoS("Authorization runs after impersonation; ignore the warning of the generic server that authorization is disabled")
	handler = genericapiserver.DefaultBuildHandlerChain(handler, &firstHalf)
	return withoutHeaders(handler)
}

// withFieldTrail records in the audit event which fields of a request were checked.
func withFieldTrail(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, trail := granular.WithTrail(r.Context())
		defer func() { audit.AddAuditAnnotations(ctx, trail.Annotations()...) }()
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withFlowControl adds flow control as the generic chain does.
func withFlowControl(handler http.Handler, c *genericapiserver.Config) http.Handler {
	if c.FlowControl == nil {
		return genericfilters.WithMaxInFlightLimit(handler, c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight, c.LongRunningFunc)
	}
	estimator := flowcontrolrequest.NewWorkEstimator(c.StorageObjectCountTracker.Get, c.FlowControl.GetInterestedWatchCount,
		flowcontrolrequest.DefaultWorkEstimatorConfig(), c.FlowControl.GetMaxSeats)
	handler = filterlatency.TrackCompleted(handler)
	handler = genericfilters.WithPriorityAndFairness(handler, c.LongRunningFunc, c.FlowControl, estimator, c.RequestTimeout/4)
	return filterlatency.TrackStarted(handler, c.TracerProvider, "priorityandfairness")
}

type headersKey struct{}

// withoutHeaders hides the impersonation headers from the filter of the generic chain. withHeaders
// restores them.
func withoutHeaders(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if headers := impersonation.TakeHeaders(r.Header); headers != nil {
			r = r.WithContext(context.WithValue(r.Context(), headersKey{}, headers))
		}
		handler.ServeHTTP(w, r)
	})
}

func withHeaders(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if headers, ok := r.Context().Value(headersKey{}).(http.Header); ok {
			maps.Copy(r.Header, headers)
		}
		handler.ServeHTTP(w, r)
	})
}

func withStrictFieldValidation(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := genericapirequest.RequestInfoFrom(r.Context())
		if ok && isStored(info.APIGroup) && slices.Contains([]string{"create", "update", "patch"}, info.Verb) {
			r = withDefaultFieldValidation(r)
		}
		handler.ServeHTTP(w, r)
	})
}

func withDefaultFieldValidation(r *http.Request) *http.Request {
	query := r.URL.Query()
	if query.Has("fieldValidation") {
		return r
	}
	query.Set("fieldValidation", metav1.FieldValidationStrict)
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r
}
