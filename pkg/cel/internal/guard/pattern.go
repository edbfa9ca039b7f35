/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

const (
	// maxPatternSize bounds a regular expression, in the instructions that it compiles to.
	// Nested repetitions multiply: a pattern of ten thousand bytes can compile to 68 MB.
	maxPatternSize = 4096
	// maxDynamicPattern bounds a pattern that is not a constant of the expression, in bytes. Such
	// a pattern is seen at run time only, and parsed at every call. Patterns in objects and
	// variables, such as names of resources, are shorter.
	maxDynamicPattern = 256
	// maxPatternWork bounds the parsing of all constant patterns of an expression, or of one pattern that is not constant, in
	// units: about five milliseconds.
	maxPatternWork = 1 << 15

	// constantPattern ends the overload of a call whose pattern is compiled in advance.
	constantPattern = "@constant"

	// These are the units that it takes to parse a pattern twice and to compile it, measured.
	unitsPerPattern      = 16
	unitsPerPatternByte  = 3
	unitsPerInstruction  = 2
	unitsPerClass        = 512  // \pL, of hundreds of ranges
	unitsPerFoldedClass  = 1536 // the same if each of its letters has an upper and a lower case
	unitsPerUnknownRange = 1 << 16
	// runesPerUnit is how many letters of a range are converted to upper and lower case for one unit.
	runesPerUnit = 2
)

var (
	errPattern        = fmt.Errorf("its regular expressions are larger than %d instructions", maxPatternSize)
	errPatternWork    = errors.New("regular expressions take too long to parse: they have too many or too large classes of letters")
	errDynamicPattern = fmt.Errorf("a regular expression that is not a constant is longer than %d bytes", maxDynamicPattern)
)

// checkPattern returns an error if a pattern takes too long to parse or compiles to too many instructions, and otherwise the
// number of the instructions.
func checkPattern(pattern string) (size int, err error) {
	if len(pattern) <= maxPatternSize && patternWork(pattern) > maxPatternWork {
		return 0, errPatternWork
	}
	if size = PatternSize(pattern); size > maxPatternSize {
		return size, errPattern
	}
	return size, nil
}

func checkMatch(args []ref.Val) error {
	if len(args) < 2 {
		return nil
	}
	pattern, ok := args[1].(types.String)
	if !ok {
		return nil
	}
	n, err := checkPattern(string(pattern))
	switch {
	case err != nil:
		return err
	case uint64(n)*textBytes(args[0]) > 16*maxWork:
		return errWork
	}
	return nil
}

// checkMatches is checkMatch for findAll, which keeps all matches. A text has at most one match for each byte, so it bounds the
// text by maxText.
func checkMatches(args []ref.Val) error {
	if size(args[0]) > maxText {
		return errWork
	}
	return checkMatch(args)
}

// checkDynamicMatch is checkMatch for a pattern that is no constant.
func checkDynamicMatch(args []ref.Val) error {
	if len(args) > 1 && size(args[1]) > maxDynamicPattern {
		return errDynamicPattern
	}
	return checkMatch(args)
}

func takesPattern(function string) bool {
	return function == "matches" || function == "find" || function == "findAll"
}

// constantPatternOf returns the pattern of a call if it is a constant of the expression.
func constantPatternOf(call interpreter.InterpretableCall) (pattern ref.Val, constant bool) {
	args := call.Args()
	if len(args) < 2 {
		return nil, false
	}
	c, constant := args[1].(interpreter.InterpretableConst)
	if !constant {
		return nil, false
	}
	return c.Value(), true
}

// withConstantPattern returns a call that has a constant pattern, with an overload that the cost tracker recognizes. The
// planner compiles the pattern once, and then replaces the call and all decorators around it, but keeps the arguments.
// Therefore the first argument, a searchedText, makes the check.
func withConstantPattern(call interpreter.InterpretableCall, implementation *functions.Overload, pattern ref.Val) interpreter.InterpretableV2 {
	instructions := uint64(1)
	if text, ok := pattern.(types.String); ok {
		instructions = uint64(max(PatternSize(string(text)), 1))
	}
	limit := 16 * maxWork / instructions
	if call.Function() == "findAll" {
		limit = min(limit, maxText)
	}
	args := slices.Clone(call.Args())
	args[0] = searchedText{InterpretableV2: args[0], limit: limit}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID()+constantPattern, args, func(args ...ref.Val) ref.Val {
		return invoke(implementation, args)
	})
}

// searchedText is the instruction for the text on which a constant pattern is tried. It ends the evaluation if the context has
// ended, and is an error if the text is longer than the limit.
type searchedText struct {
	interpreter.InterpretableV2
	limit uint64
}

func (s searchedText) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	interrupt(frame)
	v := s.InterpretableV2.Exec(frame)
	if textBytes(v) > s.limit {
		return types.WrapErr(errWork)
	}
	return v
}

func (s searchedText) Eval(vars interpreter.Activation) ref.Val {
	return s.Exec(interpreter.AsFrame(vars))
}

// patternWork estimates the units that it takes to parse a pattern. It does not parse the pattern, because parsing takes the
// time that has to be bounded, also if the pattern is not valid.
func patternWork(pattern string) uint64 {
	work := uint64(unitsPerPattern + unitsPerPatternByte*len(pattern))
	classes := uint64(strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`))
	if !foldsCase(pattern) {
		return work + classes*unitsPerClass
	}
	return work + classes*unitsPerFoldedClass + workOfFolding(pattern)
}

// foldsCase reports whether a pattern may have the flag i.
func foldsCase(pattern string) bool {
	for {
		_, flags, found := strings.Cut(pattern, "(?")
		if !found {
			return false
		}
		if strings.Contains(flags[:len(flags)-len(strings.TrimLeft(flags, "imsU-"))], "i") {
			return true
		}
		pattern = flags
	}
}

// workOfFolding estimates the cost of finding the upper and lower cases of each letter of the ranges in a
// pattern, in units. It does not parse the pattern: it treats the letters beside each hyphen as the ends of a range.
func workOfFolding(pattern string) (work uint64) {
	for {
		before, after, found := strings.Cut(pattern, "-")
		if !found {
			return work
		}
		low, _ := utf8.DecodeLastRuneInString(before)
		high, _ := utf8.DecodeRuneInString(after)
		switch {
		case strings.HasPrefix(after, `\x{`):
			work += unitsPerUnknownRange
		case high > low:
			work += uint64(high-low) / runesPerUnit
		}
		pattern = after
	}
}

// workOfMatching is the work of parsing and compiling a pattern, unless it was compiled in advance, and of
// running its instructions on each byte. It is the same for an invalid pattern and for the empty text.
func workOfMatching(args []ref.Val, compiled bool) uint64 {
	if len(args) < 2 {
		return 0
	}
	pattern, ok := args[1].(types.String)
	if !ok || len(pattern) > maxPatternSize {
		return 0 // refused for its length
	}
	work := patternWork(string(pattern))
	if work > maxPatternWork && !compiled {
		return unitsPerPattern + uint64(len(pattern))/textPerUnit // refused before it is parsed
	}
	instructions := len(pattern)
	if strings.Contains(string(pattern), "{") { // only repetitions make more of a pattern than its text
		instructions = PatternSize(string(pattern))
	}
	size := uint64(min(instructions, maxPatternSize))
	matching := size * textBytes(args[0]) / matchesPerUnit
	if compiled {
		return matching
	}
	return work + size*unitsPerInstruction + matching
}

// PatternSize estimates how many instructions a regular expression compiles to. It returns 0 if the expression cannot be
// parsed, and more than maxPatternSize if it is longer than maxPatternSize bytes.
func PatternSize(text string) int {
	if len(text) > maxPatternSize {
		return maxPatternSize + 1
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0
	}
	return sizeOf(parsed)
}

func sizeOf(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		size += sizeOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, 1<<20) // no overflow
}
