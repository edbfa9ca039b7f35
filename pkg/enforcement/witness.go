/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// WithWitness records the result of conditions in the audit event, and reports requests that
// succeed although their conditions were never evaluated. Such a request would be a bug in a
// storage that Cover has registered. It also replaces answers to conditional requests that could
// show a stored object to a user who may not read it; see withholding.
func WithWitness(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := slotFrom(r.Context())
		if s == nil || !s.covered() {
			handler.ServeHTTP(w, r)
			return
		}
		defer s.annotate(r.Context())
		watched := newWithholding(w, r, s, serializer)
		watched.serve(handler)
		watched.finish()
		if watched.status < http.StatusBadRequest {
			s.accuse(r.Context())
		}
	})
}

// accuse logs and counts the conditions of a successful request that were not evaluated, or that were
// not fetched to be forwarded. It does not report conditions on a deletecollection, because an empty
// collection has no object to evaluate them on.
func (s *slot) accuse(ctx context.Context) {
	s.mu.Lock()
	lost := s.forwarded && !s.fetched
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
