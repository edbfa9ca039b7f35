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

// The cost limit of CEL bounds an evaluation, but not what a single function does. These bounds do.
const (
	// maxWork bounds the work of one call of a function, in elements or bytes of its arguments, if
	// the cost limit counts only the result or nothing.
	maxWork = 1 << 20
	// maxDeep bounds the parts of two values that are compared, or of one that is printed.
	maxDeep = 100_000
	// maxShortText bounds texts that are numbers, times or addresses, and maxText those
	// that functions copy as a whole.
	maxShortText = 256
	maxText      = 64 << 10
	// maxSearch bounds the comparisons of indexOf, which takes the product of two lengths: some
	// milliseconds.
	maxSearch = 16 << 20
	// maxQuantityBytes and maxQuantityExponent bound the text of a quantity. Comparing two
	// quantities makes a number with as many digits as the difference of the exponents.
	maxQuantityBytes    = 64
	maxQuantityExponent = 64
)

var (
	errWork     = errors.New("the arguments of a function are too large")
	errQuantity = fmt.Errorf("a quantity is longer than %d bytes or has an exponent over %d", maxQuantityBytes, maxQuantityExponent)
)

// size returns the length of a text or the number of elements of a list or map.
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

func checkFirst(check func(string) error) func([]ref.Val) error {
	return func(args []ref.Val) error {
		if text, ok := args[0].(types.String); ok {
			return check(string(text))
		}
		return nil
	}
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

// checkSearch bounds a search for a text, which compares it at every place.
func checkSearch(args []ref.Val) error {
	if searched, wanted := searchOf(args); (searched-wanted)*wanted > maxSearch {
		return errWork
	}
	return checkTexts(maxText)(args)
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

func checkProduct(args []ref.Val) error {
	work := 1
	for _, arg := range args {
		work *= max(size(arg), 1)
	}
	if work > maxWork {
		return errWork
	}
	return checkDeep(args)
}

func checkSquare(args []ref.Val) error {
	return checkProduct([]ref.Val{args[0], args[0]})
}

func checkJoin(args []ref.Val) error {
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

// checkDeep bounds values that are walked as a whole. A part that occurs several times within a value is
// counted each time, as the walk visits it.
func checkDeep(args []ref.Val) error {
	budget := maxDeep
	for _, arg := range args {
		if !walk(arg, &budget) {
			return errWork
		}
	}
	return nil
}

func walk(v ref.Val, budget *int) bool {
	if *budget--; *budget < 0 {
		return false
	}
	switch value := v.(type) {
	case traits.Lister:
		for it := value.Iterator(); it.HasNext() == types.True; {
			if !walk(it.Next(), budget) {
				return false
			}
		}
	case traits.Mapper:
		for it := value.Iterator(); it.HasNext() == types.True; {
			if !walk(value.Get(it.Next()), budget) {
				return false
			}
		}
	case *types.Optional:
		return !value.HasValue() || walk(value.GetValue(), budget)
	}
	return true
}

// checkQuantity refuses quantities that are cheap to parse and expensive to compare.
func checkQuantity(text string) error {
	if len(text) > maxQuantityBytes {
		return errQuantity
	}
	_, exponent, ok := strings.Cut(strings.ToLower(text), "e")
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
