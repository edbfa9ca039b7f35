/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"context"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// endAudit evaluates the policies with the enforcement Audit that match a write that has been decided, and counts what they would have
// done. The results that do not depend on the object are counted at the front door, which has decided the request before.
func (d *Decider) endAudit(ctx context.Context, write *Write, decided verdict) *authorization.Audit {
	audit := decided.audit
	if audit.IsEmpty() {
		return nil
	}
	if decided.isDenied {
		audit.Leave(authorization.EffectNoOpinion, authorization.EffectAllow) // they come later
	}
	audit.Settle(authorization.WithNamespaces(ctx, d.Namespaces))
	//guard:inner-door-front-door-counts
	audit.CountedBefore()
	remainder := authorization.RemainderRefused
	if write.decoded {
		remainder = authorization.RemainderNone
		audit.Admit(ctx, &data{write})
	}
	audit.Finish(remainder)
	return audit
}
