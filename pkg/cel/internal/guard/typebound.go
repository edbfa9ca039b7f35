/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"maps"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// typeBound is an upper bound of the size of a type.
type typeBound struct {
	// parts is the number of types within the type, including itself, and depth is the depth of their nesting.
	parts, depth int
	// isDyn says that the type is dyn.
	isDyn bool
	// open says that the type may have type variables that later parts of the expression bind.
	open bool
}

var (
	simpleType  = typeBound{parts: 1, depth: 1}
	dynType     = typeBound{parts: 1, depth: 1, isDyn: true}
	unknownType = typeBound{parts: 1, depth: 1, open: true}
)

// work returns the work to walk a type once and to print each part of it, as the checker does. It is 0 for types with at most
// ordinaryTypeParts.
func (t typeBound) work() int {
	if t.parts <= ordinaryTypeParts {
		return 0
	}
	return min(t.parts, maxTypeWork) * min(t.depth, maxTypeWork)
}

// join returns the bound of the type for a value that has one of two types. The checker uses dyn if one of the types is dyn.
// Otherwise it binds the type variables of one type to the parts of the other.
func (t typeBound) join(other typeBound) typeBound {
	if t.isDyn || other.isDyn {
		return dynType
	}
	return typeBound{parts: max(t.parts, other.parts), depth: max(t.depth, other.depth), open: t.open && other.open}
}

// inner returns the bound of one parameter of the type, such as the elements of a list. others is the number of parts of the
// type that do not belong to this parameter.
func (t typeBound) inner(others int) typeBound {
	return typeBound{parts: max(t.parts-others, 1), depth: max(t.depth-1, 1), isDyn: t.isDyn, open: t.open}
}

func listOf(t typeBound) typeBound { return mapOf(t, typeBound{}) }

func mapOf(key, value typeBound) typeBound {
	return typeBound{
		parts: min(1+key.parts+value.parts, maxTypeWork), // no overflow
		depth: min(1+max(key.depth, value.depth), maxTypeWork),
		open:  key.open || value.open,
	}
}

// boundOf returns the bound of a known type, whose type variables have the bounds in parameters.
func boundOf(t *types.Type, parameters map[string]typeBound) typeBound {
	switch t.Kind() {
	case types.DynKind:
		return dynType
	case types.TypeParamKind:
		if bound, ok := parameters[t.TypeName()]; ok {
			return bound
		}
		return unknownType
	default:
	}
	result := typeBound{}
	for _, p := range t.Parameters() {
		bound := boundOf(p, parameters)
		result = typeBound{parts: result.parts + bound.parts, depth: max(result.depth, bound.depth), open: result.open || bound.open}
	}
	return listOf(result)
}

// requestFields bounds the types of the fields of requests: the largest is map[string][]string.
var requestFields = typeBound{parts: 4, depth: 3}

// identifiersOf returns the bounds of the types of the variables of an environment, by name.
func identifiersOf(env *cel.Env) map[string]typeBound {
	result := map[string]typeBound{}
	for _, variable := range env.Variables() {
		result[variable.Name()] = boundOf(variable.Type(), nil)
	}
	return result
}

// WithVariable returns a Guard that also knows a variable of the given type.
func (g *Guard) WithVariable(name string, t *types.Type) *Guard {
	result := *g
	result.identifiers = maps.Clone(g.identifiers)
	result.identifiers[name] = boundOf(t, nil)
	return &result
}

// WithFields returns a Guard that also knows that objects have fields of the given types.
func (g *Guard) WithFields(fields []*types.Type) *Guard {
	result := *g
	for _, t := range fields {
		bound := boundOf(t, nil)
		result.fields = typeBound{parts: max(result.fields.parts, bound.parts), depth: max(result.fields.depth, bound.depth)}
	}
	return &result
}

// callStyle identifies the overloads of a function that are called on a receiver, or those that are called without one.
type callStyle struct {
	name   string
	member bool
}

// candidates are the overloads that the checker tries for a call.
type candidates struct {
	// count is the number of the overloads, and variables how many type variables they have.
	count, variables int
	// arities counts them by how many arguments they have, the receiver included.
	arities map[int]int
	// simple bounds the results that do not depend on the arguments, and generic are the other overloads.
	simple  typeBound
	generic []signature
}

// signature has the types of an overload, the receiver first.
type signature struct {
	args   []*types.Type
	result *types.Type
}

// candidatesOf lists the overloads of an environment.
func candidatesOf(env *cel.Env) map[callStyle]candidates {
	result := map[callStyle]candidates{}
	for name, function := range env.Functions() {
		for _, overload := range function.OverloadDecls() {
			style := callStyle{name, overload.IsMemberFunction()}
			c, ok := result[style]
			if !ok {
				c.arities = map[int]int{}
			}
			c.count++
			c.arities[len(overload.ArgTypes())]++
			c.variables += len(overload.TypeParams())
			if t := boundOf(overload.ResultType(), nil); t.open {
				c.generic = append(c.generic, signature{overload.ArgTypes(), overload.ResultType()})
			} else {
				c.simple = typeBound{parts: max(c.simple.parts, t.parts), depth: max(c.simple.depth, t.depth), isDyn: t.isDyn && c.count == 1}
			}
			result[style] = c
		}
	}
	return result
}

// result returns the bound of the type of a call. If several overloads with different results fit, the checker uses dyn.
func (c candidates) result(args []typeBound) typeBound {
	result := c.simple
	fitting := 0
	for _, s := range c.generic {
		if len(s.args) != len(args) {
			continue
		}
		fitting++
		parameters := map[string]typeBound{}
		for i, arg := range args {
			bindParameters(s.args[i], arg, parameters)
		}
		t := boundOf(s.result, parameters)
		if fitting == 1 && c.simple.parts == 0 {
			result = t
			continue
		}
		result = typeBound{parts: max(result.parts, t.parts), depth: max(result.depth, t.depth), open: result.open || t.open}
	}
	if c.isDynFor(args, fitting) {
		return dynType
	}
	return typeBound{parts: max(result.parts, 1), depth: max(result.depth, 1), isDyn: result.isDyn, open: result.open}
}

// isDynFor reports whether overloads with different results fit the arguments.
func (c candidates) isDynFor(args []typeBound, fitting int) bool {
	dyn := 0
	for _, arg := range args {
		if arg.isDyn {
			dyn++
		}
	}
	return fitting > 1 && dyn > 0 && args[0].isDyn || fitting > 0 && dyn == len(args) && c.arities[len(args)] > 1
}

// bindParameters adds to parameters the bounds of the type parameters of an overload that follow from the type of an argument.
func bindParameters(parameter *types.Type, arg typeBound, parameters map[string]typeBound) {
	if parameter.Kind() == types.TypeParamKind {
		if known, ok := parameters[parameter.TypeName()]; ok {
			arg = known.join(arg)
		}
		parameters[parameter.TypeName()] = arg
		return
	}
	if arg.isDyn {
		return // it fits, and says nothing of what is in it
	}
	for _, p := range parameter.Parameters() {
		bindParameters(p, arg.inner(len(parameter.Parameters())), parameters)
	}
}
