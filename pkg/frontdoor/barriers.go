/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"strings"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// reasonBarriers is followed by the policies.
const reasonBarriers = "kube-apiserver refuses it at admission if a condition denies it: "

// withBarriers returns a decision whose reason names the conditions that barriers enforce. A NoOpinion stays as it is, because policies
// have nothing to do with a refusal that follows.
func withBarriers(decision authorization.Decision, enforced []authorization.Condition) authorization.Decision {
	if len(enforced) == 0 || !decision.IsAllow() {
		return decision
	}
	reason := reasonBarriers + strings.Join(authorization.Conditions(enforced...).Labels(), "; ")
	if before := decision.Reason(); before != "" {
		reason = before + "; " + reason
	}
	return authorization.Allow(reason, decision.Err())
}
