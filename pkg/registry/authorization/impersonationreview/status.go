/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonationreview

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

func requesterOf(spec *authorizationapi.ImpersonationReviewSpec) user.Info {
	return &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: authorization.ExtraOf(spec.Extra)}
}

func userInfoOf(u user.Info) *authenticationv1.UserInfo {
	info := &authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for key, values := range u.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// statusOf returns the status for an answer. It is denied if there is an error, if the answer has no
// user, or if the impersonation depends on conditions that the review does not show.
func statusOf(answer impersonation.Answer, err error, spec *authorizationapi.ImpersonationReviewSpec) authorizationapi.ImpersonationReviewStatus {
	status := authorizationapi.ImpersonationReviewStatus{Denied: true, Reason: answer.Reason}
	for _, check := range answer.Checks {
		status.Checks = append(status.Checks, checkOf(check, spec))
	}
	switch {
	case err != nil:
		status.EvaluationError = err.Error()
	case answer.User != nil && setResidual(&status, answer.Residual, spec):
		status.Denied = false
		status.Mode, status.Constraint = answer.Mode, answer.Constraint
		status.ImpersonatedUser = userInfoOf(answer.User)
	}
	return status
}

const reasonFolded = "the impersonation depends on conditions on the object, and is denied because the review did not request conditions, or because they exceed the bounds of a review"

// setResidual sets the residual conditions of an impersonation, or allows it if there are none. It
// returns false, which denies, if the caller has not requested conditions, or if a review cannot hold
// them.
func setResidual(status *authorizationapi.ImpersonationReviewStatus, residual []authorization.Set, spec *authorizationapi.ImpersonationReviewSpec) (shown bool) {
	if len(residual) == 0 {
		status.Allowed = true
		return true
	}
	status.Reason = reasonFolded
	if config := spec.ConditionalAuthorization; config == nil || config.Mode == authorizationapi.ConditionsModeNone {
		return false
	}
	wire, err := authorization.SetsToWire(residual)
	if err != nil {
		status.EvaluationError = err.Error()
		return false
	}
	status.Reason, status.ConditionsChain = "", wire
	return true
}

func checkOf(check impersonation.Check, spec *authorizationapi.ImpersonationReviewSpec) authorizationapi.ImpersonationCheck {
	shown := authorizationapi.ImpersonationCheck{
		Mode:    check.Mode,
		Allowed: check.Decision == authorizer.DecisionAllow,
		Denied:  check.Decision == authorizer.DecisionDeny,
		Reason:  check.Reason,
	}
	if config := spec.ConditionalAuthorization; config != nil && config.Mode != authorizationapi.ConditionsModeNone {
		shown.ConditionsChain = check.Conditions
	}
	if check.Err != nil {
		shown.EvaluationError = check.Err.Error()
	}
	attributes := check.Attributes
	switch {
	case !check.IsOnRequest():
		shown.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: attributes.Namespace, Verb: attributes.Verb, Group: attributes.APIGroup, Version: attributes.APIVersion,
			Resource: attributes.Resource, Subresource: attributes.Subresource, Name: attributes.Name,
		}
	case spec.ResourceAttributes != nil: // includes the selectors of the review
		shown.ResourceAttributes = spec.ResourceAttributes.DeepCopy()
		shown.ResourceAttributes.Verb = attributes.Verb
	default:
		shown.NonResourceAttributes = spec.NonResourceAttributes.DeepCopy()
		shown.NonResourceAttributes.Verb = attributes.Verb
	}
	return shown
}
