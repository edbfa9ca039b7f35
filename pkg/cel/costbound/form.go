/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// form is an upper bound of a size or of a cost: a number, and a number for each byte of parts of the request. A part is a path of fields,
// such as object.spec, or an element over which a macro around the expression iterates. The methods do not change a form.
type form struct {
	fixed float64
	by    map[string]float64
}

var (
	none     = form{}
	infinite = form{fixed: math.Inf(1)}
)

func fixed(n float64) form { return form{fixed: n} }

// bytesOf returns the size of a part of the request.
func bytesOf(part string) form { return form{by: map[string]float64{part: 1}} }

// isFixed reports whether the form is the same number for all sizes.
func (f form) isFixed() bool { return len(f.by) == 0 }

func (f form) isInfinite() bool { return math.IsInf(f.fixed, 1) }

// combined returns the form whose numbers are the numbers of f and g, combined in pairs.
func (f form) combined(g form, combine func(a, b float64) float64) form {
	result := form{fixed: combine(f.fixed, g.fixed), by: map[string]float64{}}
	for _, part := range slices.Concat(slices.Collect(maps.Keys(f.by)), slices.Collect(maps.Keys(g.by))) {
		if n := combine(f.by[part], g.by[part]); n != 0 {
			result.by[part] = n
		}
	}
	return result
}

func (f form) plus(others ...form) form {
	sum := form{fixed: f.fixed, by: map[string]float64{}}
	maps.Copy(sum.by, f.by)
	for _, g := range others {
		sum.fixed += g.fixed
		for part, n := range g.by {
			sum.by[part] += n
		}
	}
	return sum
}

func (f form) times(n float64) form {
	if n == 0 {
		return none // also for an infinite form
	}
	return f.combined(none, func(a, _ float64) float64 { return a * n })
}

// multiplied returns the product of two forms. It is infinite if both grow with the request.
func (f form) multiplied(g form) form {
	switch {
	case f.isFixed() && !f.isInfinite():
		return g.times(f.fixed)
	case g.isFixed() && !g.isInfinite():
		return f.times(g.fixed)
	}
	//guard:cost-products
	return infinite
}

// larger returns a form that is at least f and at least g.
func (f form) larger(g form) form { return f.combined(g, math.Max) }

// smaller returns f or g: the one that is a number, if there is one. Both are bounds of the smaller one of them.
func (f form) smaller(g form) form {
	if f.isInfinite() || g.isFixed() && (!f.isFixed() || g.fixed < f.fixed) {
		return g
	}
	return f
}

// repeated returns the sum of f over the steps of a macro. There are at most count steps. Parts that differ from step to step have
// together the given totals.
func (f form) repeated(totals map[string]form, count form) form {
	outer, sum := form{fixed: f.fixed, by: maps.Clone(f.by)}, none
	for part, total := range totals {
		delete(outer.by, part)
		sum = sum.plus(total.times(f.by[part]))
	}
	return outer.multiplied(count).plus(sum)
}

// at returns the most that the form can be for an object, and a stored object, of at most the given size. Parts that do not contain
// each other share the size of their object: all of it is in the part with the largest number.
func (f form) at(bytes float64) float64 {
	var parts tree
	for part, n := range f.by {
		at := &parts
		for name := range strings.SplitSeq(part, ".") {
			at = at.child(name)
		}
		at.n = n
	}
	total := f.fixed
	for _, object := range parts.below {
		total += object.largest() * bytes
	}
	return total
}

// tree has the parts of a form, each below the part that contains it.
type tree struct {
	n     float64
	below map[string]*tree
}

func (t *tree) child(name string) *tree {
	if t.below == nil {
		t.below = map[string]*tree{}
	}
	if t.below[name] == nil {
		t.below[name] = &tree{}
	}
	return t.below[name]
}

// largest returns the most that one byte of the part adds.
func (t *tree) largest() float64 {
	most := 0.0
	for _, child := range t.below {
		most = max(most, child.largest())
	}
	return t.n + most
}
