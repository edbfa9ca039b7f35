/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"regexp/syntax"
	"slices"
	"unicode"
)

// maxLetters, maxSets and maxSteps bound the work of PatternWidth: letters that a pattern tells apart, sets of instructions, and instructions that
// are tried, which takes some milliseconds.
const maxLetters, maxSets, maxSteps = 256, 256, 1 << 16

// LargeExponent is a regular expression that matches texts of quantities that take long to parse although they are short.
const LargeExponent = "[eE][+-]?[0-9]{4}"

// programOf compiles a regular expression, as package regexp does.
func programOf(text string) (*syntax.Prog, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return syntax.Compile(parsed.Simplify())
}

// BeginsText reports whether a regular expression matches at the beginning of a text only.
func BeginsText(text string) bool {
	program, err := programOf(text)
	return err == nil && program.StartCond()&syntax.EmptyBeginText != 0
}

// PatternWidth returns how many instructions of a regular expression are tried at most on one character of a text. It is the number of all instructions if
// that is not found in a bounded time.
//
// A matcher that does not go back has a set of instructions for each character. PatternWidth makes all sets that a text can lead to, and returns the size of
// the largest one.
func PatternWidth(text string) int {
	size := PatternSize(text)
	if size > maxPatternSize {
		return size
	}
	program, err := programOf(text)
	if err != nil {
		return size
	}
	m := newMatcher(program)
	letters, first := m.letters(), m.first()
	known, queue := map[string]bool{keyOf(first): true}, [][]uint32{first}
	for len(queue) > 0 && len(letters) <= maxLetters && len(known) <= maxSets && m.left > 0 {
		set := queue[0]
		queue = queue[1:]
		for _, letter := range letters {
			if m.left <= 0 {
				return max(size, len(program.Inst))
			}
			next := m.after(set, letter)
			if key := keyOf(next); !known[key] {
				known[key] = true
				queue = append(queue, next)
			}
		}
	}
	if len(queue) > 0 {
		return max(size, len(program.Inst))
	}
	return m.widest
}

// matcher makes sets of instructions.
type matcher struct {
	*syntax.Prog

	// widest is the size of the largest set so far, and left how many instructions may still be tried.
	widest, left int
	// number counts the sets, and in has the number of the last set that has an instruction.
	number int
	in     []int
}

func newMatcher(program *syntax.Prog) *matcher {
	return &matcher{Prog: program, widest: 1, left: maxSteps, in: make([]int, len(program.Inst))}
}

// first returns the set before the first letter.
func (m *matcher) first() []uint32 {
	m.number++
	return m.add(nil, uint32(m.Start), true) //nolint:gosec // an index of instructions
}

// letters returns one letter of each class of letters that the instructions do not tell apart.
func (m *matcher) letters() []rune {
	letters := []rune{0, '\n', '\n' + 1}
	for i := range m.Inst {
		inst := &m.Inst[i]
		if inst.Op != syntax.InstRune && inst.Op != syntax.InstRune1 {
			continue
		}
		runes := inst.Rune
		if len(runes) == 1 {
			for r := unicode.SimpleFold(runes[0]); r != runes[0]; r = unicode.SimpleFold(r) {
				letters = append(letters, r, r+1)
			}
			runes = []rune{runes[0], runes[0]}
		}
		for j := 0; j+1 < len(runes); j += 2 {
			letters = append(letters, runes[j], runes[j+1]+1)
		}
	}
	slices.Sort(letters)
	return slices.Compact(letters)
}

// after returns the set after a letter. A match may begin at each letter, unless the pattern begins with the start of the text.
func (m *matcher) after(set []uint32, letter rune) (next []uint32) {
	m.number++
	for _, pc := range set {
		m.left--
		if inst := &m.Inst[pc]; readsLetter(inst.Op) && inst.MatchRune(letter) {
			next = m.add(next, inst.Out, false)
		}
	}
	if m.StartCond()&syntax.EmptyBeginText == 0 {
		next = m.add(next, uint32(m.Start), false) //nolint:gosec // an index of instructions
	}
	slices.Sort(next)
	m.widest = max(m.widest, len(next))
	return next
}

func readsLetter(op syntax.InstOp) bool {
	return op == syntax.InstRune || op == syntax.InstRune1 || op == syntax.InstRuneAny || op == syntax.InstRuneAnyNotNL
}

// add adds an instruction, and those that follow without a letter. Conditions on the place in the text count as true, but for its start.
func (m *matcher) add(set []uint32, pc uint32, isStart bool) []uint32 {
	if m.left--; m.in[pc] == m.number {
		return set
	}
	m.in[pc] = m.number
	set = append(set, pc)
	switch inst := &m.Inst[pc]; inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		set = m.add(m.add(set, inst.Out, isStart), inst.Arg, isStart)
	case syntax.InstCapture, syntax.InstNop:
		set = m.add(set, inst.Out, isStart)
	case syntax.InstEmptyWidth:
		if isStart || syntax.EmptyOp(inst.Arg)&syntax.EmptyBeginText == 0 {
			set = m.add(set, inst.Out, isStart)
		}
	default: // nothing follows without a letter
	}
	m.widest = max(m.widest, len(set))
	return set
}

func keyOf(set []uint32) string {
	runes := make([]rune, 0, len(set))
	for _, pc := range set {
		runes = append(runes, rune(pc)) //nolint:gosec // an index of at most maxPatternSize instructions
	}
	return string(runes)
}
