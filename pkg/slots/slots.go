/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package slots bounds how much is done at the same time, in all and for one user, and how much waits for that.
//
// It must not import anything of Proviso.
package slots

import (
	"context"
	"sync"
)

// Slots bounds how many callers work at the same time and how many wait for that, in all and for one user name. It is
// safe for concurrent use.
type Slots struct {
	bounds Bounds
	all    chan struct{}

	mu sync.Mutex
	// users holds the users who have a caller here.
	users map[string]*userSlots
	// waiting counts the callers that wait, of all users.
	waiting int
}

// Bounds are the bounds of Slots. All are positive.
type Bounds struct {
	// All and PerUser bound how many callers work at the same time.
	All, PerUser int
	// Waiting and WaitingOfOneUser bound how many wait.
	Waiting, WaitingOfOneUser int
	// Refusal is the error for a caller that gets no slot.
	Refusal error
}

// userSlots are the slots of one user name.
type userSlots struct {
	slots chan struct{}
	// here counts the callers that wait or have a slot, and waiting those that wait.
	here, waiting int
}

// New returns Slots that nobody has taken.
func New(b Bounds) *Slots {
	return &Slots{bounds: b, all: make(chan struct{}, b.All), users: map[string]*userSlots{}}
}

// Acquire waits for a slot of a user. It fails if too many wait already, or if ctx has ended. A
// free slot is taken in any case, so that those who wait keep nothing from others.
func (s *Slots) Acquire(ctx context.Context, user string) (release func(), err error) {
	own := s.enter(user)
	if !s.try(own) && !s.wait(ctx, own) {
		s.leave(user)
		return nil, s.bounds.Refusal
	}
	return func() {
		<-s.all
		<-own.slots
		s.leave(user)
	}, nil
}

// enter counts a caller of a user.
func (s *Slots) enter(user string) *userSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.users[user]
	if own == nil {
		own = &userSlots{slots: make(chan struct{}, s.bounds.PerUser)}
		s.users[user] = own
	}
	own.here++
	return own
}

// leave ends what enter began.
func (s *Slots) leave(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.users[user]
	if own.here--; own.here == 0 {
		delete(s.users, user)
	}
}

// try takes a slot if that needs no waiting.
func (s *Slots) try(own *userSlots) bool {
	if !tryTake(own.slots) {
		return false
	}
	if !tryTake(s.all) {
		<-own.slots
		return false
	}
	return true
}

// wait waits for a slot. It returns false at once if too many wait.
func (s *Slots) wait(ctx context.Context, own *userSlots) bool {
	if !s.queue(own) {
		return false
	}
	defer s.unqueue(own)
	// The user's share comes first: those that wait for it keep no slot from others.
	if !Take(ctx, own.slots) {
		return false
	}
	if !Take(ctx, s.all) {
		<-own.slots
		return false
	}
	return true
}

// queue counts a caller that waits. It returns false if there are too many.
func (s *Slots) queue(own *userSlots) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.waiting == s.bounds.WaitingOfOneUser || s.waiting == s.bounds.Waiting {
		return false
	}
	own.waiting++
	s.waiting++
	return true
}

// unqueue ends what queue began.
func (s *Slots) unqueue(own *userSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own.waiting--
	s.waiting--
}

// Take waits for a slot. A free one is taken even if ctx has ended.
func Take(ctx context.Context, slots chan struct{}) bool {
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
