/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
)

// NewAdmissionCompiler makes a compiler for expressions of ValidatingAdmissionPolicies.
func NewAdmissionCompiler() (*Compiler, error) {
	residuals, err := cel.NewAdmissionEnvironment()
	if err != nil {
		return nil, err
	}
	return newCompiler(cel.NewAdmissionEnvironment, cel.NewCompilerFor(residuals))
}

// Reading is a place where an expression reads a variable, or fields of it: variable.field.field.
type Reading struct {
	// Variable is the variable.
	Variable cel.Variable
	// Fields are the names of the fields that are selected one after the other, as many as there are.
	Fields []string
	// IsTest says that the place tests whether the last field exists: has(variable.field).
	IsTest bool
	// IsOptional says that the last field is selected as an optional value: variable.?field.
	IsOptional bool
}

// Rewritten returns the text of the expression for another environment. At each place where the expression reads a variable,
// rewrite returns the text that takes its place, and how many of the fields it stands for. The other fields are selected from
// it. With an empty text, the place stays as it is. rewrite must return constant texts only: they become part of the
// expression. A test is replaced as a whole if the text stands for all fields; if it stands for the variable and none of its fields, the
// fields must be selected from it in the same way.
func (e *Expression) Rewritten(rewrite func(Reading) (text string, fields int)) string {
	return e.rewritten(e.tree, rewrite).ExactText()
}

func (e *Expression) rewritten(n *syntax.Node, rewrite func(Reading) (string, int)) *syntax.Node {
	if reading, ok := e.readingOf(n); ok {
		text, fields := rewrite(reading)
		if text == "" {
			return n
		}
		replaced := &syntax.Node{Kind: syntax.TextNode, Name: text}
		if reading.IsOptional {
			if fields == len(reading.Fields) {
				return &syntax.Node{Kind: syntax.TextNode, Name: "optional.of(" + text + ")"}
			}
			last := *n
			last.Args = []*syntax.Node{selected(replaced, reading.Fields[fields:len(reading.Fields)-1]), n.Args[1]}
			return &last
		}
		replaced = selected(replaced, reading.Fields[fields:])
		replaced.IsTest = reading.IsTest && fields < len(reading.Fields)
		return replaced
	}
	duplicate := *n
	if n.Target != nil {
		duplicate.Target = e.rewritten(n.Target, rewrite)
	}
	duplicate.Args = make([]*syntax.Node, 0, len(n.Args))
	for _, arg := range n.Args {
		duplicate.Args = append(duplicate.Args, e.rewritten(arg, rewrite))
	}
	return &duplicate
}

func selected(n *syntax.Node, fields []string) *syntax.Node {
	for _, field := range fields {
		n = &syntax.Node{Kind: syntax.SelectNode, Name: field, Target: n}
	}
	return n
}

// readingOf returns what a node reads if it is a variable of the environment or a selection from one. Macros bind no variable with
// the name of one of the environment.
func (e *Expression) readingOf(n *syntax.Node) (Reading, bool) {
	switch {
	case n.Kind == syntax.VariableNode && e.compiler.environment.Declares(n.Name):
		return Reading{Variable: cel.Variable(n.Name)}, true
	case n.Kind == syntax.CallNode && n.Name == operators.OptSelect:
		reading, ok := e.readingOf(n.Args[0])
		reading.Fields = append(reading.Fields, string(n.Args[1].Value.(types.String)))
		reading.IsOptional = true
		return reading, ok && n.Args[0].Kind != syntax.CallNode
	case n.Kind != syntax.SelectNode || n.Target.Kind == syntax.CallNode:
		return Reading{}, false
	}
	reading, ok := e.readingOf(n.Target)
	reading.Fields = append(reading.Fields, n.Name)
	reading.IsTest = n.IsTest
	return reading, ok
}

// quiet are the operators and functions whose errors quote no operand, if the index of an index operator is a constant.
var quiet = comparing.Union(sets.New(
	operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate, operators.OptIndex,
	"optional.ofNonZeroValue", "type", "isSorted", "sum", "min", "max", "isIP", "isCIDR", "isURL", "isQuantity",
	"group", "resource", "subresource", "namespace", "name", "path", "check", "allowed", "serviceAccount",
))

// MayQuote returns the name of an operator or a function in the expression whose error may quote a value that depends on one of the
// variables, or an empty string if there is none.
func (e *Expression) MayQuote(variables ...cel.Variable) string {
	return mayQuote(e.tree, namesOf(variables))
}

func mayQuote(n *syntax.Node, secret sets.Set[string]) string {
	switch {
	case !n.DependsOn(secret):
		return ""
	case n.Kind == syntax.CallNode && n.Name == operators.Index:
		//guard:rewritten-index-error
		if n.Args[1].DependsOn(secret) {
			return "[]"
		}
	case n.Kind == syntax.CallNode && n.Name == "matches":
		//guard:rewritten-patterns
		if pattern := n.Args[len(n.Args)-1]; pattern.DependsOn(secret) {
			return n.Name
		}
	//guard:rewritten-functions
	case n.Kind == syntax.CallNode && !quiet.Has(n.Name):
		return n.Name
	//guard:rewritten-keys-maps
	case n.Kind == syntax.MapNode:
		return "{}" // an error quotes a key that is there twice
	case n.Kind == syntax.MacroNode && n.Name == "transformMapEntry":
		return n.Name
	}
	if n.Target != nil {
		if name := mayQuote(n.Target, secret); name != "" {
			return name
		}
	}
	inner := within(n, secret)
	for _, arg := range n.Args {
		if name := mayQuote(arg, inner); name != "" {
			return name
		}
	}
	return ""
}

// maxElements is the number of elements over which one macro of a barrier iterates at most. The time of a macro in kube-apiserver grows
// with the square of its steps, and 1000 take a few milliseconds. 20,000 take half a second. Lists of Kubernetes have fewer elements:
// an EndpointSlice has at most 1000 endpoints.
const maxElements = 1000

// AdmissionText returns a text of an expression of a ValidatingAdmissionPolicy that costs kube-apiserver less, and false if it would be longer than limit, in
// bytes: what is limited is in the text twice or three times, also within itself. A macro over more than 1000
// elements is an error, and so are the operator in within a macro, and a quantity that would take long to parse. Those operands of && and || come last that
// read one of the variables and have a macro. Otherwise the text has the same value.
func (e *Expression) AdmissionText(limit int, variables ...cel.Variable) (text string, ok bool) {
	//guard:limited-text
	return e.limited(iteratingLast(e.tree, namesOf(variables)), false).BoundedText(limit)
}

// CheckText returns an error that wraps cel.ErrCompile if a text of any length would take too long to compile: AdmissionText copies parts of an expression
// into each other.
func (c *Compiler) CheckText(text string) error { return engine.CheckText(c.engine.Guard, text) }

// limited returns a copy of an expression in which a macro over more than maxElements elements is an error, and within a macro also to look for a value in
// more: such a range x is size(x) <= maxElements ? x : dyn(message), and it is an error to look into the message.
func (e *Expression) limited(n *syntax.Node, isRepeated bool) *syntax.Node {
	duplicate := *n
	isLoop := n.Kind == syntax.MacroNode && n.Name != "optMap" && n.Name != "optFlatMap"
	if n.Target != nil {
		duplicate.Target = e.limited(n.Target, isRepeated)
	}
	duplicate.Args = make([]*syntax.Node, 0, len(n.Args))
	for _, arg := range n.Args {
		duplicate.Args = append(duplicate.Args, e.limited(arg, isRepeated || isLoop))
	}
	switch {
	//guard:limited-macros
	case isLoop && !e.isShort(n.Target):
		duplicate.Target = few(duplicate.Target)
	//guard:limited-in
	case isRepeated && n.Kind == syntax.CallNode && n.Name == operators.In && !e.isShort(n.Args[1]):
		duplicate.Args[1] = few(duplicate.Args[1])
	//guard:limited-quantities
	case n.Kind == syntax.CallNode && (n.Name == "quantity" || n.Name == "isQuantity") && n.Args[0].Value == nil:
		duplicate.Args[0] = plain(duplicate.Args[0])
	}
	return &duplicate
}

func call(name string, args ...*syntax.Node) *syntax.Node {
	return &syntax.Node{Kind: syntax.CallNode, Name: name, Args: args}
}

// hasAtMost returns whether a value has at most a number of elements or letters.
func hasAtMost(n int, of *syntax.Node) *syntax.Node {
	return call(operators.LessEquals, call("size", of), &syntax.Node{Value: types.Int(n)})
}

// few returns a value if it has at most maxElements elements, and otherwise a message.
func few(of *syntax.Node) *syntax.Node {
	message := types.String(fmt.Sprintf("more than %d elements", maxElements))
	return call(operators.Conditional, hasAtMost(maxElements, of), of, call("dyn", &syntax.Node{Value: message}))
}

// plain returns a text if it is parsed as a quantity quickly, and otherwise a number, which is an error: 1e-9999999 takes seconds.
func plain(of *syntax.Node) *syntax.Node {
	hasExponent := &syntax.Node{Kind: syntax.CallNode, Name: "matches", Target: of, Args: []*syntax.Node{{Value: types.String(guard.LargeExponent)}}}
	isPlain := call(operators.LogicalAnd, hasAtMost(guard.MaxQuantityBytes, of), call(operators.LogicalNot, hasExponent))
	return call(operators.Conditional, isPlain, of, call("dyn", &syntax.Node{Value: types.Int(0)})) // isQuantity of a text that is none would be false
}

// isShort reports whether a list or a map is known to have few elements: a literal, the groups or the extra of the user, or the value of a macro, whose range
// is limited. The optional value of optMap is no range.
func (e *Expression) isShort(n *syntax.Node) bool {
	switch n.Kind {
	case syntax.ListNode, syntax.MapNode:
		return true
	case syntax.MacroNode:
		//guard:limited-merged-maps
		return n.Name != "transformMapEntry" // it merges maps of any length
	case syntax.CallNode:
		//guard:limited-choices
		return n.Name == operators.Conditional && e.isShort(n.Args[1]) && e.isShort(n.Args[2])
	default:
		reading, ok := e.readingOf(n)
		return ok && reading.Variable == cel.Request && (slices.Equal(reading.Fields, []string{"userInfo", "groups"}) || slices.Equal(reading.Fields, []string{"userInfo", "extra"}))
	}
}

// iteratingLast returns a copy of an expression in which those operands of && and || come last that depend on one of the variables and have a macro,
// as their cost can grow faster than the values. The copy has the same value, because the order of operands has no meaning. An evaluation does
// not come to them if another operand decides.
func iteratingLast(n *syntax.Node, late sets.Set[string]) *syntax.Node {
	duplicate, inner := *n, within(n, late)
	if n.Target != nil {
		duplicate.Target = iteratingLast(n.Target, late)
	}
	duplicate.Args = make([]*syntax.Node, 0, len(n.Args))
	for _, arg := range n.Args {
		duplicate.Args = append(duplicate.Args, iteratingLast(arg, inner))
	}
	if !n.IsLogic() {
		return &duplicate
	}
	//guard:ordered-cheap-first
	isLate := func(operand *syntax.Node) bool { return operand.DependsOn(late) && iterates(operand) != "" }
	operands := duplicate.Terms(n.Name)
	first := slices.DeleteFunc(slices.Clone(operands), isLate)
	last := slices.DeleteFunc(operands, func(operand *syntax.Node) bool { return !isLate(operand) })
	if len(first) == 0 || len(last) == 0 {
		return &duplicate
	}
	result := syntax.Fold(n.Name, append(first, last...))
	//guard:ordered-values-another-operator
	result.Free = n.Free
	return result
}

// within returns the variables, and the variables that a macro binds in its bodies if its range depends on one of them.
func within(n *syntax.Node, variables sets.Set[string]) sets.Set[string] {
	//guard:rewritten-variables-macros
	if n.Kind != syntax.MacroNode || !n.Target.DependsOn(variables) {
		return variables
	}
	return variables.Union(sets.New(n.Binders...))
}

func namesOf(variables []cel.Variable) sets.Set[string] {
	names := sets.New[string]()
	for _, v := range variables {
		names.Insert(string(v))
	}
	return names
}
