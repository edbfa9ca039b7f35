/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package syntax

import (
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// Kind is the kind of a node.
type Kind uint8

// The kinds of nodes.
const (
	ConstantNode Kind = iota
	VariableNode
	SelectNode
	CallNode
	ListNode
	MapNode
	MacroNode
	// OmittedNode stands for a part of a residual whose text would be longer than the bound of a condition.
	// A residual with such a node has no text.
	OmittedNode
	// TextNode stands for an expression of another environment, whose text is its name.
	TextNode
)

// Node is a part of an expression as it was written: macros are not expanded. Residuals also consist of nodes;
// the new nodes in them have no checked expression (Source.ExprOf).
type Node struct {
	Kind Kind
	// IsTest makes a selection a test: has(target.name).
	IsTest bool
	// Signature describes the function of a call.
	Signature
	// IsChanged says that the type of a residual may differ from Type, because a part of it has
	// become dyn.
	IsChanged bool
	// id is the index of the checked expression in Source.exprs.
	id int32
	// Type is the type of the node that the checker found.
	Type *types.Type
	// Name is the name of a variable, field, function or macro.
	Name string
	// Value is the value of a constant.
	Value ref.Val
	// Target is the operand of a selection, the receiver of a call, the range of a macro.
	// It is nil for functions without receiver.
	Target *Node
	// Args are the arguments of a call, the elements of a list, the keys and values of a
	// map in turn, or the bodies of a macro.
	Args []*Node
	// Optional marks the elements of a list, or the entries of a map, with a question mark.
	Optional map[int]bool
	// Binders are the variables that a macro binds in its bodies.
	Binders []string
	// Free are the variables that the value depends on. Nodes share them: it must not be
	// changed.
	Free sets.Set[string]
}

// Parts yields the target, if there is one, and the arguments.
func (n *Node) Parts(yield func(*Node) bool) {
	//guard:parts-targets
	if n.Target != nil && !yield(n.Target) {
		return
	}
	//guard:parts-arguments
	for _, arg := range n.Args {
		if !yield(arg) {
			return
		}
	}
}

// All yields the node and everything in it, each node before its parts.
func (n *Node) All(yield func(*Node) bool) { n.walk(yield) }

// walk is All. It returns false if yield has.
func (n *Node) walk(yield func(*Node) bool) bool {
	if !yield(n) {
		return false
	}
	for part := range n.Parts {
		if !part.walk(yield) {
			return false
		}
	}
	return true
}

// DependsOn reports whether the value depends on one of the variables.
func (n *Node) DependsOn(variables sets.Set[string]) bool {
	return variables.HasAny(n.Free.UnsortedList()...)
}

// IsBool reports whether the value is known to be a bool or an error. It does not use the type that the checker found, which may be
// inferred from the surroundings of the node.
func (n *Node) IsBool() bool {
	switch n.Kind {
	case ConstantNode:
		return n.Value.Type() == types.BoolType
	case SelectNode:
		return n.IsTest
	case CallNode:
		//guard:bool-both-branches
		return n.Name == operators.LogicalAnd || n.Name == operators.LogicalOr || (n.Result != nil && n.Result.Kind() == types.BoolKind) ||
			(n.Name == operators.Conditional && n.Args[1].IsBool() && n.Args[2].IsBool())
	case MacroNode:
		return n.Name == operators.All || n.Name == operators.Exists || n.Name == operators.ExistsOne || n.Name == "existsOne"
	default:
		return false
	}
}

// IsLogic reports whether the node is && or ||.
func (n *Node) IsLogic() bool {
	return n.Kind == CallNode && (n.Name == operators.LogicalAnd || n.Name == operators.LogicalOr)
}

// EachRead calls visit for each place where the node reads a variable, with the names of the fields that are selected from it there. A path can
// begin with a conditional, as in (operation == "DELETE" ? oldObject : object).spec.
func (n *Node) EachRead(visit func(variable *Node, path []string)) { n.eachReadOf(nil, visit) }

// eachReadOf is EachRead for a node from which the fields in path are selected.
func (n *Node) eachReadOf(path []string, visit func(variable *Node, path []string)) {
	n, path = n.origin(path)
	switch {
	case n.Kind == VariableNode:
		visit(n, path)
	case n.Kind == CallNode && n.Name == operators.Conditional:
		n.Args[0].EachRead(visit)
		n.Args[1].eachReadOf(path, visit)
		n.Args[2].eachReadOf(path, visit)
	default:
		for part := range n.Parts {
			part.EachRead(visit)
		}
	}
}

// Selects reports whether the node selects the fields in path from a variable, one after the other, or is the variable if path is empty.
func (n *Node) Selects(variable cel.Variable, path ...string) bool {
	from, selected := n.origin(nil)
	return from.Kind == VariableNode && from.Name == string(variable) && slices.Equal(selected, path)
}

// origin returns the node from which a node selects fields with constant names, and the names, with path behind them.
func (n *Node) origin(path []string) (*Node, []string) {
	for {
		switch {
		case n.Kind == SelectNode:
			n, path = n.Target, slices.Concat([]string{n.Name}, path)
			continue
		case n.Kind != CallNode:
		case n.Name == "dyn":
			n = n.Args[0]
			continue
		case n.Name == operators.OptSelect, n.Name == operators.Index, n.Name == operators.OptIndex:
			if name, ok := n.Args[1].Value.(types.String); ok && n.Args[1].Kind == ConstantNode {
				n, path = n.Args[0], slices.Concat([]string{string(name)}, path)
				continue
			}
		}
		return n, path
	}
}

// ConstantTexts returns the texts in a list of constants, or none if some of them are no texts. It returns false for anything else.
func (n *Node) ConstantTexts() (texts []string, ok bool) {
	if n.Kind != ListNode || len(n.Optional) > 0 || slices.ContainsFunc(n.Args, func(arg *Node) bool { return arg.Kind != ConstantNode }) {
		return nil, false
	}
	for _, arg := range n.Args {
		text, isText := arg.Value.(types.String)
		if !isText {
			return nil, true
		}
		texts = append(texts, string(text))
	}
	return texts, true
}

func (n *Node) mark(i int) {
	if n.Optional == nil {
		n.Optional = map[int]bool{}
	}
	n.Optional[i] = true
}

// Terms returns the operands of a chain of an operator, && or ||, or the node itself if it is no such chain.
func (n *Node) Terms(operator string) []*Node {
	if n.Kind != CallNode || n.Name != operator {
		return []*Node{n}
	}
	return append(n.Args[0].Terms(operator), n.Args[1].Terms(operator)...)
}

// Fold joins operands by a binary operator that returns a bool.
func Fold(operator string, operands []*Node) *Node {
	result := operands[0]
	for _, operand := range operands[1:] {
		result = Function(operator, types.BoolType, result, operand)
	}
	return result
}

// IsEmptyAggregate reports whether the node is a literal that has no element that would determine its type.
func (n *Node) IsEmptyAggregate() bool {
	//guard:literal-optional-none
	return (n.Kind == ListNode || n.Kind == MapNode || (n.Kind == CallNode && n.Name == "optional.none")) && len(n.Args) == 0
}

// IsErrorTerm reports whether the node has the form of the expression that ErrorTerm returns.
func (n *Node) IsErrorTerm() bool {
	if n.Kind != CallNode || n.Name != "dyn" || len(n.Args) != 1 {
		return false
	}
	missing := n.Args[0]
	return missing.Kind == CallNode && missing.Name == operators.Index && missing.Args[0].Kind == MapNode && len(missing.Args[0].Args) == 0
}

// Literal returns a constant.
func Literal(v ref.Val, t *types.Type) *Node {
	return &Node{Kind: ConstantNode, Value: v, Type: t}
}

// Omitted returns a node of type t that stands for a value whose text is too long for a residual.
func Omitted(t *types.Type) *Node {
	return &Node{Kind: OmittedNode, Type: t}
}

// Function returns a call of a function without receiver, or of an operator.
func Function(name string, t *types.Type, args ...*Node) *Node {
	return &Node{Kind: CallNode, Name: name, Type: t, Args: args}
}
