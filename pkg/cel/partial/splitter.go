/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"regexp"
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
