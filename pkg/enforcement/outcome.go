/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/audit"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The audit annotations about what became of conditions at admission. None of them has
// anything of an object.
const (
	auditDecision = "authorization.proviso.dev/decision" // allow or deny
	auditReason   = "authorization.proviso.dev/reason"
	// auditCondition has the IDs of the conditions that decided by being true, which name
	// their policies.
	auditCondition = "authorization.proviso.dev/condition"
	// auditRevision is the revision of the policies that authorized the request.
	auditRevision = "authorization.proviso.dev/policy-revision"
)

// outcome is how the conditions of a request came out at admission. The zero value says
// that there were none.
type outcome struct {
	evaluated           bool
	denied              bool
	reasons, conditions []string
	revision            string
}

func (o *outcome) add(r *record, decision authorization.Decision) {
	o.evaluated, o.denied, o.revision = true, o.denied || !decision.IsAllow(), r.lazy.Revision()
	o.reasons = append(o.reasons, decision.Reason())
	if id := decision.DecidedBy(); id != "" {
		o.conditions = append(o.conditions, id)
	}
}

// settle remembers how the conditions came out: the last time, for an update may be
// attempted several times, but of a collection, whose objects come in no order, that one
// was refused.
func (s *slot) settle(result outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refusedBefore := s.outcome.denied && s.request.attributes.GetVerb() == "deletecollection"
	if result.evaluated && !refusedBefore {
		s.outcome = result
	}
}

// isDenied reports whether the conditions have refused the request.
func (s *slot) isDenied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcome.denied
}

// annotate says in the audit event how the conditions came out.
func (s *slot) annotate(ctx context.Context) {
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
