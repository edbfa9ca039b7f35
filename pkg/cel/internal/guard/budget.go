/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import "fmt"

// The bounds on compiling the expressions of one policy together. Each expression is compiled with the named expressions that
// it reads, so the same text may be compiled many times.
const (
	// maxTotalBytes is two expressions of the greatest length.
	maxTotalBytes = 20480
	// maxTotalNodes bounds the nodes of all expressions, with their macros expanded and named expressions put in. To check
	// and plan one takes some 10 µs.
	maxTotalNodes = 16384
	// maxTotalTypeWork bounds their TypeWork.Copied.
	maxTotalTypeWork = 2 * maxTypeWork
	// unitsPerNode is the cost of compiling a node, in the units of CompileCost.
	unitsPerNode = 64
)

// ErrBudget says that expressions take too long to compile together.
var ErrBudget = fmt.Errorf("the expressions take too long to compile together: with variables put in where they are read, they have more than %d bytes, %d parts, or %d copies of type variables and units of regular expressions",
	maxTotalBytes, maxTotalNodes, maxTotalTypeWork)

// Budget bounds the work to compile several expressions together. It has the work that is left, and counts what was spent.
// It must not be used concurrently.
type Budget struct {
	bytes, nodes int
	copied       uint64
	// cost is what was spent, in the units of CompileCost.
	cost uint64
}

// NewBudget returns a budget for compiling the expressions of one policy the given number of times.
func NewBudget(times int) *Budget {
	return &Budget{bytes: times * maxTotalBytes, nodes: times * maxTotalNodes, copied: uint64(times) * maxTotalTypeWork} //nolint:gosec // not negative
}

// SpendText takes the length of a text from the budget, before the text is parsed. It returns ErrBudget if the budget is
// exceeded, and then for all further texts.
func (b *Budget) SpendText(text string) error {
	b.bytes -= len(text)
	b.cost += CompileCost(text)
	return b.err()
}

// Spend takes the work to check the types of an expression from the budget, before the work is done. It returns ErrBudget if
// the budget is exceeded, and then for all further expressions.
func (b *Budget) Spend(work TypeWork) error {
	b.nodes -= work.Nodes
	b.cost += unitsPerNode*uint64(work.Nodes) + work.Copied //nolint:gosec // not negative
	if work.Copied > b.copied {
		b.nodes, b.copied = -1, 0
	}
	b.copied -= min(work.Copied, b.copied)
	return b.err()
}

func (b *Budget) err() error {
	if b.bytes < 0 || b.nodes < 0 {
		return ErrBudget
	}
	return nil
}

// Cost returns the cost of all texts and all work that were taken from the budget, in the cost units of CEL.
func (b *Budget) Cost() uint64 { return b.cost }
