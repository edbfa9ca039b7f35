/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular

import (
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

const (
	// maxLooked bounds the elements of lists that one check looks at to find values: a quarter
	// of a second. A list of n elements that all change takes 2n², and 3 MiB have room for
	// hundreds of thousands of finalizers.
	maxLooked = 1 << 22
	// maxEvaluations bounds the expressions that one check evaluates, each of which may cost a hundredth
	// of a condition: some seconds at worst, and less than a tenth of one for short expressions.
	maxEvaluations = 10_000
)

var errTooManyEvaluations = fmt.Errorf("the request needs more than the %d evaluations of expressions that one may cause", maxEvaluations)

// effort is what one check has done that grows faster than the object.
type effort struct{ looked, evaluated int }

// look reports whether one more element may be looked at.
func (e *effort) look() bool {
	e.looked++
	return e.looked <= maxLooked
}

// evaluate returns why no more expression may be evaluated, or nil.
func (e *effort) evaluate() error {
	if e.evaluated == maxEvaluations {
		return errTooManyEvaluations
	}
	e.evaluated++
	return nil
}

// isSpent reports whether values were not found, or looked at, because that takes too long.
func (e *effort) isSpent() bool { return e.looked > maxLooked || e.evaluated == maxEvaluations }

// isChanged reports whether a change of a field changes what an exclusion is about.
func (a *asker) isChanged(r *mapping.Rule, path fieldpath.Path) bool {
	switch {
	case r.Matches(path):
		field, _ := r.FieldAt(path)
		return a.excludesValues(r, field)
	case r.IsWithin(path):
		return a.isChangedWithin(r, path)
	}
	return false
}

// isChangedWithin is isChanged for a field that is of one piece, such as an atomic list, or
// that was replaced as a whole. What cannot be found in it counts as changed.
func (a *asker) isChangedWithin(r *mapping.Rule, path fieldpath.Path) bool {
	before, after, found := a.changes.Values(path, a.effort.look)
	if found && isEmpty(before) && isEmpty(after) {
		return false
	}
	within, ok := r.FieldAt(path)
	if !ok {
		return true
	}
	before, after, found = a.changes.Values(within, a.effort.look)
	if found && changes.Equal(before, after) {
		return false
	}
	return a.excludesValues(r, within)
}

// excludesValues reports whether an exclusion is about the change of the field at a path.
func (a *asker) excludesValues(r *mapping.Rule, path fieldpath.Path) bool {
	if !r.LimitsValues() {
		return true
	}
	before, after, found := a.changes.Values(path, a.effort.look)
	return !found || a.excludesChange(r, before, after)
}

// isClaimed reports whether an exclusion is about a field that an entry of metadata.managedFields
// gains or loses. The next apply of a manager may then remove the field, or leave it, so both must
// be outside the exclusion. What cannot be looked up counts as excluded.
func (a *asker) isClaimed(r *mapping.Rule, c changes.Claim) bool {
	if !r.Matches(c.Path) && !r.IsWithin(c.Path) {
		return false
	}
	if c.IsOpaque() {
		return true
	}
	within, ok := r.FieldAt(c.Path)
	if !ok {
		return true
	}
	_, value, found := a.changes.Values(within, a.effort.look)
	switch {
	case !found:
		return true
	case value == nil && len(within) > len(c.Path): // nothing is there that could be removed
		return false
	case !r.LimitsValues():
		return true
	}
	return a.excludesChange(r, value, value) || a.excludesChange(r, value, nil)
}

// excludesChange reports whether an exclusion is about a change between two values.
func (a *asker) excludesChange(r *mapping.Rule, before, after any) bool {
	if a.effort.evaluate() != nil {
		return true
	}
	excluded, err := r.ExcludesChange(a.ctx, before, after)
	return excluded || err != nil
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
