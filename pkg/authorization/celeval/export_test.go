/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package celeval

// Spend charges the budget of an evaluator as if conditions had cost that much.
func (e *Evaluator) Spend(cost uint64) { e.budget.Spend(cost) }
