/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/audit"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The audit annotations about the result of conditions at admission. They contain no data of
// objects.
const (
	auditDecision = "authorization.proviso.dev/decision" // allow or deny
	auditReason   = "authorization.proviso.dev/reason"
	// auditCondition has the IDs of the conditions that decided because they were true. An ID
	// names its policy.
	auditCondition = "authorization.proviso.dev/condition"
	// auditRevision is the revision of the policies that authorized the request.
	auditRevision = "authorization.proviso.dev/policy-revision"
)

// outcome is the result of the conditions of a request at admission. The zero value means that no
// condition was evaluated.
type outcome struct {
	evaluated           bool
	denied              bool
	reasons, conditions []string
	revision            string
}

func (o *outcome) add(r *record, decision authorization.Decision) {
	o.evaluated, o.denied, o.revision = true, o.denied || !decision.IsAllow(), r.lazy.Revision()
	if reason := joinBounded(decision.Reason(), ""); !slices.Contains(o.reasons, reason) {
		o.reasons = append(o.reasons, reason)
	}
	if id := decision.DecidedBy(); id != "" && !slices.Contains(o.conditions, id) {
		o.conditions = append(o.conditions, id)
	}
}

// settle records the outcome for the audit event. An update may be retried, so the last attempt
// wins; for deletecollection, whose objects are handled concurrently, a denial wins.
func (s *slot) settle(result outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refusedBefore := s.outcome.denied && s.request.attributes.GetVerb() == "deletecollection"
	if result.evaluated && !refusedBefore {
		s.outcome = result
	}
}

// isDenied reports whether the recorded outcome of the conditions is a denial.
func (s *slot) isDenied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcome.denied
}

// annotate adds the recorded outcome of the conditions to the audit event, and what policies with the enforcement Audit would have
// done. It adds nothing if none was evaluated.
func (s *slot) annotate(ctx context.Context) {
	s.audit.Finish(authorization.RemainderNone)
	audit.AddAuditAnnotations(ctx, s.audit.Annotations()...)
	s.mu.Lock()
	result := s.outcome
	s.mu.Unlock()
	if !result.evaluated {
		return
	}
	verdict := "allow"
	if result.denied {
		verdict = "deny"
	}
	annotations := []string{auditDecision, verdict, auditReason, strings.Join(result.reasons, "; "), auditRevision, result.revision}
	if len(result.conditions) > 0 {
		annotations = append(annotations, auditCondition, strings.Join(result.conditions, ","))
	}
	audit.AddAuditAnnotations(ctx, annotations...)
}
