/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
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
	compiler := compilers.Conditions(t)
	for _, tc := range []struct {
		expression string
		wantWhole  bool
	}{
		{expression: `object.a == 1`, wantWhole: false},
		{expression: `object["b"] == "two"`, wantWhole: false},
		{expression: `object.e.f == "g"`, wantWhole: false},
		{expression: `object.c[0] == "x" && object.c.size() == 2`, wantWhole: false},
		{expression: `object.missing == 1`, wantWhole: false},
		{expression: `object.e.missing == 1`, wantWhole: false},
		{expression: `object.d == null`, wantWhole: false},
		{expression: `object.d.x == 1`, wantWhole: false},
		{expression: `has(object.a) && !has(object.missing) && !has(object.e.missing)`, wantWhole: false},
		{expression: `"a" in object && !("x" in object) && "f" in object.e`, wantWhole: true}, // for its bounds
		{expression: `object.?a.orValue(2) == 1 && object.?x.orValue(2) == 2 && object.e[?"f"].hasValue()`, wantWhole: false},
		{expression: `object[""] == true`, wantWhole: false},
		{expression: `1 in object`, wantWhole: true},
		{expression: `object[1] == 2`, wantWhole: true},
		{expression: `object[?1].hasValue()`, wantWhole: true},
		{expression: `object[1.5] == 2 || object[1u] == 2 || object[true] == 2`, wantWhole: true},
		{expression: `object[object.d] == 2`, wantWhole: false},
		{expression: `object == {"a": 1}`, wantWhole: true},
		{expression: `{"a": 1} == object`, wantWhole: true},
		{expression: `object.e == {"f": dyn("g"), "h": dyn({})}`, wantWhole: true},
		{expression: `{"f": dyn("g"), "h": dyn({})} == object.e`, wantWhole: true},
		{expression: `object.e in [object.e]`, wantWhole: true},
		{expression: `object == object`, wantWhole: true},
		{expression: `object == 1 || object == "x" || object == null || object == [1]`, wantWhole: true},
		{expression: `object != {}`, wantWhole: true},
		{expression: `size(object) == 6 && object.e.size() == 2`, wantWhole: true},
		{expression: `object.all(k, k.size() < 2)`, wantWhole: true},
		{expression: `object.exists(k, object[k] == "two")`, wantWhole: true},
		{expression: `object.exists_one(k, v, v == "two")`, wantWhole: true},
		{expression: `object.e.transformList(k, v, k).exists(k, k == "f")`, wantWhole: true},
		{expression: `object.transformMap(k, v, k == "b", v + "!") == {"b": "two!"}`, wantWhole: true},
		{expression: `object.map(k, k).exists(k, k == "a")`, wantWhole: true},
		{expression: `optional.ofNonZeroValue(object.e.h).hasValue() || !optional.ofNonZeroValue(object).hasValue()`, wantWhole: true},
		{expression: `type(object) == map && type(object.e) == type({})`, wantWhole: true},
		{expression: `dyn(object) < 1`, wantWhole: false},
		{expression: `string(object) == "x"`, wantWhole: false},
		{expression: `object + object == object`, wantWhole: false},
		{expression: `"%s".format([object.e.h]) == "{}"`, wantWhole: true},
	} {
		t.Run(tc.expression, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, tc.expression)
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
	program := compilers.Compiled(t, compilers.Conditions(t), `size(object) == 6 && object.exists(k, k == "a") && object.a == 1`)
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

// wholeFields are fields that are read from a map that is made at once.
type wholeFields struct{ data map[string]any }

func (w wholeFields) Field(key string) (cel.Value, bool) {
	value, ok := w.data[key]
	if !ok {
		return nil, false
	}
	return cel.Known(value), true
}

func (w wholeFields) Whole() cel.Value { return cel.Known(w.data) }

func typeOf(v any) reflect.Type { return reflect.TypeOf(v) }
