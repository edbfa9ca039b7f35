/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"math/bits"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/utils/ptr"
)

// The cost trackers of cel-go and Kubernetes count what the types of an expression tell, and
// the top of values only: to compare two objects of 100,000 parts costs 5 units and takes
// 20 ms, and the objects of conditions have no types. These are what a unit pays for beyond
// that, measured so that a unit of no function takes longer than one step of a macro, which
// is a fraction of a microsecond: the budget of a request then bounds its processor time.
const (
	// textPerUnit is how many bytes of text are read or copied for one unit.
	textPerUnit = 256
	// unitsPerPart is what it costs to compare or print a part of a value.
	unitsPerPart = 2
	// matchesPerUnit is how many instructions of a pattern are tried on a byte for one unit.
	matchesPerUnit = 16
	// comparisonsPerUnit is how many parts of elements are compared, or elements put in order,
	// for one unit.
	comparisonsPerUnit = 4
	// runesPerText is how many bytes of a text are made characters for one unit, and
	// charactersPerUnit how many of these indexOf compares.
	runesPerText      = 32
	charactersPerUnit = 128
	// unitsPerFormat is what it costs to prepare a format, and to write one argument.
	unitsPerFormat = 48
	// unitsPerZone is what it costs to find a time zone, which is read from a file.
	unitsPerZone = 256
)

// costs estimates what calls have cost: as Kubernetes does, plus the work that it does not see.
type costs struct {
	library.CostEstimator
}

var _ interpreter.ActualCostEstimator = costs{}

// CallCost returns the cost of a call that has been made, or nil if the cost of cel-go applies.
func (c costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if function == roundFunction {
		return ptr.To(uint64(0))
	}
	cost := c.CostEstimator.CallCost(function, overload, args, result)
	work := unseenWork(function, overload, args, result)
	switch {
	case work == 0 && !strings.HasSuffix(overload, constantPattern):
		return cost
	case cost == nil: // cel-go does not know an overload that ends in constantPattern
		cost = ptr.To(usualCost(function, args))
	}
	return ptr.To(*cost + work)
}

// usualCost is at least what cel-go counts for a call with large arguments of known types.
func usualCost(function string, args []ref.Val) uint64 {
	switch {
	case function == operators.In && len(args) == 2:
		return uint64(size(args[1]))
	case function == "matches" && len(args) == 2:
		return (1 + uint64(size(args[0]))/10 + 1) * (uint64(size(args[1]))/4 + 1)
	case strings.HasPrefix(function, "_") || function == "bytes" || function == "string" || function == "format":
		return 1 + textBytes(args...)/10
	}
	return 1
}

// unseenWork returns the work of a call that neither cel-go nor Kubernetes counts, in units. It
// is 0 for small values.
func unseenWork(function, overload string, args []ref.Val, result ref.Val) uint64 {
	switch function {
	case operators.Equals, operators.NotEquals, operators.In:
		return workOfParts(args)
	case "format":
		return workOfFormatting(args, result)
	case "indexOf", "lastIndexOf", "includes":
		return workOfSearching(args)
	case "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds":
		return unitsPerZone * uint64(len(args)-min(len(args), 1))
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.Add,
		"size", "charAt", "bytes", "string", "reverse", "strings.quote", "startsWith", "endsWith":
		return textBytes(args...) / textPerUnit
	case "matches", "find", "findAll":
		return workOfMatching(args, strings.HasSuffix(overload, constantPattern))
	case "sort", "@sortByAssociatedKeys":
		return workOfSorting(args)
	}
	return 0
}

// textBytes returns how many bytes the texts among values have.
func textBytes(values ...ref.Val) (n uint64) {
	for _, v := range values {
		switch text := v.(type) {
		case types.String:
			n += uint64(len(text))
		case types.Bytes:
			n += uint64(len(text))
		}
	}
	return n
}

// partsOf returns how many parts values have, up to maxDeep: what is larger is not compared.
func partsOf(values ...ref.Val) uint64 {
	budget := maxDeep
	for _, v := range values {
		if !walk(v, &budget) {
			return maxDeep
		}
	}
	return uint64(maxDeep - budget)
}

// workOfSearching is the work of looking for a text at every place of another, or for a value among
// the elements of a list.
func workOfSearching(args []ref.Val) uint64 {
	if len(args) == 0 {
		return 0
	}
	if _, ok := args[0].(traits.Lister); ok {
		parts := partsOf(args[0])
		return unitsPerPart * (parts - min(parts, 1+uint64(size(args[0]))))
	}
	searched, wanted := searchOf(args)
	if (searched-wanted)*wanted > maxSearch {
		return 0 // refused
	}
	return textBytes(args...)/runesPerText + (searched-wanted)*wanted/charactersPerUnit
}

// workOfFormatting is the work of reading a format and of writing each of its arguments.
func workOfFormatting(args []ref.Val, result ref.Val) uint64 {
	if len(args) == 0 {
		return 0
	}
	work := workOfParts(args) + unitsPerFormat + textBytes(args[:1]...)/bytesPerUnit + textBytes(result)/bytesPerUnit
	if format, ok := args[0].(types.String); ok {
		work += unitsPerFormat * uint64(strings.Count(string(format), "%"))
	}
	return work
}

// workOfParts is the work of walking through values that are not simple.
func workOfParts(args []ref.Val) uint64 {
	parts := partsOf(args...)
	return unitsPerPart * (parts - min(parts, uint64(len(args))))
}

// workOfSorting is the work of comparing each element with as many others as it takes to find its
// place. The last argument has what is compared.
func workOfSorting(args []ref.Val) uint64 {
	if len(args) == 0 {
		return 0
	}
	keys, ok := args[len(args)-1].(traits.Lister)
	if !ok {
		return 0
	}
	var text uint64
	for it := keys.Iterator(); it.HasNext() == types.True; {
		text += textBytes(it.Next())
	}
	n := uint64(size(keys))
	return (n/comparisonsPerUnit + text/textPerUnit) * uint64(bits.Len64(n))
}

// workOfElements is the work of comparing elements of lists with each other so many times, beyond
// a comparison of simple values: elements that are lists and maps are compared part by part.
func workOfElements(times uint64, lists ...ref.Val) uint64 {
	elements := uint64(0)
	for _, list := range lists {
		elements += uint64(size(list))
	}
	parts := partsOf(lists...)
	if simple := elements + uint64(len(lists)); parts <= simple || elements == 0 {
		return 0
	}
	return times * (parts / elements) / comparisonsPerUnit
}
