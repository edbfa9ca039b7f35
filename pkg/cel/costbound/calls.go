/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"math"
	"regexp"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/pkg/cel/internal/guard"
)

// The prices of work. cel-go counts a tenth of a unit for a character that a function reads, and kube-apiserver 350,000 units for a check
// of an authorizer. The other prices are of work that cel-go does not count. They are measured: a unit is a twelfth of a microsecond.
const (
	perByte  = 0.1
	perCheck = 350_000
	// perSelectorByte is the price of parsing a selector.
	perSelectorByte = 30
	// charactersPerUnit is how many characters are counted for one unit: cel-go needs the number to know what a call costs. It does
	// not matter for texts of at most shortText.
	charactersPerUnit, shortText = 32, 512
	// perPart is the price of each byte of values that are compared, or walked through. A part has two bytes at least.
	perPart = 1.2
	// matchesPerUnit is how many instructions of a pattern are tried on a character for one unit.
	matchesPerUnit = 3
	// perParsed is the price of a character of a number, a time or an address. perCopied is the price of a character that is copied.
	perParsed, perCopied = 0.1, 0.01
	// comparedPerUnit is how many characters of two texts are compared for one unit. perFound is the price of an element that is compared with a text.
	comparedPerUnit, perFound = 64, 0.5
	// perSorted is the price of an element of a list that is sorted.
	perSorted = 10
	// perVersion is the price of a character of a semantic version. perZone is the price of a time zone, for which files are read.
	perVersion, perZone = 1.5, 1000
	// numberBytes is the most that a number has when it is formatted: 309 digits, a sign, a point, and as many decimals as cel-go allows. In a list or
	// a map it has at most numberPerByte for each byte as JSON, as 1e308 has.
	numberBytes, numberPerByte = 420, 60
	// messagesBytes is the most that the messages of a named format have.
	messagesBytes = 1000
	// deepest is the depth to which JSON is decoded.
	deepest = 10_000
	// formatBytes is the largest pattern of a named format, in characters and in instructions.
	formatBytes, formatInstructions = 512, 2048
)

// constant are functions that take no longer for larger arguments.
var constant = sets.New(strings.Fields(`!_ -_ _%_ _*_ _-_ _/_ @not_strictly_false __not_strictly_false__ _&&_ _||_ type hasValue optional.none
	allowed reason error errored group resource subresource namespace name path serviceAccount add sub sign isInteger asInteger asApproximateFloat
	major minor patch family isGlobalUnicast isLinkLocalMulticast isLinkLocalUnicast isLoopback isMask isUnspecified masked prefixLength
	format.byte format.date format.datetime format.dns1035Label format.dns1035LabelPrefix format.dns1123Label
	format.dns1123LabelPrefix format.dns1123Subdomain format.dns1123SubdomainPrefix format.labelValue format.qualifiedName format.uri format.uuid`)...)

// passing are functions that return their first argument, or one of their arguments.
var passing = sets.New(strings.Fields("dyn optional.of optional.ofNonZeroValue value or orValue optional.unwrap unwrapOpt")...)

// parsing are functions that read their arguments once, and return a small value.
var parsing = sets.New(strings.Fields(`bool double int uint duration timestamp ip isIP ip.isCanonical cidr isCIDR containsIP containsCIDR isURL format.named`)...)

// dating are functions that return a part of a time, in a time zone if there is one.
var dating = sets.New(strings.Fields("getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds")...)

// ordering are the operators that compare numbers and texts.
var ordering = sets.New(strings.Fields("_<_ _<=_ _>_ _>=_")...)

// copying are functions that return a text, or a URL, that is about as long as their arguments. Of counting, cel-go counts each character.
var (
	copying  = sets.New(strings.Fields("string charAt getHost getHostname getPort getScheme")...)
	counting = sets.New(strings.Fields("bytes lowerAscii upperAscii substring trim")...)
)

// listing are functions that walk once through a list, and return it, a part of it or one element.
var listing = sets.New(strings.Fields("isSorted sum min max reverse slice")...)

// own returns the value of a call, and the cost of the call without its arguments.
func (w *walk) own(function string, args []ast.Expr, results []result) result {
	values := make([]value, 0, len(results))
	for _, r := range results {
		values = append(values, r.value)
	}
	switch {
	case constant.Has(function):
		return result{value: small(), cost: units(1)}
	case passing.Has(function):
		v := values[0]
		for _, other := range values[1:] {
			v = v.union(other)
		}
		return result{value: v, cost: units(1).plus(w.walkThrough(function == "optional.ofNonZeroValue", values...))}
	case ordering.Has(function):
		total := w.reads(values...)
		total.counted = values[0].bytes.smaller(values[1].bytes).times(perByte).plus(fixed(2))
		return result{value: small(), cost: total}
	case function == "size":
		return result{value: small(), cost: cost{counted: fixed(2), unseen: w.reads(values...).unseen}}
	case function == "startsWith" || function == "endsWith":
		return result{value: small(), cost: counted(values[1])}
	case parsing.Has(function):
		return result{value: small(), cost: w.reads(values...).plus(work(sizes(values).times(perParsed)))}
	case dating.Has(function):
		//guard:cost-time-zones
		return result{value: small(), cost: w.reads(values...).plus(work(fixed(perZone * float64(len(values)-1))))}
	case counting.Has(function):
		return result{value: textOf(sizes(values)), cost: w.reads(values...).plus(work(sizes(values).times(perParsed)))}
	case copying.Has(function):
		return result{value: textOf(sizes(values)), cost: w.reads(values...).plus(work(sizes(values).times(perParsed)))}
	case listing.Has(function):
		return result{value: values[0], cost: w.traverse(values...)}
	}
	return w.special(function, args, values)
}

// special returns the bound of functions that are like no other.
func (w *walk) special(function string, args []ast.Expr, values []value) result {
	switch function {
	case operators.Equals, operators.NotEquals:
		return result{value: small(), cost: w.compare(values[0], values[1])}
	case operators.Add:
		return w.sum(values[0], values[1])
	case operators.In, operators.OldIn, "in", "includes":
		return result{value: small(), cost: w.find(function, values)}
	case "flatten": // it returns the elements of all elements
		return w.flatten(args, values)
	case "first", "last":
		//guard:cost-ends-of-lists
		return result{value: values[0].entry(values[0].bytes), cost: units(1)}
	case "format":
		clauses, perByte := values[0].bytes.times(0.5), 2.0
		if pattern, ok := literalText(args[0]); ok {
			clauses = fixed(float64(strings.Count(pattern, "%")))
		}
		//guard:cost-formatted-lists
		if !values[1].isFlat {
			perByte = numberPerByte
		}
		//guard:cost-formatted-numbers
		made := values[0].bytes.plus(values[1].bytes.times(perByte), clauses.times(numberBytes))
		return result{value: textOf(made), cost: w.reads(values...).plus(work(made.times(perPart).plus(fixed(100))))}
	case "getQuery":
		return result{value: value{shape: mapping, bytes: values[0].bytes.times(2)}, cost: w.reads(values...).plus(work(sizes(values).times(1.25 * perPart)))}
	case "cel.@mapInsert":
		return w.insert(values)
	case "check":
		return result{value: small(), cost: units(perCheck)}
	case "fieldSelector", "labelSelector":
		return result{value: small(), cost: units(20).plus(cost{counted: values[1].bytes.times(perSelectorByte), unseen: values[1].bytes.times(perSelectorByte)})}
	case "matches", "find", "findAll", "validate":
		return w.match(function, args, values)
	case "strings.quote": // it writes two characters for a quotation mark
		//guard:cost-quotes
		return result{value: textOf(values[0].bytes.times(2).plus(fixed(2))), cost: w.reads(values...).plus(work(sizes(values).times(2 * perParsed)))}
	case "url": // two are compared as texts that are made for it
		return result{value: value{bytes: values[0].bytes}, cost: w.reads(values...).plus(work(sizes(values).times(perParsed)))}
	case "getEscapedPath":
		return result{value: textOf(values[0].bytes.times(3)), cost: w.reads(values...).plus(work(sizes(values).times(perParsed)))}
	case "quantity", "isQuantity":
		return w.quantity(function, args, values)
	case "semver", "isSemver":
		//guard:cost-versions
		return result{value: value{bytes: values[0].bytes}, cost: w.reads(values...).plus(work(sizes(values).times(perVersion)))}
	case "compareTo", "isGreaterThan", "isLessThan": // versions or quantities
		return result{value: small(), cost: units(1).plus(work(sizes(values).times(perVersion)))}
	case "sort", "@sortByAssociatedKeys":
		return result{value: values[0], cost: w.traverse(values...).plus(work(values[0].elements().times(perSorted)))}
	case "lists.range":
		return w.numbers(args[0])
	}
	return w.products(function, values)
}

// flatten returns the bound of a list of the elements of the elements of a list, to a depth that must be a literal.
func (w *walk) flatten(args []ast.Expr, values []value) result {
	depth := 1.0
	if len(args) > 1 {
		literal, ok := literalInt(args[1])
		//guard:cost-flattened-depth
		if !ok {
			return w.isUnbounded("flatten")
		}
		depth = min(max(literal, 1), deepest)
	}
	//guard:cost-flattened-lists
	r := result{value: value{shape: list, bytes: values[0].bytes}, cost: w.traverse(values...)}
	r.cost.unseen = r.cost.unseen.times(depth)
	return r
}

// quantity returns the bound of parsing a quantity. It has none for any text: 1e-9999999 takes seconds.
func (w *walk) quantity(function string, args []ast.Expr, values []value) result {
	literal, isLiteral := literalText(args[0])
	isShort := isLiteral && len(literal) <= guard.MaxQuantityBytes && !largeExponent.MatchString(literal)
	//guard:cost-quantities
	if !isShort && !isPlain(args[0]) && !values[0].types.areQuantities() {
		return w.isUnbounded(function)
	}
	return result{value: small(), cost: w.reads(values...).plus(work(sizes(values).times(perParsed)))}
}

var largeExponent = regexp.MustCompile(guard.LargeExponent)

// isPlain reports whether an expression is a text that is parsed as a quantity quickly:
// size(x) <= 64 && !x.matches("[eE][+-]?[0-9]{4}") ? x : dyn(0).
func isPlain(e ast.Expr) bool {
	choice, ok := callOf(operators.Conditional, e)
	if !ok {
		return false
	}
	if _, isNumber := literalInt(argumentOf("dyn", choice[2])); !isNumber {
		return false
	}
	both, ok := callOf(operators.LogicalAnd, choice[0])
	if !ok {
		return false
	}
	limit, isLimited := limitOf(both[0], choice[1])
	negated, ok := callOf(operators.LogicalNot, both[1])
	if !ok || !isLimited || limit > guard.MaxQuantityBytes {
		return false
	}
	matches, ok := callOf("matches", negated[0])
	if !ok || !isSame(matches[0], choice[1]) {
		return false
	}
	pattern, ok := literalText(matches[1])
	return ok && pattern == guard.LargeExponent
}

// callOf returns the arguments of a call of a function, the receiver among them, and false if the expression is no such call.
func callOf(function string, e ast.Expr) ([]ast.Expr, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != function {
		return nil, false
	}
	args := e.AsCall().Args()
	if e.AsCall().IsMemberFunction() {
		args = append([]ast.Expr{e.AsCall().Target()}, args...)
	}
	return args, true
}

// insert returns the bound of a map to which an entry, or all entries of another map, are added.
func (w *walk) insert(values []value) result {
	made := value{shape: mapping, bytes: sizes(values), count: values[0].count + 1, counted: values[0].counted}
	if len(values) > 2 {
		return result{value: made, cost: units(2)}
	}
	//guard:cost-merged-maps
	made.count, made.counted = values[0].count+values[1].count, values[0].counted && values[1].counted
	return result{value: made, cost: units(2).plus(w.traverse(values[1]))}
}

// products returns the bound of functions whose work, or the size of whose value, is a product of the sizes of two arguments.
func (w *walk) products(function string, values []value) result {
	other := values[len(values)-1]
	reads := w.reads(values...)
	switch function {
	case "contains":
		product := values[0].bytes.times(perByte).plus(fixed(1)).multiplied(other.bytes.times(perByte).plus(fixed(1)))
		return result{value: small(), cost: reads.plus(cost{counted: product})}
	case "indexOf", "lastIndexOf":
		compared := values[0].bytes.multiplied(values[1].bytes.times(1.0 / comparedPerUnit).plus(fixed(perParsed)))
		return result{value: small(), cost: w.traverse(values...).plus(work(compared))}
	case "sets.contains", "sets.equivalent", "sets.intersects":
		return result{value: small(), cost: reads.plus(w.pairs(values[0], values[1]))}
	case "distinct":
		return result{value: values[0], cost: reads.plus(w.pairs(values[0], values[0]))}
	case "split":
		return result{value: value{shape: list, bytes: values[0].bytes.times(4)}, cost: reads.plus(work(values[0].bytes.times(perParsed)))}
	case "replace":
		made := values[0].bytes.plus(fixed(1)).multiplied(values[2].bytes.plus(fixed(1)))
		return result{value: textOf(made), cost: reads.plus(work(made.times(perParsed)))}
	case "join":
		made := values[0].bytes.plus(values[0].elements().multiplied(sizes(values[1:])))
		return result{value: textOf(made), cost: reads.plus(cost{counted: made.times(2 * perByte)}, work(made.times(perParsed)), w.walkThrough(true, values[0]))}
	}
	//guard:cost-unknown-functions
	return w.isUnbounded(function) // a function that this version does not know
}

// sizes returns the sum of the sizes of values.
func sizes(values []value) form {
	forms := make([]form, 0, len(values))
	for _, v := range values {
		forms = append(forms, v.bytes)
	}
	return none.plus(forms...)
}

// counted returns the cost of a call that reads its arguments once, of which cel-go counts each character.
func counted(values ...value) cost {
	total := units(1 + float64(len(values))) // every part of a cost is rounded
	for _, v := range values {
		if v.shape == unknown || v.shape == text {
			total.counted = total.counted.plus(v.bytes.times(3 * perByte))
		}
	}
	return total
}

// reads is counted for a call of which cel-go may count fewer characters. It still finds out how many there are.
func (w *walk) reads(values ...value) cost {
	total := counted(values...)
	for _, v := range values {
		if (v.shape == unknown || v.shape == text) && (!v.bytes.isFixed() || v.bytes.fixed > shortText) {
			total.unseen = total.unseen.plus(v.bytes.times(1.0 / charactersPerUnit))
		}
	}
	return total
}

// walkThrough returns the cost of walking through values part by part, if a function does.
func (w *walk) walkThrough(walks bool, values ...value) cost {
	total := cost{}
	for _, v := range values {
		if walks && v.isWalked() {
			total = total.plus(work(v.bytes.times(perPart)))
		}
	}
	return total
}

// traverse returns the cost of a call that walks through its first argument. Kubernetes counts a unit for each part.
func (w *walk) traverse(values ...value) cost {
	total := w.reads(values...).plus(w.walkThrough(true, values[0]))
	total.counted = total.counted.plus(values[0].elements(), values[0].bytes.times(1.0/unknownElement))
	return total
}

// compare returns the cost of a comparison, which ends at the end of the smaller value.
func (w *walk) compare(a, b value) cost {
	least := a.bytes.smaller(b.bytes)
	total := w.reads(a, b)
	total.counted = least.times(perByte).plus(fixed(2))
	if a.isWalked() && b.isWalked() {
		return total.plus(work(least.times(perPart)))
	}
	return total
}

// sum returns the bound of the sum of two texts, lists or numbers.
func (w *walk) sum(a, b value) result {
	v := value{bytes: a.bytes.plus(b.bytes)}
	//guard:cost-sums
	total := cost{counted: fixed(1), claimed: counted(a, b).counted, unseen: v.bytes.times(perCopied)}
	switch {
	case a.shape == scalar && b.shape == scalar:
		return result{value: small(), cost: units(1)}
	case a.shape == text || b.shape == text:
		v.shape = text
		return result{value: v, cost: total}
	case a.shape == list || b.shape == list:
		v.shape, v.count, v.counted = list, a.count+b.count, a.counted && b.counted
	}
	// An element of the first one of many lists is taken out of each sum.
	return result{value: v, cost: total.plus(work(v.elements().times(2 * perFound)))}
}

// find returns the cost of looking for a value in a list, or in the keys of a map.
func (w *walk) find(function string, values []value) cost {
	wanted, in := values[0], values[1]
	if function == "includes" {
		wanted, in = in, wanted
	}
	total := units(1)
	if function == "includes" {
		total = w.traverse(in)
	}
	if in.shape == mapping {
		return total
	}
	//guard:cost-found-elements
	total = total.plus(cost{claimed: in.elements(), unseen: in.elements().times(perFound)})
	if wanted.shape == scalar || wanted.shape == text || wanted.bytes.isFixed() {
		return total
	}
	return total.plus(w.walkThrough(true, in))
}

// pairs returns the cost of comparing each element of one list with each of another one.
func (w *walk) pairs(a, b value) cost {
	count := a.elements().plus(fixed(1)).multiplied(b.elements().plus(fixed(1)))
	parts := a.bytes.multiplied(b.elements().plus(fixed(1))).plus(b.bytes.multiplied(a.elements().plus(fixed(1)))).times(perPart)
	//guard:cost-pairs-of-texts
	if a.isFlat || b.isFlat {
		parts = parts.times(1 / (perPart * comparedPerUnit))
	}
	return cost{counted: count.times(2)}.plus(work(count.plus(parts)))
}

// match returns the bound of a call with a regular expression. It has none for a pattern that is not a literal.
func (w *walk) match(function string, args []ast.Expr, values []value) result {
	searched, length, instructions := values[0], float64(formatBytes), float64(formatInstructions)
	if function == "validate" {
		searched = values[1]
	} else {
		pattern, ok := literalText(args[1])
		//guard:cost-patterns-no-constants
		if !ok {
			return w.isUnbounded(function)
		}
		length, instructions = float64(len(pattern)), float64(w.width(pattern))
	}
	steps := searched.bytes.plus(fixed(1)).times(perByte).plus(fixed(1)).times(math.Ceil(length/4) + 1)
	found := result{value: value{bytes: searched.bytes.times(4).plus(fixed(2))}, cost: cost{counted: steps}.plus(counted(values...))}
	tries := 1.0
	if function == "findAll" {
		var ok bool
		//guard:cost-matches-of-any-text
		if tries, ok = triesOf(args, searched); !ok {
			return w.isUnbounded(function)
		}
	}
	found.cost = found.cost.plus(work(searched.bytes.times(tries * instructions / matchesPerUnit)))
	switch function {
	case "matches":
		found.value = small()
	case "find":
		found.value = textOf(searched.bytes)
	case "validate":
		//guard:cost-messages
		found.bytes = found.bytes.plus(fixed(messagesBytes))
	}
	return found
}

// width returns the width of a pattern, which is found once.
func (w *walk) width(pattern string) int {
	found, ok := w.widths[pattern]
	if !ok {
		found = guard.PatternWidth(pattern)
		w.widths[pattern] = found
	}
	return found
}

// triesOf returns how often findAll searches a text at most. Each time it may read the rest of the text, to find a match of one character.
func triesOf(args []ast.Expr, searched value) (tries float64, ok bool) {
	if pattern, _ := literalText(args[1]); guard.BeginsText(pattern) {
		return 1, true
	}
	if len(args) > 2 {
		if most, ok := literalInt(args[2]); ok && most >= 0 {
			return most + 1, true
		}
	}
	return searched.bytes.fixed + 1, searched.bytes.isFixed() && !searched.bytes.isInfinite()
}

// numbers returns the bound of a list of numbers, which must have a literal length.
func (w *walk) numbers(length ast.Expr) result {
	n, ok := literalInt(length)
	if !ok {
		return w.isUnbounded("lists.range")
	}
	count := max(n, 0)
	return result{value: value{shape: list, bytes: fixed(count * scalarBytes), count: count, counted: true, isFlat: true}, cost: work(fixed(2 * count))}
}
