/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// FrontDoor decides requests for kube-apiserver. It is safe for concurrent use.
type FrontDoor struct {
	config Config
}

// Config is what a FrontDoor decides from.
type Config struct {
	// Chain decides. Its members must decide from Policies, and must not evaluate conditions: their
	// checks would ask kube-apiserver back.
	Chain *authorization.Chain
	// Policies tell whether there is something to decide from.
	Policies *engine.Source
	// Enforces reports whether this server, and nobody else, serves exactly such requests and
	// evaluates conditions on them at admission; it must be false for a question about more
	// than one kind of request.
	Enforces func(authorizer.Attributes) bool
	// Fields lets those pass who have permission on fields only. Nil means that nobody has.
	Fields *Fields
}

// NewFrontDoor makes a FrontDoor.
func NewFrontDoor(config Config) (*FrontDoor, error) {
	switch fields := config.Fields; {
	case config.Chain == nil || config.Policies == nil || config.Enforces == nil:
		return nil, errors.New("a front door needs a chain, its policies, and to know what is enforced")
	case fields != nil && (fields.Question == nil || fields.KubeAPIServer == nil):
		return nil, errors.New("a front door that lets pass by permission on fields needs somebody to ask, and what")
	}
	return &FrontDoor{config: config}, nil
}

// The reasons why the front door cannot decide, or not well.
var (
	errNotLoaded = errors.New("the policies have not been loaded yet")
	errStale     = errors.New("the policies may be out of date")
)

// Ready returns why the front door is not ready, or nil.
func (d *FrontDoor) Ready() error {
	if d.config.Policies.Snapshot() == nil {
		return errNotLoaded
	}
	if reason := d.config.Policies.Stale(); reason != "" {
		return fmt.Errorf("%w: %s", errStale, reason)
	}
	return nil
}

// Decide decides a request as far as policies do. The decision is Allow, Deny or
// NoOpinion. An error means that nobody here can tell: there are no policies yet.
//
// Conditions become (KEP-5681, "Authorizer requirements"):
//
//   - where this server enforces them: Allow if they can come to that, and NoOpinion
//     otherwise, since a Deny condition is evaluated behind whoever else allows;
//   - where it does not: Deny if they could deny, and NoOpinion otherwise.
//
// A request with the delegation marker comes from Proviso, which has the same policies and
// wants to know what others say: Allow and conditions become NoOpinion. A Deny stays, and
// nobody may impersonate into the marker, so that forging it gains nothing.
//
// What then is NoOpinion is Allow for those who may change some fields of what they write:
// this server checks which. See Fields.
func (d *FrontDoor) Decide(ctx context.Context, attributes authorizer.Attributes) (authorization.Decision, error) {
	return d.decide(ctx, attributes, unlimited)
}

// limit has the policies evaluated, or returns an error without doing so. What a decision does
// besides, such as asking kube-apiserver, is not limited.
type limit func(evaluate func() authorization.Decision) (authorization.Decision, error)

func unlimited(evaluate func() authorization.Decision) (authorization.Decision, error) {
	return evaluate(), nil
}

// decide is Decide with a limit on evaluations.
func (d *FrontDoor) decide(ctx context.Context, attributes authorizer.Attributes, within limit) (authorization.Decision, error) {
	if d.config.Policies.Snapshot() == nil {
		return authorization.Decision{}, errNotLoaded
	}
	if impersonatesMarker(attributes) {
		return authorization.Deny(reasonMarker, nil), nil
	}
	ctx = d.config.Chain.Pin(ctx)
	marked := isMarked(attributes.GetUser())
	decision, err := within(func() authorization.Decision { return d.config.Chain.Decide(ctx, attributes) })
	if err != nil {
		return authorization.Decision{}, err
	}
	if !decision.IsUnconditional() {
		decision = d.unconditional(decision, attributes, marked)
	}
	if marked && decision.IsAllow() {
		return authorization.NoOpinion(reasonDelegated, nil), nil
	}
	if decision.IsNoOpinion() && !marked && d.mayChangeFields(ctx, attributes, within) {
		return authorization.Allow(reasonFields, nil), nil
	}
	return decision, nil
}

const (
	reasonMarker    = "the user extra " + webhook.DelegationMarker + " belongs to Proviso: nobody may impersonate into it"
	reasonDelegated = "Proviso applies its policies itself"
	reasonFields    = "allowed as far as Proviso finds permission on every field that changes"
)

// unconditional makes a conditional decision one that kube-apiserver understands.
func (d *FrontDoor) unconditional(decision authorization.Decision, attributes authorizer.Attributes, marked bool) authorization.Decision {
	enforced := d.config.Enforces(attributes) && !authorization.AsksAboutMany(attributes)
	conditions := conditionLabels(decision)
	switch {
	case enforced && decision.CanBecomeAllowed():
		return authorization.Allow("allowed as far as conditions go that Proviso evaluates: "+conditions, nil)
	case enforced || marked:
		return authorization.NoOpinion("Proviso evaluates conditions: "+conditions, nil)
	case decision.CanBecomeDenied():
		return authorization.Deny("denied by conditions that nobody can evaluate for this request: "+conditions, nil)
	default:
		return authorization.NoOpinion("not allowed by conditions that nobody can evaluate for this request: "+conditions, nil)
	}
}

// isMarked reports whether a user carries the delegation marker, in whatever case: keys
// that arrive as headers are lower-cased, others are not, and a marker only takes rights.
func isMarked(u user.Info) bool {
	if u == nil {
		return false
	}
	for key := range u.GetExtra() {
		if strings.EqualFold(key, webhook.DelegationMarker) {
			return true
		}
	}
	return false
}

// impersonatesMarker reports whether somebody is to become a user with the delegation
// marker. With it, conditions that deny would be left to a Proviso that is not behind.
func impersonatesMarker(a authorizer.Attributes) bool {
	return a.IsResourceRequest() && a.GetAPIGroup() == authenticationv1.GroupName &&
		a.GetResource() == "userextras" && strings.EqualFold(a.GetSubresource(), webhook.DelegationMarker)
}

// maxNamedConditions bounds a reason, which becomes part of the message of a refusal.
const maxNamedConditions = 3

// conditionLabels names the conditions of a decision, or the first of them. A condition with effect
// NoOpinion may be in several sets.
func conditionLabels(decision authorization.Decision) string {
	var labels []string
	seen := map[string]bool{}
	for _, set := range decision.Chain() {
		for _, c := range set.Decision.Conditions() {
			if !seen[c.ID] {
				seen[c.ID], labels = true, append(labels, c.Label())
			}
		}
	}
	more := ""
	if len(labels) > maxNamedConditions {
		more = fmt.Sprintf(" and %d more", len(labels)-maxNamedConditions)
		labels = labels[:maxNamedConditions]
	}
	return strings.Join(labels, ", ") + more
}
