/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/filterlatency"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// isStored reports whether objects of an API group are stored. Unknown fields of stored objects
// are refused unless the client requests otherwise, because a policy whose restriction is misspelt
// must not be accepted without the restriction.
func isStored(group string) bool {
	return slices.ContainsFunc(StorageVersions, func(gv schema.GroupVersion) bool { return gv.Group == group })
}

// BuildHandlerChain returns the generic handler chain, with strict field validation as the default
// for stored kinds. Reviews keep the default of Kubernetes, which is a warning.
func BuildHandlerChain(handler http.Handler, c *genericapiserver.Config) http.Handler {
	return genericapiserver.DefaultBuildHandlerChain(withStrictFieldValidation(withoutValuesInLogs(handler)), c)
}

// impersonating returns a function that builds the handler chain around an impersonation filter of our own. The
// generic chain has no place for one. Its first half is used, up to the audit; the
// second half is left out and added here: impersonation, flow control and
// authorization (ADR 18).
func impersonating(filter func(http.Handler) http.Handler) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		handler = withStrictFieldValidation(withoutValuesInLogs(handler))
		handler = filterlatency.TrackCompleted(handler)
		handler = genericapifilters.WithAuthorization(handler, c.Authorization.Authorizer, c.Serializer)
		handler = filterlatency.TrackStarted(handler, c.TracerProvider, "authorization")
		handler = withFlowControl(handler, c)
		handler = filterlatency.TrackCompleted(handler)
		handler = withHeaders(filter(handler))
		handler = filterlatency.TrackStarted(handler, c.TracerProvider, "constrainedimpersonation")

		first := *c
		first.Authorization.Authorizer, first.FlowControl = nil, nil
		first.MaxRequestsInFlight, first.MaxMutatingRequestsInFlight = 0, 0
		klog.InfoS("Authorization runs after impersonation; ignore the warning of the generic server that authorization is disabled")
		return withoutHeaders(genericapiserver.DefaultBuildHandlerChain(handler, &first))
	}
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
