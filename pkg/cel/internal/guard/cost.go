/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/utils/ptr"
)

// The cost trackers of cel-go and Kubernetes do not count all work of a call. They compute its cost from the types in the
// expression and from the size of the top level of each argument. The objects of conditions have no types: a comparison of
// two objects with 100,000 parts costs 5 units and takes 20 ms. The constants are the prices of the work that the trackers do
// not count. They are measured: a unit takes no longer than one step of a macro, a fraction of a microsecond. The budget of a
// request therefore bounds its processor time.
const (
	// textPerUnit is how many bytes of text are read or copied for one unit.
	textPerUnit = 256
	// BytesPerUnit is how many bytes are written or counted for one unit. CEL has the same price for the
	// strings that it reads.
	BytesPerUnit = 10
	// unitsPerPart is the cost of comparing or printing a part of a value.
	unitsPerPart = 2
	// matchesPerUnit is how many instructions of a pattern are tried on a byte for one unit.
	matchesPerUnit = 16
	// comparisonsPerUnit is how many parts of elements are compared, or elements put in order,
	// for one unit.
	comparisonsPerUnit = 4
	// runesPerText is how many bytes of a text are converted to characters for one unit, and
	// charactersPerUnit how many characters indexOf compares.
	runesPerText      = 32
	charactersPerUnit = 128
	// textPerURLUnit is how many bytes of a URL are written or compared for one unit, and queryPerUnit how many bytes of
	// a URL are converted to a map of query parameters for one unit.
	textPerURLUnit = 32
	queryPerUnit   = 2
	// quotedPerUnit is how many bytes are quoted for one unit, and versionPerUnit how many bytes are parsed as a version
	// for one unit.
	quotedPerUnit  = 16
	versionPerUnit = 8
	// unitsPerFormat is what it costs to prepare a format, and to write one argument.
	unitsPerFormat = 48
	// unitsPerZone is the cost of finding a time zone, which is read from a file.
	unitsPerZone = 256
)

// costs estimates the cost of a call as Kubernetes does, and adds the work that Kubernetes does not count.
type costs struct {
	library.CostEstimator
	// walks are the functions that may walk through their arguments.
	walks sets.Set[string]
}

var _ interpreter.ActualCostEstimator = costs{}

// CallCost returns the cost of a finished call, or nil if the cost of cel-go applies.
func (c costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	switch function {
	case roundFunction:
		return ptr.To(uint64(0))
	case surchargeFunction:
		return ptr.To(costOfSurcharge(overload))
	case entryKeyFunction:
		return ptr.To(textBytes(result) / textPerUnit)
	}
	work := unseenWork(function, overload, args, result)
	if c.walks.Has(function) {
		parts, complete := walkAll(args, textPerPart)
		if work += workOfWalk(uint64(parts), args); !complete {
			return ptr.To(work) // refused; the estimator would walk through all
		}
	}
	cost := c.CostEstimator.CallCost(function, overload, args, result)
	switch {
	case work == 0 && !strings.HasSuffix(overload, constantPattern):
		return cost
	case cost == nil: // cel-go does not know an overload that ends in constantPattern
		cost = ptr.To(usualCost(function, args))
	}
	return ptr.To(*cost + work)
}

// usualCost returns an upper bound of the cost that cel-go counts for a call with large arguments of known types.
func usualCost(function string, args []ref.Val) uint64 {
	switch {
	case function == operators.In && len(args) == 2:
		return uint64(size(args[1]))
	case function == "matches" && len(args) == 2:
		return (1 + uint64(size(args[0]))/10 + 1) * (uint64(size(args[1]))/4 + 1)
	case function == "contains" && len(args) == 2:
		return (textBytes(args[0])/10 + 1) * (textBytes(args[1])/10 + 1)
	case strings.HasPrefix(function, "_"), slices.Contains([]string{"bytes", "string", "format", "startsWith", "endsWith", "strings.quote"}, function):
		return 1 + textBytes(args...)/10
	}
	return 1
}

// unseenWork returns the work of a call that neither cel-go nor Kubernetes counts, in units, without
// the walk through its arguments. It is 0 for small values of most functions. Every function pays for the texts in its
// arguments and its result, unless it only passes values on, because cel-go counts the characters of many texts to compute the
// cost of a call.
func unseenWork(function, overload string, args []ref.Val, result ref.Val) uint64 {
	if passing.Has(function) {
		return 0
	}
	work := (textBytes(args...)+textBytes(result))/textPerUnit + urlBytes(args...)/textPerURLUnit
	switch function {
	case "format":
		work += workOfFormatting(args, result)
	case "indexOf", "lastIndexOf":
		work += workOfSearching(args)
	case "charAt":
		work += textBytes(args...) / runesPerText
	case "strings.quote":
		work += textBytes(args...) / quotedPerUnit
	case "isURL", "url":
		work += textBytes(args...) / textPerURLUnit / 2
	case "getQuery":
		work += urlBytes(args...) / queryPerUnit
	case "semver", "isSemver":
		work += textBytes(args...) / versionPerUnit
	case mapInsert:
		work += workOfInserting(args)
	case "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds":
		work += unitsPerZone * uint64(len(args)-min(len(args), 1))
	case "findAll":
		work += uint64(size(result)) + workOfMatching(args, strings.HasSuffix(overload, constantPattern))
	case "matches", "find":
		work += workOfMatching(args, strings.HasSuffix(overload, constantPattern))
	case "sort", "@sortByAssociatedKeys":
		work += workOfSorting(args)
	}
	return work
}

// textBytes returns the number of bytes of all strings and byte sequences in values.
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

// urlBytes returns about how many bytes the URLs among values have.
func urlBytes(values ...ref.Val) (n uint64) {
	for _, v := range values {
		if u, ok := v.(cel.URL); ok && u.URL != nil {
			n += uint64(len(u.Scheme) + len(u.Opaque) + len(u.Host) + len(u.Path) + len(u.RawPath) + len(u.RawQuery) + len(u.Fragment))
		}
	}
	return n
}

// partsOf returns how many parts values have, or maxDeep if they have more; functions refuse larger values.
func partsOf(values ...ref.Val) uint64 {
	parts, _ := walkAll(values, textPerPart)
	return uint64(parts)
}

// workOfSearching returns the work of searching for one text at every place of another text. It is 0 for a search that
// checkSearch refuses.
func workOfSearching(args []ref.Val) uint64 {
	if len(args) == 0 {
		return 0
	}
	searched, wanted := searchOf(args)
	if (searched-wanted)*wanted > maxSearch {
		return 0 // refused
	}
	return textBytes(args...)/runesPerText + (searched-wanted)*wanted/charactersPerUnit
}

// workOfInserting is the work of inserting an entry, or all entries of a map, into another map. The text of a single key is
// charged as an argument.
func workOfInserting(args []ref.Val) uint64 {
	work := uint64(size(args[len(args)-1]))
	if len(args) == 2 {
		//guard:cost-keys-inserted
		work += costOfKeys(args[1])
	}
	return work
}

// costOfKeys returns the cost of reading the keys of a map, or 0 if a value is no map. It is 0 for short keys.
func costOfKeys(v ref.Val) uint64 {
	if _, ok := v.(traits.Mapper); !ok {
		return 0
	}
	return textIn(v) / textPerUnit
}

// textIn returns the number of bytes of the texts that are elements of a list, or keys of a map.
func textIn(v ref.Val) (text uint64) {
	if of, ok := v.(traits.Iterable); ok {
		for it := of.Iterator(); it.HasNext() == types.True; {
			text += textBytes(it.Next())
		}
	}
	return text
}

// workOfFormatting is the work of reading a format and of writing each of its arguments.
func workOfFormatting(args []ref.Val, result ref.Val) uint64 {
	if len(args) == 0 {
		return 0
	}
	work := unitsPerFormat + textBytes(args[:1]...)/BytesPerUnit + textBytes(result)/BytesPerUnit
	if format, ok := args[0].(types.String); ok {
		work += unitsPerFormat * uint64(strings.Count(string(format), "%"))
	}
	return work
}

// workOfParts returns the work of walking through the parts of values. It is 0 for simple values.
func workOfParts(args []ref.Val) uint64 {
	return workOfWalk(partsOf(args...), args)
}

func workOfWalk(parts uint64, args []ref.Val) uint64 {
	return unitsPerPart * (parts - min(parts, uint64(len(args))))
}

// workOfSorting is the work of the comparisons of a sort. The last argument has the keys.
func workOfSorting(args []ref.Val) uint64 {
	if len(args) == 0 {
		return 0
	}
	keys := args[len(args)-1]
	if _, ok := keys.(traits.Lister); !ok {
		return 0
	}
	n := uint64(size(keys))
	return (n/comparisonsPerUnit + textIn(keys)/textPerUnit) * uint64(bits.Len64(n))
}

// workOfElements is the work of a number of comparisons between elements of lists, beyond the comparison of
// simple values: elements that are lists or maps are compared part by part.
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
