/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestPatternWidth(t *testing.T) {
	t.Parallel()
	for pattern, most := range map[string]int{
		"":         2,
		"^[a-z]+$": 8,
		`^registry\.example\.com/[a-z0-9/._-]+@sha256:[0-9a-f]{64}$`: 10,
		"abc":               9,
		"^(dev|test|prod)$": 14,
		"^a{0,40}$":         8,
	} {
		if got := PatternWidth(pattern); got > most || got < 1 {
			t.Errorf("%q: got %d, want at most %d", pattern, got, most)
		}
	}
	for pattern, least := range map[string]int{
		"a{0,1000}b":            1000,
		"^(a{0,100}){0,2}b$":    200,
		"(a|b)*a(a|b){20}":      20,
		"a{40}":                 40, // a match may begin at each letter
		strings.Repeat("a", 40): 40,
	} {
		if got := PatternWidth(pattern); got < least {
			t.Errorf("%q: got %d, want at least %d", pattern, got, least)
		}
	}
	if got := PatternWidth(strings.Repeat("a", maxPatternSize+1)); got <= maxPatternSize {
		t.Errorf("got %d for a pattern that is too long", got)
	}
}

// TestPatternWidthOfTexts follows random texts letter by letter: no set of instructions is larger than the width.
func TestPatternWidthOfTexts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	var pattern func(depth int) string
	pattern = func(depth int) string {
		if depth == 0 {
			return pick("a", "b", "k", "(?i:k)", "(?i:[a-k])", "[^b]", ".", `\n`, "é", "[é-ü]", `\b`, "^", "$", `\A`, "(?m:^)")
		}
		one := "(?:" + pattern(depth-1) + ")"
		return pick(one+pattern(depth-1), one+"|"+pattern(depth-1), one+"*", one+"+?", one+"{1,3}", one+"?")
	}
	found := 0
	for range 3000 {
		text := pattern(1 + r.IntN(4))
		width := PatternWidth(text)
		program, err := programOf(text)
		if err != nil {
			t.Fatal(err)
		}
		if width < len(program.Inst) {
			found++
		}
		m := newMatcher(program)
		set := m.first()
		for range 20 {
			set = m.after(set, []rune("abckKK\nzéü\x00")[r.IntN(11)])
		}
		if m.widest > width {
			t.Errorf("%q: got %d, and a text has %d", text, width, m.widest)
		}
	}
	if found < 200 {
		t.Errorf("got %d patterns with a width of their own: the test compares too little", found)
	}
}
