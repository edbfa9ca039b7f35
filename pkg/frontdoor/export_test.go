/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/place"
)

// NewHandlerChanging is NewHandler with attributes that a test changes, for example so that the
// evaluation of a condition blocks.
func NewHandlerChanging(door *Decider, clients *Clients, change func(authorizer.Attributes) authorizer.Attributes) http.Handler {
	return newHandler(door, clients, func(review *reviewSpec) authorizer.Attributes { return change(review.attributes()) })
}

type clientKey struct{}

// WithClient returns a context in which Decide gets its requests from a client. Without it, the client is unknown.
func WithClient(ctx context.Context, client place.Client) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

func requestOf(ctx context.Context, attributes authorizer.Attributes) *place.Request {
	client, _ := ctx.Value(clientKey{}).(place.Client)
	return &place.Request{Attributes: attributes, Client: &client}
}

// decide decides a request as decideAudited does, and counts the policies in Audit.
func (d *Decider) decide(ctx context.Context, r *place.Request, within limit) (authorization.Decision, error) {
	audit := &authorization.Audit{}
	decision, err := d.decideAudited(ctx, r, audit, within)
	if err == nil {
		d.audit(ctx, r, audit, decision)
	}
	return decision, err
}

// Decide decides a request without a limit.
func (d *Decider) Decide(ctx context.Context, attributes authorizer.Attributes) (authorization.Decision, error) {
	return d.decide(ctx, requestOf(ctx, attributes), unlimited{})
}

// Prepared decides a request again and again, without a limit. The handler makes the request once for a review.
func (d *Decider) Prepared(ctx context.Context, attributes authorizer.Attributes) func() (authorization.Decision, error) {
	r := requestOf(ctx, attributes)
	return func() (authorization.Decision, error) { return d.decide(ctx, r, unlimited{}) }
}

// failing has one of the decisions about a request find no slot.
type failing struct {
	unlimited
	number *int
	at     int
}

func (f failing) decision(ctx context.Context, evaluate func(context.Context) authorization.Decision) (authorization.Decision, error) {
	*f.number++
	if *f.number-1 == f.at {
		return authorization.Decision{}, errNoSlot
	}
	return evaluate(ctx), nil
}

// DecideWithoutSlot decides a request whose decision number at, counted from 0, finds no slot.
func (d *Decider) DecideWithoutSlot(ctx context.Context, a authorizer.Attributes, at int) (authorization.Decision, error) {
	return d.decide(ctx, requestOf(ctx, a), failing{number: new(int), at: at})
}
