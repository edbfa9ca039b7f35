/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/klog/v2"
)

// withWitness says in the audit event what became of conditions, and watches for requests
// that succeed on conditions that nobody has evaluated. There must be none: it would mean
// that a storage does not do what it is covered for.
func withWitness(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := slotFrom(r.Context())
		if s == nil || !s.covered() {
			handler.ServeHTTP(w, r)
			return
		}
		defer s.annotate(r.Context())
		watched := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(watched), r)
		if watched.status < http.StatusBadRequest {
			s.accuse(r.Context())
		}
	})
}

// accuse reports conditions that were not evaluated. Deleting a collection that is empty
// evaluates nothing, and does nothing.
func (s *slot) accuse(ctx context.Context) {
	s.mu.Lock()
	lost := s.carries && !s.carried
	s.mu.Unlock()
	if lost {
		neverEvaluated.WithContext(ctx).Inc()
		klog.FromContext(ctx).Error(nil, "A request was passed on without the conditions that it carries")
	}
	request, connect, create := s.records()
	for _, record := range []*record{request, connect, create} {
		if !record.isConditional() || record.evaluated.Load() || record.attributes.GetVerb() == "deletecollection" {
			continue
		}
		a := record.attributes
		neverEvaluated.WithContext(ctx).Inc()
		klog.FromContext(ctx).Error(nil, "A request succeeded on conditions that were not evaluated",
			"verb", a.GetVerb(), "group", a.GetAPIGroup(), "version", a.GetAPIVersion(), "resource", a.GetResource(), "subresource", a.GetSubresource())
	}
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

var _ responsewriter.UserProvidedDecorator = &statusWriter{}

// Unwrap returns the writer beneath.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader remembers the status and passes it on.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
