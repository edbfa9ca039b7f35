/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// Request is a request, or a review about one.
type Request struct {
	// Attributes are what is asked about. They are not embedded, so that authorizers can still ask for the types of the original ones.
	Attributes authorizer.Attributes
	// Client is the kube-apiserver that asks. It is nil if the answer is about all kube-apiservers, as the answer to a review of Proviso is.
	Client *Client
	// HandlesConditions says that the client gets conditions and enforces them itself, if the front door leaves it any.
	HandlesConditions bool
}

// Client is an authenticated client of the front door.
type Client struct {
	// Name is the common name of its certificate.
	Name string
	// Certificate is the SHA-256 digest of its certificate, in hexadecimal digits.
	Certificate string
}

func (r *Request) version() schema.GroupVersion {
	return schema.GroupVersion{Group: r.Attributes.GetAPIGroup(), Version: r.Attributes.GetAPIVersion()}
}

// with returns another request of the same user, as the same client asks.
func (r *Request) with(a authorizer.Attributes) *Request {
	return &Request{Attributes: a, Client: r.Client, HandlesConditions: r.HandlesConditions}
}

// Place is a component that evaluates conditions at admission. Its methods may be called concurrently.
type Place interface {
	// Terms say what the place does with conditions. They do not change.
	Terms() Terms
	// Takes reports whether conditions on a request are evaluated at this place. Obstacle may still say that this one does not pass. The request is for one verb
	// and one resource in one version.
	Takes(r *Request) bool
	// Obstacle returns the first obstacle to a request that the place takes, or nil. If ask is nil, obstacles that need a question are left out.
	Obstacle(ctx context.Context, r *Request, ask Asker) *Obstacle
	// Status returns what the status of policies says about the place now, or nil if enforcementstatus.Facts describe it.
	Status() enforcementstatus.Place
	// Audit says what becomes of policies in Audit whose conditions the front door could not evaluate, with the decision on the request.
	Audit(decision authorization.Decision) Audit
}

// Effects are the effects of policies whose conditions a place evaluates.
type Effects uint8

const (
	// NoEffects means that the place folds all conditions.
	NoEffects Effects = iota
	// Grants means that the place evaluates a decision that can become Allow and cannot become Deny. Others are folded.
	Grants
	// AllEffects means that the place evaluates all decisions, and refuses what becomes Deny.
	AllEffects
)

// Terms say what a place does with conditions.
type Terms struct {
	// At names the place in the status of policies.
	At policyv1alpha1.EnforcementPlace
	// Evaluates has the effects whose conditions it evaluates.
	Evaluates Effects
	// DecidesAgain says that the place decides the request with all authorizers again, so that conditions of those after the policies, and permission
	// on fields, may pass, too.
	DecidesAgain bool
	// Unseen says that the place does not see the path and the selectors of the request.
	Unseen bool
	// GetsConditions says that the client gets the conditions. Otherwise the front door answers Allow.
	GetsConditions bool
	// HasObstacles says that metrics count whether there was an obstacle.
	HasObstacles bool
	// Reason begins the reason of an Allow; the conditions follow.
	Reason string
}

// Audit says what becomes of policies in Audit.
type Audit struct {
	// Leaves has effects: policies with these are counted by the place.
	Leaves []authorization.Effect
	// Remainder is what is counted here for the other policies.
	Remainder authorization.Remainder
}

// Obstacle is why a request does not pass on conditions that a place would evaluate.
type Obstacle struct {
	// Answer is a value of the label answer of the metric.
	Answer string
	// Reason is a part of the reason of the decision, and of a warning.
	Reason string
}

// Asker answers the questions of places about a request.
type Asker interface {
	// ByPolicies decides by policies, without conditions that barriers enforce. An error means that there is no decision.
	ByPolicies(ctx context.Context, r *Request) (authorization.Decision, error)
	// IsAllowed reports whether a user may read something, without conditions. An error counts as no.
	IsAllowed(ctx context.Context, r *Request) bool
}

// Table has the places in which conditions may be evaluated.
type Table struct {
	places   []Place
	barriers *Barriers
}

// NewTable returns a table of places, in order. barriers may be nil. It returns an error if one of them lacks a function.
func NewTable(barriers *Barriers, places ...Place) (*Table, error) {
	if barriers != nil && !barriers.isComplete() {
		return nil, errors.New("the barriers lack a function")
	}
	for _, p := range places {
		if p, ok := p.(interface{ isComplete() bool }); ok && !p.isComplete() {
			return nil, fmt.Errorf("%T lacks a function", p)
		}
	}
	return &Table{places: places, barriers: barriers}, nil
}

// Of returns the place of a request.
func (t *Table) Of(r *Request) Place {
	//guard:front-door-other-servers-several-versions
	if r.Attributes.IsResourceRequest() && !authorization.HasWildcards(r.Attributes) {
		for _, p := range t.places {
			if p.Takes(r) {
				return p
			}
		}
	}
	return Nowhere{}
}

// OfNamed returns the place that a request without a name would have with one.
func (t *Table) OfNamed(r *Request) Place {
	named := authorization.VariantOf(r.Attributes)
	named.Name = "any"
	return t.Of(r.with(named))
}

// reasonDenies is why a place does not evaluate conditions that could deny.
const reasonDenies = "a condition could deny, and kube-apiserver does not call the inner door for requests that another authorizer allows, so that such a request is denied"

// reasonOfOthers is why a place that does not decide again does not evaluate conditions of webhooks.
const reasonOfOthers = "conditions of other authorizers than the policies are not evaluated there"

// isOfOthers reports whether a set has conditions, and policies have not made them.
func isOfOthers(s authorization.Set) bool {
	names := []string{engine.RestrictingName, engine.GrantingName, engine.NamespacedName}
	return !s.Decision.IsUnconditional() && !slices.Contains(names, s.AuthorizerName)
}

// Evaluated reports whether the conditions of a decision on a request are evaluated. If not, problem says why; it is empty if there is no place for such
// requests at all.
func (t *Table) Evaluated(ctx context.Context, r *Request, decision authorization.Decision, ask Asker) (isEvaluated bool, problem string) {
	p := t.Of(r)
	if p.Terms().Evaluates == NoEffects && r.Attributes.GetName() == "" {
		p = t.OfNamed(r) // a review about any name
	}
	left, _ := t.barriers.WithoutDeny(decision, r, p)
	switch terms := p.Terms(); {
	case left.IsUnconditional():
		return true, ""
	case terms.Evaluates == NoEffects:
		return false, cmp.Or(t.problem(r), t.barriers.problem(decision, r, p))
	case terms.Evaluates == Grants && left.CanBecomeDenied():
		return false, reasonDenies
	//guard:places-conditions-of-webhooks
	case !terms.DecidesAgain && slices.ContainsFunc(left.Chain(), isOfOthers):
		return false, reasonOfOthers
	}
	if found := p.Obstacle(ctx, r, ask); found != nil {
		return false, found.Reason
	}
	return true, ""
}

// problem says why a place that is for such requests does not take this one now. It is empty if there is no such place.
func (t *Table) problem(r *Request) string {
	for _, p := range t.places {
		if p, ok := p.(interface{ Problem(*Request) string }); ok && r.Attributes.IsResourceRequest() {
			if problem := p.Problem(r); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// IsCanary reports whether a request is one with which Proviso finds out what kube-apiserver does at admission. Such a request is allowed, and refused at
// admission.
func (t *Table) IsCanary(r *Request) bool {
	return t.barriers != nil && t.barriers.Canary(r.Client, r.Attributes) || slices.ContainsFunc(t.places, func(p Place) bool {
		probed, ok := p.(interface{ IsCanary(*Request) bool })
		return ok && probed.IsCanary(r)
	})
}

// NeedsCreate reports whether this server allows a request only if it allows the verb create, too.
func (t *Table) NeedsCreate(r *Request) bool {
	return slices.ContainsFunc(t.places, func(p Place) bool {
		server, ok := p.(interface{ NeedsCreate(*Request) bool })
		return ok && server.NeedsCreate(r)
	})
}

// LeavesConditions reports whether there is a place whose clients get conditions.
func (t *Table) LeavesConditions() bool {
	return slices.ContainsFunc(t.places, func(p Place) bool { return p.Terms().GetsConditions })
}

// Asks reports whether a place may ask an Asker.
func (t *Table) Asks() bool {
	return t.LeavesConditions() || slices.ContainsFunc(t.places, func(p Place) bool { return p.Terms().HasObstacles })
}

// Barriers returns what is known about barriers, or nil.
func (t *Table) Barriers() *Barriers { return t.barriers }

// Status returns what the status of policies says about those places now that enforcementstatus.Facts do not describe.
func (t *Table) Status() (places []enforcementstatus.Place) {
	for _, p := range t.places {
		if status := p.Status(); status != nil {
			places = append(places, status)
		}
	}
	return places
}

// described is embedded by the places that enforcementstatus.Facts describe.
type described struct{}

// Status implements Place.
func (described) Status() enforcementstatus.Place { return nil }

// Nowhere is the place of requests whose conditions no component evaluates: the front door folds them, as their status says.
type Nowhere struct{ described }

// Terms implements Place.
func (Nowhere) Terms() Terms { return Terms{At: policyv1alpha1.EnforcedAtFrontDoor} }

// Takes implements Place.
func (Nowhere) Takes(*Request) bool { return true }

// Obstacle implements Place.
func (Nowhere) Obstacle(context.Context, *Request, Asker) *Obstacle { return nil }

// Audit implements Place.
func (Nowhere) Audit(authorization.Decision) Audit {
	return Audit{Remainder: authorization.RemainderFolded}
}
