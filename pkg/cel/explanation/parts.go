/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explanation

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/internal/syntax"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

const (
	// maxParts bounds the parts of an expression. An expression with more parts is not explained by its parts.
	maxParts = 64
	// maxPartFields bounds the fields that a part lists.
	maxPartFields = 8
	// MaxPartBytes bounds the text of a part in a message.
	MaxPartBytes = 256
)

// Part is an operand of the && operators at the top of an expression, or the whole expression if there are none. It
// is immutable.
type Part struct {
	// Text is the part as its author wrote it, without comments and line breaks. It has at most MaxPartBytes bytes, and ends
	// with an ellipsis if it was longer.
	Text string
	// Fields are the fields of the object that the part reads, each as the names on the way to it.
	Fields [][]string
	// RequestFields are the fields of the request that the part reads, such as "name" or "userInfo". An empty one stands
	// for the whole request.
	RequestFields []string

	of   *partial.Expression
	node *syntax.Node
}

// Reads reports whether the value of the part may depend on the variable.
func (p *Part) Reads(v cel.Variable) bool { return p.node.Free.Has(string(v)) }

// ReadsOnly reports whether the value of the part depends on no other variables than the given ones.
func (p *Part) ReadsOnly(variables ...cel.Variable) bool {
	return !slices.ContainsFunc(p.node.Free.UnsortedList(), func(name string) bool { return !slices.Contains(variables, cel.Variable(name)) })
}

// makesChecks reports whether an evaluation of the part may make secondary checks.
func (p *Part) makesChecks() bool { return p.Reads(cel.Authorizer) || p.Reads(cel.RequestResource) }

// Parts are the parts of an expression. They are found when they are first needed, and are safe for concurrent use.
type Parts struct {
	expression *partial.Expression
	once       sync.Once
	all        []*Part
}

// PartsOf returns the parts of an expression.
func PartsOf(e *partial.Expression) *Parts { return &Parts{expression: e} }

// All returns the parts in their order. It returns none if there are more than maxParts.
func (p *Parts) All() []*Part {
	p.once.Do(func() { p.all = partsOf(p.expression) })
	return p.all
}

func partsOf(e *partial.Expression) []*Part {
	nodes := e.Tree().Terms(operators.LogicalAnd)
	if len(nodes) > maxParts {
		return nil
	}
	text, variables := e.Written()
	texts := split(text, variables, nil)
	parts := make([]*Part, 0, len(nodes))
	for i, n := range nodes {
		p := &Part{of: e, node: n}
		if len(texts) == len(nodes) {
			p.Text = shortened(texts[i], len(texts[i]) <= MaxPartBytes)
		} else {
			p.Text = shortTextOf(n)
		}
		n.EachRead(func(variable *syntax.Node, path []string) { p.add(cel.Variable(variable.Name), path) })
		parts = append(parts, p)
	}
	return parts
}

// shortTextOf prints an expression from its tree, in at most MaxPartBytes. It is used if the text that the author wrote is not
// known or may not be shown.
func shortTextOf(n *syntax.Node) string { return shortened(n.BoundedText(MaxPartBytes)) }

// shortened returns a text, or its beginning with an ellipsis if it is not whole.
func shortened(text string, isWhole bool) string {
	if isWhole {
		return text
	}
	return strings.ToValidUTF8(text[:min(len(text), MaxPartBytes-len("…"))], "") + "…"
}

func (p *Part) add(root cel.Variable, path []string) {
	switch {
	case root == cel.Object && len(path) > 0 && len(p.Fields) < maxPartFields && !slices.ContainsFunc(p.Fields, func(f []string) bool { return slices.Equal(f, path) }):
		p.Fields = append(p.Fields, path)
	case root == cel.Request && len(p.RequestFields) < maxPartFields:
		field := strings.Join(path[:min(len(path), 1)], "")
		if !slices.Contains(p.RequestFields, field) {
			p.RequestFields = append(p.RequestFields, field)
		}
	}
}

// NotTrue returns the parts that keep the expression from being true with the given values, and the cost of finding them. If
// a part is false, it returns only the first false part, where the parts for which preferred is true come before the others.
// If none is false, it returns all parts that are not true: they fail, depend on values that are not given, or make secondary
// checks, which are not evaluated. It returns none if they cannot be found within the limit, or if there are more than
// maxParts. If the expression has one part only, it returns this part without evaluating it.
func (p *Parts) NotTrue(ctx context.Context, values cel.Values, limit uint64, preferred func(*Part) bool) (found []*Part, cost uint64) {
	defer func() {
		if recover() != nil {
			found = nil
		}
	}()
	parts := p.All()
	if len(parts) == 1 {
		return parts, 0
	}
	if preferred != nil {
		others := slices.DeleteFunc(slices.Clone(parts), preferred)
		parts = append(slices.DeleteFunc(slices.Clone(parts), func(p *Part) bool { return !preferred(p) }), others...)
	}
	nodes := make([]*syntax.Node, 0, len(parts))
	for _, p := range parts {
		nodes = append(nodes, p.node)
	}
	if _, err := p.expression.Instructions(nodes...); err != nil {
		return nil, 0
	}
	var left []*Part
	for _, part := range parts {
		if part.makesChecks() {
			left = append(left, part)
			continue
		}
		value, spent, err := p.expression.EvalPart(ctx, part.node, values, limit-min(cost, limit))
		cost += spent
		switch {
		case ctx.Err() != nil || cost > limit:
			return nil, cost
		case err == nil && value == types.False:
			return []*Part{part}, cost
		case err != nil || value != types.True:
			left = append(left, part)
		}
	}
	return left, cost
}

// TextFor returns the text of the part for a caller who may not read the expression, and the cost. If the part reads the request,
// the text is its residual, in which everything that depends on the request only is replaced by its value. The text is empty
// if there is no residual: the request alone decides the part, or the part cannot be evaluated within the limit.
func (p *Part) TextFor(ctx context.Context, values cel.Values, limit uint64) (text string, cost uint64) {
	if !p.Reads(cel.Request) {
		return p.Text, 0
	}
	plan, err := p.of.PlanPart(p.node, cel.Request)
	if err != nil {
		return "", 0
	}
	result := plan.EvalWithin(ctx, cel.Values{cel.Request: values[cel.Request]}, limit)
	if result.Residual() == nil {
		return "", result.Cost()
	}
	return shortTextOf(result.Residual().Tree()), result.Cost()
}

// split splits the text of a valid expression into the operands of the && operators at its top, and appends them to to. An operand variables.NAME
// is also split, if its named expression has && operators at its top. It stops when there are more than maxParts.
func split(text string, variables []cel.NamedExpression, to []string) []string {
	if len(to) > maxParts {
		return to
	}
	text = withoutParentheses(compact(text))
	if operands := operandsOf(text); len(operands) > 1 {
		for _, operand := range operands {
			to = split(operand, variables, to)
		}
		return to
	}
	if name, ok := strings.CutPrefix(text, string(cel.Variables)+"."); ok {
		i := slices.IndexFunc(variables, func(v cel.NamedExpression) bool { return v.Name == name })
		if i >= 0 && len(operandsOf(withoutParentheses(compact(variables[i].Expression)))) > 1 {
			return split(variables[i].Expression, variables[:i], to)
		}
	}
	return append(to, text)
}

// lexemes are the parts of an expression in which no byte is an operator or a parenthesis: white space with comments, string literals, and names
// in backticks.
var lexemes = regexp.MustCompile(`(?s)(?:[ \t\n\r\f]|//[^\n]*)+` +
	`|(?:[rR][bB]?|[bB][rR])(?:""".*?"""|'''.*?'''|"[^"]*"|'[^']*')` +
	`|"""(?:\\.|[^\\])*?"""|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^\\"])*"|'(?:\\.|[^\\'])*'` +
	"|`[^`]*`")

// compact removes comments, and writes each run of white space outside of string literals, and each line break in a string
// literal, as one blank.
func compact(text string) string {
	return strings.TrimSpace(lexemes.ReplaceAllStringFunc(text, func(found string) string {
		if strings.IndexByte(" \t\n\r\f/", found[0]) >= 0 {
			return " "
		}
		return strings.Join(strings.FieldsFunc(found, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	}))
}

// masked returns a text of the same length that has the operators and the parentheses of an expression at the same places, and no others.
func masked(text string) string {
	return lexemes.ReplaceAllStringFunc(text, func(found string) string { return strings.Repeat("_", len(found)) })
}

// operandsOf returns the operands of the && operators that are in no parentheses, or the whole text if there are none. It
// returns no operand if the text also has || or ?: in no parentheses, which bind less than &&.
func operandsOf(text string) []string {
	var operands []string
	depth, start, symbols := 0, 0, masked(text)
	for i := range len(symbols) {
		switch symbols[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case '|', '?':
			if depth == 0 && (i == 0 || symbols[i-1] != '.') {
				return nil
			}
		case '&':
			if depth == 0 && strings.HasPrefix(symbols[i:], "&&") {
				operands, start = append(operands, text[start:i]), i+2
			}
		}
	}
	return append(operands, text[start:])
}

// withoutParentheses removes the parentheses around a whole text.
func withoutParentheses(text string) string {
	for strings.HasPrefix(text, "(") && endOfParentheses(text) == len(text)-1 {
		text = strings.TrimSpace(text[1 : len(text)-1])
	}
	return text
}

// endOfParentheses returns the index of the parenthesis that closes the first one.
func endOfParentheses(text string) int {
	depth := 0
	for i, c := range []byte(masked(text)) {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
