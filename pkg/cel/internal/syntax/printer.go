/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package syntax

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Text returns a text that is parsed as the expression. The package has a printer of its own, because the printer of
// cel-go prints !!x, which the parser of cel-go reads as x.
func (n *Node) Text() string {
	text, _ := n.BoundedText(math.MaxInt)
	return text
}

// BoundedText is Text for a text of at most limit bytes. If the text would be longer, it stops writing there, and returns
// the beginning and false.
func (n *Node) BoundedText(limit int) (string, bool) {
	p := printer{text: &strings.Builder{}, limit: limit}
	p.node(n, lowest)
	return p.text.String(), !p.isFull()
}

// Length returns the length of the text of the expression, or any number above limit if the text
// is longer than limit. It does not build the text.
func (n *Node) Length(limit int) int {
	p := printer{limit: limit}
	p.node(n, lowest)
	return p.length
}

// ExactText is Text for a text that also keeps how chains of && and || are nested, although the nesting does not change
// their value.
func (n *Node) ExactText() string {
	p := printer{text: &strings.Builder{}, limit: math.MaxInt, exact: true}
	p.node(n, lowest)
	return p.text.String()
}

// The precedences of operators, from the ternary, which binds least, to expressions that need no
// parentheses. operators.Precedence counts them from the other end.
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

// printer writes an expression, or only counts the bytes of its text.
type printer struct {
	// Text receives the text. If it is nil, the bytes are only counted.
	text *strings.Builder
	// Length is the number of bytes so far. If it is above limit, the printer stops.
	length, limit int
	exact         bool
}

// isFull reports whether the text is longer than limit, or so long that length has overflowed.
func (p *printer) isFull() bool { return p.length > p.limit || p.length < 0 }

func (p *printer) write(s string) {
	if p.isFull() {
		return
	}
	if p.length += len(s); p.text != nil && !p.isFull() {
		p.text.WriteString(s)
	}
}

// put writes a character of ASCII.
func (p *printer) put(c byte) { p.write(string(rune(c))) }

// omit makes the text too long.
func (p *printer) omit() { p.length = p.limit + 1 }

// Node prints an expression, in parentheses if its own precedence is lower than the given one.
func (p *printer) node(n *Node, precedence int) {
	if p.isFull() {
		return
	}
	own := precedenceOf(n)
	if own < precedence {
		p.put('(')
		defer p.put(')')
	}
	switch n.Kind {
	case ConstantNode:
		p.constant(n.Value)
	case OmittedNode:
		p.omit()
	case VariableNode:
		p.write(n.Name)
	case TextNode:
		if isText(n.Name) {
			p.write(n.Name)
		} else {
			p.write("(" + n.Name + ")")
		}
	case SelectNode:
		if n.IsTest {
			p.write("has(")
			defer p.put(')')
		}
		p.node(n.Target, primary)
		p.put('.')
		p.field(n.Name)
	case CallNode:
		p.call(n, own)
	case ListNode:
		p.put('[')
		p.elements(n)
		p.put(']')
	case MapNode:
		p.put('{')
		p.entries(n)
		p.put('}')
	case MacroNode:
		p.node(n.Target, primary)
		p.write("." + n.Name + "(" + strings.Join(n.Binders, ", "))
		for _, body := range n.Args {
			p.write(", ")
			p.node(body, lowest)
		}
		p.put(')')
	}
}

func precedenceOf(n *Node) int {
	switch n.Kind {
	case ConstantNode:
		// A negative number is a literal, but -1.f() is read otherwise than (-1).f().
		if isNegative(n.Value) {
			return unary
		}
	case CallNode:
		if of := operators.Precedence(n.Name); of > 0 {
			return primary + 1 - of
		}
	default:
	}
	return primary
}

func (p *printer) call(n *Node, own int) {
	if p.exact && n.IsLogic() {
		p.chain(n, own)
		return
	}
	if symbol, ok := operators.FindReverseBinaryOperator(n.Name); ok {
		// How chains of && and || are nested does not matter; all other operators bind to
		// the left.
		left, right := own, own+1
		switch {
		case own == relation:
			left = own + 1
		case n.IsLogic():
			right = own
		}
		p.node(n.Args[0], left)
		p.write(" " + symbol + " ")
		p.node(n.Args[1], right)
		return
	}
	switch n.Name {
	case operators.Conditional:
		p.node(n.Args[0], or)
		p.write(" ? ")
		p.node(n.Args[1], or)
		p.write(" : ")
		p.node(n.Args[2], ternary)
	case operators.LogicalNot:
		p.put('!')
		p.node(n.Args[0], primary) // never !!x
	case operators.Negate:
		p.put('-')
		p.operandOfMinus(n.Args[0])
	case operators.Index, operators.OptIndex:
		p.node(n.Args[0], primary)
		p.write(map[string]string{operators.Index: "[", operators.OptIndex: "[?"}[n.Name])
		p.node(n.Args[1], lowest)
		p.put(']')
	case operators.OptSelect:
		p.node(n.Args[0], primary)
		p.write(".?")
		p.field(string(n.Args[1].Value.(types.String)))
	default:
		p.function(n)
	}
}

// chain prints a chain of && or || for ExactText: if the parser reads the text, the result is nested as n is. The parser
// makes a balanced tree of a chain without parentheses. A balanced chain is therefore printed without parentheses. If a chain
// is not balanced, each of its two operands that is a chain of the same operator is printed in parentheses.
func (p *printer) chain(n *Node, own int) {
	symbol, _ := operators.FindReverseBinaryOperator(n.Name)
	operands := n.Args
	if terms := n.Terms(n.Name); isBalanced(n, n.Name, len(terms)) {
		operands = terms
	}
	for i, operand := range operands {
		if i > 0 {
			p.write(" " + symbol + " ")
		}
		p.node(operand, own+1)
	}
}

// isBalanced reports whether a chain with the given number of terms is nested as the parser nests it.
func isBalanced(n *Node, operator string, terms int) bool {
	if n.Kind != CallNode || n.Name != operator {
		return terms == 1
	}
	left := (terms-1)/2 + 1
	return terms > 1 && isBalanced(n.Args[0], operator, left) && isBalanced(n.Args[1], operator, terms-left)
}

// operandOfMinus prints the operand of a minus. It puts an operand that begins with a constant in parentheses, because the
// parser would read a minus and a number as one literal: -(1.f()) is not -1.f().
func (p *printer) operandOfMinus(n *Node) {
	if leftmost(n).Kind == ConstantNode {
		p.put('(')
		defer p.put(')')
	}
	p.node(n, primary)
}

// leftmost returns the part of an expression with which its text begins, unless that is a parenthesis or a name.
func leftmost(n *Node) *Node {
	for {
		switch {
		case n.Kind == SelectNode && !n.IsTest, n.Kind == MacroNode, n.Kind == CallNode && n.Target != nil:
			n = n.Target
		case n.Kind == CallNode && (n.Name == operators.Index || n.Name == operators.OptIndex || n.Name == operators.OptSelect):
			n = n.Args[0]
		default:
			return n
		}
	}
}

func (p *printer) function(n *Node) {
	if n.Target != nil {
		p.node(n.Target, primary)
		p.put('.')
	}
	p.write(n.Name + "(")
	p.elements(n)
	p.put(')')
}

// elements prints the arguments of a function, or the elements of a list.
func (p *printer) elements(n *Node) {
	for i, element := range n.Args {
		if i > 0 {
			p.write(", ")
		}
		if n.Optional[i] {
			p.put('?')
		}
		p.node(element, lowest)
	}
}

func (p *printer) entries(n *Node) {
	for i := 0; i < len(n.Args); i += 2 {
		if i > 0 {
			p.write(", ")
		}
		if n.Optional[i/2] {
			p.put('?')
		}
		p.node(n.Args[i], or)
		p.write(": ")
		p.node(n.Args[i+1], lowest)
	}
}

// field prints the name of a field, in backticks if it is no identifier.
func (p *printer) field(name string) {
	if IsIdentifier(name) {
		p.write(name)
		return
	}
	p.write("`" + name + "`")
}

// IsIdentifier reports whether a name can be selected as a field without quotes.
func IsIdentifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && name != "in" && name != "true" && name != "false" && name != "null"
}

// isNegative reports whether the literal of a value begins with a minus.
func isNegative(v ref.Val) bool {
	switch value := v.(type) {
	case types.Int:
		return value < 0
	case types.Double:
		return math.Signbit(float64(value)) && !math.IsNaN(float64(value))
	}
	return false
}

func (p *printer) constant(v ref.Val) {
	switch value := v.(type) {
	case types.Bool:
		p.write(strconv.FormatBool(bool(value)))
	case types.Int:
		p.write(strconv.FormatInt(int64(value), 10))
	case types.Uint:
		p.write(strconv.FormatUint(uint64(value), 10) + "u")
	case types.Double:
		//guard:literal-zero-below-zero
		text := strconv.FormatFloat(float64(value), 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		p.write(text)
	case types.String:
		p.quote(string(value))
	case types.Bytes:
		p.quoteBytes(value)
	case types.Null:
		p.write("null")
	default:
		p.write(fmt.Sprintf("<%T>", v)) // does not compile, which is noticed
	}
}

// quote writes a string literal. It escapes quotes, backslashes and all characters that are not printable, so that no
// character can end the literal.
func (p *printer) quote(s string) {
	p.put('"')
	for i, r := range s {
		if p.isFull() {
			return
		}
		switch {
		case r == '"' || r == '\\':
			p.put('\\')
			p.put(byte(r))
		case r == '\n':
			p.write(`\n`)
		case r == '\r':
			p.write(`\r`)
		case r == '\t':
			p.write(`\t`)
		case r > 0xffff && !unicode.IsPrint(r):
			p.write(fmt.Sprintf(`\U%08x`, r))
		case !unicode.IsPrint(r):
			p.write(fmt.Sprintf(`\u%04x`, r))
		default:
			p.write(s[i : i+utf8.RuneLen(r)])
		}
	}
	p.put('"')
}

func (p *printer) quoteBytes(bytes []byte) {
	p.write(`b"`)
	for _, c := range bytes {
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			p.put(c)
		} else {
			p.write(fmt.Sprintf(`\x%02x`, c))
		}
	}
	p.put('"')
}

// isText reports whether a text is one identifier or a chain of selections, which need no parentheses.
//
//guard:rewritten-parentheses
func isText(text string) bool {
	return !slices.ContainsFunc([]byte(text), func(c byte) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.'
	})
}
