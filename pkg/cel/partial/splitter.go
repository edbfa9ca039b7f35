/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"slices"
	"strings"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// splitter splits the text of a valid expression into the operands of the && operators at its top. An operand variables.NAME
// is also split, if its named expression has && operators at its top.
type splitter struct {
	variables []cel.NamedExpression
}

// split appends the operands of a text to to. It stops when there are more than maxParts.
func (s splitter) split(text string, to []string) []string {
	if len(to) > maxParts {
		return to
	}
	text = withoutParentheses(compact(text))
	if operands := operandsOf(text); len(operands) > 1 {
		for _, operand := range operands {
			to = s.split(operand, to)
		}
		return to
	}
	if name, ok := strings.CutPrefix(text, string(cel.Variables)+"."); ok {
		i := slices.IndexFunc(s.variables, func(v cel.NamedExpression) bool { return v.Name == name })
		if i >= 0 && len(operandsOf(withoutParentheses(compact(s.variables[i].Expression)))) > 1 {
			return splitter{variables: s.variables[:i]}.split(s.variables[i].Expression, to)
		}
	}
	return append(to, text)
}

// tokens splits a text of CEL. It calls visit with the index of each byte that is in no string literal, in no name in backticks and
// in no comment. It calls literal with the bounds of each string literal, without its prefix, and of each name in backticks. It
// calls neither of them for a comment. The calls are in the order of the text.
func tokens(text string, visit func(i int), literal func(from, to int)) {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"' || text[i] == '\'':
			end := endOfLiteral(text, i)
			literal(i, end)
			i = end - 1
		case text[i] == '`':
			end := i + 1 + strings.IndexByte(text[i+1:], '`') + 1
			literal(i, end)
			i = end - 1
		case strings.HasPrefix(text[i:], "//"):
			if end := strings.IndexByte(text[i:], '\n'); end >= 0 {
				i += end - 1
			} else {
				return
			}
		default:
			visit(i)
		}
	}
}

// endOfLiteral returns the index after the string literal whose opening quote is at start.
func endOfLiteral(text string, start int) int {
	quote := text[start : start+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[start:], triple) {
		quote = triple
	}
	prefix := strings.ToLower(text[max(0, start-2):start])
	raw := strings.HasSuffix(prefix, "r") || prefix == "rb"
	for i := start + len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		}
	}
	return len(text)
}

// compact removes comments, and writes each run of white space outside of string literals, and each line break in a string
// literal, as one blank.
func compact(text string) string {
	var b strings.Builder
	last := -1
	space := func(at int) { // what was left out between the last byte and this one was white space
		if last >= 0 && at > last+1 {
			b.WriteByte(' ')
		}
	}
	tokens(text, func(i int) {
		if strings.IndexByte(" \t\n\r\f", text[i]) >= 0 {
			return
		}
		space(i)
		b.WriteByte(text[i])
		last = i
	}, func(from, to int) {
		space(from)
		b.WriteString(strings.Join(strings.FieldsFunc(text[from:to], func(r rune) bool { return r == '\n' || r == '\r' }), " "))
		last = to - 1
	})
	return b.String()
}

// operandsOf returns the operands of the && operators that are in no parentheses, or the whole text if there are none. It
// returns no operand if the text also has || or ?: in no parentheses, which bind less than &&.
func operandsOf(text string) []string {
	var operands []string
	depth, start, other := 0, 0, false
	tokens(text, func(i int) {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case '|':
			other = other || depth == 0
		case '?':
			other = other || depth == 0 && (i == 0 || text[i-1] != '.')
		case '&':
			if depth == 0 && strings.HasPrefix(text[i:], "&&") {
				operands, start = append(operands, text[start:i]), i+2
			}
		}
	}, func(int, int) {})
	if other {
		return nil
	}
	return append(operands, text[start:])
}

// withoutParentheses removes the parentheses around a whole text.
func withoutParentheses(text string) string {
	for len(text) > 2 && text[0] == '(' {
		depth, closed := 0, -1
		tokens(text, func(i int) {
			switch text[i] {
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 && closed < 0 {
					closed = i
				}
			}
		}, func(int, int) {})
		if closed != len(text)-1 {
			break
		}
		text = strings.TrimSpace(text[1:closed])
	}
	return text
}
