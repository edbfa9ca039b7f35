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
	// maxSearched bounds how many list elements one check compares while it looks up values; so many comparisons
	// take a quarter of a second. If all n elements of a list change, the look-ups need up to 2n² comparisons.
	maxSearched = 1 << 22
	// maxEvaluations bounds the expressions that one check evaluates. Each evaluation may have a hundredth of the cost
	// limit of a condition: together they take some seconds at worst, and less than a tenth of a second for short
	// expressions.
	maxEvaluations = 10_000
	// maxCopied bounds the parts of the values that one check copies for these evaluations: some 75 MiB.
	// The value of a field is copied once for all changes in it, so that one rule needs about
	// as many parts as the old and the new object have, which are at most 200 000.
	maxCopied = 1 << 20
)

var errTooManyEvaluations = fmt.Errorf("the request needs more than the %d evaluations of expressions that one may cause", maxEvaluations)

// budget counts the work of one check that grows faster than the object.
type budget struct{ searched, evaluated, copied int }

// search reports whether one more element of a list may be compared.
func (b *budget) search() bool {
	b.searched++
	return b.searched <= maxSearched
}

// evaluate returns an error if no more expressions may be evaluated.
func (b *budget) evaluate() error {
	if b.evaluated == maxEvaluations {
		return errTooManyEvaluations
	}
	b.evaluated++
	return nil
}

// spendCopy counts the parts of values that are about to be copied for an evaluation. It copies nothing itself. It returns false if
// the check may not copy that much.
func (b *budget) spendCopy(values ...any) bool {
	for _, value := range values {
		if b.copied <= maxCopied {
			b.copied += partsOf(value)
		}
	}
	return b.copied <= maxCopied
}

// partsOf counts a value together with all values nested in it, at any depth.
func partsOf(value any) int {
	parts := 1
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			parts += partsOf(v)
		}
	case []any:
		for _, v := range value {
			parts += partsOf(v)
		}
	}
	return parts
}

// isSpent reports whether a part of the budget is used up, so that a further value may not be looked up or evaluated.
func (b *budget) isSpent() bool {
	return b.searched > maxSearched || b.evaluated == maxEvaluations || b.copied > maxCopied
}

// evaluationKey identifies the evaluations of one rule, which are kept apart for changes and for claims.
type evaluationKey struct {
	rule    *mapping.Rule
	isClaim bool
}

// evaluation is the result of evaluating a rule for one field.
type evaluation struct {
	field    fieldpath.Path
	excluded bool
}

// once returns the result of evaluate for a rule and its field, and keeps it: if the next call for the rule has the same
// field, evaluate is not called again. All paths in one field are checked one after the other, so one result of each
// rule is enough.
func (k *check) once(key evaluationKey, field fieldpath.Path, evaluate func() bool) bool {
	//guard:granular-result-another-field
	if last, ok := k.evaluations[key]; ok && last.field.Equals(field) {
		return last.excluded
	}
	excluded := evaluate()
	if k.evaluations == nil {
		k.evaluations = map[evaluationKey]evaluation{}
	}
	k.evaluations[key] = evaluation{field: field, excluded: excluded}
	return excluded
}

// isChanged reports whether the exclusion r applies to the change of the field at path. The field may be the excluded
// one, one in it, or one that contains it.
func (k *check) isChanged(r *mapping.Rule, path fieldpath.Path) bool {
	switch {
	case r.Matches(path):
		field, _ := r.FieldAt(path)
		return k.excludesValues(r, field)
	case r.IsWithin(path):
		return k.isChangedWithin(r, path)
	}
	return false
}

// isChangedWithin is isChanged for a field that contains the excluded field: an atomic list or map, or a field that was
// replaced as a whole. An excluded field whose values cannot be looked up counts as changed.
func (k *check) isChangedWithin(r *mapping.Rule, path fieldpath.Path) bool {
	before, after, found := k.changes.Values(path, k.budget.search)
	if found && isEmpty(before) && isEmpty(after) {
		return false
	}
	within, ok := r.FieldAt(path)
	if !ok {
		return true
	}
	before, after, found = k.changes.Values(within, k.budget.search)
	if found && changes.Equal(before, after) {
		return false
	}
	return k.excludesValues(r, within)
}

// excludesValues reports whether the exclusion r applies to the change from the old to the new value of the field at
// path. It returns true if r applies to all changes, or if the values cannot be looked up.
func (k *check) excludesValues(r *mapping.Rule, path fieldpath.Path) bool {
	if !r.LimitsValues() {
		return true
	}
	return k.once(evaluationKey{rule: r}, path, func() bool {
		before, after, found := k.changes.Values(path, k.budget.search)
		//guard:granular-values-cannot-found
		return !found || k.excludesChange(r, before, after)
	})
}

// isClaimed reports whether the exclusion r applies to a field that an entry of metadata.managedFields gains or loses.
// The next apply of a manager may then keep the value of the field or remove it; r applies to the claim if it excludes
// one of the two. A field that cannot be looked up counts as excluded. An excluded field inside the claimed one that does
// not exist is not claimed, because no apply can remove it.
func (k *check) isClaimed(r *mapping.Rule, c changes.Claim) bool {
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
	_, value, found := k.changes.Values(within, k.budget.search)
	switch {
	case !found:
		//guard:granular-claims-cannot-found
		return true
	case value == nil && len(within) > len(c.Path): // nothing is there that could be removed
		return false
	case !r.LimitsValues():
		return true
	}
	//guard:granular-one-result-changes-claims
	return k.once(evaluationKey{rule: r, isClaim: true}, within, func() bool {
		return k.excludesChange(r, value, value) || k.excludesChange(r, value, nil)
	})
}

// excludesChange reports whether the exclusion r applies to a change between two values. It returns true if the budget is
// used up, or if the expression of r fails.
func (k *check) excludesChange(r *mapping.Rule, before, after any) bool {
	//guard:granular-too-many-evaluations
	if k.budget.evaluate() != nil {
		return true
	}
	//guard:granular-too-many-copies
	if !k.budget.spendCopy(before, after) {
		return true
	}
	excluded, err := r.ExcludesChange(k.ctx, before, after)
	//guard:granular-expressions-fail
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
