/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kjson "sigs.k8s.io/json"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

var (
	errUnasked       = errors.New("the webhook answered with conditions, which were not requested")
	errContradictory = errors.New("the answer is contradictory")
	errMalformed     = errors.New("the answer is malformed")
)

// maxReasonBytes bounds the text that a webhook can add to messages and audit events.
const maxReasonBytes = 4096

// review is the answer of a webhook to a SubjectAccessReview. Unknown fields are ignored, as
// everywhere in Kubernetes. A duplicate field is an error, because its meaning would depend on the
// parser.
type review struct {
	typeMeta
	Status *reviewStatus `json:"status"`
}

type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// reviewStatus has the field of KEP-5681 for conditions, and the fields of newer implementations.
type reviewStatus struct {
	Allowed             bool                  `json:"allowed"`
	Denied              bool                  `json:"denied"`
	Reason              string                `json:"reason"`
	EvaluationError     string                `json:"evaluationError"`
	ConditionsChain     []answerSet           `json:"conditionsChain"`
	ConditionSetChain   []answerSet           `json:"conditionSetChain"`
	ConditionalDecision *runtime.RawExtension `json:"conditionalDecision"`
}

// answerSet is a condition set. ConditionsType is the type of all its conditions without a type of
// their own.
type answerSet struct {
	Allowed           bool              `json:"allowed"`
	Denied            bool              `json:"denied"`
	FailureMode       string            `json:"failureMode"`
	AuthorizerName    string            `json:"authorizerName"`
	ConditionsType    string            `json:"conditionsType"`
	Conditions        []answerCondition `json:"conditions"`
	ConditionsChain   []answerSet       `json:"conditionsChain"`
	ConditionSetChain []answerSet       `json:"conditionSetChain"`
}

type answerCondition struct {
	ID          string `json:"id"`
	Effect      string `json:"effect"`
	Type        string `json:"type"`
	Condition   string `json:"condition"`
	Description string `json:"description"`
}

// decode decodes an answer. If the answer has an apiVersion or kind, it must be the given one.
func decode(raw []byte, into any, meta *typeMeta, apiVersion, kind string) error {
	// Strict decoding: the result must not depend on the case of names, or on the choice between
	// duplicate fields.
	strict, err := kjson.UnmarshalStrict(raw, into, kjson.DisallowDuplicateFields)
	if err == nil {
		err = utilerrors.NewAggregate(strict)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	if (meta.APIVersion != "" && meta.APIVersion != apiVersion) || (meta.Kind != "" && meta.Kind != kind) {
		return fmt.Errorf("%w: it is a %q of %q, not a %s of %s", errMalformed, meta.Kind, meta.APIVersion, kind, apiVersion)
	}
	return nil
}

// decisionFrom converts the answer to a SubjectAccessReview of the given apiVersion into a decision
// of the authorizer name. asked is true if the review requested conditions. relaxed accepts conditions whose ID or type
// has no domain. It also returns the form of a conditional answer. It returns an error for
// conditions that were not requested, for an answer that has more than one of allowed, denied and the
// fields for conditions, and for an answer that is malformed.
func decisionFrom(raw []byte, apiVersion, name string, asked, relaxed bool) (authorization.Decision, form, error) {
	var r review
	if err := decode(raw, &r, &r.typeMeta, apiVersion, "SubjectAccessReview"); err != nil {
		return authorization.Decision{}, formKEP, err
	}
	status := r.Status
	if status == nil {
		return authorization.Decision{}, formKEP, fmt.Errorf("%w: it has no status", errMalformed)
	}
	decision, err := status.decision(name, asked, relaxed)
	if status.ConditionalDecision != nil {
		return decision, formUpstream, err
	}
	return decision, formKEP, err
}

func (s *reviewStatus) decision(name string, asked, relaxed bool) (authorization.Decision, error) {
	status := s
	conditional := status.ConditionsChain != nil || status.ConditionSetChain != nil || status.ConditionalDecision != nil
	switch {
	case conditional && !asked:
		return authorization.Decision{}, errUnasked
	case moreThanOne(status.Allowed, status.Denied, status.ConditionsChain != nil, status.ConditionSetChain != nil, status.ConditionalDecision != nil):
		return authorization.Decision{}, errContradictory
	//guard:webhook-decision-beside-form-kep
	case status.ConditionalDecision != nil && (status.Reason != "" || status.EvaluationError != ""):
		return authorization.Decision{}, errContradictory
	case conditional:
		return status.conditional(name, relaxed)
	}
	reason := bound(status.Reason)
	if status.EvaluationError != "" && !status.Allowed {
		// The error did not prevent an answer, and explains it.
		reason = strings.TrimPrefix(reason+"; "+bound(status.EvaluationError), "; ")
	}
	switch {
	case status.Allowed:
		return authorization.Allow(reason, nil), nil
	case status.Denied:
		return authorization.Deny(reason, nil), nil
	default:
		return authorization.NoOpinion(reason, nil), nil
	}
}

func moreThanOne(given ...bool) bool {
	n := 0
	for _, g := range given {
		if g {
			n++
		}
	}
	return n > 1
}

func bound(reason string) string { return excerpt.Of(reason, maxReasonBytes) }

// conditional returns the decision that the conditions of an answer represent. It returns an error if
// they are invalid, or if they allow the request for any data.
func (s *reviewStatus) conditional(name string, relaxed bool) (authorization.Decision, error) {
	wire, err := s.sets(name)
	if err == nil && relaxed && s.ConditionalDecision == nil {
		wire, err = qualified(name, wire)
	}
	if err != nil {
		return authorization.Decision{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	sets, err := authorization.SetsFromWire(wire)
	if err != nil {
		return authorization.Decision{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	decision := authorization.Chained(sets...)
	if decision.Fold().IsAllow() {
		return authorization.Decision{}, fmt.Errorf("%w: it does not allow the request, but its conditions allow it for any data", errContradictory)
	}
	return decision, nil
}

func (s *reviewStatus) sets(name string) ([]authorizationapi.SubjectAccessReviewConditionSet, error) {
	if s.ConditionalDecision == nil {
		chain := s.ConditionsChain
		if chain == nil {
			chain = s.ConditionSetChain
		}
		return setsOf(chain)
	}
	decision, err := upstreamform.ReadDecision(s.ConditionalDecision)
	if err != nil {
		return nil, err
	}
	return upstreamform.Sets(name, decision)
}

var errEmpty = errors.New("a list of sets or of conditions is empty")

func setsOf(answers []answerSet) ([]authorizationapi.SubjectAccessReviewConditionSet, error) {
	if len(answers) == 0 {
		return nil, errEmpty
	}
	sets := make([]authorizationapi.SubjectAccessReviewConditionSet, 0, len(answers))
	for i := range answers {
		set, err := answers[i].set()
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

func (a *answerSet) set() (set authorizationapi.SubjectAccessReviewConditionSet, err error) {
	if moreThanOne(a.Allowed, a.Denied, a.Conditions != nil, a.ConditionsChain != nil, a.ConditionSetChain != nil) {
		return set, fmt.Errorf("the set of %q must have only one of allowed, denied, conditions and a chain", a.AuthorizerName)
	}
	set = authorizationapi.SubjectAccessReviewConditionSet{
		Allowed: a.Allowed, Denied: a.Denied, AuthorizerName: a.AuthorizerName, FailureMode: authorizationapi.FailureMode(a.FailureMode),
	}
	switch {
	case a.Conditions != nil:
		if len(a.Conditions) == 0 {
			return set, errEmpty
		}
		set.Conditions, err = a.conditions()
	case a.ConditionsChain != nil:
		set.ConditionsChain, err = setsOf(a.ConditionsChain)
	case a.ConditionSetChain != nil:
		set.ConditionsChain, err = setsOf(a.ConditionSetChain)
	}
	return set, err
}

func (a *answerSet) conditions() ([]authorizationapi.SubjectAccessReviewCondition, error) {
	conditions := make([]authorizationapi.SubjectAccessReviewCondition, 0, len(a.Conditions))
	for _, c := range a.Conditions {
		switch {
		case c.Type == "":
			c.Type = a.ConditionsType
		case a.ConditionsType != "" && a.ConditionsType != c.Type:
			return nil, fmt.Errorf("condition %q has two types", c.ID)
		}
		conditions = append(conditions, authorizationapi.SubjectAccessReviewCondition{
			ID: c.ID, Effect: authorizationapi.ConditionEffect(c.Effect), Type: c.Type, Condition: c.Condition, Description: c.Description,
		})
	}
	return conditions, nil
}

// conditionsReview is the answer of a webhook to an AuthorizationConditionsReview.
type conditionsReview struct {
	typeMeta
	Response *conditionsResponse `json:"response"`
}

type conditionsResponse struct {
	Allowed           bool        `json:"allowed"`
	Denied            bool        `json:"denied"`
	Reason            string      `json:"reason"`
	EvaluationError   string      `json:"evaluationError"`
	ConditionSets     []answerSet `json:"conditionSets"`
	ConditionSetChain []answerSet `json:"conditionSetChain"`

	// Answers to SubjectAccessReviews have these fields. Here they are errors: they may restrict the answer.
	ConditionsChain     []answerSet           `json:"conditionsChain"`
	ConditionalDecision *runtime.RawExtension `json:"conditionalDecision"`

	UID      types.UID             `json:"uid"`
	Decision *runtime.RawExtension `json:"decision"`
}

// hasConditions reports whether the answer has conditions, in any form.
func (r *conditionsResponse) hasConditions() bool {
	return r.ConditionSets != nil || r.ConditionSetChain != nil || r.ConditionsChain != nil || r.ConditionalDecision != nil
}

// upstreamEvaluationFrom converts the answer to an AuthorizationConditionsReview in the form that is proposed for Kubernetes
// into a decision: Allow, Deny or NoOpinion. It returns an error if the answer is about another uid, is malformed, also has
// an answer in the form of KEP-5681, or depends on conditions.
func upstreamEvaluationFrom(raw []byte, apiVersion string, uid types.UID) (authorization.Decision, error) {
	var r conditionsReview
	if err := decode(raw, &r, &r.typeMeta, apiVersion, "AuthorizationConditionsReview"); err != nil {
		return authorization.Decision{}, err
	}
	response := r.Response
	switch {
	case response == nil:
		return authorization.Decision{}, fmt.Errorf("%w: it has no response", errMalformed)
	//guard:webhook-another-uid
	case response.UID != uid:
		return authorization.Decision{}, fmt.Errorf("%w: its uid is not the uid of the request", errMalformed)
	//guard:webhook-evaluation-two-forms
	case response.Allowed || response.Denied || response.Reason != "" || response.EvaluationError != "" || response.hasConditions():
		return authorization.Decision{}, errContradictory
	}
	decision, err := upstreamform.ReadUnconditional(response.Decision)
	if err != nil {
		return authorization.Decision{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	concrete, reason, err := decision.Concrete()
	return authorization.Unconditional(concrete, bound(reason), nil), err
}

// evaluationFrom converts the answer to an AuthorizationConditionsReview with all data into a
// decision: Allow, Deny or NoOpinion. An evaluation error is added to the reason, because the webhook
// decided in spite of it. It returns an error for an answer that is malformed, both allowed and
// denied, or has conditions left.
func evaluationFrom(raw []byte, apiVersion string) (authorization.Decision, error) {
	var r conditionsReview
	if err := decode(raw, &r, &r.typeMeta, apiVersion, "AuthorizationConditionsReview"); err != nil {
		return authorization.Decision{}, err
	}
	response := r.Response
	switch {
	case response == nil:
		return authorization.Decision{}, fmt.Errorf("%w: it has no response", errMalformed)
	case response.Allowed && response.Denied:
		return authorization.Decision{}, errContradictory
	case response.Decision != nil:
		return authorization.Decision{}, fmt.Errorf("%w: it has a decision, but the review had conditionSets", errContradictory)
	case response.hasConditions():
		return authorization.Decision{}, fmt.Errorf("%w: it has conditions left, although the review had all data", errMalformed)
	}
	reason := bound(response.Reason)
	if response.EvaluationError != "" {
		reason = strings.TrimPrefix(reason+"; "+bound(response.EvaluationError), "; ")
	}
	switch {
	case response.Allowed:
		return authorization.Allow(reason, nil), nil
	case response.Denied:
		return authorization.Deny(reason, nil), nil
	default:
		return authorization.NoOpinion(reason, nil), nil
	}
}
