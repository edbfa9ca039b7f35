/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package question

import (
	"slices"
	"strings"
)

// SelectorFlags returns the flags of kubectl for selectors, quoted for a shell.
func SelectorFlags(byLabels, byFields string) string {
	var flags []string
	for flag, selector := range map[string]string{"-l ": byLabels, "--field-selector ": byFields} {
		if strings.ContainsFunc(selector, isSpecial) {
			selector = "'" + strings.ReplaceAll(selector, "'", `'\''`) + "'"
		}
		if selector != "" {
			flags = append(flags, flag+selector)
		}
	}
	slices.Sort(flags)
	return strings.Join(flags, " ")
}

// isSpecial reports whether a shell could read a character of a selector as something else. Names come from authors of policies.
func isSpecial(r rune) bool {
	isPlain := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./=,:@", r)
	return !isPlain
}
