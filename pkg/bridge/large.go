/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bridge

import (
	"context"
	"runtime"
	"time"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/slots"
)

const (
	// evaluationsPerProcessor bounds the reviews for which policies are evaluated at the same
	// time, per processor. An evaluation only computes, so that more of them would slow each other
	// down.
	evaluationsPerProcessor = 4
	// minEvaluations is the bound on machines with few processors. It is twice maxLargeReviews, so
	// that large reviews never take every slot.
	minEvaluations = 2 * maxLargeReviews
	// userShare divides the slots: one user name gets at most 1/userShare of them, so that reviews
	// with one user name do not cause denials for others.
	userShare = 4
	// maxWaitingEvaluations bounds the reviews that wait for an evaluation, and with it their
	// memory to about 50 MiB. It is a multiple of the 600 requests that kube-apiserver serves at a
	// time.
	maxWaitingEvaluations = 2048
	// maxWaitingEvaluationsPerUser bounds how many of them have the same user name. Controllers
	// send fewer requests at the same time. Most evaluations take less than a millisecond, so that
	// a burst of this size is decided in time.
	maxWaitingEvaluationsPerUser = 256

	// smallReviewBytes is the size up to which a review is decided without the bounds of large
	// reviews. Nearly every review is smaller: names have at most a few hundred bytes, and users a
	// few dozen groups. A selector of this size is still parsed quickly.
	smallReviewBytes = 8 << 10
	// maxLargeReviews bounds the large reviews that are evaluated at the same time. Their
	// selectors are parsed and read by conditions.
	maxLargeReviews = 8
	// maxLargeReviewsPerUser bounds how many of them have the same user name, so that a flood by
	// one user causes no denials for others. It is less than the user's share of all evaluations.
	maxLargeReviewsPerUser = 2
	// maxWaitingPerUser bounds the large reviews of one user name that wait for a slot. A client
	// with a handful of connections is served in turn. A flood is denied immediately, so that it
	// does not hold the buffers that others need.
	maxWaitingPerUser = 6
	// maxBuffers bounds the large reviews in memory, and with it their memory to 8 MiB, or twice
	// that while they are decoded. The user is known only after a review has been read, because
	// the user follows the selectors in its JSON.
	maxBuffers = 32

	// slotTimeout bounds the total time that a review waits; for a large review this includes
	// reading its body. It leaves most of kube-apiserver's three seconds to transport and
	// decision.
	slotTimeout = 500 * time.Millisecond
	// waitingShare divides the time of a review: it may wait for at most 1/waitingShare of it if
	// kube-apiserver's timeout is so short that slotTimeout would leave less to the decision.
	waitingShare = int64(answerTimeout / slotTimeout)
)

// limits bounds the memory and processor time of reviews. Clients of kube-apiserver choose the
// size and number of reviews; authors of policies choose the cost of deciding them.
type limits struct {
	// buffers has a slot for each large review in memory. It is acquired before the review is
	// read.
	buffers chan struct{}
	// large bounds large reviews, and evaluations all reviews.
	large, evaluations *slots.Slots
}

func newLimits() *limits {
	evaluations := maxEvaluations()
	return &limits{
		buffers: make(chan struct{}, maxBuffers),
		large: slots.New(slots.Bounds{
			All: maxLargeReviews, PerUser: maxLargeReviewsPerUser,
			Waiting: maxBuffers, WaitingOfOneUser: maxWaitingPerUser, Refusal: errNoLargeSlot,
		}),
		evaluations: slots.New(slots.Bounds{
			All: evaluations, PerUser: evaluations / userShare,
			Waiting: maxWaitingEvaluations, WaitingOfOneUser: maxWaitingEvaluationsPerUser, Refusal: errNoSlot,
		}),
	}
}

// maxEvaluations returns how many reviews are evaluated at the same time.
func maxEvaluations() int {
	return max(evaluationsPerProcessor*runtime.GOMAXPROCS(0), minEvaluations)
}

// buffer waits for a buffer for a large review, until the context ends.
func (l *limits) buffer(waiting context.Context) (release func(), err error) {
	if !slots.Take(waiting, l.buffers) {
		return nil, errNoLargeSlot
	}
	return func() { <-l.buffers }, nil
}

// of returns the limit of a review, which waits for its slots until the context waiting ends.
func (l *limits) of(waiting context.Context, user string, isLarge bool) limit {
	return func(evaluate func() authorization.Decision) (authorization.Decision, error) {
		if isLarge {
			release, err := l.large.Acquire(waiting, user)
			if err != nil {
				return authorization.Decision{}, err
			}
			defer release()
		}
		release, err := l.evaluations.Acquire(waiting, user)
		if err != nil {
			return authorization.Decision{}, err
		}
		defer release()
		return evaluate(), nil
	}
}

// waits returns a context that ends when a review that starts now must have acquired its slots.
func waits(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := slotTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/time.Duration(waitingShare))
	}
	return context.WithTimeout(ctx, timeout)
}
