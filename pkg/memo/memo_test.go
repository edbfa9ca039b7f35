/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package memo

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

type value struct{ text string }

func keyOf(t *testing.T, of ...any) Key {
	t.Helper()
	key, err := KeyOf(of...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestMemo computes a value again only after its last user has dropped it.
func TestMemo(t *testing.T) {
	m, computed := New[value](1), 0
	get := func(name string) *value {
		t.Helper()
		v, err := m.Get(keyOf(t, "a", name), func() (*value, error) { computed++; return &value{name}, nil })
		if err != nil || v.text != name {
			t.Fatalf("got %v, %v for %s", v, err, name)
		}
		return v
	}
	first := get("x")
	if get("x") != first || get("y") == first || get("x") != first || computed != 2 {
		t.Errorf("computed %d values of 2 keys", computed)
	}
	runtime.KeepAlive(first)
	get("z") // takes the place of y in the ring
	poll.Holds(t, "x and y are forgotten", func() bool {
		runtime.GC()
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.entries) == 1
	})
	if get("z"); computed != 3 {
		t.Errorf("the recent value is computed again")
	}
	if get("x"); computed != 4 {
		t.Errorf("computed %d values, want x again", computed)
	}
}

// TestKeys has other keys for other values, also for texts that are no UTF-8.
func TestKeys(t *testing.T) {
	type pair struct{ A, B string }
	known := map[Key]int{}
	for i, of := range [][]any{
		{"a", "b"}, {"ab", ""}, {"", "ab"}, {"ab"}, {pair{"a", "b"}}, {pair{"ab", ""}}, {[]pair{{"a", ""}, {"b", ""}}}, {[]pair{{"a", "b"}}},
		{"\xff"}, {"\xfe"}, {"\uFFFD"}, {[]string{"a"}, "b"}, {[]string{"a", "b"}},
	} {
		key := keyOf(t, of...)
		if other, isKnown := known[key]; isKnown || key != keyOf(t, of...) {
			t.Errorf("values %d and %d have the same key, or one has two", i, other)
		}
		known[key] = i
	}
	if keyOf(t, &pair{A: "a"}) != keyOf(t, pair{A: "a"}) {
		t.Error("a pointer has another key than its value")
	}
	if _, err := KeyOf(func() {}); err == nil {
		t.Error("a function has a key")
	}
}

// TestMemoIsCollected drops a Memo that has computed a value.
func TestMemoIsCollected(t *testing.T) {
	dropped := func() weak.Pointer[Memo[value]] {
		m := New[value](8)
		if _, err := m.Get(keyOf(t, "x"), func() (*value, error) { return &value{"x"}, nil }); err != nil {
			t.Fatal(err)
		}
		return weak.Make(m)
	}()
	poll.Holds(t, "the Memo is collected", func() bool { runtime.GC(); return dropped.Value() == nil })
}

// TestMemoHasOneValue gets values while the garbage collector drops them: two users at the same time have the same one.
func TestMemoHasOneValue(t *testing.T) {
	m := New[value](1)
	key, other := keyOf(t, "x"), keyOf(t, "y")
	get := func(key Key) *value {
		v, err := m.Get(key, func() (*value, error) { return &value{"x"}, nil })
		if err != nil {
			t.Error(err)
		}
		return v
	}
	for range 300 {
		var wg sync.WaitGroup
		got := make([]*value, 4)
		for i := range got {
			wg.Go(func() { got[i] = get(key) })
		}
		wg.Go(runtime.GC)
		wg.Wait()
		for _, v := range got {
			if v != got[0] {
				t.Fatal("two values of one key are in use")
			}
		}
		get(other) // so that nothing holds the value of the key
	}
}

// TestMemoFailures caches nothing if create fails or panics.
func TestMemoFailures(t *testing.T) {
	m, failure := New[value](8), errors.New("failed")
	key := keyOf(t, "x")
	if _, err := m.Get(key, func() (*value, error) { return nil, failure }); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = m.Get(key, func() (*value, error) { panic("compiler") })
	}()
	if len(m.entries) != 0 {
		t.Errorf("%d entries are left", len(m.entries))
	}
	if v, err := m.Get(key, func() (*value, error) { return &value{"x"}, nil }); err != nil || v == nil {
		t.Errorf("got %v, %v after failures", v, err)
	}
}

// TestMemoTogether gets one value in many goroutines at the same time.
func TestMemoTogether(t *testing.T) {
	m := New[value](8)
	key := keyOf(t, "x")
	var made atomic.Int32
	var wg sync.WaitGroup
	got := make([]*value, 16)
	for i := range got {
		wg.Go(func() {
			got[i], _ = m.Get(key, func() (*value, error) { made.Add(1); runtime.Gosched(); return &value{"x"}, nil })
		})
	}
	wg.Wait()
	for _, v := range got {
		if v != got[0] {
			t.Error("there are several values of one key")
		}
	}
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
}
