/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"

	"github.com/google/cel-go/cel"

	"github.com/proviso-authz/proviso/pkg/cel/internal/engine"
	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// Budget bounds the work to compile or to check several expressions together. It must not be used concurrently.
type Budget = guard.Budget

// checkedPolicies is the number of kinds for which a policy of the largest allowed size can be checked within one budget. An
// ordinary policy has a tenth of this size, and is about at most ten kinds.
const checkedPolicies = 4

// NewBudget returns the budget for the expressions of one FieldPermissionMapping. It has the size of the budget that
// partial.Compiler has for one expression of a policy with its variables.
func NewBudget() *Budget { return guard.NewBudget(1) }

// NewCheckBudget returns the budget for checking one policy against the types of all kinds of objects that it is about.
func NewCheckBudget() *Budget { return guard.NewBudget(checkedPolicies) }

// ErrBudget says that expressions take too long to compile or to check together.
var ErrBudget = guard.ErrBudget

// CheckText returns an error that wraps ErrCompile if a text is too long, would take too long to compile, or exceeds the budget together with the
// texts before it. It charges the text to the budget.
func CheckText(text string, g *guard.Guard, budget *Budget) error {
	if len(text) > MaxExpressionBytes {
		return ErrTooLong
	}
	//guard:functions-bytes-many
	if err := budget.SpendText(text); err != nil {
		return fmt.Errorf("expression %w: %w", ErrCompile, err)
	}
	return engine.CheckText(g, text)
}

// checkWithin parses an expression and checks its types, and charges the budget before it checks.
func checkWithin(b *Budget, env *cel.Env, g *guard.Guard, expression string) (*cel.Ast, error) {
	parsed, work, err := engine.Parse(env, g, expression)
	if err != nil {
		return nil, err
	}
	//guard:functions-parts-many
	if err := b.Spend(work); err != nil {
		return nil, err
	}
	return engine.CheckTypes(env, parsed)
}
