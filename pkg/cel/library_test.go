/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestLibrary evaluates every operator and function of CEL and of the libraries of Kubernetes on values that the compiler cannot see, as
// the specification of the language and the documents of the libraries say. Authors of policies rely on each of them, also
// at the ends of its range.
func TestLibrary(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	object := map[string]any{
		"zero": int64(0), "one": int64(1), "two": int64(2), "minus": int64(-7), "max": int64(math.MaxInt64), "min": int64(math.MinInt64), "half": 0.5, "nan": math.NaN(), "inf": math.Inf(1), "negzero": math.Copysign(0, -1),
		"yes": true, "no": false, "absent": nil, "empty": "", "a": "a", "text": "Grüße, Welt", "bad": "\xff", "list": []any{int64(3), int64(1), int64(2)}, "words": []any{"b", "a", "b"}, "none": []any{}, "nested": []any{[]any{int64(1)}, []any{int64(2), []any{int64(3)}}},
		"mixed": []any{int64(1), "1", 1.0, nil}, "map": map[string]any{"k": "v", "n": int64(1)}, "nothing": map[string]any{}, "quantity": "1500m", "ip": "10.0.0.1", "cidr": "10.0.0.0/8", "url": "https://u:p@h.example:8443/p%20q/?a=b&a=c&d=", "version": "1.2.3-rc.1+b",
		"time": "2024-02-29T23:59:59.123Z", "duration": "1h30m", "json": `{"a":1}`, "pattern": "^[a-z]+$",
	}
	for _, tc := range []struct {
		name, expression string
		want             bool
		wantErr          string
	}{
		{name: "equal numbers of other types", expression: `object.one == 1 && object.one == 1u && object.one == 1.0 && 1u == object.one`, want: true},
		{name: "values of other types are not equal", expression: `object.one == "1" || object.absent == 0 || object.yes == 1 || object.none == object.nothing`},
		{name: "no number equals itself", expression: `object.nan == object.nan || object.nan in [object.nan] || [object.nan] == [object.nan]`},
		{name: "no number is not equal to itself", expression: `object.nan != object.nan`, want: true},
		{name: "zero below zero", expression: `object.negzero == 0 && object.negzero == 0.0 && !(object.negzero < 0)`, want: true},
		{name: "order of numbers of other types", expression: `object.one < 1.5 && object.half < 1u && object.max < object.inf && 2u > object.one`, want: true},
		{name: "order of what is no number", expression: `object.nan < 1 || object.nan > 1 || object.nan <= object.nan || object.nan >= object.nan`, wantErr: "NaN values cannot be ordered"},
		{name: "order of texts is by code points", expression: `"Z" < object.a && object.empty < object.a && "ä" > "z" && "aa" > object.a`, want: true},
		{name: "order of bools", expression: `object.no < object.yes && !(object.yes < object.yes)`, want: true},
		{name: "order of bytes", expression: `bytes(object.a) < b"b" && b"" < bytes(object.a)`, want: true},
		{name: "order of a text and a number", expression: `object.a < object.one`, wantErr: "no such overload"},
		{name: "order of lists", expression: `dyn(object.list) < object.list`, wantErr: "no such overload"},
		{name: "order of null", expression: `object.absent < object.one`, wantErr: "no such overload"},

		{name: "a sum", expression: `object.one + object.two == 3 && object.half + 0.5 == 1.0 && object.a + "b" == "ab" && object.none + [1] == [1] && bytes(object.a) + b"b" == b"ab"`, want: true},
		{name: "a sum that is too large", expression: `object.max + object.one > 0`, wantErr: "integer overflow"},
		{name: "a sum that is too small", expression: `object.min + object.minus < 0`, wantErr: "integer overflow"},
		{name: "a sum of other types", expression: `object.one + object.half == 1.5`, wantErr: "no such overload"},
		{name: "a sum of a text and a number", expression: `object.a + object.one == "a1"`, wantErr: "no such overload"},
		{name: "a difference", expression: `object.one - object.two == -1 && object.half - 0.5 == 0.0`, want: true},
		{name: "a difference that is too small", expression: `object.min - object.one < 0`, wantErr: "integer overflow"},
		{name: "a difference of numbers without sign that is below zero", expression: `uint(object.one) - uint(object.two) == 0u`, wantErr: "unsigned integer overflow"},
		{name: "a product", expression: `object.two * object.minus == -14 && object.half * 4.0 == 2.0`, want: true},
		{name: "a product that is too large", expression: `object.max * object.two > 0`, wantErr: "integer overflow"},
		{name: "a product that is no integer any more", expression: `object.min * -object.one == 0`, wantErr: "integer overflow"},
		{name: "a quotient, which is cut off towards zero", expression: `object.minus / object.two == -3 && 7 / object.two == 3 && -object.minus / -object.two == -3`, want: true},
		{name: "a quotient of the least integer", expression: `object.min / -object.one == 0`, wantErr: "integer overflow"},
		{name: "division by zero", expression: `object.one / object.zero == 0`, wantErr: "division by zero"},
		{name: "division of a fraction by zero", expression: `1.0 / object.negzero < 0.0 && 1.0 / 0.0 == object.inf`, want: true},
		{name: "division of zero by zero", expression: `object.negzero / object.negzero == 0.0`},
		{name: "a remainder, which has the sign of the dividend", expression: `object.minus % object.two == -1 && 7 % -object.two == 1`, want: true},
		{name: "a remainder of zero", expression: `object.one % object.zero == 0`, wantErr: "modulus by zero"},
		{name: "a remainder of fractions", expression: `object.half % object.half == 0.0`, wantErr: "no such overload"},
		{name: "a negated number", expression: `-object.minus == 7 && -object.half == -0.5`, want: true},
		{name: "a negated text", expression: `-object.a == 1`, wantErr: "no such overload"},

		{name: "a choice", expression: `(object.yes ? object.one : object.missing) == 1 && (object.no ? object.missing : object.two) == 2`, want: true},
		{name: "a choice by what is no bool", expression: `(object.one ? 1 : 2) == 1`, wantErr: "no such overload"},
		{name: "a choice by an error", expression: `(object.missing ? 1 : 2) == 1`, wantErr: "no such key"},
		{name: "or with an error", expression: `(object.missing || object.yes) && (object.yes || object.missing)`, want: true},
		{name: "or of an error and false", expression: `object.missing || object.no`, wantErr: "no such key"},
		{name: "and with an error", expression: `(object.missing && object.no) || (object.no && object.missing)`},
		{name: "and of an error and true", expression: `object.yes && object.missing`, wantErr: "no such key"},
		{name: "not", expression: `!object.no`, want: true},
		{name: "not of null", expression: `!object.absent`, wantErr: "no such overload"},

		{name: "membership", expression: `object.one in object.list && 1.0 in object.list && !("1" in object.list) && "k" in object.map && !("v" in object.map)`, want: true},
		{name: "membership in nothing", expression: `object.one in object.none || object.absent in object.nothing`},
		{name: "membership of null", expression: `object.absent in object.mixed && !(null in object.list)`, want: true},
		{name: "membership in a text", expression: `object.a in object.text`, wantErr: "no such overload"},
		{name: "an index by a number of another type", expression: `object.list[1u] == 1 && object.list[1.0] == 1`, want: true},
		{name: "an index that is far too large", expression: `object.list[object.max] == 1`, wantErr: "index out of bounds"},
		{name: "an index by a text", expression: `object.list["1"] == 1`, wantErr: "unsupported index"},
		{name: "a key by an index", expression: `object.map["k"] == "v" && object.map[?"x"].orValue("w") == "w"`, want: true},
		{name: "a field of a text", expression: `object.a.b == 1`, wantErr: "no such key"},
		{name: "has of a null field", expression: `has(object.absent) && !has(object.map.x) && !has(object.absent.x)`, want: true},
		{name: "has of a field of what is missing", expression: `has(object.missing.x)`, wantErr: "no such key"},

		{name: "size is in code points, elements, entries and bytes", expression: `size(object.text) == 11 && object.list.size() == 3 && object.map.size() == 2 && size(bytes(object.text)) == 13`, want: true},
		{name: "size of nothing", expression: `size(object.empty) + size(object.none) + size(object.nothing) == 0`, want: true},
		{name: "size of a number", expression: `size(object.one) == 1`, wantErr: "no such overload"},
		{name: "types", expression: `type(object.one) == int && type(object.half) == double && type(object.absent) == null_type && type(object.list) == list && type(object.map) == map && type(type(object.a)) == type`, want: true},
		{name: "an int of others", expression: `int("-7") == object.minus && int(object.half) == 0 && int(-1.9) == -1 && int(7u) == 7 && int(timestamp("1970-01-01T00:00:07Z")) == 7`, want: true},
		{name: "an int of what is no number", expression: `int(object.nan) == 0`, wantErr: "overflow"},
		{name: "an int of what has no end", expression: `int(object.inf) == 0`, wantErr: "overflow"},
		{name: "an int of a text that is none", expression: `int(object.empty + "1.0") == 1`, wantErr: "type conversion error"},
		{name: "an int of a text with a space", expression: `int(object.empty + " 1") == 1`, wantErr: "type conversion error"},
		{name: "an int of a text beyond the range", expression: `int(object.empty + "9223372036854775808") == 1`, wantErr: "type conversion error"},
		{name: "a uint of a number below zero", expression: `uint(object.minus) == 7u`, wantErr: "overflow"},
		{name: "a uint of the greatest int", expression: `uint(object.max) == 9223372036854775807u`, want: true},
		{name: "a double of others", expression: `double(object.one) == 1.0 && double("-1e3") == -1000.0 && double("Infinity") == object.inf && double("NaN") != double("NaN")`, want: true},
		{name: "a string of others", expression: `string(object.one) == "1" && string(object.half) == "0.5" && string(object.yes) == "true" && string(b"a") == "a" && string(7u) == "7" && string(object.inf) == "+Inf"`, want: true},
		{name: "a string of bytes that are none", expression: `string(bytes(object.bad)) == ""`, wantErr: "invalid UTF-8"},
		{name: "a string of null", expression: `string(object.absent) == "null"`, wantErr: "no such overload"},
		{name: "a string of a list", expression: `string(dyn(object.list)) == ""`, wantErr: "no such overload"},
		{name: "a bool of texts", expression: `bool("true") && bool("1") && bool("t") && !bool("False") && !bool("0")`, want: true},
		{name: "a bool of another text", expression: `bool(object.empty + "yes")`, wantErr: "type conversion error"},
		{name: "bytes of a text", expression: `bytes("ü") == b"\xc3\xbc" && bytes(object.empty) == b""`, want: true},

		{name: "a timestamp and its parts", expression: `[timestamp(object.time)].all(t, t.getFullYear() == 2024 && t.getMonth() == 1 && t.getDate() == 29 && t.getDayOfMonth() == 28 && t.getDayOfYear() == 59 && t.getDayOfWeek() == 4)`, want: true},
		{name: "the time of a timestamp", expression: `[timestamp(object.time)].all(t, t.getHours() == 23 && t.getMinutes() == 59 && t.getSeconds() == 59 && t.getMilliseconds() == 123)`, want: true},
		{name: "a timestamp in a time zone", expression: `timestamp(object.time).getHours("Europe/Vienna") == 0 && timestamp(object.time).getDate("+01:00") == 1 && timestamp(object.time).getHours("-02:30") == 21`, want: true},
		{name: "a timestamp in a time zone that there is not", expression: `timestamp(object.time).getHours("Mars/Olympus") == 0`, wantErr: "unknown time zone"},
		{name: "a timestamp that is no date", expression: `timestamp(object.empty + "2023-02-29T00:00:00Z") == timestamp(0)`, wantErr: "type conversion error"},
		{name: "a timestamp without a zone", expression: `timestamp(object.empty + "2024-01-01T00:00:00") == timestamp(0)`, wantErr: "type conversion error"},
		{name: "a timestamp of a number", expression: `timestamp(object.zero) == timestamp("1970-01-01T00:00:00Z")`, want: true},
		{name: "a timestamp of a number beyond the range", expression: `timestamp(object.max) == timestamp(0)`, wantErr: "overflow"},
		{name: "a timestamp beyond the range", expression: `timestamp("9999-12-31T23:59:59Z") + duration("1s") > timestamp(0)`, wantErr: "timestamp overflow"},
		{name: "the time between two timestamps", expression: `timestamp(object.time) - timestamp("2024-02-29T22:29:59.123Z") == duration(object.duration)`, want: true},
		{name: "a timestamp and a duration", expression: `timestamp(object.time) + duration("1s") > timestamp(object.time) && duration("-1s") + timestamp(object.time) < timestamp(object.time)`, want: true},
		{name: "a duration and its parts", expression: `[duration(object.duration)].all(d, d.getHours() == 1 && d.getMinutes() == 90 && d.getSeconds() == 5400 && d.getMilliseconds() == 5400000)`, want: true},
		{name: "a duration as a text", expression: `string(duration(object.duration)) == "5400s" && string(duration("-1.5ms")) == "-0.0015s"`, want: true},
		{name: "a duration that is too long", expression: `duration("2562047h") + duration("2562047h") > duration("0s")`, wantErr: "overflow"},
		{name: "a duration without a unit", expression: `duration(object.empty + "1") == duration("1s")`, wantErr: "type conversion error"},

		{name: "parts of texts", expression: `object.text.contains("üße") && object.text.startsWith("Gr") && object.text.endsWith("") && !object.a.contains("A") && object.empty.startsWith(object.empty)`, want: true},
		{name: "parts of what is no text", expression: `object.one.startsWith("1")`, wantErr: "no such overload"},
		{name: "a character", expression: `object.text.charAt(2) == "ü" && object.text.charAt(11) == ""`, want: true},
		{name: "a character beyond the end", expression: `object.text.charAt(12) == ""`, wantErr: "index out of range"},
		{name: "a character below zero", expression: `object.text.charAt(-1) == ""`, wantErr: "index out of range"},
		{name: "places of texts", expression: `object.text.indexOf("e") == 4 && object.text.indexOf("e", 5) == 8 && object.text.lastIndexOf("e") == 8 && object.text.indexOf("x") == -1 && object.text.indexOf("") == 0`, want: true},
		{name: "lower case is ASCII only", expression: `"ÄB".lowerAscii() == "Äb" && "äb".upperAscii() == "äB"`, want: true},
		{name: "a replacement", expression: `"aaa".replace("a", "b") == "bbb" && "aaa".replace("a", "b", 2) == "bba" && "aaa".replace("a", "b", 0) == "aaa" && "ab".replace("", "-") == "-a-b-"`, want: true},
		{name: "a split", expression: `"a,b,".split(",") == ["a", "b", ""] && "a,b".split(",", 1) == ["a,b"] && "a,b".split(",", 0) == [] && "üb".split("") == ["ü", "b"] && object.empty.split(",") == [""]`, want: true},
		{name: "a part of a text", expression: `object.text.substring(7) == "Welt" && object.text.substring(2, 3) == "ü" && object.a.substring(1) == ""`, want: true},
		{name: "a part of a text that ends before it begins", expression: `object.text.substring(3, 2) == ""`, wantErr: "range"},
		{name: "a trimmed text", expression: `" \t a b\n".trim() == "a b" && "\u00a0a".trim() == "a"`, want: true},
		{name: "texts that are joined", expression: `object.words.join("-") == "b-a-b" && object.words.join() == "bab" && object.none.join("-") == ""`, want: true},
		{name: "what is joined and is no text", expression: `object.list.join() == ""`, wantErr: "no such overload"},
		{name: "a quoted text", expression: `strings.quote("a\"\n") == "\"a\\\"\\n\""`, want: true},
		{name: "a formatted text", expression: `"%s|%d|%.2f|%x|%b|%o|%%".format([object.list, 10, 0.125, 255, 5, 8]) == "[3, 1, 2]|10|0.12|ff|101|10|%" || "%.2f".format([0.125]) == "0.13"`, want: true},
		{name: "a format with too few values", expression: `(object.empty + "%s%s").format([object.one]) == ""`, wantErr: "index 1 out of range"},
		{name: "a format of another type", expression: `(object.empty + "%d").format([object.a]) == ""`, wantErr: "clause"},
		{name: "a pattern", expression: `object.a.matches(object.pattern) && !object.text.matches(object.pattern) && "xay".matches("a") && object.empty.matches("")`, want: true},
		{name: "a pattern that is wrong", expression: `object.a.matches(object.a + "(")`, wantErr: "error parsing regexp"},
		{name: "a pattern with a look ahead, which RE2 has not", expression: `object.a.matches(object.empty + "(?=a)")`, wantErr: "error parsing regexp"},
		{name: "a pattern that is found", expression: `"a1b22".find("[0-9]+") == "1" && "ab".find("[0-9]") == "" && "a1b22".findAll("[0-9]+") == ["1", "22"] && "a1b22".findAll("[0-9]", 2) == ["1", "2"] && object.a.findAll("x") == []`, want: true},

		{name: "sets", expression: `sets.contains(object.list, [1, 2]) && sets.contains(object.list, []) && sets.equivalent(object.words, ["a", "b"]) && sets.intersects(object.list, [9, 3]) && !sets.intersects(object.list, [])`, want: true},
		{name: "sets of numbers of other types", expression: `sets.contains(object.mixed, [dyn(1u), dyn(1.0)]) && sets.equivalent([dyn(1)], [dyn(1.0), dyn(1u)])`, want: true},
		{name: "sets of lists", expression: `sets.contains(object.nested, [[1]]) && !sets.contains(object.nested, [[2]])`, want: true},
		{name: "a sum of numbers", expression: `object.list.sum() == 6 && object.none.sum() == 0 && [0.5, 0.25].sum() == 0.75`, want: true},
		{name: "a sum of texts", expression: `object.words.sum() == "bab"`, wantErr: "no such overload"},
		{name: "the least and the greatest", expression: `object.list.min() == 1 && object.list.max() == 3 && object.words.max() == "b"`, want: true},
		{name: "the least of none", expression: `object.none.min() == 0`, wantErr: "min called on empty list"},
		{name: "the greatest of none", expression: `object.none.max() == 0`, wantErr: "max called on empty list"},
		{name: "the least of values without an order", expression: `object.nested.min() == []`, wantErr: "no such overload"},
		{name: "places in lists", expression: `object.words.indexOf("b") == 0 && object.words.lastIndexOf("b") == 2 && object.words.indexOf("x") == -1 && object.mixed.indexOf(1.0) == 0`, want: true},
		{name: "sorted lists", expression: `!object.list.isSorted() && object.none.isSorted() && [1, 1, 2].isSorted()`, want: true},
		{name: "a sorted list", expression: `[3, 1, 2].sort() == [1, 2, 3] && ["b", "a"].sort() == ["a", "b"] && object.none.sort() == []`, want: true},
		{name: "a list sorted by a key", expression: `object.list.sortBy(x, -x) == [3, 2, 1] && object.nested.sortBy(x, x.size()) == object.nested`, want: true},
		{name: "a list of other types that is sorted", expression: `object.mixed.sort() == []`, wantErr: "same type"},
		{name: "distinct elements keep their order", expression: `object.words.distinct() == ["b", "a"] && object.none.distinct() == []`, want: true},
		{name: "a flattened list", expression: `object.nested.flatten() == [dyn(1), dyn(2), dyn([3])] && object.nested.flatten(2) == [1, 2, 3] && object.nested.flatten(0) == object.nested`, want: true},
		{name: "a list flattened below zero", expression: `object.nested.flatten(-1) == []`, wantErr: "level must be non-negative"},
		{name: "a reversed list", expression: `object.list.reverse() == [2, 1, 3] && object.none.reverse() == []`, want: true},
		{name: "a part of a list", expression: `object.list.slice(1, 3) == [1, 2] && object.list.slice(3, 3) == []`, want: true},
		{name: "a part of a list beyond its end", expression: `object.list.slice(0, 4) == []`, wantErr: "cannot slice"},
		{name: "a part of a list that ends before it begins", expression: `object.list.slice(2, 1) == []`, wantErr: "cannot slice"},
		{name: "a part of a list below zero", expression: `object.list.slice(-1, 1) == []`, wantErr: "cannot slice"},
		{name: "a range", expression: `lists.range(object.two) == [0, 1] && lists.range(object.zero) == []`, want: true},
		{name: "the ends of lists", expression: `object.list.first().value() == 3 && object.list.last().value() == 2 && !object.none.first().hasValue() && !object.none.last().hasValue()`, want: true},

		{name: "filter and map", expression: `object.list.filter(x, x > 1).map(x, x * 2) == [6, 4] && object.list.map(x, x > 1, string(x)) == ["3", "2"]`, want: true},
		{name: "exactly one", expression: `object.list.exists_one(x, x > 2) && !object.list.exists_one(x, x > 1) && !object.none.exists_one(x, true)`, want: true},
		{name: "macros over maps", expression: `object.map.all(k, k in ["k", "n"]) && object.map.exists(k, v, v == 1) && object.map.map(k, k).size() == 2 && object.map.existsOne(k, v, k == "n")`, want: true},
		{name: "macros that make lists and maps", expression: `object.list.transformList(i, v, i + v) == [3, 2, 4] && object.map.transformMap(k, v, k + "!") == {"k": "k!", "n": "n!"} && object.words.transformMapEntry(i, v, {string(i) + v: v})["1a"] == "a"`, want: true},
		{name: "a key that a macro makes twice", expression: `object.words.transformMapEntry(i, v, {v: i}).size() == 2`, wantErr: "insert failed"},
		{name: "a key that a literal has twice, of which the last one counts", expression: `{object.a: 1, dyn("a"): 2} == {"a": 2}`, want: true},

		{name: "optional values", expression: `object.?a.hasValue() && !object.?missing.hasValue() && object.?missing.or(object.?a).value() == "a" && object.?map.?k.orValue("x") == "v" && object.?absent.hasValue()`, want: true},
		{name: "the value of none", expression: `object.?missing.value() == "a"`, wantErr: "optional.none()"},
		{name: "an optional field of what is no map", expression: `object.?a.?b.hasValue()`},
		{name: "optional macros", expression: `object.?a.optMap(x, x + "b").value() == "ab" && !object.?missing.optMap(x, x.y).hasValue() && object.?map.optFlatMap(m, m.?x).orValue(1) == 1`, want: true},
		{name: "optional values that are zero", expression: `!optional.ofNonZeroValue(object.empty).hasValue() && !optional.ofNonZeroValue(object.none).hasValue() && !optional.ofNonZeroValue(object.absent).hasValue() && optional.of(object.empty).hasValue()`, want: true},
		{name: "optional elements and entries", expression: `[?object.?missing, object.a] == ["a"] && {?"x": object.?missing, ?"y": object.?a} == {"y": "a"} && optional.unwrap([object.?a, object.?missing]) == ["a"]`, want: true},

		{name: "quantities", expression: `quantity(object.quantity).isGreaterThan(quantity("1")) && quantity("1Gi").isLessThan(quantity("2G")) && quantity("1000m").compareTo(quantity("1")) == 0 && quantity("2Ki").asInteger() == 2048`, want: true},
		{name: "quantities that are added", expression: `quantity("1").add(2).sub(quantity("500m")).asApproximateFloat() == 2.5 && sign(quantity("-1")) == -1 && quantity("1") == quantity("1000m")`, want: true},
		{name: "a quantity that is no integer", expression: `quantity(object.quantity).asInteger() == 1`, wantErr: "cannot convert value to integer"},
		{name: "a quantity of what is none", expression: `quantity(object.empty + "1.2.3").isInteger()`, wantErr: "quantities must match"},
		{name: "texts that are quantities", expression: `isQuantity("1.5Gi") && !isQuantity("1 Gi") && !isQuantity(object.empty) && isQuantity("-0")`, want: true},
		{name: "addresses", expression: `ip(object.ip).family() == 4 && ip("::1").isLoopback() && ip("fe80::1").isLinkLocalUnicast() && !ip(object.ip).isUnspecified() && string(ip("::FFFF")) == "::ffff" && ip.isCanonical("::ffff")`, want: true},
		{name: "an address with leading zeros", expression: `isIP("010.0.0.1") || isIP("::ffff:1.2.3.4") || isIP("fe80::1%eth0") || isIP(object.empty)`},
		{name: "an address that is none", expression: `ip(object.empty + "256.0.0.1").family() == 4`, wantErr: "IP Address"},
		{name: "networks", expression: `cidr(object.cidr).containsIP(object.ip) && cidr(object.cidr).containsIP(ip("10.255.255.255")) && !cidr(object.cidr).containsIP("11.0.0.0") && cidr(object.cidr).containsCIDR("10.1.0.0/16") && cidr(object.cidr).prefixLength() == 8 && cidr("10.1.2.3/8").masked() == cidr(object.cidr)`, want: true},
		{name: "a network that does not contain a larger one", expression: `cidr("10.1.0.0/16").containsCIDR(object.cidr) || isCIDR(object.ip) || isCIDR("10.0.0.0/33")`},
		{name: "a URL", expression: `[url(object.url)].all(u, u.getScheme() == "https" && u.getHost() == "h.example:8443" && u.getHostname() == "h.example" && u.getPort() == "8443" && u.getEscapedPath() == "/p%20q/" && u.getQuery() == {"a": ["b", "c"], "d": [""]})`, want: true},
		{name: "texts that are URLs", expression: `isURL("/a") && isURL("https://[::1]:80/") && !isURL("a") && !isURL("https://a b/") && !isURL(object.empty)`, want: true},
		{name: "a URL of what is none", expression: `url(object.empty + "://").getHost() == ""`, wantErr: "URL parse error"},
		{name: "versions", expression: `semver(object.version).isLessThan(semver("1.2.3")) && semver("1.10.0").isGreaterThan(semver("1.9.9")) && semver("1.2.3+a").compareTo(semver("1.2.3+b")) == 0 && semver(object.version).major() == 1 && semver("v1.0", true).minor() == 0`, want: true},
		{name: "texts that are versions", expression: `isSemver(object.version) && !isSemver("1.2") && !isSemver("v1.2.3") && !isSemver("01.2.3") && isSemver("v1.2", true)`, want: true},
		{name: "formats", expression: `!format.dns1123Label().validate("a-b").hasValue() && format.dns1123Label().validate("A").hasValue() && format.named("uuid").hasValue() && !format.named("other").hasValue() && !format.date().validate("2024-02-29").hasValue()`, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, tc.expression)
			got, _, err := program.Eval(t.Context(), cel.Values{cel.Object: object})
			switch {
			case tc.wantErr == "" && (err != nil || got != tc.want):
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			case tc.wantErr != "" && (got || !errors.Is(err, cel.ErrEvaluation) || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("got %v, %v, want ErrEvaluation with %q", got, err, tc.wantErr)
			}
		})
	}
}
