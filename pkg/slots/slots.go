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
	"container/list"
	"context"
	"sync"
)

// Slots bounds how many callers work at the same time and how many wait. Clients choose the user name and the namespace of a
// caller: every client with permission to create a SubjectAccessReview chooses the user in it. Therefore one user name, or
// one namespace, may not take all slots.
// A caller takes one slot of each of its shares, all at the same time. While one share is full it holds no slot of the
// others, so that a waiting caller keeps no slot from other callers, and callers cannot wait for each other.
// Slots is safe for concurrent use.
type Slots struct {
	bounds Bounds
	queue  *queue
	// outer are the Slots from which every caller also needs a slot, or nil.
	outer *Slots
}

// Bounds are the bounds of Slots. All are positive. The bounds of namespaces may be zero if no caller has a namespace.
type Bounds struct {
	// All, PerUser and PerNamespace bound how many callers work at the same time. PerUserInNamespace bounds the callers of one
	// user name in one namespace; the other slots are left to its callers in other namespaces.
	All, PerUser, PerNamespace, PerUserInNamespace int
	// Waiting, WaitingOfOneUser and WaitingOfOneUserInNamespace bound how many callers wait: in all, of one user name, and
	// of one user name in one namespace. The callers in one namespace have a quarter of Waiting.
	Waiting, WaitingOfOneUser, WaitingOfOneUserInNamespace int
	// Refusal is the error for a caller that gets no slot.
	Refusal error
}

// waitingShareOfNamespace is the divisor for the callers of one namespace that may wait: Waiting divided by it.
const waitingShareOfNamespace = 4

// shareKey identifies a share: all callers of some Slots, or its callers with one user name, one namespace, or both.
type shareKey struct {
	of              *Slots
	kind            shareKind
	user, namespace string
}

type shareKind uint8

const (
	ofAll shareKind = iota
	ofUser
	ofNamespace
	ofPair
)

// share counts the slots and the waiting places of the callers that a shareKey identifies.
type share struct {
	key shareKey
	// taken counts the callers that have a slot, at most slots, and waiting the callers that wait, at most maxWaiting.
	taken, slots, waiting, maxWaiting int
}

func (s *share) isFull() bool { return s.taken == s.slots }

// caller works or waits.
type caller struct {
	shares []*share
	// missing is the share that was full when the caller last tried to take its slots. It is nil for a caller that
	// has its slots.
	missing *share
	// granted is closed when a caller that waits gets its slots. place is its place among the callers that wait.
	granted chan struct{}
	place   *list.Element
}

// queue has the shares of Slots and of all Slots within it.
type queue struct {
	mu sync.Mutex
	// shares holds the shares of the callers that work or wait.
	shares map[shareKey]*share
	// waiting has the callers that wait, first in, first out.
	waiting *list.List
}

// New returns Slots with the bounds b, all of them free.
func New(b Bounds) *Slots {
	return &Slots{bounds: b, queue: &queue{shares: map[shareKey]*share{}, waiting: list.New()}}
}

// Within returns Slots with bounds of their own for some of the callers of s. Their callers take slots of both, the
// returned Slots and s, at the same time.
func (s *Slots) Within(b Bounds) *Slots {
	return &Slots{bounds: b, queue: s.queue, outer: s}
}

// sharesOf returns new shares for a caller, also those of outer. A caller without a namespace has no shares for a namespace.
func (s *Slots) sharesOf(user, namespace string) []*share {
	b := s.bounds
	of := func(kind shareKind, user, namespace string, slots, waiting int) *share {
		return &share{key: shareKey{of: s, kind: kind, user: user, namespace: namespace}, slots: slots, maxWaiting: waiting}
	}
	shares := []*share{of(ofUser, user, "", b.PerUser, b.WaitingOfOneUser)}
	if namespace != "" {
		shares = append(shares,
			of(ofPair, user, namespace, b.PerUserInNamespace, b.WaitingOfOneUserInNamespace),
			of(ofNamespace, "", namespace, b.PerNamespace, b.Waiting/waitingShareOfNamespace))
	}
	shares = append(shares, of(ofAll, "", "", b.All, b.Waiting))
	if s.outer != nil {
		shares = append(shares, s.outer.sharesOf(user, namespace)...)
	}
	return shares
}

// Acquire takes a slot for a user in a namespace, which may be empty, and returns the function that gives it back. If the
// slot is free, the caller gets it at once, even if other callers wait or if ctx has ended. Otherwise the caller waits.
// Acquire returns the Refusal of the bounds if too many callers wait already, or if ctx ends first.
func (s *Slots) Acquire(ctx context.Context, user, namespace string) (release func(), err error) {
	c, err := s.queue.enter(s.sharesOf(user, namespace))
	if err != nil {
		return nil, err
	}
	if c.place != nil {
		select {
		case <-c.granted:
		case <-ctx.Done():
			if err := s.queue.giveUp(c); err != nil {
				return nil, err
			}
		}
	}
	return func() { s.queue.release(c) }, nil
}

// enter gives a caller a slot of each of its shares, or a place among the callers that wait. It fails if too many wait.
func (q *queue) enter(shares []*share) (*caller, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &caller{shares: shares}
	for i, own := range shares {
		if here, ok := q.shares[own.key]; ok {
			shares[i] = here
		}
	}
	if !c.take() {
		for _, own := range shares {
			//guard:slots-callers-wait
			if own.waiting == own.maxWaiting {
				return nil, own.key.of.bounds.Refusal
			}
		}
		for _, own := range shares {
			own.waiting++
		}
		c.granted, c.place = make(chan struct{}), q.waiting.PushBack(c)
	}
	for _, own := range shares {
		q.shares[own.key] = own
	}
	return c, nil
}

// take takes a slot of each share, or none.
func (c *caller) take() bool {
	if c.missing != nil && c.missing.isFull() {
		return false
	}
	c.missing = nil
	for _, own := range c.shares {
		//guard:slots-shares-full
		if own.isFull() {
			c.missing = own
			return false
		}
	}
	for _, own := range c.shares {
		own.taken++
	}
	return true
}

// release gives the slots of a caller back. Then each waiting caller, first in, first out, gets its slots if all are free.
func (q *queue) release(c *caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, own := range c.shares {
		own.taken--
	}
	for place := q.waiting.Front(); place != nil; {
		waiting, _ := place.Value.(*caller)
		place = place.Next()
		if waiting.take() {
			q.leave(waiting)
			close(waiting.granted)
		}
	}
	q.forget(c)
}

// giveUp ends the waiting of a caller, and returns the refusal. If the caller has got its slots meanwhile, it returns nil,
// and the caller keeps them.
func (q *queue) giveUp(c *caller) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.missing == nil {
		return nil
	}
	//guard:slots-callers-gave-up
	q.leave(c)
	q.forget(c)
	return c.missing.key.of.bounds.Refusal
}

// leave removes a caller from the callers that wait.
func (q *queue) leave(c *caller) {
	q.waiting.Remove(c.place)
	for _, own := range c.shares {
		own.waiting--
	}
}

// forget deletes the shares of a caller in which no caller works or waits.
func (q *queue) forget(c *caller) {
	for _, own := range c.shares {
		if own.taken == 0 && own.waiting == 0 {
			delete(q.shares, own.key)
		}
	}
}

// Take waits for a slot, by sending to the channel, and reports whether it has taken one: it returns false if ctx ends
// first. A free slot is taken even if ctx has ended. The caller gives the slot back by receiving from the channel.
func Take(ctx context.Context, slots chan struct{}) bool {
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
