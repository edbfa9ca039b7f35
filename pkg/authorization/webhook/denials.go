/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// DenialsFirst returns an authorizer that never answers with conditions, such as kube-apiserver, for two places in a chain: the first one is for its Deny
// only, and the last one for its whole answer. The members between them can neither allow what it denies, nor is their Deny hidden by what it allows. The
// authorizer is asked once for a decision.
func DenialsFirst(d authorization.Decider) (first, last authorization.Decider) {
	t := &twice{decider: d}
	return denials{t}, remainder{t}
}

var errTwicePlaced = errors.New("an authorizer with two places in a chain returned conditions")

// twice is an authorizer with two places in a chain.
type twice struct {
	decider authorization.Decider
}

// kept has the answers of the first place, for the last one. It lives as long as a request.
type kept struct {
	mu      sync.Mutex
	answers map[string]authorization.Decision
}

// Pin returns a context that keeps answers from the first place to the last one.
func (t *twice) Pin(ctx context.Context) context.Context {
	if ctx.Value(t) != nil {
		return ctx
	}
	return context.WithValue(ctx, t, &kept{answers: map[string]authorization.Decision{}})
}

// keyOf returns the text of a check. It returns false if the check has none.
func keyOf(attributes authorizer.Attributes) (string, bool) {
	spec := specOf(attributes)
	key, err := spec.Marshal()
	return string(key), err == nil
}

func (t *twice) keep(ctx context.Context, attributes authorizer.Attributes, decision authorization.Decision) {
	k, isPinned := ctx.Value(t).(*kept)
	if !isPinned {
		return
	}
	if key, ok := keyOf(attributes); ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.answers[key] = decision
	}
}

// take returns a kept answer, once: a later decision about the same check asks again.
func (t *twice) take(ctx context.Context, attributes authorizer.Attributes) (decision authorization.Decision, ok bool) {
	k, isPinned := ctx.Value(t).(*kept)
	if !isPinned {
		return decision, false
	}
	key, ok := keyOf(attributes)
	if !ok {
		return decision, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	decision, ok = k.answers[key]
	//guard:denials-first-answer-before
	delete(k.answers, key)
	return decision, ok
}

// denials is the first place. An Allow is converted to NoOpinion.
type denials struct{ *twice }

var _ authorization.Pinner = denials{}

// Decide returns Deny or NoOpinion.
func (d denials) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	decision := d.decider.Decide(ctx, attributes)
	switch {
	case decision.IsDeny():
		return decision
	//guard:denials-first-conditions
	case !decision.IsUnconditional():
		return authorization.Deny("", errTwicePlaced)
	}
	d.keep(ctx, attributes, decision)
	//guard:denials-first-allow-first-place
	return authorization.NoOpinion("", nil) // the last place gives the reason
}

// remainder is the last place.
type remainder struct{ *twice }

var _ authorization.Pinner = remainder{}

// Decide returns the answer.
func (r remainder) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	if decision, ok := r.take(ctx, attributes); ok {
		return decision
	}
	return r.decider.Decide(ctx, attributes)
}
