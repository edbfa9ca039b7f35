/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

// This file generates small expressions of shapes that the rules of partial evaluation are
// about, which are rare among expressions at random.

// focused is a bool of such a shape.
func (g *generator) focused() string {
	return g.pick(g.unrolled, g.unrolled, g.unrolled, g.branched, g.keptRange, g.keptRange, g.keptOptional, g.keptOptional, g.unhashable, g.retyped, g.retyped)
}

func (g *generator) unknown() string {
	return g.one("object.a", "object.b", "object.t", "object.f", "object.n", "object.missing", "object.spec.y", "object.list", "object.list[0]", "object.labels", "oldObject.a", "object")
}

// knownList is a list of which everything is known, as a list or as something unknown to
// the checker.
func (g *generator) knownList() string {
	return g.one("request.userInfo.groups", "dyn(request.userInfo.groups)", `request.userInfo.extra["team"]`, "[request.verb, request.name]", "[dyn(request.verb), dyn(1)]",
		"dyn([1, 2])", "[dyn(request.name == \"web\"), dyn(request.verb)]", "dyn(request.userInfo.extra)", "request.userInfo.extra", `[request.name == "web", true]`,
		"[[request.name], []]", "[request.userInfo.groups]", "[request.name]", "dyn([request.name, 1.5])", `{"devs": request.name, "b": "c"}`)
}

// unrolled is a quantifier over what is known, with a body that is known for some elements,
// an error for others, no bool for others.
func (g *generator) unrolled() string {
	body := func(v string) string {
		u, k := g.unknown(), g.known()
		return g.one(v+" == "+k+" && "+u+" == 1", u+" == "+v, v, u, "dyn("+v+")", `{"devs": 1, "web": 2}[`+v+"] == "+u, v+" == "+k+" || "+u, v+" == "+k+" ? "+u+" : "+g.unknown(),
			v+".startsWith(\"d\") && "+u+" == "+v, "int("+v+") == "+u, v+" == "+k+" ? dyn(true) : "+u, v+" == "+k+" ? dyn(\"x\") : "+u, "request.userInfo.extra["+v+"][0] == "+u,
			"dyn("+v+" != "+k+") ? "+u+" : {}[\"x\"]", v+" in "+u, "!("+v+" == "+u+")", v+" == "+k+" ? false : "+u, v+" == "+k+" ? true : ("+v+" == \"devs\" ? {}[\"x\"] : "+u+")")
	}
	over := g.knownList()
	if g.IntN(4) == 0 {
		return g.bindTwo(func(k, v string) string {
			return over + g.one(".all(", ".exists(") + k + ", " + v + ", " + g.one(body(v), body(k)) + ")"
		})
	}
	return g.bind(func(v string) string { return over + g.one(".all(", ".exists(") + v + ", " + body(v) + ")" })
}

// branched is a conditional of which the condition is known, or no bool.
func (g *generator) branched() string {
	condition := g.one("dyn("+g.known()+")", g.known()+" == "+g.known(), g.unknown(), g.unknown()+" == 1", `request.userInfo.extra["nope"]`, "dyn(request.userInfo)", "dyn(1)")
	value := func() string {
		return g.one(g.unknown(), "dyn("+g.known()+")", "dyn(1)", "dyn(string)", "["+g.known()+"]", "dyn(["+g.unknown()+"])", "dyn({})", "{}", "[]", "dyn(true)")
	}
	text := "(dyn(" + condition + ") ? " + g.parenthesized(value()) + " : dyn(" + value() + "))"
	return g.one(text+" == "+g.unknown(), "dyn("+text+") && "+g.unknown()+" == 1", text+g.one(" + ", " - ", " % ")+g.unknown()+" == "+g.unknown(), "string("+text+") == "+g.unknown(),
		"dyn("+text+") in "+g.unknown(), "!dyn("+text+")", "size("+text+") == "+g.unknown(), "(-"+text+") == "+g.unknown())
}

// keptRange is a macro that stays, over what is known.
func (g *generator) keptRange() string {
	over := g.knownList()
	return g.bind(func(v string) string {
		u, k := g.unknown(), g.known()
		body := g.one(v+" + 1", v+" + "+u, "["+v+", "+k+"]", "["+u+"]", v+" + "+k, u+" == "+v, v, v+"[0]", "size("+v+") + "+u, "{"+v+": "+u+"}", v+" + ["+u+"]", "-"+v, v+".a", u)
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
		u := g.unknown()
		body := g.one(v+" + 1", v+" + "+u, v+"[0]", "["+v+"]", v+".a", "string("+v+")", "-"+v, v+" == "+u, v+" ? 1 : 2", v+".size()", u, "size("+v+") + 1", v+".startsWith(\"a\")", "{\"a\": "+v+"}")
		text := g.one(held, held+".optMap("+v+", "+body+")", held+".optFlatMap("+v+", optional.of("+body+"))", held+".or(optional.of("+g.known()+"))")
		return g.one(text+".value() == "+u, text+".orValue("+g.known()+") == "+u, text+".orValue("+u+") + 1 == "+u, text+".hasValue()", text+" == optional.of("+u+")",
			"string("+text+".orValue("+g.one("1", "\"a\"", "1.5", `ip("::1")`)+")) == "+u, text+".value() + 1 == "+u, "dyn("+text+".value())", "[?"+text+"] == "+u, "size("+text+".orValue([])) == 1")
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
