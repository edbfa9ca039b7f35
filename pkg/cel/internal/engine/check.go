/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// maxErrorBytes bounds the text of an error that is kept and shown. The compiler quotes the source for every
// issue that it finds.
const maxErrorBytes = 1024

// CheckText refuses an expression that would take too long to compile. Errors wrap ErrCompile.
func CheckText(g *guard.Guard, expression string) error {
	if err := g.CheckText(expression); err != nil {
		return fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
	return nil
}

// Recover makes an error that wraps ErrCompile of a panic. It is to be deferred by functions that compile: the compiler of cel-go is known to
// panic on some expressions.
func Recover(err *error) {
	if recover() != nil {
		*err = fmt.Errorf("expression %w: the compiler failed", ErrCompile)
	}
}

// Check parses an expression and checks its types. Env.Compile and Issues.Err would print
// every mistake to tell whether there are any, which takes longer than to find them.
func Check(env *cel.Env, g *guard.Guard, expression string) (*cel.Ast, error) {
	parsed, _, err := Parse(env, g, expression)
	if err != nil {
		return nil, err
	}
	return CheckTypes(env, parsed)
}

// Parse parses an expression, and returns it with the work that it takes to check its types. It returns an error if the
// expression has syntax errors, or if this work exceeds the bounds.
func Parse(env *cel.Env, g *guard.Guard, expression string) (*cel.Ast, guard.TypeWork, error) {
	parsed, issues := env.Parse(expression)
	if len(issues.Errors()) > 0 {
		return nil, guard.TypeWork{}, errors.New(Describe(issues))
	}
	work, err := g.CheckTypeWork(parsed.NativeRep().Expr())
	return parsed, work, err
}

// CheckTypes checks the types of a parsed expression.
func CheckTypes(env *cel.Env, parsed *cel.Ast) (*cel.Ast, error) {
	checked, issues := env.Check(parsed)
	if len(issues.Errors()) > 0 {
		return nil, errors.New(Describe(issues))
	}
	return checked, nil
}

// Describe returns the first five issues with their places, and the number of the others. An expression of ten thousand
// bytes can have a thousand mistakes, and showing all takes time.
func Describe(issues *cel.Issues) string {
	const shown = 5
	var lines []string
	for i, e := range issues.Errors() {
		if i == shown {
			lines = append(lines, fmt.Sprintf("and %d more", len(issues.Errors())-shown))
			break
		}
		lines = append(lines, fmt.Sprintf("ERROR: <input>:%d:%d: %s", e.Location.Line(), e.Location.Column()+1, e.Message))
	}
	return Shorten(strings.Join(lines, "; "))
}

// Shorten cuts a message to about maxErrorBytes. Messages may quote an expression or the data that it reads.
func Shorten(message string) string {
	if len(message) <= maxErrorBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxErrorBytes], "") + " …"
}
