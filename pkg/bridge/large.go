/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bridge

import (
	"context"
	"sync"
	"time"
)

const (
	// smallReviewBytes is the most that a review may have to be answered without a limit.
	// Nearly every review is smaller: names have at most some hundred bytes, and users some
	// dozen groups.
	smallReviewBytes = 64 << 10
	// maxLargeReviews bounds how many larger reviews are decided at the same time, whose
	// selectors are parsed and read by conditions.
	maxLargeReviews = 8
	// maxLargeReviewsPerUser bounds the share of one user name, so that a flood of one user
	// denies nothing to others.
	maxLargeReviewsPerUser = 2
	// maxWaitingPerUser bounds how many large reviews of one user name wait for a slot. A
	// client with a handful of connections is served in turn. A flood is denied at once,
	// so that it does not hold the buffers that others need.
	maxWaitingPerUser = 6
	// maxBuffers bounds how many large reviews are held in memory, and so their memory to
	// 8 MiB, or twice that while they are decoded. A review names its user only after its
	// selectors, so it must be read first.
	maxBuffers = 32
	// slotTimeout bounds how long a large review waits in all, for its body too. It leaves most
	// of kube-apiserver's three seconds to transport and decision.
	slotTimeout = 500 * time.Millisecond
)

// largeReviews bounds the memory and the processor time of large reviews. A client of
// kube-apiserver chooses how large its reviews are.
type largeReviews struct {
	buffers, slots chan struct{}

	mu sync.Mutex
	// users holds the users who have a large review here.
	users map[string]*userReviews
}

// userReviews are the large reviews of one user.
type userReviews struct {
	slots chan struct{}
	// here counts the reviews that wait or have a slot.
	here int
}

func newLargeReviews() *largeReviews {
	return &largeReviews{
		buffers: make(chan struct{}, maxBuffers), slots: make(chan struct{}, maxLargeReviews),
		users: map[string]*userReviews{},
	}
}

// buffer waits until a large review may be read. If it returns false, ctx has ended.
func (l *largeReviews) buffer(ctx context.Context) (release func(), ok bool) {
	if !take(ctx, l.buffers) {
		return nil, false
	}
	return func() { <-l.buffers }, true
}

// acquire waits for a slot to decide a large review of a user. It returns false if too many of
// the same user wait already, or if ctx has ended.
func (l *largeReviews) acquire(ctx context.Context, user string) (release func(), ok bool) {
	reviews := l.enter(user)
	if reviews == nil {
		return nil, false
	}
	// The user's share comes first: reviews that wait for it keep no slot from others.
	if !take(ctx, reviews.slots) {
		l.leave(user)
		return nil, false
	}
	if !take(ctx, l.slots) {
		<-reviews.slots
		l.leave(user)
		return nil, false
	}
	return func() {
		<-l.slots
		<-reviews.slots
		l.leave(user)
	}, true
}

// enter counts a review of a user. It returns nil if there are too many.
func (l *largeReviews) enter(user string) *userReviews {
	l.mu.Lock()
	defer l.mu.Unlock()
	reviews := l.users[user]
	if reviews == nil {
		reviews = &userReviews{slots: make(chan struct{}, maxLargeReviewsPerUser)}
		l.users[user] = reviews
	}
	if reviews.here == maxLargeReviewsPerUser+maxWaitingPerUser {
		return nil
	}
	reviews.here++
	return reviews
}

// leave ends what enter began.
func (l *largeReviews) leave(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reviews := l.users[user]
	if reviews.here--; reviews.here == 0 {
		delete(l.users, user)
	}
}

// take waits for a slot. A free one is taken even if ctx has ended.
func take(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
	}
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
