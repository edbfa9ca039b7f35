/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"math"
	"strconv"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// data is a value as it is decoded from JSON.
func (g *generator) data(depth int) any {
	choices := 10
	if depth <= 0 {
		choices = 8
	}
	switch g.IntN(choices) {
	case 0, 1, 2:
		text, err := strconv.Unquote(g.one(hostile...))
		if err != nil {
			panic(err) // a string of the table that Go does not read
		}
		return text
	case 3:
		return []any{int64(0), int64(1), int64(-3), int64(2), int64(math.MaxInt64), int64(math.MinInt64), int64(9007199254740993), int64(9007199254740992)}[g.IntN(8)]
	case 4:
		return []any{0.0, math.Copysign(0, -1), 1.0, 1.5, 2.5, -0.1, 1e300, 9007199254740992.0, math.MaxFloat64, 0.30000000000000004, 9007199254740994.0}[g.IntN(11)]
	case 5, 6:
		return g.IntN(2) == 0
	case 7:
		return nil
	case 8:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.data(depth-1))
		}
		return list
	default:
		return g.fields(depth-1, "a", "b", "x", "y", "n", "list", "owner", "web", "team", "")
	}
}

func (g *generator) fields(depth int, names ...string) map[string]any {
	object := map[string]any{}
	for _, name := range names {
		if g.IntN(3) > 0 {
			object[name] = g.data(depth)
		}
	}
	return object
}

// admission is what is unknown at authorization, at random.
func (g *generator) admission() cel.Values {
	object := g.fields(2, "a", "b", "f", "t", "n", "i", "big", "least", "memory", "address", "web", "missing")
	for _, name := range []string{"spec", "labels"} {
		if g.IntN(4) > 0 {
			object[name] = g.fields(1, "x", "y", "a", "owner", "web", "team", "huge", "list")
		}
	}
	if g.IntN(4) > 0 {
		object["list"] = []any{g.data(1), g.data(0), g.data(0)}[:g.IntN(4)]
	}
	values := cel.Values{cel.Object: object, cel.OldObject: g.data(2), cel.Options: g.data(1), cel.Operation: "UPDATE", cel.DryRun: g.IntN(2) == 0}
	if g.IntN(2) == 0 {
		values[cel.ImpersonatedUser] = map[string]any{"username": "bob", "groups": []any{"web", "a", "a"}}
	}
	return values
}
