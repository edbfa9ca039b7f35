/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The audit annotations about what became of conditions at admission.
const (
	auditDecision = "authorization.proviso.dev/decision"
	auditReason   = "authorization.proviso.dev/reason"
	auditRevision = "authorization.proviso.dev/policy-revision"
)

// annotate says in the audit event how the conditions of a request came out: once, for an
// update may be attempted several times, and of a collection only that it was refused.
func (s *slot) annotate(ctx context.Context, r *record, decision authorization.Decision) {
	verdict := "deny"
	if decision.IsAllow() {
		verdict = "allow"
		if r.attributes.GetVerb() == "deletecollection" {
			return
		}
	}
	if s.annotated.CompareAndSwap(false, true) {
		audit.AddAuditAnnotations(ctx, auditDecision, verdict, auditReason, decision.Reason(), auditRevision, r.lazy.Revision())
	}
}

// withWitness watches for requests that succeed on conditions that nobody has evaluated.
// There must be none: it would mean that a storage does not do what it is covered for.
// Deleting a collection that is empty evaluates nothing, and does nothing.
func withWitness(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := slotFrom(r.Context())
		if s == nil {
			handler.ServeHTTP(w, r)
			return
		}
		request, _, _ := s.records()
		if request == nil || request.lazy == nil || request.attributes.GetVerb() == "deletecollection" {
			handler.ServeHTTP(w, r)
			return
		}
		watched := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(watched), r)
		if watched.status >= http.StatusBadRequest {
			return
		}
		request, connect, create := s.records()
		for _, record := range []*record{request, connect, create} {
			if record.isConditional() && !record.evaluated.Load() {
				a := record.attributes
				neverEvaluated.WithContext(r.Context()).Inc()
				klog.FromContext(r.Context()).Error(nil, "A request succeeded on conditions that were not evaluated",
					"verb", a.GetVerb(), "group", a.GetAPIGroup(), "version", a.GetAPIVersion(), "resource", a.GetResource(), "subresource", a.GetSubresource())
			}
		}
	})
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
