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
)

const (
	// evaluationsPerProcessor bounds how many reviews the policies are evaluated for at the same
	// time. An evaluation only computes, so more of them would only slow each other down.
	evaluationsPerProcessor = 4
	// minEvaluations is the bound of a machine with few processors. It is twice maxLargeReviews,
	// so that large reviews never take every slot.
	minEvaluations = 2 * maxLargeReviews
	// userShare is the share of the slots that one user name gets: one slot in so many. Reviews of
	// one user name therefore deny nothing to others.
	userShare = 4
	// maxWaitingEvaluations bounds how many reviews wait for an evaluation, and so their memory
	// to some 50 MiB. It is a multiple of the 600 requests that kube-apiserver serves at a time.
	maxWaitingEvaluations = 2048
	// maxWaitingEvaluationsPerUser bounds how many of them have one user name. A controller does
	// not have so many requests at the same time. Most evaluations take less than a millisecond,
	// so a burst of so many is decided in time.
	maxWaitingEvaluationsPerUser = 256

	// smallReviewBytes is the most that a review may have to be decided without the bounds of
	// large reviews. Nearly every review is smaller: names have at most some hundred bytes,
	// and users some dozen groups. A selector of this size is still parsed in little time.
	smallReviewBytes = 8 << 10
	// maxLargeReviews bounds how many larger reviews are evaluated at the same time, whose
	// selectors are parsed and read by conditions.
	maxLargeReviews = 8
	// maxLargeReviewsPerUser bounds the share of one user name, so that a flood of one user
	// denies nothing to others. It is less than its share of all evaluations.
	maxLargeReviewsPerUser = 2
	// maxWaitingPerUser bounds how many large reviews of one user name wait for a slot. A
	// client with a handful of connections is served in turn. A flood is denied at once,
	// so that it does not hold the buffers that others need.
	maxWaitingPerUser = 6
	// maxBuffers bounds how many large reviews are held in memory, and so their memory to
	// 8 MiB, or twice that while they are decoded. A review names its user only after its
	// selectors, so it must be read first.
	maxBuffers = 32

	// slotTimeout bounds how long a review waits in all: a large one for its body and its slots.
	// It leaves most of kube-apiserver's three seconds to transport and decision.
	slotTimeout = 500 * time.Millisecond
	// waitingShare is the share of its time that a review may wait, one part in so many, if
	// kube-apiserver waits so briefly that slotTimeout would leave less to the decision.
	waitingShare = int64(answerTimeout / slotTimeout)
)

// limits bounds the memory and the processor time of reviews. A client of kube-apiserver chooses
// how large its reviews are and how many it sends; who may write policies chooses what they cost.
type limits struct {
	// buffers are taken by large reviews before they are read.
	buffers chan struct{}
	// large is for large reviews, and evaluations for all.
	large, evaluations *slots
}

func newLimits() *limits {
	evaluations := maxEvaluations()
	return &limits{
		buffers: make(chan struct{}, maxBuffers),
		large: newSlots(bounds{
			all: maxLargeReviews, perUser: maxLargeReviewsPerUser,
			waiting: maxBuffers, waitingOfOneUser: maxWaitingPerUser, refusal: errNoLargeSlot,
		}),
		evaluations: newSlots(bounds{
			all: evaluations, perUser: evaluations / userShare,
			waiting: maxWaitingEvaluations, waitingOfOneUser: maxWaitingEvaluationsPerUser, refusal: errNoSlot,
		}),
	}
}

// maxEvaluations returns how many reviews are evaluated at the same time.
func maxEvaluations() int {
	return max(evaluationsPerProcessor*runtime.GOMAXPROCS(0), minEvaluations)
}

// buffer waits until a large review may be read.
func (l *limits) buffer(waiting context.Context) (release func(), err error) {
	if !take(waiting, l.buffers) {
		return nil, errNoLargeSlot
	}
	return func() { <-l.buffers }, nil
}

// of returns the limit of a review, which waits for its slots until a context ends.
func (l *limits) of(waiting context.Context, user string, isLarge bool) limit {
	return func(evaluate func() authorization.Decision) (authorization.Decision, error) {
		if isLarge {
			release, err := l.large.acquire(waiting, user)
			if err != nil {
				return authorization.Decision{}, err
			}
			defer release()
		}
		release, err := l.evaluations.acquire(waiting, user)
		if err != nil {
			return authorization.Decision{}, err
		}
		defer release()
		return evaluate(), nil
	}
}

// waits returns a context that ends when a review that starts now must have its slots.
func waits(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := slotTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/time.Duration(waitingShare))
	}
	return context.WithTimeout(ctx, timeout)
}
