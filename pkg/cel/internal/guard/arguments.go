/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// The cost limit of CEL bounds an evaluation, but not the work of a single call of a function. These constants bound it.
const (
	// maxWork bounds the work of one call of a function, in elements or bytes of its arguments, if
	// the cost limit counts only the result or nothing.
	maxWork = 1 << 20
	// maxDeep bounds the parts of the values that one call walks through: values that are compared,
	// printed or flattened, and lists whose elements are looked at.
	maxDeep = 100_000
	// textPerPart is how many bytes of a text count as one part of a value that is walked through, and
	// printedPerPart how many if it is printed.
	textPerPart    = 1024
	printedPerPart = 64
	// maxComparisons bounds how many parts sets.* and distinct compare. More comparisons would cost more than any cost
	// limit.
	maxComparisons = 8 << 20
	// maxShortText bounds texts that are numbers, times or addresses, and maxText those
	// that functions copy as a whole.
	maxShortText = 256
	maxText      = 64 << 10
	// maxSearch bounds the comparisons of indexOf, which takes the product of two lengths: some
	// milliseconds.
	maxSearch = 16 << 20
	// MaxQuantityBytes and maxQuantityExponent bound the text of a quantity. Comparing two
	// quantities makes a number with as many digits as the difference of the exponents.
	MaxQuantityBytes    = 64
	maxQuantityExponent = 64
)

var (
	errWork     = errors.New("the arguments of a function are too large")
	errQuantity = fmt.Errorf("a quantity is longer than %d bytes or has an exponent over %d", MaxQuantityBytes, maxQuantityExponent)
)

// size returns the length of a text in bytes, the number of elements of a list or map, or 1 for every other value.
func size(v ref.Val) int {
	if s, ok := v.(types.String); ok {
		return len(s)
	}
	if s, ok := v.(traits.Sizer); ok {
		if n, ok := s.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 1
}

func checkTexts(limit int) func([]ref.Val) error {
	return func(args []ref.Val) error {
		for _, arg := range args {
			if text, ok := arg.(types.String); ok && len(text) > limit {
				return errWork
			}
		}
		return nil
	}
}

// checkSearch returns an error if a search for a text in another one, which compares both at every place, would take too
// many comparisons, or if the arguments are too large.
func checkSearch(args []ref.Val) error {
	if searched, wanted := searchOf(args); (searched-wanted)*wanted > maxSearch {
		return errWork
	}
	if err := checkTexts(maxText)(args); err != nil {
		return err
	}
	return checkDeep(args)
}

// searchOf returns the lengths of the searched text and of the wanted text, or 0 and 0 if the wanted text
// is longer.
func searchOf(args []ref.Val) (searched, wanted uint64) {
	if len(args) < 2 {
		return 0, 0
	}
	searched, wanted = textBytes(args[0]), textBytes(args[1])
	if searched < wanted {
		return 0, 0
	}
	return searched, wanted
}

// checkProduct returns an error if there would be too many comparisons of each element of one list with each element of the
// other list, part by part.
func checkProduct(args []ref.Val) error {
	work, elements := 1, 0
	for _, arg := range args {
		work *= max(size(arg), 1)
		elements += size(arg)
		if work > maxWork {
			return errWork
		}
	}
	parts, complete := walkAll(args, textPerPart)
	if !complete || work*(parts/max(elements, 1)) > maxComparisons {
		return errWork
	}
	return nil
}

func checkSquare(args []ref.Val) error {
	return checkProduct([]ref.Val{args[0], args[0]})
}

func checkJoin(args []ref.Val) error {
	if err := checkDeep(args); err != nil {
		return err
	}
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	total := 0
	for it := list.Iterator(); it.HasNext() == types.True; {
		if total += size(it.Next()); len(args) > 1 {
			total += size(args[1])
		}
		if total > maxWork {
			return errWork
		}
	}
	return nil
}

func checkReplace(args []ref.Val) error {
	if len(args) < 3 {
		return nil
	}
	if size(args[0])/max(size(args[1]), 1)*max(size(args[2]), 1)+size(args[0]) > maxWork {
		return errWork
	}
	return nil
}

// checkDeep returns an error if the arguments, which a function walks as a whole, have more than maxDeep parts. A part that
// occurs several times within a value is counted each time, as the walk visits it. checkPrinted is checkDeep for values that are printed.
var checkDeep, checkPrinted = checkParts(textPerPart), checkParts(printedPerPart)

func checkParts(textPerPart int) func([]ref.Val) error {
	return func(args []ref.Val) error {
		if _, complete := walkAll(args, textPerPart); !complete {
			return errWork
		}
		return nil
	}
}

// checkFlatten returns an error if flatten could copy more than maxWork elements, or if the arguments have more than maxDeep
// parts. flatten copies an element of the innermost lists into the result, and once more for each level that it removes. All
// parts are counted like these elements, so the number may be too high, but never too low.
func checkFlatten(args []ref.Val) error {
	parts, complete := walkAll(args, textPerPart)
	if !complete || parts*levels(args) > maxWork {
		return errWork
	}
	return nil
}

// levels returns how often flatten copies an element of the innermost lists of a value whose parts have been counted.
func levels(args []ref.Val) int {
	return min(nesting(args[0]), int(min(max(depthOf(args), 0), maxDeep))+1)
}

// depthOf returns how many levels flatten removes.
func depthOf(args []ref.Val) types.Int {
	if len(args) < 2 {
		return 1
	}
	depth, _ := args[1].(types.Int)
	return depth
}

// nesting returns how deep lists are nested in a value whose parts have been counted.
func nesting(v ref.Val) int {
	list, ok := v.(traits.Lister)
	if !ok {
		return 0
	}
	deepest := 0
	for it := list.Iterator(); it.HasNext() == types.True; {
		deepest = max(deepest, nesting(it.Next()))
	}
	return 1 + deepest
}

// checkMade returns an error if the list that reverse or slice builds from another list would have too many elements.
func checkMade(args []ref.Val) error {
	n := size(args[0])
	if len(args) == 3 { // slice
		start, _ := args[1].(types.Int)
		end, _ := args[2].(types.Int)
		n = min(n, int(max(end, 0))-int(min(max(start, 0), max(end, 0))))
	}
	if n > maxWork {
		return errWork
	}
	return nil
}

// walkAll counts the parts of values. It returns the number and true, or maxDeep and false if there are more than maxDeep.
func walkAll(values []ref.Val, textPerPart int) (parts int, complete bool) {
	w := walker{budget: maxDeep, textPerPart: textPerPart}
	for _, v := range values {
		if !w.walk(v) {
			return maxDeep, false
		}
	}
	return maxDeep - w.budget, true
}

// walker walks through values and counts their parts.
type walker struct {
	budget, textPerPart int
}

func (w *walker) walk(v ref.Val) bool {
	w.budget--
	switch value := v.(type) {
	case types.String:
		w.budget -= len(value) / w.textPerPart
	case types.Bytes:
		w.budget -= len(value) / w.textPerPart
	case traits.Lister:
		if size(v) > w.budget { // to read an element of a sum of lists takes longer the more of them there are
			return false
		}
		for it := value.Iterator(); it.HasNext() == types.True; {
			if !w.walk(it.Next()) {
				return false
			}
		}
	case traits.Mapper:
		if size(v) > w.budget {
			return false
		}
		for it := value.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			w.budget -= int(textBytes(key)) / w.textPerPart
			if !w.walk(value.Get(key)) {
				return false
			}
		}
	case *types.Optional:
		return w.budget >= 0 && (!value.HasValue() || w.walk(value.GetValue()))
	}
	return w.budget >= 0
}

// checkQuantity returns an error for texts of quantities that are cheap to parse and expensive to compare. A text that is no
// quantity is no error here.
func checkQuantity(args []ref.Val) error {
	text, _ := args[0].(types.String)
	if len(text) > MaxQuantityBytes {
		return errQuantity
	}
	_, exponent, ok := strings.Cut(strings.ToLower(string(text)), "e")
	if !ok || exponent == "" || exponent == "i" { // 1E and 1Ei are suffixes
		return nil
	}
	if n, err := strconv.Atoi(exponent); err == nil && n >= -maxQuantityExponent && n <= maxQuantityExponent {
		return nil
	} else if errors.Is(err, strconv.ErrSyntax) {
		return nil // no quantity, which the function says
	}
	return errQuantity
}
