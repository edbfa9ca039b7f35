/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
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
	// namespaceShare is the share of the slots that one namespace gets. Reviews about one namespace
	// therefore deny nothing to others, whichever user names they have.
	namespaceShare = 2
	// userInNamespaceShare is the share of the slots that one user name gets in one namespace. It is half of the user's share.
	userInNamespaceShare = 8
	// slowNamespaceShare and slowUserShare are namespaceShare and userShare for the slots in which the policies of namespaces
	// are evaluated. Their authors choose how long that takes, and which users the reviews about their namespaces name. It takes
	// four namespaces to fill the slots of a user, as it does to fill all slots.
	slowNamespaceShare = 4
	slowUserShare      = 2
	// namespaceTimeout bounds how long the policies of a namespace are evaluated for one review. Their budgets are worth
	// some 50 ms in each place of the chain.
	namespaceTimeout = 250 * time.Millisecond
	// maxWaitingEvaluations bounds the reviews that wait for an evaluation, and with it their
	// memory to about 50 MiB. It is a multiple of the 600 requests that kube-apiserver serves at a
	// time.
	maxWaitingEvaluations = 2048
	// maxWaitingEvaluationsPerUser bounds how many of them have the same user name. Controllers
	// send fewer requests at the same time. Most evaluations take less than a millisecond, so that
	// a burst of this size is decided in time.
	maxWaitingEvaluationsPerUser = 256
	// maxWaitingInNamespace bounds how many of them are about one namespace, too.
	maxWaitingInNamespace = 192

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
	// maxWaitingLargeInNamespace bounds how many of them are about one namespace, too.
	maxWaitingLargeInNamespace = 5
	// maxCalls bounds the calls of one webhook at a time. A webhook that takes 10 ms can still answer 12800 of them in a second.
	maxCalls = 128
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
// size and number of reviews and the users in them; authors of policies choose the cost of deciding them.
type limits struct {
	// buffers has a slot for each large review in memory. It is acquired before the review is
	// read.
	buffers chan struct{}
	// namespaced is for the policies of namespaces, and policies for all others. questions is for what webhooks compute before they are called: whether
	// they match, and the review.
	namespaced, policies, questions *pool

	mu sync.Mutex
	// calls has the slots of the calls of each webhook, by its name in the configuration, so that a slow webhook keeps no slot from others.
	calls map[string]*pool
}

// pool has the slots of evaluations of the same kind. A large review takes a slot of both at the same time.
type pool struct {
	// large is for large reviews, and evaluations for all.
	large, evaluations *slots.Slots
}

func newLimits() *limits {
	return &limits{
		buffers: make(chan struct{}, maxBuffers),
		namespaced: newPool(maxEvaluations(), errNoSlot, errNoLargeSlot, slots.Bounds{
			PerUser: maxEvaluations() / slowUserShare, PerNamespace: maxEvaluations() / slowNamespaceShare,
			WaitingOfOneUser: slowNamespaceShare * maxWaitingInNamespace,
		}, slots.Bounds{
			PerUser: maxLargeReviews / slowUserShare, PerNamespace: maxLargeReviews / slowNamespaceShare,
			WaitingOfOneUser: slowNamespaceShare * maxWaitingLargeInNamespace,
		}),
		policies: newSharedPool(maxEvaluations(), errNoSlot, errNoLargeSlot), questions: newSharedPool(maxEvaluations(), errNoSlot, errNoLargeSlot),
		calls: map[string]*pool{},
	}
}

// callsOf returns the slots of the calls of a webhook.
func (l *limits) callsOf(name string) *pool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[name] == nil {
		// Calls have separate slots, so that a slow webhook does not take the slots of policies.
		l.calls[name] = newSharedPool(maxCalls, errNoCall, errNoCall)
	}
	return l.calls[name]
}

// newSharedPool returns a pool with a number of slots. userShare and namespaceShare bound the part of one user and of one namespace.
func newSharedPool(all int, refusal, refusalOfLarge error) *pool {
	return newPool(all, refusal, refusalOfLarge, slots.Bounds{
		PerUser: all / userShare, PerNamespace: all / namespaceShare, WaitingOfOneUser: maxWaitingEvaluationsPerUser,
	}, slots.Bounds{
		PerUser: maxLargeReviewsPerUser, PerNamespace: maxLargeReviews / namespaceShare, WaitingOfOneUser: maxWaitingPerUser,
	})
}

// newPool makes a pool with a number of slots. The bounds are those that depend on what the slots are for.
func newPool(number int, refusal, refusalOfLarge error, evaluations, large slots.Bounds) *pool {
	evaluations.All, evaluations.Waiting, evaluations.Refusal = number, maxWaitingEvaluations, refusal
	evaluations.PerUserInNamespace, evaluations.WaitingOfOneUserInNamespace = number/userInNamespaceShare, maxWaitingInNamespace
	large.All, large.Waiting, large.Refusal = maxLargeReviews, maxBuffers, refusalOfLarge
	large.PerUserInNamespace, large.WaitingOfOneUserInNamespace = maxLargeReviews/userInNamespaceShare, maxWaitingLargeInNamespace
	all := slots.New(evaluations)
	//guard:frontdoor-large-reviews-have-slot-evaluations
	return &pool{evaluations: all, large: all.Within(large)}
}

// within calls a function that evaluates policies while it has the slots of a review.
func (p *pool) within(waiting context.Context, review *reviewSpec, isLarge bool, evaluate func()) error {
	release, err := p.acquire(waiting, review, isLarge)
	if err != nil {
		return err
	}
	defer release()
	evaluate()
	return nil
}

// acquire takes the slots of a review, and returns the function that gives them back.
func (p *pool) acquire(waiting context.Context, review *reviewSpec, isLarge bool) (release func(), err error) {
	if isLarge {
		return p.large.Acquire(waiting, review.User, review.namespace())
	}
	return p.evaluations.Acquire(waiting, review.User, review.namespace())
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

// until has the times until which parts of a review must have decided it.
type until struct {
	policies, afterPolicies time.Time
}

// untilOf returns the times of a review whose policies must decide until one context ends, and everything until the other one ends.
func untilOf(policies, all context.Context) until {
	end, ok := policies.Deadline()
	last, isBounded := all.Deadline()
	if !ok || !isBounded {
		end = time.Now().Add(answerTimeout)
		last = end.Add(allTimeout - answerTimeout)
	}
	rest := float64(last.Sub(end)) * float64(afterPoliciesTimeout-answerTimeout) / float64(allTimeout-answerTimeout)
	return until{policies: end, afterPolicies: end.Add(time.Duration(rest))}
}

// of returns the limit of a review, which waits for its slots until a context ends. release releases the memory of the review.
func (l *limits) of(waiting context.Context, until until, review *reviewSpec, isLarge bool, release func()) *slotLimit {
	return &slotLimit{limits: l, waiting: waiting, until: until, review: review, isLarge: isLarge, releaseBuffer: sync.OnceFunc(release)}
}

// slotLimit is the limit of one review.
type slotLimit struct {
	*limits
	//nolint:containedctx // lives as long as the review
	waiting context.Context
	until   until
	review  *reviewSpec
	isLarge bool
	// releaseBuffer releases the buffer of a large review. It may be called more than once.
	releaseBuffer func()
	// isDecided says that policies have no opinion, and that the authorizers after them are asked. The rest of the decision has more time.
	isDecided atomic.Bool
}

// bounded returns a context that ends when policies must have decided, if they have not.
func (l *slotLimit) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.isDecided.Load() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, l.until.policies)
}

// namespaced implements limit.
func (l *slotLimit) namespaced(ctx context.Context, evaluate func(context.Context)) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	isLate := false
	err := l.limits.namespaced.within(l.waiting, l.review, l.isLarge, func() {
		limited, cancel := context.WithTimeout(ctx, namespaceTimeout)
		defer cancel()
		evaluate(limited)
		isLate = errors.Is(limited.Err(), context.DeadlineExceeded)
	})
	switch {
	case err != nil:
		unevaluated.WithLabelValues(errNoSlot.cause).Inc()
	case isLate:
		unevaluated.WithLabelValues(errTooLate.cause).Inc()
	}
}

// decision implements limit.
func (l *slotLimit) decision(ctx context.Context, evaluate func(context.Context) authorization.Decision) (decision authorization.Decision, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	err = l.policies.within(l.waiting, l.review, l.isLarge, func() {
		decision = evaluate(ctx)
		//guard:frontdoor-reasons-found-slot
		_ = decision.Reason() // to find it takes time, too
	})
	return decision, err
}

// afterPolicies implements limit. The review holds no buffer and no slot of policies meanwhile.
func (l *slotLimit) afterPolicies(ctx context.Context, decide func(context.Context) authorization.Decision) authorization.Decision {
	if !l.isDecided.Load() && !time.Now().Before(l.until.policies) {
		return authorization.Deny(errTooLate.reason, nil) // the review has been answered
	}
	l.isDecided.Store(true)
	l.releaseBuffer()
	ctx, cancel := context.WithDeadline(ctx, l.until.afterPolicies)
	defer cancel()
	//guard:webhooks-slow-slots-all
	return decide(webhook.WithBounds(ctx, webhook.Bounds{
		Preparation: func(ctx context.Context) (func(), error) { return l.forWebhook(ctx, l.questions) },
		Call:        func(ctx context.Context, name string) (func(), error) { return l.forWebhook(ctx, l.callsOf(name)) },
	}))
}

// forWebhook takes the slots of the review for the work of a webhook.
func (l *slotLimit) forWebhook(ctx context.Context, p *pool) (release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	if release, err = p.acquire(waiting, l.review, l.isLarge); err != nil {
		busy.Inc()
		return nil, errNoCall
	}
	return release, nil
}

// errNoCall is the error of a call of a webhook that is not made.
var errNoCall = errors.New("too many calls of webhooks at the same time")

// waits returns a context that ends when a review that starts now must have its slots.
func waits(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := slotTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/time.Duration(waitingShare))
	}
	return context.WithTimeout(ctx, timeout)
}
