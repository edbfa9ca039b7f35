/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// DecideAhead is Decide for members that may be slow. If a member has not answered after patience, the next one is asked meanwhile, so that a member
// that hangs does not take the time of those after it: if ctx has a deadline, all have been asked at half of its time. The answers count in the order of the members. When the
// decision is known, the contexts of members that are still asked end.
func (c *Chain) DecideAhead(ctx context.Context, attributes authorizer.Attributes, patience time.Duration) Decision {
	ctx, cancel := context.WithCancel(c.Pin(ctx))
	defer cancel()
	members := c.pinned(ctx)
	if len(members) == 1 {
		return c.Decide(ctx, attributes) // there is no other member that could be asked meanwhile
	}
	if deadline, ok := ctx.Deadline(); ok {
		//guard:webhooks-slow-half-time
		patience = min(patience, time.Until(deadline)/time.Duration(2*max(1, len(members))))
	}
	a := &ahead{members: members, patience: patience, ask: func(m Member) Set { return m.decide(ctx, attributes) }}
	sets := make([]Set, 0, len(members))
	for i := range members {
		set := a.answer(i)
		sets = append(sets, set)
		if set.Decision.possible()&canNoOpinion == 0 {
			break
		}
	}
	return Decision{kind: kindChain, chain: sets}.simplify()
}

// ahead asks members before the ones that come first have answered.
type ahead struct {
	members  []Member
	patience time.Duration
	ask      func(Member) Set
	// answers has the answers of the members that have been asked.
	answers []chan memberAnswer
	// waited receives when the patience with the last of them is over. It is nil if all members have been asked.
	waited <-chan time.Time
}

// memberAnswer is the answer of a member, or the value with which it panicked.
type memberAnswer struct {
	set      Set
	panicked any
}

// next asks the next member, if there is one.
func (a *ahead) next() {
	if len(a.answers) == len(a.members) {
		a.waited = nil
		return
	}
	member, answer := a.members[len(a.answers)], make(chan memberAnswer, 1)
	a.answers, a.waited = append(a.answers, answer), time.After(a.patience)
	go func() {
		var got memberAnswer
		defer func() {
			got.panicked = recover()
			answer <- got
		}()
		got.set = a.ask(member)
	}()
}

// answer returns the answer of the member at index i. It panics if the member does.
func (a *ahead) answer(i int) Set {
	if i == len(a.answers) {
		a.next()
	}
	for {
		select {
		case got := <-a.answers[i]:
			if got.panicked != nil {
				//guard:webhooks-slow-panic
				panic(got.panicked)
			}
			return got.set
		case <-a.waited:
			//guard:webhooks-slow-next-one
			a.next()
		}
	}
}
