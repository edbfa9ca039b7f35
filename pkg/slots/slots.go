/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package slots bounds how many callers work at the same time and how many wait: in all, for one user name, for one
// namespace, and for one user name in one namespace.
//
// It must not import other packages of Proviso.
package slots

import (
	"context"
	"slices"
	"sync"
)

// Slots bounds how many callers work at the same time and how many wait. Clients choose both names: every client with
// permission to create a SubjectAccessReview chooses the user in it. Therefore no name alone may keep slots from others.
// Slots is safe for concurrent use.
type Slots struct {
	bounds Bounds
	all    chan struct{}

	mu sync.Mutex
	// shares holds the shares that have a caller here.
	shares map[shareKey]*share
	// waiting counts the callers that wait.
	waiting int
}

// Bounds are the bounds of Slots. All are positive, except for PerNamespace.
type Bounds struct {
	// All, PerUser and PerNamespace bound how many callers work at the same time. PerNamespace is needed only if callers
	// have namespaces.
	All, PerUser, PerNamespace int
	// Waiting and WaitingOfOneUser bound how many callers wait.
	Waiting, WaitingOfOneUser int
	// Refusal is the error for a caller that gets no slot.
	Refusal error
}

// pairShare is the divisor for the slots of a user name that its callers in one namespace get. The other slots are left
// to its callers in other namespaces. pairRest is the divisor for the waiting places that are left to those.
const (
	pairShare = 2
	pairRest  = 4
)

// waitingShareOfNamespace is the divisor for the waiting places that one namespace gets.
const waitingShareOfNamespace = 4

// shareKey identifies the callers of a share.
type shareKey struct {
	kind            shareKind
	user, namespace string
}

type shareKind uint8

const (
	ofUser shareKind = iota
	ofNamespace
	ofPair
)

// share has the slots of some callers.
type share struct {
	key   shareKey
	slots chan struct{}
	// here counts the callers that wait or have a slot, and waiting the callers that wait, at most
	// maxWaiting.
	here, waiting, maxWaiting int
}

// New returns free Slots.
func New(b Bounds) *Slots {
	return &Slots{bounds: b, all: make(chan struct{}, b.All), shares: map[shareKey]*share{}}
}

// sharesOf returns new shares for a caller, in the order in which it takes a slot of each: a caller that waits for a slot
// of its own keeps none from others. Callers without a namespace are bounded by their user alone.
func (s *Slots) sharesOf(user, namespace string) []*share {
	b := s.bounds
	of := func(kind shareKind, user, namespace string, slots, waiting int) *share {
		return &share{key: shareKey{kind, user, namespace}, slots: make(chan struct{}, slots), maxWaiting: waiting}
	}
	whole := of(ofUser, user, "", b.PerUser, b.WaitingOfOneUser)
	if namespace == "" {
		return []*share{whole}
	}
	return []*share{
		of(ofPair, user, namespace, b.PerUser/pairShare, b.WaitingOfOneUser-b.WaitingOfOneUser/pairRest),
		whole,
		of(ofNamespace, "", namespace, b.PerNamespace, b.Waiting/waitingShareOfNamespace),
	}
}

// Acquire waits for a slot for a user in a namespace, which may be empty. It fails if too many callers wait already, or
// if ctx has ended. A free slot is taken in any case, so that waiting callers keep nothing from others.
func (s *Slots) Acquire(ctx context.Context, user, namespace string) (release func(), err error) {
	own := s.enter(user, namespace)
	if !s.takeAll(own, tryTake) && !s.wait(ctx, own) {
		s.leave(own)
		return nil, s.bounds.Refusal
	}
	return func() {
		<-s.all
		giveBack(own)
		s.leave(own)
	}, nil
}

// enter counts a caller in its shares.
func (s *Slots) enter(user, namespace string) []*share {
	own := s.sharesOf(user, namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range own {
		if here := s.shares[o.key]; here != nil {
			own[i] = here
		} else {
			s.shares[o.key] = o
		}
		own[i].here++
	}
	return own
}

// leave ends what enter began.
func (s *Slots) leave(own []*share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range own {
		if o.here--; o.here == 0 {
			delete(s.shares, o.key)
		}
	}
}

// takeAll takes a slot of every share and of all, or none.
func (s *Slots) takeAll(own []*share, take func(slots chan struct{}) bool) bool {
	for i, o := range own {
		if !take(o.slots) {
			giveBack(own[:i])
			return false
		}
	}
	if !take(s.all) {
		giveBack(own)
		return false
	}
	return true
}

func giveBack(own []*share) {
	for _, o := range own {
		<-o.slots
	}
}

// wait waits for a slot. It returns false at once if too many wait.
func (s *Slots) wait(ctx context.Context, own []*share) bool {
	if !s.queue(own) {
		return false
	}
	defer s.unqueue(own)
	return s.takeAll(own, func(slots chan struct{}) bool { return Take(ctx, slots) })
}

// queue counts a caller that waits. It returns false if there are too many.
func (s *Slots) queue(own []*share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == s.bounds.Waiting || slices.ContainsFunc(own, func(o *share) bool { return o.waiting == o.maxWaiting }) {
		return false
	}
	for _, o := range own {
		o.waiting++
	}
	s.waiting++
	return true
}

// unqueue ends what queue began.
func (s *Slots) unqueue(own []*share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range own {
		o.waiting--
	}
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
