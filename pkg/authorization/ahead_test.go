/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// slow answers after some time, or at the end of its context.
type slow struct {
	after  time.Duration
	answer authorization.Decision
	calls  atomic.Int32
	ended  atomic.Int32
}

func (s *slow) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	s.calls.Add(1)
	select {
	case <-time.After(s.after):
	case <-ctx.Done():
		s.ended.Add(1)
	}
	return s.answer
}

// TestDecideAheadIsDecide compares the decisions of random chains, whose members take random times. Only the time differs: a chain takes about as long as the slowest member
// that its decision needs.
func TestDecideAheadIsDecide(t *testing.T) {
	t.Parallel()
	const patience = 100 * time.Millisecond
	answers := []authorization.Decision{
		authorization.NoOpinion("n", nil), authorization.NoOpinion("", nil), authorization.Allow("a", nil), authorization.Deny("d", nil), {},
		authorization.Conditions(authorization.Condition{ID: "example.com/a", Effect: authorization.EffectAllow, Type: "example.com/t", Text: "x"}),
		authorization.Conditions(authorization.Condition{ID: "example.com/d", Effect: authorization.EffectDeny, Type: "example.com/t", Text: "x"}),
	}
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			var members []authorization.Member
			var slowest time.Duration
			n := r.IntN(5)
			for i := range n {
				m := &slow{after: time.Duration(r.IntN(500)) * time.Millisecond, answer: answers[r.IntN(len(answers))]}
				slowest = max(slowest, m.after)
				members = append(members, authorization.Member{Name: fmt.Sprint("m", i), Decider: m})
			}
			chain, err := authorization.NewChain(members...)
			if err != nil {
				t.Fatal(err)
			}
			want := chain.Decide(t.Context(), authorizer.AttributesRecord{})
			begun := time.Now()
			got := chain.DecideAhead(t.Context(), authorizer.AttributesRecord{}, patience)
			if took := time.Since(begun); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || took > slowest+time.Duration(n)*patience {
				t.Fatalf("got %+v after %s, want %+v", got, took, want)
			}
		}
	})
}

// TestDecideAheadAsksInTime has members that end with their context: all are asked at half of the time, and those that are not needed end.
func TestDecideAheadAsksInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var members []authorization.Member
		for i := range 20 {
			members = append(members, authorization.Member{Name: fmt.Sprint("m", i), Decider: &slow{after: time.Hour, answer: authorization.NoOpinion("", nil)}})
		}
		last := &slow{after: 499 * time.Millisecond, answer: authorization.Deny("in time", nil)}
		never := &slow{after: time.Hour}
		chain, err := authorization.NewChain(append(members, authorization.Member{Name: "last", Decider: last}, authorization.Member{Name: "never", Decider: never})...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := chain.DecideAhead(ctx, authorizer.AttributesRecord{}, time.Minute); got.Reason() != "in time" || last.ended.Load() != 0 {
			t.Errorf("got %s", got.Reason())
		}
		synctest.Wait()
		if never.calls.Load() != never.ended.Load() {
			t.Errorf("the last member was called %d times, and ended %d times", never.calls.Load(), never.ended.Load())
		}
	})
}

// TestDecideAheadIsLazy asks the next member only if the one before takes longer than the patience.
func TestDecideAheadIsLazy(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]int32{99 * time.Millisecond: 0, 101 * time.Millisecond: 1} {
		synctest.Test(t, func(t *testing.T) {
			next := &slow{after: time.Hour}
			chain, err := authorization.NewChain(authorization.Member{Name: "first", Decider: &slow{after: after, answer: authorization.Allow("", nil)}}, authorization.Member{Name: "next", Decider: next})
			if err != nil {
				t.Fatal(err)
			}
			got := chain.DecideAhead(t.Context(), authorizer.AttributesRecord{}, 100*time.Millisecond)
			synctest.Wait()
			if calls, ended := next.calls.Load(), next.ended.Load(); !got.IsAllow() || calls != want || ended != want {
				t.Errorf("the first member answers after %s: got %s, %d calls of the next member and %d ended calls, want %d", after, got.Reason(), calls, ended, want)
			}
		})
	}
}

// broken panics.
type broken struct{}

func (broken) Decide(context.Context, authorizer.Attributes) authorization.Decision { panic("broken") }

// TestDecideAheadPanicsInItsCaller has a member that panics. DecideAhead asks members in goroutines of their own, and panics in the goroutine of its
// caller, which can recover.
func TestDecideAheadPanicsInItsCaller(t *testing.T) {
	t.Parallel()
	chain, err := authorization.NewChain(authorization.Member{Name: "broken", Decider: broken{}}, authorization.Member{Name: "next", Decider: broken{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if got := recover(); got != "broken" {
			t.Errorf("got %v", got)
		}
	}()
	t.Errorf("got %+v", chain.DecideAhead(t.Context(), authorizer.AttributesRecord{}, time.Second))
}
