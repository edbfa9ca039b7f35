/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// The verbs of impersonation (KEP-5284, "Proposal"). The first two are followed by the
// mode, and the second also by the verb of the request.
const (
	verbImpersonate   = "impersonate:"
	verbImpersonateOn = "impersonate-on:"
	verbLegacy        = "impersonate"
)

// Check is an authorization check of an impersonation, and its answer.
type Check struct {
	// Mode is the mode that the check belongs to.
	Mode authorization.ImpersonationMode
	// Attributes are what was checked.
	Attributes authorizer.AttributesRecord
	// Decision, Reason and Err are the answer. The check passed if the decision is Allow, or if OnObject is true.
	Decision authorizer.Decision
	Reason   string
	Err      error
	// Conditions are the conditions that the answer depended on, in conditional mode.
	Conditions []authorization.SubjectAccessReviewConditionSet
	// OnObject is true if the check may pass for some objects only. Answer.Residual has the conditions on the object.
	OnObject bool
}

func (c Check) passes() bool { return c.OnObject || c.Decision == authorizer.DecisionAllow }

// IsOnRequest reports whether the check is about the request, rather than about the impersonated
// user.
func (c Check) IsOnRequest() bool {
	return strings.HasPrefix(c.Attributes.Verb, verbImpersonateOn)
}

func isLegacy(verb string) bool { return verb == verbLegacy }

// isConstrained reports whether a verb is the first that a constrained mode checks: the
// verb on the request.
func isConstrained(verb string) bool { return strings.HasPrefix(verb, verbImpersonateOn) }

// modeOf returns the mode that makes checks with a verb.
func modeOf(verb string) authorization.ImpersonationMode {
	if verb == verbLegacy {
		return authorization.ImpersonationModeLegacy
	}
	mode := verb
	for _, prefix := range []string{verbImpersonateOn, verbImpersonate} {
		if rest, ok := strings.CutPrefix(verb, prefix); ok {
			mode, _, _ = strings.Cut(rest, ":")
			break
		}
	}
	return authorization.ImpersonationMode(mode)
}

// forbidden returns the refusal of a check that does not pass, with the message of upstream's filter.
func (c Check) forbidden() error {
	message := c.Reason
	switch {
	case c.Err != nil && c.Reason != "":
		message = fmt.Sprintf("%v: %s", c.Err, c.Reason)
	case c.Err != nil:
		message = c.Err.Error()
	}
	return responsewriters.ForbiddenStatusError(c.Attributes, message)
}

// recordFunc records a check in the metrics. If nil, it records nothing.
type recordFunc func(mode, decision string, duration time.Duration)

func (f recordFunc) record(c Check, duration time.Duration) {
	decision := "denied"
	if c.passes() {
		decision = "allowed"
	}
	if f != nil {
		f(string(c.Mode), decision, duration)
	}
}

// recordOf copies attributes, which upstream's filter changes after a check.
func recordOf(a authorizer.Attributes) authorizer.AttributesRecord {
	record := authorizer.AttributesRecord{
		User: a.GetUser(), Verb: a.GetVerb(), Namespace: a.GetNamespace(), APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(),
		Resource: a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(), ResourceRequest: a.IsResourceRequest(), Path: a.GetPath(),
	}
	record.FieldSelectorRequirements, record.FieldSelectorParsingErr = a.GetFieldSelector()
	record.LabelSelectorRequirements, record.LabelSelectorParsingErr = a.GetLabelSelector()
	return record
}
