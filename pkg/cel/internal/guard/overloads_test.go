/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
)

// typedArguments are expressions of types that are small, deep, wide and dynamic, and otherArguments those with which they are combined. None
// has a type that is found elsewhere, such as that of an empty list: the work for these is counted in another way.
var (
	typedArguments = []string{`"a"`, `1`, `object`, `["a"]`, `[[[1]]]`, `{[1]: {"a": [2]}}`, `optional.of([[1]])`, `[optional.of(1)]`, `type([[1]])`, `[request.userInfo.extra]`, `[{"a": 1}].map(m, {m: [m]})`, `[object]`}
	otherArguments = []string{`"a"`, `1`, `object`, `[[[1]]]`, `optional.of([[1]])`, `[request.userInfo.extra]`}
)

// typedCalls returns the calls of every function with every combination of one or two typed arguments.
func typedCalls(e *engine.Engine) (texts []string) {
	seen := map[string]bool{}
	for name, function := range e.Env.Functions() {
		for _, overload := range function.OverloadDecls() {
			n := len(overload.ArgTypes())
			for _, a := range typedArguments {
				for _, b := range otherArguments {
					var text string
					switch {
					case n == 0 || n > 2 || strings.HasPrefix(name, "@"):
						continue
					case strings.Contains(name, "_"):
						text = strings.Replace(strings.Replace(name, "_", "("+a+")", 1), "_", b, 1)
						if n == 1 {
							text = strings.Replace(name, "_", "("+a+")", 1)
						}
					case n == 1 && overload.IsMemberFunction():
						text = fmt.Sprintf("(%s).%s()", a, name)
					case n == 1:
						text = fmt.Sprintf("%s(%s)", name, a)
					case overload.IsMemberFunction():
						text = fmt.Sprintf("(%s).%s(%s)", a, name, b)
					default:
						text = fmt.Sprintf("%s(%s, %s)", name, a, b)
					}
					if !seen[text] {
						seen[text] = true
						texts = append(texts, text)
					}
				}
			}
		}
	}
	slices.Sort(texts)
	return texts
}

// TestTypesOfEveryFunctionAreBounded calls every function with arguments of many types, and compares the bound of the types with
// those that the checker finds. A bound that is too low would let types double without being counted.
func TestTypesOfEveryFunctionAreBounded(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	e := environment.Engine()
	checked := 0
	for _, text := range typedCalls(e) {
		parsed, issues := e.Env.Parse("[[" + text + "]]")
		if issues.Err() != nil {
			continue
		}
		result, issues := e.Env.Check(parsed)
		if len(issues.Errors()) > 0 {
			continue
		}
		checked++
		parts, depth := e.Guard.LargestType(parsed.NativeRep().Expr())
		for _, found := range result.NativeRep().TypeMap() {
			if gotParts, gotDepth := sizeOf(found); gotParts > parts || gotDepth > depth {
				t.Errorf("%s: got the bounds %d and %d, but there is the type %s", text, parts, depth, found)
			}
		}
		if parts > 40 {
			t.Errorf("%s: got the bound %d, which is far too high", text, parts)
		}
	}
	if checked < 500 {
		t.Errorf("got %d calls, too few to be of all functions", checked)
	}
}

// TestEveryFunctionOfListsIsGuarded lists the functions that get no guard although they take lists, maps or values of any type: they
// must read no more of them than their size. A new function of the library has to be looked at.
func TestEveryFunctionOfListsIsGuarded(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	var unguarded []string
	for name, function := range tw.engine.Env.Functions() {
		takesValues := false
		for _, overload := range function.OverloadDecls() {
			takesValues = takesValues || slices.ContainsFunc(overload.ArgTypes(), func(t *types.Type) bool {
				return t.Kind() == types.ListKind || t.Kind() == types.MapKind || t.Kind() == types.DynKind || t.Kind() == types.TypeParamKind
			})
		}
		if takesValues && !tw.engine.Guard.Walks(name) {
			unguarded = append(unguarded, name)
		}
	}
	slices.Sort(unguarded)
	want := []string{"!_", "@not_strictly_false", "_&&_", "_+_", "_?._", "_?_:_", "_[?_]", "_[_]", "_||_", "cel.@mapInsert", "dyn", "first", "last", "optional.of", "optional.ofNonZeroValue", "or", "orValue", "size", "type", "value"}
	for _, name := range unguarded {
		if !slices.Contains(want, name) {
			t.Errorf("%s takes values of any size, and is not guarded", name)
		}
	}
	if !slices.Contains(unguarded, "size") || len(unguarded) < 8 {
		t.Errorf("got %q, too few to be all", unguarded)
	}
}
