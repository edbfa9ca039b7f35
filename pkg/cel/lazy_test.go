/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// counted are fields that count how often they are made as a whole.
type counted struct {
	data  map[string]any
	whole *atomic.Int32
}

func (c counted) Field(key string) (cel.Value, bool) {
	value, ok := c.data[key]
	if !ok {
		return nil, false
	}
	if nested, ok := value.(map[string]any); ok {
		return cel.Lazy(counted{nested, c.whole}), true
	}
	return cel.Known(value), true
}

func (c counted) Whole() cel.Value {
	c.whole.Add(1)
	return cel.Known(c.data)
}

func lazyData() map[string]any {
	return map[string]any{
		"a": int64(1), "b": "two", "c": []any{"x", int64(2)}, "d": nil, "e": map[string]any{"f": "g", "h": map[string]any{}}, "": true,
	}
}

// TestLazy asks that expressions cannot tell a lazy map from one that is made at once, and
// that reading fields does not make it.
func TestLazy(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	for _, tc := range []struct {
		expression string
		wantWhole  bool
	}{
		{`object.a == 1`, false},
		{`object["b"] == "two"`, false},
		{`object.e.f == "g"`, false},
		{`object.c[0] == "x" && object.c.size() == 2`, false},
		{`object.missing == 1`, false},
		{`object.e.missing == 1`, false},
		{`object.d == null`, false},
		{`object.d.x == 1`, false},
		{`has(object.a) && !has(object.missing) && !has(object.e.missing)`, false},
		{`"a" in object && !("x" in object) && "f" in object.e`, true}, // for its bounds
		{`object.?a.orValue(2) == 1 && object.?x.orValue(2) == 2 && object.e[?"f"].hasValue()`, false},
		{`object[""] == true`, false},
		{`1 in object`, true},
		{`object[1] == 2`, true},
		{`object[?1].hasValue()`, true},
		{`object[1.5] == 2 || object[1u] == 2 || object[true] == 2`, true},
		{`object[object.d] == 2`, false},
		{`object == {"a": 1}`, true},
		{`{"a": 1} == object`, true},
		{`object.e == {"f": dyn("g"), "h": dyn({})}`, true},
		{`{"f": dyn("g"), "h": dyn({})} == object.e`, true},
		{`object.e in [object.e]`, true},
		{`object == object`, true},
		{`object == 1 || object == "x" || object == null || object == [1]`, true},
		{`object != {}`, true},
		{`size(object) == 6 && object.e.size() == 2`, true},
		{`object.all(k, k.size() < 2)`, true},
		{`object.exists(k, object[k] == "two")`, true},
		{`object.exists_one(k, v, v == "two")`, true},
		{`object.e.transformList(k, v, k).exists(k, k == "f")`, true},
		{`object.transformMap(k, v, k == "b", v + "!") == {"b": "two!"}`, true},
		{`object.map(k, k).exists(k, k == "a")`, true},
		{`optional.ofNonZeroValue(object.e.h).hasValue() || !optional.ofNonZeroValue(object).hasValue()`, true},
		{`type(object) == map && type(object.e) == type({})`, true},
		{`dyn(object) < 1`, false},
		{`string(object) == "x"`, false},
		{`object + object == object`, false},
		{`"%s".format([object.e.h]) == "{}"`, true},
	} {
		t.Run(tc.expression, func(t *testing.T) {
			t.Parallel()
			program, err := compiler.Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			want, wantCost, wantErr := program.Eval(t.Context(), cel.Values{cel.Object: cel.Known(lazyData())})
			fields := counted{lazyData(), &atomic.Int32{}}
			got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: cel.Lazy(fields)})
			// What a macro costs depends on the order of keys, which is random.
			if got != want || (!tc.wantWhole && cost != wantCost) || (err == nil) != (wantErr == nil) || (err != nil && err.Error() != wantErr.Error()) {
				t.Errorf("got %t, %d, %v, want %t, %d, %v", got, cost, err, want, wantCost, wantErr)
			}
			if whole := fields.whole.Load() > 0; whole != tc.wantWhole {
				t.Errorf("the whole was made: %t, want %t", whole, tc.wantWhole)
			}
		})
	}
}

// TestLazyIsMadeOnce shares a lazy map between evaluations that need all of it.
func TestLazyIsMadeOnce(t *testing.T) {
	t.Parallel()
	program, err := newCompiler(t).Compile(`size(object) == 6 && object.exists(k, k == "a") && object.a == 1`)
	if err != nil {
		t.Fatal(err)
	}
	fields := counted{lazyData(), &atomic.Int32{}}
	values := cel.Values{cel.Object: cel.Lazy(fields)}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if ok, _, err := program.Eval(t.Context(), values); !ok || err != nil {
				t.Errorf("got %t, %v", ok, err)
			}
		})
	}
	group.Wait()
	if n := fields.whole.Load(); n != 1 {
		t.Errorf("the whole was made %d times", n)
	}
}
