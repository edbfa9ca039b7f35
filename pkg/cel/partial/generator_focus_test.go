/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// This file generates small expressions of shapes that the rules of partial evaluation are
// about, which are rare among expressions at random.

// focused is a bool of such a shape.
func (g *generator) focused() string {
	return g.pick(g.membership, g.membership, g.literals, g.literals, g.literals, g.rebound, g.typedObjects, g.typedObjects, g.unrolled, g.unrolled, g.unrolled, g.unrolled, g.branched, g.keptRange, g.keptRange, g.keptOptional, g.keptOptional, g.unhashable, g.retyped,
		g.mistyped, g.mistyped, g.mistyped, g.mistyped, g.loosened, g.loosened, g.undetermined, g.undetermined, g.emptied, g.emptied, g.bound, g.hidden, g.hidden, g.wrong, g.absorbed, g.absorbed, g.inferred, g.inferred, g.inferred, g.inexpressible, g.inexpressible, g.chosen, g.unlucky)
}

func (g *generator) unknown() string {
	return g.one("object.a", "object.b", "object.t", "object.f", "object.n", "object.missing", "object.spec.y", "object.list", "object.list[0]", "object.labels", "oldObject.a", "object")
}

// perhapsDyn is a variable as it is, or as something unknown to the checker.
func (g *generator) perhapsDyn(v string) string { return g.one(v, "dyn("+v+")") }

// knownList is a list of which everything is known, as a list or as something unknown to
// the checker.
func (g *generator) knownList() string {
	return g.one("request.userInfo.groups", "dyn(request.userInfo.groups)", `request.userInfo.extra["team"]`, "[request.verb, request.name]", "[dyn(request.verb), dyn(1)]",
		"dyn([1, 2])", "[dyn(request.name == \"web\"), dyn(request.verb)]", "dyn(request.userInfo.extra)", "request.userInfo.extra", `[request.name == "web", true]`,
		"[[request.name], []]", "[request.userInfo.groups]", "[request.name]", "dyn([dyn(request.name), dyn(1.5)])", `{"devs": request.name, "b": "c"}`)
}

// unrolled is a quantifier over what is known, with a body that is known for some elements,
// an error for others, no bool for others.
func (g *generator) unrolled() string {
	body := func(v string) string {
		u, k, v := g.unknown(), g.known(), g.perhapsDyn(v)
		return g.one(v+" == "+k+" && "+u+" == 1", u+" == "+v, v, u, "dyn("+v+")", `{"devs": 1, "web": 2}[`+v+"] == "+u, v+" == "+k+" || "+u, v+" == "+k+" ? "+u+" : "+g.unknown(),
			v+".startsWith(\"d\") && "+u+" == "+v, "int("+v+") == "+u, v+" == "+k+" ? dyn(true) : "+u, v+" == "+k+" ? dyn(\"x\") : "+u, "request.userInfo.extra["+v+"][0] == "+u,
			"dyn("+v+" != "+k+") ? "+u+" : {}[\"x\"]", v+" == request.userInfo.groups[0] ? dyn(\"x\") : "+u+" == 1", v+" != "+k+" ? dyn(1) : "+u+" == 1", v+" != "+k+" ? dyn(1) : "+u+" == 1", v+" in "+u, "!("+v+" == "+u+")", v+" == "+k+" ? false : "+u, v+" == "+k+" ? true : ("+v+" == \"devs\" ? {}[\"x\"] : "+u+")")
	}
	over := g.knownList()
	if g.IntN(4) == 0 {
		return g.bindTwo(func(k, v string) string {
			return over + g.one(".all(", ".exists(") + k + ", " + v + ", " + g.one(body(v), body(k)) + ")"
		})
	}
	return g.bind(func(v string) string {
		return over + g.one(".all(", ".exists(") + v + ", " + body(v) + ")" + g.one("", "", " == "+g.unknown())
	})
}

// branched is a conditional of which the condition is known, or no bool.
func (g *generator) branched() string {
	condition := g.one("dyn("+g.known()+")", g.known()+" == "+g.known(), g.unknown(), g.unknown()+" == 1", `request.userInfo.extra["nope"]`, "dyn(request.userInfo)", "dyn(1)")
	value := func() string {
		return g.one(g.unknown(), "dyn("+g.known()+")", "dyn(1)", "dyn(string)", "["+g.known()+"]", "dyn(["+g.unknown()+"])", "dyn({})", "{}", "[]", "dyn(true)")
	}
	text := "(dyn(" + condition + ") ? " + g.parenthesized(value()) + " : dyn(" + value() + "))"
	either := "(" + g.unknown() + " == 1 ? " + g.unknown() + " : " + g.unknown() + `) && request.verb != "x"`
	return g.one(either, g.parenthesized(either)+" == "+g.unknown(), text+" == "+g.unknown(), "dyn("+text+") && "+g.unknown()+" == 1", text+g.one(" + ", " - ", " % ")+g.unknown()+" == "+g.unknown(), "string("+text+") == "+g.unknown(),
		"dyn("+text+") in "+g.unknown(), "!dyn("+text+")", "size("+text+") == "+g.unknown(), "(-"+text+") == "+g.unknown())
}

// keptRange is a macro that stays, over what is known.
func (g *generator) keptRange() string {
	over := g.knownList()
	return g.bind(func(v string) string {
		u, k, w := g.unknown(), g.known(), g.perhapsDyn(v)
		body := g.one(w+" + 1", w+" + "+u, "["+w+", "+k+"]", "["+u+"]", w+" + "+k, u+" == "+w, w, w+"[0]", "size("+w+") + "+u, "{"+w+": "+u+"}", w+" + ["+u+"]", "-"+w, w+".a", u)
		list := g.one(over+".map("+v+", "+body+")", over+".filter("+v+", "+v+" == "+u+")", over+".filter("+v+", dyn("+body+"))", over+".map("+v+", "+v+" == "+u+", "+body+")")
		return g.one(list+"[0] == "+u, list+" == "+g.unknown(), k+" in dyn("+list+")", list+".size() == "+u, list+"[0] + 1 == "+u, list+"[0].a == 1", list+".exists_one(e, e == "+k+")",
			list+".exists(e, e + 1 == "+u+")", over+".exists_one("+v+", dyn("+body+"))", list+" + ["+u+"] == "+u, list+".all(e, dyn(e) == "+u+")", list+".flatten() == "+u)
	})
}

// keptOptional is an optional, known or not, and what is made of what it holds.
func (g *generator) keptOptional() string {
	held := g.one("request.userInfo.extra[?"+g.known()+"]", "optional.of(dyn("+g.known()+"))", "optional.of("+g.known()+")", "object.?a", "object.labels[?"+g.known()+"]", "optional.none()",
		"("+g.unknown()+" == 1 ? optional.of(dyn(1)) : optional.none())", "optional.of(["+g.known()+"])", "optional.of([dyn("+g.known()+"), "+g.unknown()+"])", "dyn(request).?name",
		`optional.ofNonZeroValue(request.userInfo.extra["nope"])`, "optional.of({\"a\": "+g.unknown()+"})", "optional.of("+g.unknown()+")")
	return g.bind(func(v string) string {
		u, w := g.unknown(), g.perhapsDyn(v)
		body := g.one(w+" + 1", w+" + "+u, w+"[0]", "["+w+"]", w+".a", "string("+w+")", "-"+w, w+" == "+u, w+" ? 1 : 2", w+".size()", u, "size("+w+") + 1", w+".startsWith(\"a\")", "{\"a\": "+w+"}")
		text := g.one(held, held+".optMap("+v+", "+body+")", held+".optFlatMap("+v+", optional.of("+body+"))", held+".or(optional.of("+g.known()+"))")
		return g.one(text+".value() == "+u, text+".orValue("+g.known()+") == "+u, text+".orValue("+u+") + 1 == "+u, text+".hasValue()", text+" == optional.of("+u+")",
			"string("+text+".orValue("+g.one("1", "\"a\"", "1.5", `ip("::1")`)+")) == "+u, text+".value() + 1 == "+u, "dyn("+text+".value()) && true", "[?"+text+"] == "+u, "size("+text+".orValue([])) == 1")
	})
}

// unhashable looks for what Go cannot hash.
func (g *generator) unhashable() string {
	value := g.one("dyn(semver(object.version))", `dyn(semver("1.2.3"))`, "dyn(format.dns1123Label())", "(object.t == true ? dyn(semver(\"1.2.3\")) : object.a)", "[dyn(semver(\"1.2.3\"))][0]",
		"("+g.known()+` == "web" ? dyn(semver("1.2.3")) : object.a)`, `dyn({"a": semver("1.2.3")}.a)`)
	in := value + " in " + g.one(`["a", "b"]`, "request.userInfo.groups", `{"a": 1}`, `{"a": object.a}`, "request.userInfo.extra", "{object.a: 1}", "object.labels", "object.list", "[1, 2]", `{request.name: 1}`)
	return g.one(in, "!("+in+")", in+" || "+g.unknown()+" == 1", in+" && "+g.unknown()+" == 1", "dyn({"+value+": 1}) == "+g.unknown(), `dyn({"a": 1})[`+value+"] == 1")
}

// retyped is a literal some of which is known, within what is particular about types.
func (g *generator) retyped() string {
	k, u := g.known(), g.unknown()
	value := g.one(k, "["+k+"]", "size("+k+")", k+" == \"web\"", "{"+k+": "+k+"}", "["+u+"]", "dyn("+k+")", u, "[["+k+"]]", "request.userInfo.groups", `[object.?x.orValue(`+k+`)]`)
	holder := g.one(`{"a": `+value+`}.a`, "["+value+"][0]", "["+value+", "+value+"][object.i]", `{"a": `+value+`, "b": `+value+`}[`+k+"]", "["+value+"].first().value()", `{"a": {"b": `+value+"}}.a.b",
		`(`+u+" == 1 ? "+value+" : "+value+")", "object.?x.orValue("+value+")", "optional.of("+value+").orValue("+value+")", "object.labels[?"+k+"].orValue("+value+")", "["+value+"].reverse()[0]")
	return g.one("string("+holder+") == "+u, holder+" == "+u, holder+" + "+holder+" == "+u, "size("+holder+") == "+u, "-"+holder+" == "+u, holder+" in "+u, "dyn("+holder+") in ["+u+"]",
		"int("+holder+") + 1 == "+u, "("+holder+") < "+holder, "["+holder+"] == "+u, "["+holder+", "+value+"] == "+u, "dyn("+holder+") && "+u, holder+".exists(e, e == "+u+")", "has({\"a\": "+value+"}.a)")
}

// missing is an error, of the type string to the checker.
func (g *generator) missing() string {
	return g.one(`request.userInfo.extra["nope"][0]`, "request.userInfo.groups[7]", `request.userInfo.extra["web"][0]`)
}

// nothing is a known list of strings that is empty, for some requests at least.
func (g *generator) nothing() string {
	return g.one(`request.userInfo.extra["web"]`, "request.userInfo.extra[request.name]", "request.userInfo.groups.slice(0, 0)", "request.userInfo.groups.filter(e, false)",
		"request.labelSelector.requirements[1].values")
}

// decided is a bool that is known, if not to the checker.
func (g *generator) decided() string {
	return g.one(g.known()+` == "web"`, `request.verb != "update"`, "(has(object.a) || true)", "(object.a == 1 && false)")
}

func (g *generator) key() string { return g.one(`"a"`, `"x"`, `"y"`, `"owner"`, `"web"`) }

// number is a number that is known, of any type, in its variants that are nearly the same.
func (g *generator) number() string {
	return g.pick(
		func() string {
			return g.one("double(", "int(", "uint(", "") + g.one(`request.userInfo.extra["f"][0]`, `request.userInfo.extra["f"][1]`, "request.userInfo.username", g.known()) + ")"
		},
		func() string { return "size(" + g.known() + ")" },
		func() string {
			return g.one("9007199254740992.0", "9007199254740992", "9007199254740993", "9007199254740993u", "1.0", "1", "1u", "-0.0", "0", "0.1", "18446744073709551615u", "9223372036854775807", `double("NaN")`, `double("Infinity")`)
		},
	)
}

// membership looks for what is unknown among numbers of any type, known or written.
func (g *generator) membership() string {
	needle := g.one("object.i", "object.i", "object.big", "object.f", "object.least", "object.list[1]", g.unknown())
	element := func() string { return balanced(g.number()) }
	list := g.pick(
		func() string { return "[" + element() + "]" },
		func() string { return "[dyn(" + element() + "), dyn(" + element() + ")]" },
		func() string { return "[" + element() + ", " + g.one("1.0", "1", "1u", g.unknown()) + "]" },
		func() string { return "(" + g.decided() + " ? [" + element() + "] : [" + element() + "])" },
		func() string {
			return "[" + g.decided() + " ? " + element() + " : " + g.one(element(), g.unknown()) + "]"
		},
		func() string { return "[" + element() + "].map(e, e)" },
	)
	in := needle + " in " + list
	return g.one(in, "!("+in+")", in+" || "+g.unknown()+" == 1", "["+element()+"].exists(d, "+needle+" in [d])", needle+" in {"+element()+": 1}", "dyn("+needle+") == "+element())
}

// literalTable are the texts of values of every type of which a literal could lose something, each
// under its index in the extra field "l", what is made of the text, and the value as an author
// writes it.
var literalTable = []struct{ text, made, written string }{
	{text: "-1ns", made: "duration(%s)", written: `duration("-1ns")`},
	{text: "1.000000001s", made: "duration(%s)", written: `duration("1.000000001s")`},
	{text: "2024-01-02T03:04:05.000000006Z", made: "timestamp(%s)", written: `timestamp("2024-01-02T03:04:05.000000006Z")`},
	{text: "-0.0", made: "double(%s)", written: "-0.0"},
	{text: "0.30000000000000004", made: "double(%s)", written: "0.30000000000000004"},
	{text: "9007199254740993", made: "int(%s)", written: "9007199254740993"},
	{text: "-9223372036854775808", made: "int(%s)", written: "-9223372036854775808"},
	{text: "18446744073709551615", made: "uint(%s)", written: "18446744073709551615u"},
	{text: "true", made: `(%s == "true")`, written: "true"},
	{text: "a", made: `{"a": null}[%s]`, written: "null"},
	{text: "\"\\\n\u2028", made: "%s", written: `"\"\\\n\u2028"`},
	{text: "1Gi", made: "quantity(%s)", written: `quantity("1Gi")`},
	{text: "a", made: `type(%s)`, written: "string"},
	{text: "1", made: "[int(%s), 2]", written: "[1, 2]"},
	{text: "k", made: `{%s: 0.5}`, written: `{"k": 0.5}`},
	{text: "o", made: "optional.of(%s)", written: `optional.of("o")`},
	{text: "x", made: `{"a": 1}[?%s]`, written: "optional.none()"},
}

// literals is what comes of a known value of any type where it stays in a residual.
func (g *generator) literals() string {
	i := g.IntN(len(literalTable))
	known := fmt.Sprintf(literalTable[i].made, fmt.Sprintf("request.userInfo.extra[\"l\"][%d]", i))
	written := literalTable[i].written
	value := "(object.t == true ? " + known + " : " + known + ")"
	return g.one(value+" == "+written, "string("+value+") == string("+written+")", "dyn("+value+") in ["+written+"]", "dyn("+written+") in [dyn("+value+")]", "object.labels[?"+g.key()+"].orValue(dyn("+known+")) == dyn("+written+")",
		"string(object.f * "+known+") == string(object.f * "+written+")", "["+value+", "+value+"] == ["+written+", "+written+"]", "{\"a\": "+value+"} == {\"a\": "+written+"}", "dyn("+known+") == "+g.unknown(),
		"object.list.exists(e, e == "+known+")", "["+known+"].exists(e, dyn(e) == "+g.unknown()+" || string(e) == string("+written+") && has(object.a))")
}

// rebound has two macros one after the other whose variables have one name.
func (g *generator) rebound() string {
	return g.bind(func(v string) string {
		return g.knownList() + g.one(".all(", ".exists(") + v + ", " + g.perhapsDyn(v) + " == " + g.unknown() + ")" + g.one(" || ", " && ") +
			"object.list" + g.one(".all(", ".exists(") + v + ", " + g.perhapsDyn(v) + " == " + g.unknown() + ")"
	})
}

// typedObjects reads what objects of built-in kinds have.
func (g *generator) typedObjects() string {
	path := g.one("object.metadata.name", "object.metadata.labels.owner", "object.metadata.labels", "object.metadata.annotations", "object.metadata.generation", "object.metadata.creationTimestamp", "object.metadata.finalizers",
		"object.metadata.ownerReferences[0].controller", "object.metadata.managedFields", "object.spec", "object.spec.replicas", "object.spec.template.spec.containers", "object.spec.containers", "object.spec.containers[0].image", "object.spec.containers[0].resources.limits",
		"object.spec.nodeName", "object.spec.hostNetwork", "object.spec.ports", "object.spec.ports[0].targetPort", "object.spec.type", "object.data", "object.stringData", "object.type", "object.immutable", "object.spec.accessModes", "object.spec.resources.requests.storage",
		"object.spec.parallelism", "object.spec.podSelector", "object.rules", "object.rules[0].verbs", "object.status", "object.status.conditions", "object.spec.taints", "object.spec.template.metadata.labels", "object.kind", "object.apiVersion")
	known := g.known()
	return g.bind(func(v string) string {
		return g.one(path+" == "+known, "has("+path+") && "+known+" == "+path, path+" == oldObject", "size("+path+") > size("+known+")", known+" in "+path, path+".exists("+v+", "+v+" == "+known+")", path+".all("+v+", has("+v+".name) && "+v+".name != "+known+")",
			"string("+path+") == "+known, path+" > 1 || "+known+" == "+path, "dyn("+path+") == "+g.number(), path+" in [1, 2.0, dyn("+known+")]", "type("+path+") == type("+g.one(known, "1", "1.0", "null", "[]", "{}")+")", path+" + 1 == 2", path+" * 2.0 == 4.0",
			path+"[?"+known+"].hasValue()", path+".map("+v+", "+v+").size() == size("+path+")", "{"+known+": "+path+"}."+g.one("a", "web")+" == "+path, "object.metadata.labels[?"+known+"].orValue(\"\") == "+known)
	})
}

// balanced takes away the parenthesis of a conversion that is none.
func balanced(text string) string {
	if strings.Count(text, "(") < strings.Count(text, ")") {
		return strings.TrimSuffix(text, ")")
	}
	return text
}

// mistyped is what a function makes of a value that may be of another type than the checker
// has inferred. It must be an error in the residual as well.
func (g *generator) mistyped() string {
	i, u := g.one("0", "1"), g.unknown()
	value := g.one("(object.list + "+g.nothing()+")["+i+"]", "("+g.nothing()+" + object.list)["+i+"]", "(("+g.decided()+" ? [] : [1]) + object.list)["+i+"]",
		"("+g.decided()+" ? optional.none() : optional.of("+g.one("1", `"a"`, "true")+")).or(object.?"+g.one("a", "b", "f")+").value()",
		"object.labels[?"+g.key()+"].orValue("+g.missing()+")", "object.labels[?"+g.key()+"].or(optional.of("+g.missing()+")).value()",
		"object.labels[?"+g.key()+"].orValue({"+g.missing()+`: ip("::1")}[object.a])`, "object.labels[?"+g.key()+"].orValue({"+g.missing()+": "+g.one("1", `"a"`, "true")+"}[object.a])",
		"object.labels[?"+g.key()+"].or(optional.of({"+g.missing()+": "+g.one("1", `"a"`)+"}[object.a])).value()",
		"object.labels[?"+g.key()+"].orValue("+g.one("1", `"a"`, g.known(), "size("+g.nothing()+")")+")",
		"{"+g.missing()+": 1}[object.a]", "["+u+", dyn("+g.nothing()+")][0]", "["+u+", dyn("+g.nothing()+")][0]", "("+u+" == 1 ? object.?missing : object.labels[?"+g.known()+"]).value()")
	value = g.one(value, value, `{"a": `+value+"}.a", "["+value+"][0]", "("+u+" == 1 ? "+value+" : "+value+")", "optional.of("+value+").value()", "["+value+"].map(e, e)[0]",
		"["+value+"].filter(e, true)[0]", "["+value+"].first().value()", "optional.of("+value+").orValue("+value+")", "optional.of("+value+").optMap(e, e).value()", "{\"a\": ["+value+"]}[\"a\"][0]", "{\"a\": "+value+"}[\"a\"]", "{\"a\": "+value+"}.transformMap(k, v, v)[\"a\"]", "{\"a\": "+value+"}[?\"a\"].value()")
	return g.one("string(", "string(", "int(", "double(", "uint(", "size(", "duration(", "dyn(", "-dyn(") + value + ") == " + g.one(u, u, "1")
}

// loosened is what a function makes of a dyn that has gone through something of which the
// checker knows less in the residual: it must not take it for the first type that fits.
func (g *generator) loosened() string {
	u, value := g.unknown(), "["+g.unknown()+", dyn("+g.nothing()+")][0]"
	value = g.one(`{"a": `+value+`}.transformMap(k, v, v)["a"]`, `{"a": `+value+`}.transformMap(k, v, v)[?"a"].value()`, "optional.of("+value+").optMap(e, e).value()",
		"optional.of("+value+").optMap(e, e).orValue(dyn(1))", "["+value+"].map(e, e)[?0].value()", "["+value+"].filter(e, true).first().value()", "["+value+"].map(e, {\"a\": e})[0][\"a\"]")
	return g.one("string(", "int(", "double(", "size(") + g.one(value, value+" + "+u) + ") == " + g.one(u, "1")
}

// undetermined has a constant that alone does not tell its type, and unlike what stood around
// it remains.
func (g *generator) undetermined() string {
	u, i, decided := g.unknown(), g.one("0", "1", "2"), g.one("(has(object.a) || true)", "(has(object.a) && false)")
	choice := func(a, b string) string { return "(" + decided + " ? " + g.one(a+" : "+b, b+" : "+a) + ")" }
	value := g.one(g.one("1", `"a"`, "true"), g.one("1", `"a"`, "1.5"))
	text := g.one("("+choice("[]", "["+value+"]")+" + object.list)["+i+"]", "-("+choice("[]", "[1]")+" + object.list)["+i+"]", "(object.list + "+choice("[]", "["+value+"]")+")["+i+"]", choice("optional.none()", "optional.of("+value+")")+".or(object.?"+g.one("a", "b", "f")+").value()",
		choice(`dyn({"a": `+value+`})[?"a"].value()`, value)+" + "+u, choice("dyn(["+value+"]).first().value()", value), choice("{}", `{"a": `+value+"}")+".transformMap(k, v, object.a)[\"a\"]",
		"{\"a\": "+u+"}.transformMap(k, v, v == 1 ? "+choice(`dyn({"a": `+value+`})[?"a"].value()`, value)+" : "+value+`)["a"]`)
	return g.one("string(", "string(", "int(", "double(", "size(") + text + ") == " + g.one(u, "1", `"1"`, "\"2\"")
}

// emptied is a known list or optional of which the checker knows that it may hold anything,
// and that holds nothing, beside something that is not of the type that it seems to be of.
func (g *generator) emptied() string {
	i, none := g.one("0", "1"), "[dyn("+g.known()+")]"+g.one(".filter(e, false)", ".slice(0, 0)")
	untrue := `(object.list + ["a"])[` + i + "]"
	text := g.one("("+none+" + object.list)["+i+"]", "("+none+" + ["+untrue+"])[0]", "dyn(request).?nope.or(optional.of("+untrue+")).value()", "dyn(request).?nope.orValue("+untrue+")",
		"(optional.of("+none+").or(object.?missing).value() + ["+untrue+"])[0]", "(object.?missing.or(optional.of("+none+")).value() + ["+untrue+"])[0]", "(["+none+"] + [["+untrue+"]])[1][0]", "([optional.of("+none+")] + [optional.of(["+untrue+"])])[1].value()[0]")
	return g.one("string(", "int(", "double(", "size(") + text + ") == " + g.one(g.unknown(), "1", `"1"`)
}

// bound is a branch that is what a macro binds, with its type from the other branch.
func (g *generator) bound() string {
	u := g.unknown()
	list := g.one("[dyn(object.a), dyn(object.b)].flatten()", "[object.a, object.b].flatten()", "[object.b, dyn("+g.known()+")].flatten()")
	return g.bind(func(v string) string {
		taken := "(" + g.one(`request.verb == "x"`, "has(object.a) && false") + " ? " + g.one("dyn(1)", "dyn("+g.known()+")") + " : " + v + ")"
		if g.IntN(2) == 0 {
			converted := "dyn(" + g.one("string(", "int(", "double(", "uint(") + v + "))"
			return "optional.of(dyn(" + g.one(`"1"`, "1", "1.5", "1u", g.known()) + ")).optMap(" + v + ", " + g.one(converted+" == "+u, converted+" + "+u+" == "+u) + ")" + g.one(".hasValue()", ".value()", " == optional.of("+u+")")
		}
		return list + g.one(".exists(", ".exists_one(", ".all(") + v + ", " + g.one("-"+taken+" == "+u, "-"+taken+" % "+u+" == 0", "string("+taken+") == "+u, "string("+taken+`) == "1"`, "int("+taken+") == 1", "size("+taken+") == 5") + ")"
	})
}

// hidden is known where a constant would be looked at in advance.
func (g *generator) hidden() string {
	u, k := g.unknown(), g.one(g.known(), "request.userInfo.groups[2]", "request.userInfo.groups[2]", "request.resource")
	taken := "(has(object.a) || true ? " + k + ` : "x")`
	return g.one("string("+u+")"+g.one(".matches(", ".find(")+k+") == "+u, "matches(string("+u+"), "+k+")", "string("+u+").matches("+k+")", "string("+u+").find("+k+") == "+u, "string("+u+").findAll("+k+").size() == 1", k+".format(["+u+"]) == "+u, k+".format([]) == "+u+" || "+u+" == 1",
		"string("+taken+") == "+g.one(u, `"7"`), "int("+taken+") == "+g.one(u, "7"), "double("+taken+") == 7.0", "object.labels["+taken+"] == "+u, "duration("+taken+") == "+u, "timestamp("+taken+") == "+u,
		`"%d".format([has(object.a) || true]) == `+u, `"%d".format([has(object.a) && false]) == "x" || `+u+" == 1", "object.list[["+k+"]] == "+u,
		g.one("int", "string", "double", "uint", "duration", "timestamp")+"(dyn("+g.one("(has(object.a) || true)", "(has(object.a) && false)", "((has(object.a) || true) ? dyn(null_type) : object.a)", "((has(object.a) || true) ? [1] : [2])")+")) == "+u, "object.labels[request.userInfo.groups] == "+u)
}

// absorbed is an error in an operand that is not looked at, or does not matter.
func (g *generator) absorbed() string {
	u, missing := g.unknown(), g.missing()
	return g.one("object."+g.one("?a", "?missing", "spec.?x", "?spec.?x", "?n")+"["+g.one("", "?")+missing+"]"+g.one(".hasValue()", ".orValue(1) == "+u, " == optional.none()"),
		"object.labels[?"+g.key()+"]["+g.one("", "?")+missing+"].hasValue()", "("+u+" + "+missing+") in []", "!(("+u+" + "+missing+") in {})", "object.?a.or(optional.of("+missing+")).hasValue()",
		"object.?a.orValue("+missing+") == "+u, "object.?a.optMap(v, v == "+missing+").hasValue()", "(object.list + ["+missing+"]).size() == 1 || "+u+" == 1", "("+u+" == 1 ? "+missing+" : "+g.known()+") == "+u,
		"["+missing+", "+g.known()+"].exists(e, e == "+u+")", "optional.of("+missing+" == "+u+").hasValue() || "+u+" == 1", "{"+missing+": "+u+"}.size() == 1 || "+u+" == 1",
		"request.userInfo.extra[?"+missing+"].optMap(v, v == "+u+").hasValue()", "(object.labels[?"+missing+"]).?a.hasValue() || "+u+" == 1", "object.list.exists(e, "+missing+" == e)")
}

// inferred is what the checker knows the type of only by what stands around it.
func (g *generator) inferred() string {
	u, k := g.unknown(), g.known()
	list := g.one("[dyn(object.a), dyn(object.b)].flatten()", "[object.a, object.b].flatten()", "[?object.?a, ?optional.none()]", "[?object.?a, ?optional.none().optMap(v, v)]", "[?request.userInfo.extra[?"+k+"], ?object.?a]",
		"object.list", "[[object.a], [object.b]].flatten()", "optional.unwrap([object.?a, object.?b])")
	body := func(v string) string {
		taken := "(" + g.decided() + " ? " + g.one("dyn(1) : "+v, v+" : dyn(1)", "dyn("+k+") : "+v, v+" : "+v) + ")"
		w := g.one(v, v, taken)
		return g.one("-"+w+" % "+u+" == 1", w+" - "+u, "-"+w+" == 1", "string("+w+") == "+u, "size("+w+") == "+u, w+" + 1 == "+u, "["+w+", "+v+"] == "+u, w+" ? true : "+u+" == 1", w)
	}
	optional := g.one("optional.of(dyn("+k+"))", "optional.none()", "request.userInfo.extra[?"+k+"]", "optional.of("+g.nothing()+")", "optional.ofNonZeroValue(dyn("+k+"))", "dyn(request).?name",
		"("+g.decided()+" ? optional.none() : object.?a)", "[?object.?missing].first()", "object.?a.or(optional.of("+g.missing()+"))")
	return g.bind(func(v string) string {
		w := g.perhapsDyn(v)
		return g.one(list+g.one(".exists(", ".all(", ".exists_one(")+v+", "+body(v)+")", list+g.one(".exists(", ".all(", ".exists_one(")+v+", "+body(v)+")",
			g.nothing()+".map("+v+", "+v+" == "+u+", ["+v+", "+k+"])"+g.one(".size() == 0", " == "+u), g.nothing()+".map("+v+", ["+w+", "+u+"])[0] == "+u, g.nothing()+".map("+v+", "+v+" == "+u+")[0]",
			"{"+k+": "+g.nothing()+"}.map("+v+", ["+v+", "+u+", "+k+"]).size() == 1", optional+".optMap("+v+", ["+v+", "+v+"].exists(e, e == "+u+")).hasValue()",
			optional+".optMap("+v+", "+g.one("[dyn(-"+v+"), "+u+"]", "string("+v+") + "+u, "size("+v+") + "+u, v+" + "+u, "-"+v+" + "+u, "["+v+"[0], "+u+"]", "["+v+".a, "+u+"]", "int("+v+") == "+u)+")"+
				g.one(".hasValue()", ".value() == "+u, " == optional.of("+u+")"),
			"string("+g.decided()+" ? dyn(string) : dyn("+u+")) == "+u, g.one("string(", "int(", "size(", "type(")+g.decided()+" ? dyn("+g.one("1.5", "string", k)+") : dyn("+u+")) == "+u)
	})
}

// inexpressible is about values that have no literal, or only what made them.
func (g *generator) inexpressible() string {
	u, k := g.unknown(), g.known()
	value := g.one("dyn(type("+k+"))", "dyn(type(dyn("+k+")))", `ip("10.0.0.1")`, `quantity("2Gi")`, "quantity("+k+")", "ip("+k+")", "dyn(string)", `semver("1.2.3")`, `cidr("10.0.0.0/8")`)
	taken := "(" + g.one(`request.verb != "update"`, "(has(object.a) || true)") + " ? " + value + " : object.a)"
	list := g.one("["+taken+", dyn("+u+")]", "["+taken+", dyn("+u+")]", "["+value+"]", "["+value+", "+value+"]", "[dyn(type("+k+")), dyn(type(1))]", "["+value+"].reverse()", "[dyn("+value+"), dyn("+k+")]", "["+taken+", dyn(object.b)]", "["+taken+", dyn("+k+")]", "["+taken+", "+u+"]", "["+u+", "+taken+"]")
	return g.bind(func(v string) string {
		return g.one(list+g.one(".exists(", ".all(", ".exists_one(")+v+", "+g.one("type(object.a) == "+v, u+" == "+v, v+" == "+u+" || "+u+" == 1", "dyn("+v+") == "+u, "["+v+"] == "+u, "quantity(string(object.memory)).isLessThan("+v+")",
			`ip(string(object.address)) == `+v, v+" == type("+u+")")+")", "{"+k+": "+taken+"} == "+u, "["+taken+", dyn("+u+")].size() == 2", taken+" == "+u, "{\"a\": "+value+", \"b\": "+value+"}["+g.key()+"] == "+u,
			"optional.of("+value+").optMap("+v+", "+v+" == "+u+").orValue(false)", "("+u+" == 1 ? "+value+" : "+value+") == "+u)
	})
}

// chosen is an element without a literal beside one of another type, which a known
// condition has chosen.
func (g *generator) chosen() string {
	value := g.one(`quantity("2Gi")`, "quantity("+g.known()+")", `ip("10.0.0.1")`, `semver("1.2.3")`, "type("+g.known()+")")
	return "[(" + g.one(`request.verb != "update"`, g.decided()) + " ? " + value + " : " + g.unknown() + "), dyn(" + g.unknown() + ")].size() == 2"
}

// wrong is a function over an argument that is an error, or of a type that it does not expect.
func (g *generator) wrong() string {
	u := g.one(g.unknown(), g.missing())
	return g.one("[dyn("+u+"), dyn(1)].distinct().size() == 1", "[string("+u+")].sort().size() == 1", "[int("+u+")].sort().size() == 1", "object.list.flatten("+u+").size() == 1", "object.list.flatten(int("+u+")).size() == 1",
		"[string("+u+")].distinct().size() == 1", "["+"string("+u+")].join() == "+u, "object.list.slice(0, int("+u+")) == "+u) + g.one("", " || "+g.unknown()+" == 1", " || has(object.a)")
}

// unlucky is what functions panic at, or what only happens to be the same in memory.
func (g *generator) unlucky() string {
	u, k, missing := g.unknown(), g.known(), g.missing()
	value := g.one("["+k+"]", "request.userInfo.groups", "{"+k+": 1}", "optional.of("+k+")", `timestamp("2024-01-01T00:00:00+01:00")`, u, "type("+k+")", k, "["+u+"]", "1.5", "quantity("+k+")")
	return g.one("{dyn("+value+"): "+u+"}.size() == 1", "object.list.transformMapEntry(k, v, {dyn("+value+"): v}).size() == "+g.one("1", "2"), "{dyn("+value+"): 1} == {dyn("+value+"): "+g.one("1", u)+"}",
		"{dyn("+value+"): 1}[dyn("+value+")] == "+u, "dyn("+value+") in {dyn("+value+"): "+u+"}", "["+u+", "+u+"].distinct().size() == 1", "[dyn("+value+"), dyn("+u+")].distinct().size() == 1",
		"["+missing+", string("+u+")].isSorted()", "(object.list + ["+missing+"]).isSorted()", "[dyn("+u+"), dyn("+value+")].flatten().size() == 2", "object.list.flatten("+g.one("1", "-1", "object.b")+").size() == 2",
		"[string("+u+")].sort()[0] == "+k, "format.named("+k+").value().validate(string("+u+")).hasValue()", "object.list.includes("+value+")", "object.list.indexOf("+value+") == 0")
}

// data is a value as it is decoded from JSON.
func (g *generator) data(depth int) any {
	choices := 10
	if depth <= 0 {
		choices = 8
	}
	switch g.IntN(choices) {
	case 0, 1, 2:
		text, err := strconv.Unquote(g.one(hostile...))
		if err != nil {
			panic(err) // a string of the table that Go does not read
		}
		return text
	case 3:
		return []any{int64(0), int64(1), int64(-3), int64(2), int64(math.MaxInt64), int64(math.MinInt64), int64(9007199254740993), int64(9007199254740992)}[g.IntN(8)]
	case 4:
		return []any{0.0, math.Copysign(0, -1), 1.0, 1.5, 2.5, -0.1, 1e300, 9007199254740992.0, math.MaxFloat64, 0.30000000000000004, 9007199254740994.0}[g.IntN(11)]
	case 5, 6:
		return g.IntN(2) == 0
	case 7:
		return nil
	case 8:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.data(depth-1))
		}
		return list
	default:
		return g.fields(depth-1, "a", "b", "x", "y", "n", "list", "owner", "web", "team", "")
	}
}

func (g *generator) fields(depth int, names ...string) map[string]any {
	object := map[string]any{}
	for _, name := range names {
		if g.IntN(3) > 0 {
			object[name] = g.data(depth)
		}
	}
	return object
}

// admission is what is unknown at authorization, at random.
func (g *generator) admission() cel.Values {
	object := g.fields(2, "a", "b", "f", "t", "n", "i", "big", "least", "memory", "address", "web", "missing")
	for _, name := range []string{"spec", "labels"} {
		if g.IntN(4) > 0 {
			object[name] = g.fields(1, "x", "y", "a", "owner", "web", "team", "huge", "list")
		}
	}
	if g.IntN(4) > 0 {
		object["list"] = []any{g.data(1), g.data(0), g.data(0)}[:g.IntN(4)]
	}
	values := cel.Values{cel.Object: object, cel.OldObject: g.data(2), cel.Options: g.data(1), cel.Operation: "UPDATE", cel.DryRun: g.IntN(2) == 0}
	if g.IntN(2) == 0 {
		values[cel.ImpersonatedUser] = map[string]any{"username": "bob", "groups": []any{"web", "a", "a"}}
	}
	return values
}
