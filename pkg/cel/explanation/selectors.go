/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explanation

import (
	"context"
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

const (
	// maxSelectorMacros bounds the macros over the selectors of the request that are looked at.
	maxSelectorMacros = 4
	// maxWanted bounds the requirements that one macro is found to look for.
	maxWanted = 4
	// maxWantedValues bounds the values of one requirement.
	maxWantedValues = 8
	// maxOperands bounds the operands of each role that are looked at in one macro, because planning them is not in the cost.
	maxOperands = 8
)

// Wanted is a requirement of a selector of the request for which an expression may look. Nothing says that the expression is
// true for a request that has it.
type Wanted struct {
	// InFields says that it is a requirement of the field selector, and not of the label selector.
	InFields bool
	// Key, Operator and Values are as in the variable request.
	Key, Operator string
	Values        []string
}

// WantedSelectors returns, for each macro of an expression over the requirements of a selector of the request, requirements for which it may look,
// and the cost of finding them. They are what the macro compares with the key, the operator and the values of a requirement: constants,
// and what depends on nothing but the request. The result is bounded, and empty if the limit is exceeded.
func WantedSelectors(ctx context.Context, e *partial.Expression, values cel.Values, limit uint64) (wanted [][]Wanted, cost uint64) {
	defer func() {
		if recover() != nil {
			wanted = nil
		}
	}()
	texts := &operandReader{expression: e, ctx: ctx, values: values, limit: limit}
	for _, m := range selectorMacros(e.Tree()) {
		if of := m.wanted(texts); len(of) > 0 {
			wanted = append(wanted, of)
		}
	}
	if texts.cost > limit || ctx.Err() != nil {
		return nil, texts.cost
	}
	return wanted, texts.cost
}

// role is what an expression in the body of a macro over requirements is.
type role uint8

const (
	noRole role = iota
	theKey
	theOperator
	theValues // all values of a requirement
	oneValue  // one of its values
)

// selectorMacro has what a macro over the requirements of a selector compares with the parts of a requirement.
type selectorMacro struct {
	inFields bool
	// roles has the roles of the variables that nested macros bind, and binder is the variable of the requirement.
	roles  map[string]role
	binder string

	operands map[role][]*syntax.Node
}

// selectorMacros returns the macros over request.labelSelector.requirements and request.fieldSelector.requirements in a tree, at most
// maxSelectorMacros.
func selectorMacros(tree *syntax.Node) (found []*selectorMacro) {
	for n := range tree.All {
		if n.Kind != syntax.MacroNode || len(found) == maxSelectorMacros {
			continue
		}
		inFields := n.Target.Selects(cel.Request, "fieldSelector", "requirements")
		if inFields || n.Target.Selects(cel.Request, "labelSelector", "requirements") {
			m := &selectorMacro{inFields: inFields, roles: map[string]role{}, binder: n.Binders[len(n.Binders)-1], operands: map[role][]*syntax.Node{}}
			for _, body := range n.Args {
				for part := range body.All {
					m.collect(part)
				}
			}
			found = append(found, m)
		}
	}
	return found
}

// collect adds the operands that a node compares with parts of the requirement.
func (m *selectorMacro) collect(n *syntax.Node) {
	if operands := slices.Collect(n.Parts); n.Kind == syntax.CallNode && len(operands) == 2 && n.Name != operators.NotEquals {
		for i, operand := range operands {
			//guard:partial-many-operands-selector
			if r, other := m.roleOf(operand), operands[1-i]; r != noRole && len(m.operands[r]) < maxOperands && m.roleOf(other) == noRole {
				m.operands[r] = append(m.operands[r], other)
			}
		}
	}
	if n.Kind == syntax.MacroNode && m.roleOf(n.Target) == theValues {
		m.roles[n.Binders[len(n.Binders)-1]] = oneValue
	}
}

func (m *selectorMacro) roleOf(n *syntax.Node) role {
	switch {
	case n.Kind == syntax.VariableNode:
		return m.roles[n.Name]
	case n.Kind == syntax.SelectNode && !n.IsTest && n.Target.Kind == syntax.VariableNode && n.Target.Name == m.binder:
		return map[string]role{"key": theKey, "operator": theOperator, "values": theValues}[n.Name]
	case n.Kind == syntax.CallNode && n.Name == operators.Index && len(n.Args) == 2 && m.roleOf(n.Args[0]) == theValues:
		return oneValue
	}
	return noRole
}

// wanted returns the requirements that the operands make together, at most maxWanted.
func (m *selectorMacro) wanted(texts *operandReader) []Wanted {
	keys, verbs := texts.singles(m.operands[theKey]), texts.singles(m.operands[theOperator])
	if len(verbs) == 0 {
		verbs = []string{"In"}
	}
	var values [][]string
	for _, value := range texts.singles(slices.Concat(m.operands[theValues], m.operands[oneValue])) {
		values = append(values, []string{value})
	}
	for _, operand := range m.operands[theValues] {
		if list := texts.of(operand); len(list) > 1 {
			values = append(values, list)
		}
	}
	var wanted []Wanted
	for _, key := range keys {
		for _, operator := range verbs {
			choices := values
			if operator == "Exists" || operator == "DoesNotExist" {
				choices = [][]string{nil}
			}
			for _, choice := range choices {
				wanted = append(wanted, Wanted{InFields: m.inFields, Key: key, Operator: operator, Values: choice})
				if len(wanted) == maxWanted {
					return wanted
				}
			}
		}
	}
	return wanted
}

// operandReader evaluates operands to texts.
type operandReader struct {
	expression *partial.Expression
	//nolint:containedctx // lives for one call
	ctx    context.Context
	values cel.Values
	limit  uint64
	cost   uint64
}

// singles returns the texts of operands, each once.
func (t *operandReader) singles(operands []*syntax.Node) []string {
	var texts []string
	for _, operand := range operands {
		for _, text := range t.of(operand) {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// of returns the text of an operand, or the texts in a list, at most maxWantedValues. It returns none if the operand depends on more than
// the request, makes checks, or is something else.
func (t *operandReader) of(n *syntax.Node) []string {
	if n.Kind == syntax.ConstantNode {
		return textsOf(n.Value)
	}
	if texts, ok := n.ConstantTexts(); ok {
		return texts[:min(len(texts), maxWantedValues)]
	}
	if !sets.New(string(cel.Request)).IsSuperset(n.Free) || t.cost >= t.limit {
		return nil
	}
	value, cost, err := t.expression.EvalPart(t.ctx, n, t.values, t.limit-t.cost)
	t.cost += cost
	if err != nil {
		return nil
	}
	return textsOf(value)
}

func textsOf(value ref.Val) []string {
	switch value := value.(type) {
	case types.String:
		return []string{string(value)}
	case traits.Lister:
		var texts []string
		for it := value.Iterator(); it.HasNext() == types.True && len(texts) < maxWantedValues; {
			text, ok := it.Next().(types.String)
			if !ok {
				return nil
			}
			texts = append(texts, string(text))
		}
		return texts
	}
	return nil
}
