/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// The verbs of impersonation (KEP-5284, "Proposal"). The first two are followed by the
// mode, and the second by the verb of the request besides.
const (
	verbImpersonate   = "impersonate:"
	verbImpersonateOn = "impersonate-on:"
	verbLegacy        = "impersonate"
)

// Check is an authorization check that a review made, and its answer.
type Check struct {
	// Mode is the mode that the check belongs to.
	Mode authorization.ImpersonationMode
	// Attributes are what was checked.
	Attributes authorizer.AttributesRecord
	// Decision, Reason and Err are the answer. The check passed if the decision is Allow.
	Decision authorizer.Decision
	Reason   string
	Err      error
	// Conditions are those that the answer depended on, in the mode conditional.
	Conditions []authorization.SubjectAccessReviewConditionSet
	// OnObject says that the check passes as far as it can be told without the object. What
	// remains is in the residual of the answer.
	OnObject bool
}

func (c Check) passes() bool { return c.OnObject || c.Decision == authorizer.DecisionAllow }

// IsOnRequest reports whether the check is about the request, rather than about the user
// who is impersonated.
func (c Check) IsOnRequest() bool {
	return strings.HasPrefix(c.Attributes.Verb, verbImpersonateOn)
}

// last returns the check that decided.
func (a Answer) last() Check { return a.Checks[len(a.Checks)-1] }

// modeOf returns the mode whose permissions a verb is for.
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

// recorder writes down what it is asked. It must not be used concurrently.
type recorder struct {
	authorizer authorizer.UnconditionalAuthorizer
	wanted     *user.DefaultInfo
	// masked are the verbs that nobody is asked about: they are not allowed.
	masked func(verb string) bool
	checks []Check
	// extras holds, by verb, why extra may not be impersonated; nil if it may.
	extras map[string]error
}

var _ authorizer.UnconditionalAuthorizer = &recorder{}

// Authorize asks and writes down.
//
// The filter checks extra in the order of a map, which differs from time to time, until
// one check fails. Here all of it is checked at the first such question, in the order of
// the keys until one check fails, and every such question is answered with the outcome:
// they must all pass in any case, and the same review has the same answer.
func (r *recorder) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	record := recordOf(attributes)
	if r.masked(record.Verb) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if !r.isOneOfExtra(record) {
		check := r.ask(ctx, record)
		return check.Decision, check.Reason, check.Err
	}
	err, asked := r.extras[record.Verb]
	if !asked {
		err = r.authorizeExtra(ctx, record)
		r.extras[record.Verb] = err
	}
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	return authorizer.DecisionAllow, "", nil
}

// isOneOfExtra reports whether a check is about one value of extra. Constrained modes
// may ask about all values at once, as "*", which is no valid key in them.
func (r *recorder) isOneOfExtra(record authorizer.AttributesRecord) bool {
	if record.APIGroup != authenticationv1.GroupName || record.Resource != "userextras" {
		return false
	}
	isVerb := record.Verb == verbLegacy || strings.HasPrefix(record.Verb, verbImpersonate)
	isAll := record.Verb != verbLegacy && record.Subresource == "*" && record.Name == "*"
	return isVerb && !isAll
}

func (r *recorder) authorizeExtra(ctx context.Context, record authorizer.AttributesRecord) error {
	for _, key := range slices.Sorted(maps.Keys(r.wanted.Extra)) {
		for _, value := range r.wanted.Extra[key] {
			record.Subresource, record.Name = key, value
			if check := r.ask(ctx, record); check.Decision != authorizer.DecisionAllow {
				return check.forbidden()
			}
		}
	}
	return nil
}

// forbidden words a refusal as the filter does. It leaves the words of an error that is
// a refusal already.
func (c Check) forbidden() error {
	message := c.Reason
	switch {
	case c.Err != nil && c.Reason != "":
		message = fmt.Sprintf("%v: %s", c.Err, c.Reason)
	case c.Err != nil:
		message = c.Err.Error()
	}
	return c.refused(message)
}

// refused refuses the check with a message.
func (c Check) refused(message string) error {
	return responsewriters.ForbiddenStatusError(c.Attributes, message)
}

func (r *recorder) ask(ctx context.Context, record authorizer.AttributesRecord) Check {
	check := Check{Mode: modeOf(record.Verb), Attributes: record}
	check.Decision, check.Reason, check.Err = r.authorizer.Authorize(ctx, record)
	r.checks = append(r.checks, check)
	return check
}

// recordOf copies attributes, which the filter changes after it has asked.
func recordOf(a authorizer.Attributes) authorizer.AttributesRecord {
	record := authorizer.AttributesRecord{
		User: a.GetUser(), Verb: a.GetVerb(), Namespace: a.GetNamespace(), APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(),
		Resource: a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(), ResourceRequest: a.IsResourceRequest(), Path: a.GetPath(),
	}
	record.FieldSelectorRequirements, record.FieldSelectorParsingErr = a.GetFieldSelector()
	record.LabelSelectorRequirements, record.LabelSelectorParsingErr = a.GetLabelSelector()
	return record
}
