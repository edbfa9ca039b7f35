/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"slices"
)

// Unseen says that a request is decided again where its path and its selectors are not seen, as in an admission webhook. An Allow
// policy whose condition reads them grants nothing, and a NoOpinion policy whose condition reads them and the object holds
// back. Deny policies decide as ever. One goroutine uses it.
type Unseen struct {
	reasons []string
}

const textOfUnseen = "its condition reads the path or a selector of the request, which is not seen at admission"

// Add adds an Allow policy that grants nothing, by the ID of its condition.
func (u *Unseen) Add(id, description string) {
	reason := Explain(id, WordError, description, textOfUnseen)
	if len(u.reasons) < maxReportedConditions && !slices.Contains(u.reasons, reason) {
		u.reasons = append(u.reasons, reason)
	}
}

// Reason names the policies that grant nothing, at most maxReportedConditions. It is empty if there are none.
func (u *Unseen) Reason() string { return joinReasons(u.reasons...) }

// WithUnseen returns a context in which requests are decided with an Unseen.
func WithUnseen(ctx context.Context) (context.Context, *Unseen) {
	s := scopeOf(ctx)
	s.unseen = &Unseen{}
	return s.in(ctx), s.unseen
}

// UnseenOf returns the Unseen of a context, or nil.
func UnseenOf(ctx context.Context) *Unseen { return scopeOf(ctx).unseen }

// WithoutUnseen returns a context in which requests are decided without an Unseen.
func WithoutUnseen(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	if s.unseen == nil {
		return ctx
	}
	s.unseen = nil
	return s.in(ctx)
}
