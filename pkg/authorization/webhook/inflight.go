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
	// maxInFlight bounds the questions that one Authorizer has in flight at a time. It is far
	// more than kube-apiserver needs to be busy, and far less than the 245 seats that its
	// default priority and fairness has for service accounts, so that Proviso does not push
	// out other clients, with three replicas or several authorizers in one process.
	maxInFlight = 64
	// maxInFlightPerUser bounds the questions that requests of one user have in flight. It is
	// half of maxInFlight, so that one user never takes the last place, however slow the
	// answers to its questions are.
	maxInFlightPerUser = maxInFlight / 2
	// maxWaitingPerUser bounds the questions of one user that wait. kube-apiserver answers
	// several hundred questions a second, so that the last of them waits about a second.
	maxWaitingPerUser = 512
	// maxWaiting bounds the questions of all users that wait, and with them the memory that
	// they hold. Eight users with as many as each may have must act together to reach it.
	maxWaiting = 8 * maxWaitingPerUser
	// maxWait bounds how long a question waits for its turn: kube-apiserver gives up on
	// its own authorization webhooks after as long in the shipped configuration.
	maxWait = 3 * time.Second
)

// ErrBusy is the error of a question that was never asked, because too many others are
// in flight or wait.
var ErrBusy = errors.New("too many questions to kube-apiserver at a time")

// inFlight bounds the questions in flight, and shares the places between users: each user has
// a queue of its own, and enters the common queue with at most maxInFlightPerUser questions.
// Both queues are first in, first out.
type inFlight struct {
	places chan struct{}

	mu    sync.Mutex
	users map[string]*share
	// held counts the questions in flight and waiting, of all users.
	held int
}

// share is the part of one user.
type share struct {
	places chan struct{}
	// held counts the questions in flight and waiting. The share is forgotten with the last.
	held int
}

func newInFlight() *inFlight {
	return &inFlight{places: make(chan struct{}, maxInFlight), users: map[string]*share{}}
}

// acquire waits for a place for a question that a request of a user causes. It returns
// ErrBusy if there is none in time, and the error of ctx if that ends first. If the error is nil, release
// must be called once.
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
	questions.WithLabelValues(stateInFlight).Inc()
	return func() {
		questions.WithLabelValues(stateInFlight).Dec()
		<-f.places
		<-s.places
		f.leave(user, s)
	}, nil
}

// take takes a place, if need be when one becomes free.
func take(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	questions.WithLabelValues(stateWaiting).Inc()
	defer questions.WithLabelValues(stateWaiting).Dec()
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return refused(ctx)
	}
}

// refused returns why a context ended, and counts a wait that was too long.
func refused(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, ErrBusy) {
		refusals.WithLabelValues(refusalTimeout).Inc()
	}
	return err
}

// enter counts one more question of a user.
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
		return nil, fmt.Errorf("%w: %d of the same user wait", ErrBusy, maxWaitingPerUser)
	case f.held == maxInFlight+maxWaiting:
		refusals.WithLabelValues(refusalAll).Inc()
		return nil, fmt.Errorf("%w: %d of all users wait", ErrBusy, maxWaiting)
	}
	f.users[user] = s
	s.held++
	f.held++
	return s, nil
}

// leave counts one question of a user less.
func (f *inFlight) leave(user string, s *share) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held--
	if s.held--; s.held == 0 {
		delete(f.users, user)
	}
}

// causeOf returns the name of the user whose request causes a question: the requester, who
// may ask about another user. Without a request it is the user whom the question is about,
// who is the requester of kube-apiserver if the front door asks.
func causeOf(ctx context.Context, attributes authorizer.Attributes) string {
	if requester, ok := genericapirequest.UserFrom(ctx); ok && requester != nil {
		return requester.GetName()
	}
	if subject := attributes.GetUser(); subject != nil {
		return subject.GetName()
	}
	return ""
}
