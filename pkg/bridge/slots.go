/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bridge

import (
	"context"
	"sync"
)

// slots bounds how many reviews are evaluated at the same time, and how many wait for that, in
// total and per user name.
type slots struct {
	bounds bounds
	all    chan struct{}

	mu sync.Mutex
	// users has an entry for each user name with a review that waits or has a slot.
	users map[string]*userSlots
	// waiting is the number of waiting reviews of all users.
	waiting int
}

// bounds are the bounds of slots.
type bounds struct {
	all, perUser              int
	waiting, waitingOfOneUser int
	// refusal is the error for a review that gets no slot.
	refusal *denial
}

// userSlots are the slots of one user name.
type userSlots struct {
	slots chan struct{}
	// here is the number of reviews that wait or have a slot; waiting is the number that wait.
	here, waiting int
}

func newSlots(b bounds) *slots {
	return &slots{bounds: b, all: make(chan struct{}, b.all), users: map[string]*userSlots{}}
}

// acquire waits for a slot of a user. It returns the refusal if too many reviews wait already, or
// if ctx has ended. A free slot is always taken, so that waiting reviews do not keep it from
// others.
func (s *slots) acquire(ctx context.Context, user string) (release func(), err error) {
	own := s.enter(user)
	if !s.try(own) && !s.wait(ctx, own) {
		s.leave(user)
		return nil, s.bounds.refusal
	}
	return func() {
		<-s.all
		<-own.slots
		s.leave(user)
	}, nil
}

// enter counts a review of a user, and creates the user's entry if it has none.
func (s *slots) enter(user string) *userSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.users[user]
	if own == nil {
		own = &userSlots{slots: make(chan struct{}, s.bounds.perUser)}
		s.users[user] = own
	}
	own.here++
	return own
}

// leave undoes enter.
func (s *slots) leave(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.users[user]
	if own.here--; own.here == 0 {
		delete(s.users, user)
	}
}

// try takes a slot if one is free. It does not wait.
func (s *slots) try(own *userSlots) bool {
	if !tryTake(own.slots) {
		return false
	}
	if !tryTake(s.all) {
		<-own.slots
		return false
	}
	return true
}

// wait waits for a slot. It returns false immediately if too many reviews wait.
func (s *slots) wait(ctx context.Context, own *userSlots) bool {
	if !s.queue(own) {
		return false
	}
	defer s.unqueue(own)
	// The user's share comes first: reviews that wait for it keep no slot from others.
	if !take(ctx, own.slots) {
		return false
	}
	if !take(ctx, s.all) {
		<-own.slots
		return false
	}
	return true
}

// queue counts a waiting review. It returns false if too many wait.
func (s *slots) queue(own *userSlots) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.waiting == s.bounds.waitingOfOneUser || s.waiting == s.bounds.waiting {
		return false
	}
	own.waiting++
	s.waiting++
	return true
}

// unqueue undoes queue.
func (s *slots) unqueue(own *userSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own.waiting--
	s.waiting--
}

// take waits for a slot until ctx ends. It takes a free slot even if ctx has ended.
func take(ctx context.Context, slots chan struct{}) bool {
	if tryTake(slots) {
		return true
	}
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// tryTake takes a slot if one is free.
func tryTake(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
		return false
	}
}
