/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestLongKeysAreCharged looks up long texts, which a map hashes, and makes maps with them. Every text must be paid for,
// also if the lookup or the map fails.
func TestLongKeysAreCharged(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	const size, bytesPerUnit = 1 << 20, 300
	for _, tc := range []struct {
		name, expression string
		want             uint64 // texts
	}{
		{name: "index", expression: `object.map[object.text] == 1`, want: 1},
		{name: "index of a map of one entry", expression: `object.long[?object.text].hasValue()`, want: 1},
		{name: "index of a literal", expression: `{"a": 1}[object.text] == 1`, want: 1},
		{name: "optional index", expression: `object.map[?object.text].hasValue()`, want: 1},
		{name: "index that fails", expression: `object.map[object.text] == 1 || true`, want: 1},
		{name: "index in a macro", expression: `[object.text, object.text].all(t, !object.map[?t].hasValue())`, want: 2},
		{name: "index by a value of a list", expression: `!object.map[?object.texts[0]].hasValue()`, want: 1},
		{name: "index by an index", expression: `!object.map[?object.long[object.text]].hasValue()`, want: 2},
		{name: "index by a choice", expression: `!object.map[?(object.n == 1 ? object.text : "a")].hasValue()`, want: 1},
		{name: "index by dyn", expression: `!object.map[?dyn(object.text)].hasValue()`, want: 1},
		{name: "index by an optional value", expression: `!object.map[?object.?text.value()].hasValue()`, want: 1},
		{name: "index by a default value", expression: `!object.map[?object.?text.orValue("a")].hasValue()`, want: 1},
		{name: "index by a first value", expression: `!object.map[?object.texts.first().value()].hasValue()`, want: 1},
		{name: "index by a variable of a macro", expression: `!object.map[?object.?text.optMap(t, t).value()].hasValue()`, want: 1},
		{name: "map literal", expression: `{object.text: 1}.size() == 1`, want: 1},
		{name: "map literal of equal keys", expression: `{object.text: 1, object.text: 2, object.name: 3}.size() == 1`, want: 2},
		{name: "map literal that fails", expression: `{object.text: 1, object.name: 1 / (object.n - 1)}.size() == 1 || true`, want: 1},
		{name: "map literal of optional entries", expression: `{?object.text: object.?nothing}.size() == 0`, want: 1},
		{name: "map literal in a macro", expression: `[object.text, object.text].all(t, {t: 1}.size() == 1)`, want: 2},
		{name: "map literal of values that are read", expression: `{(object.n == 1 ? object.text : "a"): 1, dyn(object.text): 1, object.texts[0]: 2}.size() == 1`, want: 3},
		{name: "entries that are inserted", expression: `[1, 2].all(i, [1].transformMapEntry(i, x, object.long).size() == 1)`, want: 2},
		{name: "entries that are inserted twice", expression: `[1, 2].transformMapEntry(i, x, object.long).size() == 1 || true`, want: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, tc.expression)
			var costs []uint64
			for _, size := range []int{8, size} {
				text := strings.Repeat("a", size)
				object := map[string]any{"text": text, "texts": []any{text}, "long": map[string]any{text: text}, "map": map[string]any{"a": int64(1)}, "n": int64(1), "name": "a"}
				_, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: object})
				if cost == 0 {
					t.Errorf("got %v at no cost", err)
				}
				costs = append(costs, cost)
			}
			if got, want := costs[1]-costs[0], tc.want*size/bytesPerUnit; got < want {
				t.Errorf("a long text costs %d units more than a short one, want at least %d", got, want)
			}
		})
	}
}

// TestLongKeysInMacros looks a long text up in nested macros. The cost limit must end the evaluation soon.
func TestLongKeysInMacros(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	text := strings.Repeat("a", 1<<20)
	for _, step := range []string{`!object.map[?object.text].hasValue()`, `{object.text: 1}.size() == 1`} {
		expression := step
		for i := range 5 {
			expression = fmt.Sprintf("[0,1,2,3,4,5,6,7,8,9].all(x%d, %s)", i, expression)
		}
		program := compilers.Compiled(t, compiler, expression)
		_, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: map[string]any{"text": text, "map": map[string]any{}}})
		if !errors.Is(err, cel.ErrCost) {
			t.Errorf("%s: got %v at cost %d, want ErrCost", step, err, cost)
		}
	}
}
