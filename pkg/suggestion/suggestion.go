/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package suggestion finds the names that an author may have meant by a name that does not exist.
//
// Invariants:
//
//   - The result depends on the names only, and not on their order.
//   - The work is bounded by the number of candidates: long names are not compared.
//
// The package knows nothing of what the names are for, and imports nothing of Proviso.
package suggestion

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxBytes bounds the names that are compared. Names in messages are shorter.
	maxBytes = 64
	// maxSuggestions is how many names a suggestion has.
	maxSuggestions = 3
	// minPrefix is the length from which a name counts as the beginning of another one.
	minPrefix = 4
)

// Near returns the candidates that differ least from a name: in the case of letters, in few letters, or because the name is only
// their beginning. It returns at most three, in alphabetical order, and nil for an empty or long name.
func Near(name string, candidates []string) []string {
	if name == "" || len(name) > maxBytes {
		return nil
	}
	lower := strings.ToLower(name)
	least := len(name)/4 + 1 // more would be another word
	var nearest []string
	for _, candidate := range candidates {
		if candidate == name || len(candidate) > maxBytes {
			continue
		}
		d := distance(lower, strings.ToLower(candidate))
		if len(lower) >= minPrefix && strings.HasPrefix(strings.ToLower(candidate), lower) {
			d = min(d, 1)
		}
		switch {
		case d > least || d >= len(candidate):
		case d < least:
			least, nearest = d, []string{candidate}
		default:
			nearest = append(nearest, candidate)
		}
	}
	slices.Sort(nearest)
	nearest = slices.Compact(nearest)
	return nearest[:min(len(nearest), maxSuggestions)]
}

// DidYouMean returns a hint at the names that are near, such as `; did you mean "pods"?`, or nothing.
func DidYouMean(name string, candidates []string) string {
	near := Near(name, candidates)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + Quoted(near, "or") + "?"
}

// Quoted returns names in quotes, with a word before the last one.
func Quoted(names []string, word string) string {
	var b strings.Builder
	for i, name := range names {
		switch {
		case i > 0 && i == len(names)-1:
			b.WriteString(" " + word + " ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", name)
	}
	return b.String()
}

// distance returns how many letters must be inserted, removed, replaced or exchanged with their neighbor to make one name
// of the other.
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			next[j+1] = min(last[j+1]+1, next[j]+1, replaced)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
