/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// maxInFlight bounds the checks that one Authorizer has in flight at a time. It is enough
	// to keep kube-apiserver busy, and far below the 245 seats of service accounts in
	// kube-apiserver's default priority and fairness: even three replicas, or several authorizers
	// in one process, do not displace other clients.
	maxInFlight = 64
	// maxInFlightPerUser bounds the checks in flight that requests of one user cause. It is
	// half of maxInFlight, so that a user never takes the last place, however slow the answers
	// are.
	maxInFlightPerUser = maxInFlight / 2
	// maxWaitingPerUser bounds the waiting checks of one user. kube-apiserver answers several
	// hundred checks per second, so that the last one waits for about a second.
	maxWaitingPerUser = 512
	// maxWaiting bounds the waiting checks of all users, and with them their memory. It is
	// reached only if at least eight users cause many checks at the same time.
	maxWaiting = 8 * maxWaitingPerUser
	// maxWait bounds how long a check waits for its turn. In the shipped configuration,
	// kube-apiserver has the same timeout for its authorization webhooks.
	maxWait = 3 * time.Second
)

// ErrBusy is the error for a check that was not sent, because too many other checks are in flight
// or wait.
var ErrBusy = errors.New("too many authorization checks by kube-apiserver at a time")

// inFlight bounds the checks in flight, and shares the places between users: each user has
// a queue of its own, and enters the common queue with at most maxInFlightPerUser checks.
// Both queues are first in, first out. The users are authenticated, and so can take turns;
// package slots has one queue, because there clients choose the names of users.
type inFlight struct {
	places chan struct{}

	mu    sync.Mutex
	users map[string]*share
	// held is the number of checks of all users, in flight and waiting.
	held int
}

// share is the places of one user.
type share struct {
	places chan struct{}
	// held is the number of checks in flight and waiting. When it becomes zero, the share is
	// deleted.
	held int
}

func newInFlight() *inFlight {
	return &inFlight{places: make(chan struct{}, maxInFlight), users: map[string]*share{}}
}

// acquire waits for a place for a check that a request of user causes. It returns ErrBusy if it
// gets no place in time, or the error of ctx if ctx ends first. If the error is nil, release must
// be called once.
func (f *inFlight) acquire(ctx context.Context, user string) (release func(), err error) {
	s, err := f.enter(user)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.leave(user, s)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, maxWait, fmt.Errorf("%w: it waited for %s", ErrBusy, maxWait))
	defer cancel()
	if err := take(ctx, s.places); err != nil {
		return nil, err
	}
	if err := take(ctx, f.places); err != nil {
		<-s.places
		return nil, err
	}
	pendingReviews.WithLabelValues(stateInFlight).Inc()
	return func() {
		pendingReviews.WithLabelValues(stateInFlight).Dec()
		<-f.places
		<-s.places
		f.leave(user, s)
	}, nil
}

// take takes a place, and waits if none is free.
func take(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	pendingReviews.WithLabelValues(stateWaiting).Inc()
	defer pendingReviews.WithLabelValues(stateWaiting).Dec()
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return refused(ctx)
	}
}

// refused returns the cause of the end of ctx. If it is ErrBusy, the check has waited too long, and refused counts that.
func refused(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, ErrBusy) {
		refusals.WithLabelValues(refusalTimeout).Inc()
	}
	return err
}

// enter counts a check of a user. It returns ErrBusy if too many checks wait.
func (f *inFlight) enter(user string) (*share, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.users[user]
	if !ok {
		s = &share{places: make(chan struct{}, maxInFlightPerUser)}
	}
	switch {
	case s.held == maxInFlightPerUser+maxWaitingPerUser:
		refusals.WithLabelValues(refusalUser).Inc()
		return nil, fmt.Errorf("%w: %d of the same user are waiting, try again later", ErrBusy, maxWaitingPerUser)
	case f.held == maxInFlight+maxWaiting:
		refusals.WithLabelValues(refusalAll).Inc()
		return nil, fmt.Errorf("%w: %d of all users are waiting, try again later", ErrBusy, maxWaiting)
	}
	f.users[user] = s
	s.held++
	f.held++
	return s, nil
}

// leave undoes enter.
func (f *inFlight) leave(user string, s *share) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held--
	if s.held--; s.held == 0 {
		delete(f.users, user)
	}
}

// causeOf returns the name of the user whose request causes a check: the requester, who may ask
// about another user. Without a request in ctx, as at the front door, it returns the user in the
// attributes, who is then the requester at kube-apiserver.
func causeOf(ctx context.Context, attributes authorizer.Attributes) string {
	if requester, ok := genericapirequest.UserFrom(ctx); ok && requester != nil {
		return requester.GetName()
	}
	if subject := attributes.GetUser(); subject != nil {
		return subject.GetName()
	}
	return ""
}
