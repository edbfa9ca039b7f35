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

// Slots bounds how many callers work at the same time and how many wait. Clients choose both names: every client with
// permission to create a SubjectAccessReview chooses the user in it. Therefore no name alone may keep slots from others.
// A caller takes a slot of all of its shares at the same time. While it waits for one of them it has none of the others, so
// that it keeps nothing from callers that share only these, and callers cannot wait for each other.
// Slots is safe for concurrent use.
type Slots struct {
	bounds Bounds
	queue  *queue
	// outer are the Slots of which the callers need a slot, too. It may be nil.
	outer *Slots
}

// Bounds are the bounds of Slots. All are positive. The bounds of namespaces may be zero if no caller has a namespace.
type Bounds struct {
	// All, PerUser and PerNamespace bound how many callers work at the same time. PerUserInNamespace bounds the callers of one
	// user name in one namespace; the other slots are left to its callers in other namespaces.
	All, PerUser, PerNamespace, PerUserInNamespace int
	// Waiting, WaitingOfOneUser and WaitingOfOneUserInNamespace bound how many callers wait.
	Waiting, WaitingOfOneUser, WaitingOfOneUserInNamespace int
	// Refusal is the error for a caller that gets no slot.
	Refusal error
}

// waitingShareOfNamespace is the divisor for the waiting places that one namespace gets.
const waitingShareOfNamespace = 4

// shareKey identifies the callers of a share.
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

// share has the slots of some callers.
type share struct {
	key shareKey
	// taken counts the callers that have a slot, at most slots, and waiting the callers that wait, at most maxWaiting.
	taken, slots, waiting, maxWaiting int
}

func (s *share) isFull() bool { return s.taken == s.slots }

// caller works or waits.
type caller struct {
	shares []*share
	// missing is the share that had no slot for the caller when its slots were last looked at. It is nil for a
	// caller that works.
	missing *share
	// granted is closed when a caller that waits gets its slots. place is its place among the callers that wait.
	granted chan struct{}
	place   *list.Element
}

// queue has the shares of Slots that are taken together.
type queue struct {
	mu sync.Mutex
	// shares holds the shares of the callers that work or wait.
	shares map[shareKey]*share
	// waiting has the callers that wait, first in, first out.
	waiting *list.List
}

// New returns free Slots.
func New(b Bounds) *Slots {
	return &Slots{bounds: b, queue: &queue{shares: map[shareKey]*share{}, waiting: list.New()}}
}

// Within returns Slots for some of the callers of s. They take a slot of both at the same time.
func (s *Slots) Within(b Bounds) *Slots {
	return &Slots{bounds: b, queue: s.queue, outer: s}
}

// sharesOf returns new shares for a caller. Callers without a namespace are bounded by their user alone.
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

// Acquire waits for a slot for a user in a namespace, which may be empty. It fails if too many callers wait already, or
// if ctx has ended. Free slots are taken in any case, so that waiting callers keep nothing from others.
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

// release gives the slots of a caller back, and gives them to the first callers that wait for them.
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

// giveUp ends the waiting of a caller. It returns the refusal, unless the caller got its slots at the same time.
func (q *queue) giveUp(c *caller) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.missing == nil {
		return nil
	}
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

// forget deletes the shares of a caller that have no other.
func (q *queue) forget(c *caller) {
	for _, own := range c.shares {
		if own.taken == 0 && own.waiting == 0 {
			delete(q.shares, own.key)
		}
	}
}

// Take waits for a slot. A free one is taken even if ctx has ended.
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
