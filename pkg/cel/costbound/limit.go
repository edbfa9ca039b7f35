/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"fmt"
	"math"
	"sync"

	gocel "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// MaxElements is the number of elements over which one macro of a barrier iterates at most. The time of a macro in kube-apiserver grows
// with the square of its steps, and 1000 take a few milliseconds. 20,000 take half a second. Lists of Kubernetes have fewer elements:
// an EndpointSlice has at most 1000 endpoints.
const MaxElements = 1000

// tracking parses expressions of ValidatingAdmissionPolicies, and keeps the text of their macros.
var tracking = sync.OnceValues(func() (*gocel.Env, error) {
	e, err := cel.NewAdmissionEnvironment(gocel.EnableMacroCallTracking())
	if err != nil {
		return nil, err
	}
	return e.Engine().Env, nil
})

// LimitElements returns an expression that is like the given one, except that a macro over more than MaxElements elements is an error. An
// expression without macros over lists and maps of any length is returned as it is. Errors wrap cel.ErrCompile.
func LimitElements(expression string) (string, error) {
	env, err := tracking()
	if err != nil {
		return "", err
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return "", fmt.Errorf("expression %w: %w", cel.ErrCompile, issues.Err())
	}
	native := parsed.NativeRep()
	l := limiter{info: native.SourceInfo(), factory: ast.NewExprFactory(), id: ast.MaxID(native)}
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(l.visit))
	if !l.changed {
		return expression, nil
	}
	text, err := parser.Unparse(native.Expr(), native.SourceInfo(), parser.WrapOnColumn(math.MaxInt32))
	if err != nil {
		return "", fmt.Errorf("expression %w: %w", cel.ErrCompile, err)
	}
	return text, nil
}

// limiter limits the ranges of macros.
type limiter struct {
	info    *ast.SourceInfo
	factory ast.ExprFactory
	id      int64
	changed bool
}

func (l *limiter) next() int64 {
	l.id++
	return l.id
}

// visit limits the range of a macro in the call that stands for it in the text.
func (l *limiter) visit(e ast.Expr) {
	if e.Kind() != ast.ComprehensionKind {
		return
	}
	call, ok := l.info.GetMacroCall(e.ID())
	if over := e.AsComprehension().IterRange(); ok && call.Kind() == ast.CallKind && call.AsCall().IsMemberFunction() && !isLimited(over) {
		limited := l.limited(over)
		c := call.AsCall()
		l.info.SetMacroCall(e.ID(), l.factory.NewMemberCall(call.ID(), c.FunctionName(), limited, c.Args()...))
		l.changed = true
	}
}

// limited returns size(e) <= MaxElements ? e : dyn(message). It is an error to iterate over the message.
func (l *limiter) limited(e ast.Expr) ast.Expr {
	f := l.factory
	condition := f.NewCall(l.next(), operators.LessEquals, f.NewCall(l.next(), "size", e), f.NewLiteral(l.next(), types.Int(MaxElements)))
	message := fmt.Sprintf("more than %d elements", MaxElements)
	return f.NewCall(l.next(), operators.Conditional, condition, e, f.NewCall(l.next(), "dyn", f.NewLiteral(l.next(), types.String(message))))
}

// isLimited reports whether a list or a map is known to have few elements: a literal, the groups of the user, or the value of a macro
// whose range is limited.
func isLimited(e ast.Expr) bool {
	switch e.Kind() {
	case ast.ListKind, ast.MapKind, ast.ComprehensionKind:
		return true
	case ast.SelectKind:
		name, _ := containers.ToQualifiedName(e)
		return name == "request.userInfo.groups" || name == "request.userInfo.extra"
	case ast.CallKind:
		c := e.AsCall()
		return c.FunctionName() == operators.Conditional && isLimited(c.Args()[1]) && isLimited(c.Args()[2])
	default:
		return false
	}
}
