/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// Codes are the answers in a case as codes. They have no text of the code, so that another wording is no difference.
type Codes struct {
	Number int
	// FrontDoor is nil without a front door.
	FrontDoor *DoorCodes `json:",omitempty"`
	Policies  []PolicyCodes
	Review    ReviewCodes
}

// DoorCodes are the answer of the front door.
type DoorCodes struct {
	// Decision is allowed, denied, no_opinion, conditional, or the status code of an error.
	Decision string
	// Why are the classes of its reason, and the policies in it.
	Why []string `json:",omitempty"`
	// Conditions are those that kube-apiserver gets, with their effects.
	Conditions []string `json:",omitempty"`
	// Counted are the metrics that have changed.
	Counted []string `json:",omitempty"`
}

// PolicyCodes are what is known of a policy.
type PolicyCodes struct {
	Policy    string
	Ready     string        `json:",omitempty"`
	Effective string        `json:",omitempty"`
	Entries   []EntryCodes  `json:",omitempty"`
	Refused   []string      `json:",omitempty"`
	Warned    []string      `json:",omitempty"`
	Audit     *AuditCounted `json:",omitempty"`
}

// EntryCodes are an entry of status.enforcement.
type EntryCodes struct {
	Rule             int32
	Verbs, Resources []string
	At, Result       string
	Why              []string `json:",omitempty"`
}

// AuditCounted is what a policy in Audit has counted for the request.
type AuditCounted struct{ Decided, Errors, Undetermined int64 }

// ReviewCodes are the answer to a review.
type ReviewCodes struct {
	Decision   string
	Why        []string `json:",omitempty"`
	Conditions []string `json:",omitempty"`
	Warnings   []string `json:",omitempty"`
}

// CodesOf returns the codes of answers.
func CodesOf(c *Case, a *Answers) *Codes {
	codes := &Codes{Number: c.Number, Review: reviewCodes(a)}
	if a.Code != 0 {
		codes.FrontDoor = doorCodes(a)
	}
	for i := range a.Policies {
		codes.Policies = append(codes.Policies, policyCodes(c.Policies[i].Key(), &a.Policies[i]))
	}
	return codes
}

func decisionOf(isAllowed, isDenied, isConditional bool) string {
	switch {
	case isConditional:
		return "conditional"
	case isDenied:
		return "denied"
	case isAllowed:
		return "allowed"
	}
	return "no_opinion"
}

func doorCodes(a *Answers) *DoorCodes {
	answer := struct {
		Status struct {
			authorizationv1.SubjectAccessReviewStatus `json:",inline"`

			ConditionalDecision json.RawMessage `json:"conditionalDecision"`
		} `json:"status"`
	}{}
	if err := json.Unmarshal(a.Body, &answer); err != nil || a.Code != 200 {
		return &DoorCodes{Decision: fmt.Sprint(a.Code), Counted: a.Counted}
	}
	s := &answer.Status
	return &DoorCodes{
		Decision: decisionOf(s.Allowed, s.Denied, len(s.ConditionalDecision) > 0), Why: classesOf(s.Reason, s.EvaluationError), Counted: a.Counted,
		Conditions: conditionsIn(s.ConditionalDecision),
	}
}

// conditionsIn returns the conditions and the decisions in the form that is proposed for Kubernetes, in order. Texts are left out.
func conditionsIn(raw json.RawMessage) []string {
	if len(raw) == 0 {
		return nil
	}
	var decision any
	if err := json.Unmarshal(raw, &decision); err != nil {
		return []string{"unreadable"}
	}
	var found []string
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, key := range sortedNames(v) {
				walk(path+"."+key, v[key])
			}
		case []any:
			for i, item := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), item)
			}
		default:
			if strings.HasSuffix(path, ".condition") || strings.HasSuffix(path, ".description") || strings.HasSuffix(path, ".reason") {
				return
			}
			found = append(found, fmt.Sprintf("%s=%v", strings.TrimPrefix(path, "."), v))
		}
	}
	walk("", decision)
	return found
}

func policyCodes(key string, p *PolicyAnswer) PolicyCodes {
	codes := PolicyCodes{Policy: key}
	if ready := meta.FindStatusCondition(p.Status.Conditions, policyv1alpha1.PolicyReady); ready != nil {
		codes.Ready = ready.Reason
	}
	if effective := meta.FindStatusCondition(p.Status.Conditions, policyv1alpha1.PolicyEffective); effective != nil {
		codes.Effective = effective.Reason
	}
	for _, e := range p.Status.Enforcement {
		codes.Entries = append(codes.Entries, EntryCodes{Rule: e.Rule, Verbs: e.Verbs, Resources: e.Resources, At: string(e.At), Result: string(e.Result), Why: classesOf(e.Message)})
	}
	for range p.Errors {
		codes.Refused = append(codes.Refused, "invalid")
	}
	for _, w := range p.Warnings {
		codes.Warned = append(codes.Warned, strings.Join(append([]string{subjectOf(w)}, classesOf(w)...), ": "))
	}
	if p.Audit != nil {
		codes.Audit = &AuditCounted{p.Audit.Decided, p.Audit.Errors, p.Audit.Undetermined}
	}
	return codes
}

var beginning = regexp.MustCompile(`spec\.\w+(\[\d+\])?( \([^)]*\))?`)

// subjectOf returns what a warning is about, such as "spec.rules[0] (create pods)".
func subjectOf(text string) string { return beginning.FindString(text) }

func reviewCodes(a *Answers) ReviewCodes {
	if a.ReviewError != "" {
		return ReviewCodes{Decision: "invalid"}
	}
	codes := ReviewCodes{
		Decision: decisionOf(a.Review.Allowed, a.Review.Denied, len(a.Review.ConditionsChain) > 0), Why: classesOf(a.Review.Reason, a.Review.EvaluationError),
		Conditions: chainOf("", a.Review.ConditionsChain),
	}
	for _, w := range a.Warnings {
		codes.Warnings = append(codes.Warnings, classesOf(w)...)
	}
	return codes
}

func chainOf(path string, chain []authorizationapi.SubjectAccessReviewConditionSet) (found []string) {
	for i := range chain {
		set := &chain[i]
		at := path + set.AuthorizerName
		if len(set.Conditions)+len(set.ConditionsChain) == 0 {
			found = append(found, at+"="+decisionOf(set.Allowed, set.Denied, false))
		}
		for j := range set.Conditions {
			found = append(found, fmt.Sprintf("%s: %s %s", at, set.Conditions[j].Effect, set.Conditions[j].ID))
		}
		found = append(found, chainOf(at+"/", set.ConditionsChain)...)
	}
	return found
}

var (
	// entries are what one policy or condition says in a reason, and labels the conditions that are named in a reason.
	entries = regexp.MustCompile(`(?:policy|condition)=\S+ reason=[A-Za-z]+`)
	labels  = regexp.MustCompile(`(?:policy|condition)=[\w./-]+`)
)

// Unclassified begins the class of a text that has no phrase of the table.
const Unclassified = "unclassified: "

// classesOf returns the classes of some texts, and the policies that they name, each once and in order.
func classesOf(texts ...string) []string {
	var found []string
	add := func(class string) {
		if !slices.Contains(found, class) {
			found = append(found, class)
		}
	}
	for _, text := range texts {
		if text == "" {
			continue
		}
		before := len(found)
		for _, p := range phrases {
			if strings.Contains(text, p.phrase) {
				add(p.class)
			}
		}
		rest := text
		for _, entry := range entries.FindAllString(text, -1) {
			add(entry)
			rest = strings.Replace(rest, entry, "", 1)
		}
		for _, label := range labels.FindAllString(rest, -1) {
			add(strings.TrimRight(label, "."))
		}
		if len(found) == before && !slices.ContainsFunc(found, func(class string) bool { return strings.HasPrefix(text, class) }) {
			add(Unclassified + text)
		}
	}
	slices.Sort(found)
	return found
}
