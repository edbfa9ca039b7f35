/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// textOf writes an expression so that it is read back as the same expression. It is our
// own: that of cel-go prints !!x, which the parser of cel-go reads as x.
func textOf(n *node) string {
	p := printer{}
	p.node(n, lowest)
	return p.String()
}

// exactTextOf also keeps how chains of && and || are nested, which does not matter to their
// value.
func exactTextOf(n *node) string {
	p := printer{exact: true}
	p.node(n, lowest)
	return p.String()
}

// Precedences, from that of the ternary, which binds least, to that of what needs no
// parentheses.
const (
	lowest = iota
	ternary
	or
	and
	relation
	addition
	multiplication
	unary
	primary
)

var binary = map[string]struct {
	symbol     string
	precedence int
}{
	operators.LogicalOr: {"||", or}, operators.LogicalAnd: {"&&", and},
	operators.Equals: {"==", relation}, operators.NotEquals: {"!=", relation}, operators.In: {"in", relation},
	operators.Less: {"<", relation}, operators.LessEquals: {"<=", relation},
	operators.Greater: {">", relation}, operators.GreaterEquals: {">=", relation},
	operators.Add: {"+", addition}, operators.Subtract: {"-", addition},
	operators.Multiply: {"*", multiplication}, operators.Divide: {"/", multiplication}, operators.Modulo: {"%", multiplication},
}

type printer struct {
	strings.Builder
	exact bool
}

// node prints an expression, in parentheses if it binds less than its surroundings ask.
func (p *printer) node(n *node, precedence int) {
	own := precedenceOf(n)
	if own < precedence {
		p.WriteByte('(')
		defer p.WriteByte(')')
	}
	switch n.kind {
	case constantNode:
		p.WriteString(constantText(n.value))
	case variableNode:
		p.WriteString(n.name)
	case selectNode:
		if n.test {
			p.WriteString("has(")
			defer p.WriteByte(')')
		}
		p.node(n.target, primary)
		p.WriteByte('.')
		p.field(n.name)
	case callNode:
		p.call(n, own)
	case listNode:
		p.WriteByte('[')
		p.elements(n)
		p.WriteByte(']')
	case mapNode:
		p.WriteByte('{')
		p.entries(n)
		p.WriteByte('}')
	case macroNode:
		p.node(n.target, primary)
		p.WriteString("." + n.name + "(" + strings.Join(n.binders, ", "))
		for _, body := range n.args {
			p.WriteString(", ")
			p.node(body, lowest)
		}
		p.WriteByte(')')
	}
}

func precedenceOf(n *node) int {
	switch n.kind {
	case constantNode:
		// A negative number is a literal, but -1.f() is read otherwise than (-1).f().
		if text := constantText(n.value); strings.HasPrefix(text, "-") {
			return unary
		}
	case callNode:
		if op, ok := binary[n.name]; ok {
			return op.precedence
		}
		switch n.name {
		case operators.Conditional:
			return ternary
		case operators.LogicalNot, operators.Negate:
			return unary
		}
	default:
	}
	return primary
}

func (p *printer) call(n *node, own int) {
	if p.exact && isLogic(n) {
		p.chain(n, own)
		return
	}
	if op, ok := binary[n.name]; ok {
		// How chains of && and || are nested does not matter; all other operators bind to
		// the left.
		left, right := own, own+1
		switch {
		case own == relation:
			left = own + 1
		case isLogic(n):
			right = own
		}
		p.node(n.args[0], left)
		p.WriteString(" " + op.symbol + " ")
		p.node(n.args[1], right)
		return
	}
	switch n.name {
	case operators.Conditional:
		p.node(n.args[0], or)
		p.WriteString(" ? ")
		p.node(n.args[1], or)
		p.WriteString(" : ")
		p.node(n.args[2], ternary)
	case operators.LogicalNot:
		p.WriteByte('!')
		p.node(n.args[0], primary) // never !!x
	case operators.Negate:
		p.WriteByte('-')
		p.operandOfMinus(n.args[0])
	case operators.Index, operators.OptIndex:
		p.node(n.args[0], primary)
		p.WriteString(map[string]string{operators.Index: "[", operators.OptIndex: "[?"}[n.name])
		p.node(n.args[1], lowest)
		p.WriteByte(']')
	case operators.OptSelect:
		p.node(n.args[0], primary)
		p.WriteString(".?")
		p.field(string(n.args[1].value.(types.String)))
	default:
		p.function(n)
	}
}

// chain prints && and || so that they are read as they are nested: the parser makes a
// balanced tree of a chain without parentheses.
func (p *printer) chain(n *node, own int) {
	operands := n.args
	if terms := termsOf(n, n.name); isBalanced(n, n.name, len(terms)) {
		operands = terms
	}
	for i, operand := range operands {
		if i > 0 {
			p.WriteString(" " + binary[n.name].symbol + " ")
		}
		p.node(operand, own+1)
	}
}

func termsOf(n *node, operator string) []*node {
	if n.kind != callNode || n.name != operator {
		return []*node{n}
	}
	return append(termsOf(n.args[0], operator), termsOf(n.args[1], operator)...)
}

// isBalanced reports whether a chain of so many terms is nested as the parser nests it.
func isBalanced(n *node, operator string, terms int) bool {
	if n.kind != callNode || n.name != operator {
		return terms == 1
	}
	left := (terms-1)/2 + 1
	return terms > 1 && isBalanced(n.args[0], operator, left) && isBalanced(n.args[1], operator, terms-left)
}

// operandOfMinus keeps a minus and a number apart, which would be read as one literal.
func (p *printer) operandOfMinus(n *node) {
	if n.kind == constantNode {
		p.WriteByte('(')
		defer p.WriteByte(')')
	}
	p.node(n, primary)
}

func (p *printer) function(n *node) {
	if n.target != nil {
		p.node(n.target, primary)
		p.WriteByte('.')
	}
	p.WriteString(n.name + "(")
	for i, arg := range n.args {
		if i > 0 {
			p.WriteString(", ")
		}
		p.node(arg, lowest)
	}
	p.WriteByte(')')
}

func (p *printer) elements(n *node) {
	for i, element := range n.args {
		if i > 0 {
			p.WriteString(", ")
		}
		if n.optional[i] {
			p.WriteByte('?')
		}
		p.node(element, lowest)
	}
}

func (p *printer) entries(n *node) {
	for i := 0; i < len(n.args); i += 2 {
		if i > 0 {
			p.WriteString(", ")
		}
		if n.optional[i/2] {
			p.WriteByte('?')
		}
		p.node(n.args[i], or)
		p.WriteString(": ")
		p.node(n.args[i+1], lowest)
	}
}

// field prints the name of a field. Names that are no identifiers can be quoted.
func (p *printer) field(name string) {
	if isIdentifier(name) {
		p.WriteString(name)
		return
	}
	p.WriteString("`" + name + "`")
}

func isIdentifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && name != "in" && name != "true" && name != "false" && name != "null"
}

func constantText(v ref.Val) string {
	switch value := v.(type) {
	case types.Bool:
		return strconv.FormatBool(bool(value))
	case types.Int:
		return strconv.FormatInt(int64(value), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(value), 10) + "u"
	case types.Double:
		text := strconv.FormatFloat(float64(value), 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	case types.String:
		return quote(string(value))
	case types.Bytes:
		return quoteBytes(value)
	case types.Null:
		return "null"
	}
	return fmt.Sprintf("<%T>", v) // does not compile, which is noticed
}

// quote writes a string so that nothing in it can end it or look like something else.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func quoteBytes(bytes []byte) string {
	var b strings.Builder
	b.WriteString(`b"`)
	for _, c := range bytes {
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
