/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/impersonation/internal/upstreamfilter"
)

// Reviewer finds out what the impersonation filter of a server would answer. It is safe
// for concurrent use if its authorizer is.
type Reviewer struct {
	authorizer  authorizer.UnconditionalAuthorizer
	constrained bool
	conditional *Conditional
}

// NewReviewer makes a Reviewer over the authorizer that decides who may impersonate. It
// must not give conditional answers: KEP-5284 has no place for them. The constrained modes
// are tried if requests try them, and the mode conditional if it is given.
func NewReviewer(a authorizer.UnconditionalAuthorizer, constrained bool, conditional *Conditional) (*Reviewer, error) {
	if _, err := upstreamfilter.New(http.NotFoundHandler(), a, codecs, upstreamfilter.Discard); err != nil {
		return nil, err
	}
	return &Reviewer{authorizer: a, constrained: constrained, conditional: conditional}, nil
}

// Answer is what the filter does with a request. The zero value refuses it.
type Answer struct {
	// User is the user that the server sees, nil if the impersonation is refused.
	User user.Info
	// Mode is the mode that allows the impersonation.
	Mode api.ImpersonationMode
	// Constraint is the verb that allows it, as audit records it: empty in the mode legacy.
	Constraint string
	// Reason is why it is refused, in the words of the refusal.
	Reason string
	// Residual is what the impersonation still depends on: conditions on the object, each of
	// which denies. They come before everything else that decides the request.
	Residual []authorization.Set
	// Checks are the checks that were made, in order.
	Checks []Check
}

var errNoAnswer = errors.New("the impersonation filter gave no answer")

// Review asks what becomes of the request that attributes describe if their user makes it
// as the wanted user. An error means that this could not be found out: then the answer
// refuses.
//
// With the mode conditional, the filter is asked twice: for the constrained modes, which
// come before it, and for the legacy mode, which comes last. Whoever may impersonate on
// conditions on the object and also by the legacy mode does so by that one, which holds for
// every object; what the mode conditional denies remains denied.
func (r *Reviewer) Review(ctx context.Context, attributes authorizer.AttributesRecord, wanted *user.DefaultInfo) (Answer, error) {
	if err := refuseReserved(attributes.User, wanted); err != nil {
		return Answer{Reason: err.Error()}, nil //nolint:nilerr // the refusal is the answer
	}
	switch {
	case r.conditional == nil && r.constrained:
		return r.filter(ctx, attributes, wanted, func(string) bool { return false })
	case r.conditional == nil:
		return r.legacy(ctx, attributes, wanted)
	}
	constrained, err := r.filter(ctx, attributes, wanted, func(verb string) bool { return isLegacy(verb) || !r.constrained })
	if err != nil || constrained.User != nil {
		return constrained, err
	}
	conditional := r.conditional.review(ctx, attributes, wanted)
	conditional.Checks = append(constrained.Checks, conditional.Checks...)
	if conditional.final || conditional.User != nil && len(conditional.Residual) == 0 {
		return conditional.Answer, nil
	}
	legacy, err := r.legacy(ctx, attributes, wanted)
	legacy.Checks = append(conditional.Checks, legacy.Checks...)
	switch {
	case err != nil:
	case legacy.User != nil:
		legacy.Residual = conditional.denials
	case conditional.User != nil:
		conditional.Checks = legacy.Checks
		return conditional.Answer, nil
	case len(constrained.Checks) > 0:
		legacy.Reason = constrained.Reason // the filter's own choice: the first mode that was for such a user
	}
	return legacy, err
}

// legacy asks the filter for the legacy mode only. If the constrained modes are off, nothing
// refuses in their words.
func (r *Reviewer) legacy(ctx context.Context, attributes authorizer.AttributesRecord, wanted *user.DefaultInfo) (Answer, error) {
	answer, err := r.filter(ctx, attributes, wanted, isConstrained)
	if err == nil && answer.User == nil && !r.constrained && len(answer.Checks) > 0 {
		last := answer.last()
		last.Err = nil // such a server tells no errors
		answer.Reason = last.forbidden().Error()
	}
	return answer, err
}

func isLegacy(verb string) bool { return verb == verbLegacy }

// isConstrained reports whether a verb opens a constrained mode: those check the request
// first.
func isConstrained(verb string) bool { return strings.HasPrefix(verb, verbImpersonateOn) }

// filter asks the filter, without asking about masked verbs.
func (r *Reviewer) filter(ctx context.Context, attributes authorizer.AttributesRecord, wanted *user.DefaultInfo, masked func(verb string) bool) (Answer, error) {
	recorder := &recorder{authorizer: inContext{r.authorizer, ctx}, wanted: wanted, masked: masked, extras: map[string]error{}}
	var impersonated user.Info
	filter, err := upstreamfilter.New(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		impersonated, _ = genericapirequest.UserFrom(request.Context())
	}), recorder, codecs, upstreamfilter.Discard)
	if err != nil {
		return Answer{}, err
	}
	request, err := newRequest(withoutValues{ctx}, attributes, wanted)
	if err != nil {
		return Answer{}, err
	}
	var written response
	filter.ServeHTTP(&written, request)
	answer := Answer{Checks: recorder.checks}
	if impersonated == nil {
		answer.Reason, err = written.refusal()
		return answer, err
	}
	return answer.allow(impersonated)
}

// allow fills in what follows from the checks. The last of them is of the mode that
// allows, since the filter stops there, and the mode has asked at least about the user.
func (a Answer) allow(impersonated user.Info) (Answer, error) {
	if len(a.Checks) == 0 || a.Checks[len(a.Checks)-1].Decision != authorizer.DecisionAllow {
		return Answer{Checks: a.Checks}, errNoAnswer
	}
	last := a.Checks[len(a.Checks)-1]
	a.User, a.Mode = impersonated, last.Mode
	if last.Attributes.Verb != verbLegacy {
		a.Constraint = verbImpersonate + string(last.Mode)
	}
	return a, nil
}

// withoutValues is a context as good as new that ends with another one: nothing in it
// leads to the audit event, or the log line, of the request that asks for a review.
type withoutValues struct {
	context.Context //nolint:containedctx // it is one
}

func (withoutValues) Value(any) any { return nil }

// inContext asks an authorizer in a context other than the filter's: the authorizer may
// need its values, and audits nothing.
type inContext struct {
	authorizer.UnconditionalAuthorizer
	ctx context.Context //nolint:containedctx // it lives as long as the review
}

func (a inContext) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.UnconditionalAuthorizer.Authorize(a.ctx, attributes)
}

// response is what the filter answers.
type response struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

var _ http.ResponseWriter = &response{}

func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *response) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

func (w *response) Write(content []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(content)
}

// copyTo answers a request with it.
func (w *response) copyTo(to http.ResponseWriter) {
	maps.Copy(to.Header(), w.Header())
	to.WriteHeader(w.code)
	_, _ = to.Write(w.body.Bytes()) // the client is gone if this fails
}

// refusal returns the message of a refusal. Every other response is an error.
func (w *response) refusal() (string, error) {
	var status metav1.Status
	if err := json.Unmarshal(w.body.Bytes(), &status); err != nil {
		return "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if w.code != http.StatusForbidden || status.Status != metav1.StatusFailure {
		return "", fmt.Errorf("%w: %s", errNoAnswer, strings.TrimSpace(status.Message))
	}
	return status.Message, nil
}
