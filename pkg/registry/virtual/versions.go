/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package virtual

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

const (
	warningVersions = "the review names no version: the answer is for the served versions (%s)"
	reasonVersions  = "the served versions have different answers, which cannot be shown as one: name a version to see its conditions"
)

// versionAnswer is the answer to a review about one version.
type versionAnswer struct {
	version  string
	status   authorizationapi.SubjectAccessReviewStatus
	warnings []string
}

// servedVersions returns the versions for which a review without a version is answered. It returns none for other
// reviews, for callers who did not ask for conditions, and if this server does not serve the resource.
func (r *Reviewer) servedVersions(record authorizer.AttributesRecord, config *authorizationapi.ConditionalAuthorizationConfiguration) []string {
	if r.Versions == nil || !r.Conditional || config == nil || config.Mode == authorizationapi.ConditionsModeNone {
		return nil
	}
	if !record.ResourceRequest || record.APIVersion != "" && record.APIVersion != "*" {
		return nil
	}
	versions := r.Versions(record)
	if len(versions) == 0 {
		return nil
	}
	//guard:review-versions-several-verbs
	if record.APIVersion = versions[0]; authorization.HasWildcards(record) {
		return nil // the review is also about several verbs, for example
	}
	return versions
}

// reviewVersions answers a review for several versions, decided from the same state. If their answers differ they are folded
// and combined, never to a more open answer than that of any version.
func (r *Reviewer) reviewVersions(ctx context.Context, record authorizer.AttributesRecord, config *authorizationapi.ConditionalAuthorizationConfiguration, versions []string) (authorizationapi.SubjectAccessReviewStatus, []string) {
	ctx = r.Chain.Pin(ctx)
	answers := make([]versionAnswer, 0, len(versions))
	for _, version := range versions {
		record.APIVersion = version
		status, warnings := r.Review(ctx, record, config)
		answers = append(answers, versionAnswer{version, status, warnings})
	}
	warnings := []string{fmt.Sprintf(warningVersions, strings.Join(versions, ", "))}
	//guard:review-versions-other-answers
	if slices.ContainsFunc(answers[1:], answers[0].differs) {
		return combined(answers), warnings
	}
	status := answers[0].status
	for _, a := range answers {
		status.Reason, status.EvaluationError = join(status.Reason, a.status.Reason), join(status.EvaluationError, a.status.EvaluationError)
		for _, warning := range a.warnings {
			if !slices.Contains(warnings, warning) {
				warnings = append(warnings, warning)
			}
		}
	}
	return status, warnings
}

// differs reports whether the decisions of two answers differ.
func (a versionAnswer) differs(other versionAnswer) bool {
	return a.status.Allowed != other.status.Allowed || a.status.Denied != other.status.Denied ||
		!apiequality.Semantic.DeepEqual(a.status.ConditionsChain, other.status.ConditionsChain)
}

// combined returns allowed if all folded answers are, denied if one is, and no opinion otherwise.
func combined(answers []versionAnswer) authorizationapi.SubjectAccessReviewStatus {
	result := authorizationapi.SubjectAccessReviewStatus{Allowed: true}
	reasons := []string{reasonVersions}
	for _, a := range answers {
		folded, decision := a.folded(), "no opinion"
		switch {
		case folded.Denied:
			decision = "denied"
		case folded.Allowed:
			decision = "allowed"
		}
		//guard:review-version-denies
		result.Allowed, result.Denied = result.Allowed && folded.Allowed, result.Denied || folded.Denied
		result.EvaluationError = join(result.EvaluationError, folded.EvaluationError)
		reasons = append(reasons, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", a.version, decision, folded.Reason), ": "))
	}
	result.Reason = strings.Join(reasons, "; ")
	return result
}

// folded returns the answer without conditions.
func (a versionAnswer) folded() authorizationapi.SubjectAccessReviewStatus {
	if len(a.status.ConditionsChain) == 0 {
		return a.status
	}
	decision := authorization.Deny("the conditions cannot be read", nil)
	if sets, err := authorization.SetsFromWire(a.status.ConditionsChain); err == nil {
		decision = authorization.Chained(sets...).FoldReview()
	}
	status := authorization.Status(decision)
	status.EvaluationError = join(a.status.EvaluationError, status.EvaluationError)
	return status
}

// join appends text to a message. If one of the two contains the other, it returns the longer one.
func join(message, text string) string {
	switch {
	case message == "" || strings.Contains(text, message):
		return text
	case strings.Contains(message, text):
		return message
	}
	return message + "; " + text
}
