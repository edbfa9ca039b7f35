/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// readKey counts how often its value is read.
type readKey struct {
	types.String
	reads *int
}

func (k readKey) Value() any {
	*k.reads++
	return k.String.Value()
}

// TestKeysAreReadOnce sorts keys. Each must be printed once, not once for each comparison.
func TestKeysAreReadOnce(t *testing.T) {
	t.Parallel()
	const n = 100
	reads, all := 0, map[ref.Val]ref.Val{}
	for i := range n {
		all[readKey{types.String(fmt.Sprintf("%03d", n-i)), &reads}] = types.True
	}
	keys := sortedKeys(types.DefaultTypeAdapter.NativeToValue(all).(traits.Mapper))
	if reads != n || len(keys) != n {
		t.Errorf("got %d reads of %d keys, want one of each of %d", reads, len(keys), n)
	}
	for i, key := range keys {
		if want := fmt.Sprintf("%03d", i+1); key.Value() != want {
			t.Errorf("got %v at place %d, want %s", key.Value(), i, want)
		}
	}
}

// value converts data to a value of CEL.
func value(data any) ref.Val { return types.DefaultTypeAdapter.NativeToValue(data) }

// TestElementsOfRanges lists what a macro over a known value binds, up to the bound.
func TestElementsOfRanges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		over    ref.Val
		binders int
		want    string
		wantNot bool
	}{
		{name: "elements", over: value([]any{"a", nil}), binders: 1, want: `[["a"], [null]]`},
		{name: "indexes and elements", over: value([]any{"a", "b"}), binders: 2, want: `[[dyn(0), dyn("a")], [dyn(1), dyn("b")]]`},
		{name: "keys", over: value(map[string]any{"b": int64(1), "a": int64(2)}), binders: 1, want: `[["a"], ["b"]]`},
		{name: "keys and values", over: value(map[string]any{"b": "x", "a": "y"}), binders: 2, want: `[["a", "y"], ["b", "x"]]`},
		{name: "nothing", over: value([]any{}), binders: 1, want: `[]`},
		{name: "as many as are unrolled", over: value(make([]any, 256)), binders: 1, want: "[" + strings.Repeat("[null], ", 255) + "[null]]"},
		{name: "one more", over: value(make([]any, 257)), binders: 1, wantNot: true},
		{name: "a text, which has a size", over: types.String("ab"), binders: 1, wantNot: true},
		{name: "a number", over: types.Int(1), binders: 1, wantNot: true},
		{name: "an error", over: types.NewErr("an error"), binders: 1, wantNot: true},
	} {
		elements, ok := ElementsOf(tc.over, tc.binders)
		if ok == tc.wantNot {
			t.Errorf("%s: got %v, %t, want it listed: %t", tc.name, elements, ok, !tc.wantNot)
			continue
		}
		var parts []string
		for _, element := range elements {
			inDyn := syntax.LiteralOf(types.NewRefValList(types.DefaultTypeAdapter, element), nil)
			parts = append(parts, inDyn.Args[0].Text())
		}
		if got := "[" + strings.Join(parts, ", ") + "]"; ok && got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}
