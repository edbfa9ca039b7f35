/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kepwebhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strings"
)

// decision is the decision of a set.
type decision int

const (
	noOpinion decision = iota
	allow
	deny
)

// outcome is what a set decides. It has an error if the KEP does not have it ignored.
type outcome struct {
	d      decision
	reason string
	err    error
}

// labelKey matches IDs and types: the keys of labels, with or without a domain.
var labelKey = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// validateSet finds the mistakes that make a set fail ("Condition and ConditionSet data model").
func validateSet(s *conditionSet) error {
	if (s.Allowed && s.Denied) || ((s.Allowed || s.Denied) && len(s.Conditions) > 0) {
		return errors.New("allowed, denied and conditions are mutually exclusive")
	}
	seen := map[string]bool{}
	for _, c := range s.Conditions {
		switch {
		case !labelKey.MatchString(c.ID):
			return fmt.Errorf("condition id %q is not a label key", c.ID)
		case seen[c.ID]:
			return fmt.Errorf("condition id %q is there twice", c.ID)
		case !labelKey.MatchString(c.Type):
			return fmt.Errorf("condition '%s': type %q is not a label key", c.ID, c.Type)
		case len(c.Condition) > maxConditionBytes:
			return fmt.Errorf("condition '%s' is longer than %d bytes", c.ID, maxConditionBytes)
		case c.Effect != effectAllow && c.Effect != effectDeny && c.Effect != effectNoOpinion:
			return fmt.Errorf("condition '%s': unknown effect %q", c.ID, c.Effect)
		}
		seen[c.ID] = true
	}
	return nil
}

// evaluateSet evaluates a set ("Computing a concrete decision from a ConditionSet").
func evaluateSet(s *conditionSet, object, oldObject any) outcome {
	fail := func(err error) outcome {
		o := outcome{d: deny, reason: "evaluation failed, failure mode Deny", err: err}
		if s.FailureMode == failureModeNoOpinion {
			o.d, o.reason = noOpinion, "evaluation failed, failure mode NoOpinion"
		}
		return o
	}
	if err := validateSet(s); err != nil {
		return fail(err)
	}
	if s.Allowed {
		return outcome{d: allow, reason: "unconditionally allowed by " + s.AuthorizerName}
	}
	if s.Denied {
		return outcome{d: deny, reason: "unconditionally denied by " + s.AuthorizerName}
	}

	trueIDs, errs := map[string][]string{}, map[string][]error{}
	for _, c := range s.Conditions {
		var ok bool
		var err error
		if f := evaluators[typedText{c.Type, c.Condition}]; f == nil {
			err = errors.New("not a condition of this authorizer")
		} else {
			ok, err = f(object, oldObject)
		}
		if err != nil {
			errs[c.Effect] = append(errs[c.Effect], fmt.Errorf("condition '%s': %w", c.ID, err))
		} else if ok {
			trueIDs[c.Effect] = append(trueIDs[c.Effect], c.ID)
		}
	}
	for _, m := range trueIDs {
		sort.Strings(m)
	}
	switch {
	case len(trueIDs[effectDeny]) > 0:
		return outcome{d: deny, reason: "condition '" + trueIDs[effectDeny][0] + "' denied the request"}
	case len(errs[effectDeny]) > 0:
		return fail(errors.Join(errs[effectDeny]...))
	case len(trueIDs[effectNoOpinion]) > 0:
		return outcome{d: noOpinion, reason: "condition '" + trueIDs[effectNoOpinion][0] + "' gave no opinion"}
	case len(errs[effectNoOpinion]) > 0:
		return outcome{d: noOpinion, reason: "a NoOpinion condition failed to evaluate", err: errors.Join(errs[effectNoOpinion]...)}
	case len(trueIDs[effectAllow]) > 0:
		return outcome{d: allow, reason: "condition '" + trueIDs[effectAllow][0] + "' allowed the request"}
	}
	// Errors of Allow conditions are ignored. They are in the reason, not in evaluationError.
	r := "no Allow condition evaluated to true"
	if e := errs[effectAllow]; len(e) > 0 {
		r += " (ignored: " + oneLine(errors.Join(e...)) + ")"
	}
	return outcome{d: noOpinion, reason: r}
}

// evaluateChain evaluates sets in their order. Only after NoOpinion, the next one decides.
func evaluateChain(req *authorizationConditionsRequest) authorizationConditionsResponse {
	var object, oldObject any
	for _, x := range []struct {
		raw json.RawMessage
		to  *any
	}{{req.Object, &object}, {req.OldObject, &oldObject}} {
		if len(x.raw) > 0 {
			_ = json.Unmarshal(x.raw, x.to) // it was read from JSON
		}
	}
	var reasons []string
	var errs []error
	res := authorizationConditionsResponse{}
	if len(req.ConditionSets) == 0 {
		reasons = append(reasons, "no condition sets in the request")
	}
	for i := range req.ConditionSets {
		o := evaluateSet(&req.ConditionSets[i], object, oldObject)
		reasons = append(reasons, o.reason)
		if o.err != nil {
			errs = append(errs, o.err)
		}
		if o.d != noOpinion {
			res.Allowed, res.Denied = o.d == allow, o.d == deny
			reasons = []string{o.reason}
			break
		}
	}
	res.Reason = strings.Join(reasons, "; ")
	if len(errs) > 0 {
		res.EvaluationError = oneLine(errors.Join(errs...))
	}
	return res
}

// oneLine returns an error in one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
