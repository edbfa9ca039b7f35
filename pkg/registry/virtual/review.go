/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package virtual

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
)

// Reviewer answers reviews.
type Reviewer struct {
	// Chain decides about the requests that reviews describe.
	Chain *authorization.Chain
	// Conditional gives conditions to callers who ask for them; it is the feature gate
	// ConditionalAuthorization. Without it their mode is ignored.
	Conditional bool
	// Upstream gives conditions in the form that is proposed for Kubernetes to callers who ask for it; it is the feature gate
	// UpstreamConditionalDecisions, and needs Conditional. Without it their options are ignored.
	Upstream bool
	// Enforced reports whether this server enforces conditions on a request itself. If nil,
	// it enforces none.
	Enforced func(attributes authorizer.Attributes) bool
	// Evaluated reports whether this server or another component evaluates the conditions of a decision on a request, and a problem if one usually does
	// but not now. If nil, Enforced says so.
	Evaluated func(ctx context.Context, record authorizer.AttributesRecord, decision authorization.Decision) (isEvaluated bool, problem string)
	// Names returns the names about which policies can decide otherwise than a decision on a request without a name says. If nil, no warning says so.
	Names func(ctx context.Context, attributes authorizer.Attributes, decision authorization.Decision) authorization.Names
	// LeavesOut reports whether kube-apiserver decides a request of a user without Proviso. If nil, no warning says so.
	LeavesOut func(record authorizer.AttributesRecord) bool
	// Versions returns the versions in which this server serves the resource that attributes name. With a mode, a review
	// without a version is answered for them. If nil, or if there are none, the answer of such a review is folded.
	Versions func(attributes authorizer.Attributes) []string
}

// Review returns the status of a review: the decision of the chain about the attributes, with
// conditions if the caller asked for them, and else folded. It also returns warnings about the
// answer.
func (r *Reviewer) Review(ctx context.Context, record authorizer.AttributesRecord, config *authorizationapi.ConditionalAuthorizationConfiguration) (authorizationapi.SubjectAccessReviewStatus, []string) {
	if versions := r.servedVersions(record, config); len(versions) > 0 {
		return r.reviewVersions(ctx, record, config, versions)
	}
	attributes := authorization.Request{Attributes: record, Audit: &authorization.Audit{}}
	if config != nil && r.Conditional {
		attributes.Mode = config.Mode
	}
	if caller, ok := genericapirequest.UserFrom(ctx); ok {
		attributes.Caller = caller
	}
	decision := r.Chain.Decide(ctx, attributes)
	isLeftOut := r.LeavesOut != nil && attributes.Mode != authorizationapi.ConditionsModeNone && r.LeavesOut(record)
	var names authorization.Names
	//guard:virtual-names-of-policies
	if r.Names != nil && !isLeftOut && attributes.Mode != authorizationapi.ConditionsModeNone && record.ResourceRequest && authorization.LacksName(record.Verb, record.Subresource, record.Name) {
		names = r.Names(ctx, record, decision)
	}
	var (
		warnings []string
		hint     string
	)
	switch wildcards := authorization.HasWildcards(record); {
	case decision.IsUnconditional():
	case attributes.Mode == authorizationapi.ConditionsModeNone:
		if decision = decision.FoldReview(); r.Conditional {
			hint = authorization.HowToSeeConditions
		}
	case wildcards:
		decision = decision.FoldReview()
		hint, warnings = hintWildcards, append(warnings, warningWildcards)
	case !isLeftOut:
		warnings = r.warningsOf(ctx, record, decision)
	}
	//guard:virtual-users-who-left-out
	if isLeftOut {
		warnings = append(warnings, authorization.WarningLeftOut)
	}
	if text := names.Warning(); text != "" {
		warnings = append(warnings, text)
	}
	status := authorization.Status(decision)
	if hint != "" && !status.Allowed {
		status.Reason += "; " + hint
	}
	if message := authorization.SelectorErrors(record); message != "" {
		if status.EvaluationError != "" {
			status.EvaluationError += "; "
		}
		status.EvaluationError += message
	}
	//guard:audit-warnings-refusal
	if status.Allowed || len(status.ConditionsChain) > 0 {
		warnings = append(warnings, auditWarnings(ctx, attributes.Audit)...)
	}
	return status, warnings
}

// auditWarnings returns a warning for each Deny policy with the enforcement Audit that would deny the request already at authorization. A
// review is no request, and does not count.
func auditWarnings(ctx context.Context, audit *authorization.Audit) []string {
	audit.Settle(ctx)
	audit.Seal()
	//guard:audit-reviews-no-requests
	audit.CountedBefore()
	audit.Finish(authorization.RemainderNone)
	return audit.Warnings()
}

const (
	hintWildcards      = "to see the conditions, name one verb, group, version and resource"
	warningWildcards   = "conditions are only given for one verb, group, version and resource at a time: name each of them to see the conditions"
	warningNotNow      = "conditions on %s are not evaluated: %s"
	warningNotEnforced = "this server does not enforce conditions on %s: clients that act on this answer must evaluate the conditions with an AuthorizationConditionsReview"
	// No client can evaluate the conditions of an impersonation instead.
	warningRefused = "this server does not enforce conditions on %s: it refuses the request with this impersonation"
)

// warningsOf returns the warnings for a caller who gets the conditions of a decision. There is none if this server or another component
// evaluates them.
func (r *Reviewer) warningsOf(ctx context.Context, record authorizer.AttributesRecord, decision authorization.Decision) []string {
	if r.Evaluated == nil {
		return r.warningsUnlessEnforced(record, warningNotEnforced)
	}
	switch isEvaluated, problem := r.Evaluated(ctx, record, decision); {
	case isEvaluated:
		return nil
	case problem != "":
		return []string{fmt.Sprintf(warningNotNow, describe(record), problem)}
	}
	return []string{fmt.Sprintf(warningNotEnforced, describe(record))}
}

// WarningsOfImpersonation returns the warnings for a caller who gets conditions of an impersonation on a request.
func (r *Reviewer) WarningsOfImpersonation(record authorizer.AttributesRecord) []string {
	return r.warningsUnlessEnforced(record, warningRefused)
}

// warningsUnlessEnforced returns a warning, unless this server enforces conditions on the request.
func (r *Reviewer) warningsUnlessEnforced(record authorizer.AttributesRecord, warning string) []string {
	if r.Enforced != nil && r.Enforced(record) {
		return nil
	}
	return []string{fmt.Sprintf(warning, describe(record))}
}

// describe names what a review asks about.
func describe(record authorizer.AttributesRecord) string {
	if !record.ResourceRequest {
		return fmt.Sprintf("%s %s", record.Verb, record.Path)
	}
	resource := schema.GroupResource{Group: record.APIGroup, Resource: record.Resource}.String()
	if record.Subresource != "" {
		resource += "/" + record.Subresource
	}
	return fmt.Sprintf("%s %s", record.Verb, resource)
}

// Review decides a review. It adds warnings about the answer to the response.
func Review(ctx context.Context, reviewer *Reviewer, record authorizer.AttributesRecord, config *authorizationapi.ConditionalAuthorizationConfiguration) authorizationapi.SubjectAccessReviewStatus {
	status, warnings := reviewer.Review(ctx, record, config)
	Warn(ctx, warnings...)
	return status
}

// Warn adds warnings to the response.
func Warn(ctx context.Context, warnings ...string) {
	for _, text := range warnings {
		warning.AddWarning(ctx, "", authorization.OneLine(text))
	}
}

// ReviewUpstream decides a review whose caller handles conditional decisions in the form that is proposed for Kubernetes. The form has no
// place for an error beside conditions, which becomes a warning. An error means that there is no answer.
func ReviewUpstream(ctx context.Context, reviewer *Reviewer, record authorizer.AttributesRecord) (authorizationapi.SubjectAccessReviewStatus, error) {
	status := Review(ctx, reviewer, record, &authorizationapi.ConditionalAuthorizationConfiguration{Mode: authorizationapi.ConditionsModeHumanReadable})
	if len(status.ConditionsChain) == 0 {
		return status, nil
	}
	if status.EvaluationError != "" {
		Warn(ctx, status.EvaluationError)
	}
	decision, err := upstreamform.EncodeSets(status.ConditionsChain).Raw()
	return authorizationapi.SubjectAccessReviewStatus{ConditionalDecision: decision}, err
}
