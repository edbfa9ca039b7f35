/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// maxListed bounds how many verbs and resources a message lists.
const maxListed = 8

// message explains an outcome. It never has more than MaxEnforcementMessageBytes.
func message(o Outcome, reads Reads) string {
	switch o.Result {
	case policyv1alpha1.ResultEnforced:
		switch {
		case o.At == policyv1alpha1.EnforcedAtInnerDoor:
			return "the condition is evaluated at admission, by the inner door"
		case o.At == policyv1alpha1.EnforcedAtKubeAPIServer:
			return "kube-apiserver handles conditions: it has the condition evaluated at admission, without the inner door"
		case o.At == policyv1alpha1.EnforcedAtBarrier:
			return strings.TrimSuffix("kube-apiserver evaluates the condition at admission, by the barrier of the policy: "+o.Note, ": ")
		case o.At == policyv1alpha1.EnforcedAtAggregatedServer:
			return "the condition is evaluated at admission, by the server of the resource"
		case reads.level() == Request:
			return "requests are decided at authorization"
		case o.At == policyv1alpha1.EnforcedAtFrontDoor:
			return "requests are decided at authorization, once the namespace is in the cache of this server"
		default:
			return "the condition is evaluated at admission"
		}
	case policyv1alpha1.ResultInnerDoorUnknown, policyv1alpha1.ResultPending:
		return o.Note
	case policyv1alpha1.ResultGrantsNothing:
		return o.reason() + ", so that the policy allows none of them, unless the request" + o.orNamespace() + " makes the condition true"
	case policyv1alpha1.ResultWithholdsUnconditionally:
		return o.reason() + ", so that no Allow policy allows any of them, unless the request" + o.orNamespace() + " makes the condition false"
	case policyv1alpha1.ResultDeniesUnconditionally:
		return o.reason() + ", so that the policy denies all of them, unless the request" + o.orNamespace() + " makes the condition false"
	default:
		return notEnforced(o)
	}
}

// notEnforced explains that no request is decided.
func notEnforced(o Outcome) string {
	const reviewsOnly = "the front door is disabled, so that only reviews show the policy"
	switch {
	case o.Note == "":
		return reviewsOnly
	case o.At == policyv1alpha1.EnforcedAtBarrier:
		return o.Note
	}
	return o.Note + ", and " + reviewsOnly
}

// orNamespace says what a condition that is folded can read beside the request.
func (o Outcome) orNamespace() string {
	if o.At == policyv1alpha1.EnforcedAtFrontDoor {
		return " or its namespace"
	}
	return " alone"
}

// reason says why a condition is not evaluated.
func (o Outcome) reason() string {
	switch {
	case o.Note != "":
		return o.Note
	case o.At == policyv1alpha1.EnforcedAtFrontDoor:
		return "conditions on objects are not evaluated for these requests to kube-apiserver"
	}
	return "conditions on objects are not evaluated for these requests to Proviso"
}

// Effective returns the condition Effective of a policy, from all that its rules do. It is True if everything is
// enforced.
func Effective(entries []policyv1alpha1.RuleEnforcement) metav1.Condition {
	condition := metav1.Condition{Type: policyv1alpha1.PolicyEffective, Status: metav1.ConditionTrue, Reason: string(policyv1alpha1.ResultEnforced)}
	worst := worstOf(entries)
	if len(worst) == 0 {
		condition.Message = "all requests that the rules describe are decided by the policy"
		if slices.ContainsFunc(entries, func(e policyv1alpha1.RuleEnforcement) bool { return e.At == policyv1alpha1.EnforcedAtKubeAPIServer }) {
			condition.Message += ". kube-apiserver enforces its condition itself, on the requests that status.enforcement names"
		}
		return condition
	}
	if worst[0].Result == policyv1alpha1.ResultAudited {
		condition.Status, condition.Reason = metav1.ConditionFalse, policyv1alpha1.ReasonAudit
		condition.Message = "spec.enforcement is Audit: the policy decides no request, and status.audit counts the requests to which it would apply"
		return condition
	}
	condition.Status, condition.Reason = metav1.ConditionFalse, string(worst[0].Result)
	condition.Message = Text(&worst[0])
	if more := len(worst) - 1; more > 0 {
		condition.Message += fmt.Sprintf(". The same applies to %d more, see status.enforcement", more)
	}
	return condition
}

// worstOf returns the entries with the result of the greatest severity, none if everything is enforced.
func worstOf(entries []policyv1alpha1.RuleEnforcement) []policyv1alpha1.RuleEnforcement {
	var worst []policyv1alpha1.RuleEnforcement
	//guard:status-worst-result
	for _, result := range slices.Backward(severity[1:]) {
		for i := range entries {
			if entries[i].Result == result {
				worst = append(worst, entries[i])
			}
		}
		if len(worst) > 0 {
			return worst
		}
	}
	return nil
}

// Text returns one line about an entry, such as "rules[0] (get, list pods): …".
func Text(e *policyv1alpha1.RuleEnforcement) string {
	return fmt.Sprintf("rules[%d] (%s %s): %s", e.Rule, listed(e.Verbs), listed(e.Resources), e.Message)
}

func listed(names []string) string {
	if len(names) > maxListed {
		names = append(slices.Clone(names[:maxListed]), "…")
	}
	return strings.Join(names, ", ")
}
