/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes expressions at random, well typed for the most part, over the whole
// environment of policies.
type generator struct {
	*rand.Rand
	// binders are the macro variables in scope.
	binders []string
	serial  int
}

func (g *generator) pick(choices ...func() string) string { return choices[g.IntN(len(choices))]() }

func (g *generator) one(texts ...string) string { return texts[g.IntN(len(texts))] }

// hostile are strings that a user may be named.
var hostile = []string{
	`"alice"`, `"web"`, `"dev"`, `"devs"`, `"team"`, `""`, `"a"`, `"b"`, `"' || true || '"`, `"\" || true || \""`, `"\\"`,
	`"line\nbreak"`, `"é\u2028"`, `"("`, `"[a-z]+"`, `"1"`, `"-7"`, `"2Gi"`, `"10.0.0.1"`, `"10.0.0.0/8"`, `"https://x/y?z=1"`, `"1.2.3"`, `"90s"`, `"2024-01-02T03:04:05Z"`,
}

func (g *generator) boolean(depth int) string {
	if depth <= 0 {
		return g.pick(
			func() string { return g.one("true", "false") },
			func() string { return "has(" + g.path() + ")" },
			func() string { return g.dynamic(0) + " == " + g.str(0) },
			func() string { return g.known() + " == " + g.str(0) },
			func() string { return g.str(0) + " in " + g.list(0) },
		)
	}
	d := depth - 1
	return g.pick(
		func() string { return "(" + g.boolean(d) + " && " + g.boolean(d) + ")" },
		func() string { return "(" + g.boolean(d) + " || " + g.boolean(d) + ")" },
		func() string { return "(" + g.loose(d) + " && " + g.boolean(d) + ")" },
		func() string { return "(" + g.loose(d) + " || " + g.loose(d) + ")" },
		func() string { return "!(" + g.boolean(d) + ")" },
		func() string { return "!" + g.parenthesized(g.loose(d)) },
		func() string { return "(" + g.boolean(d) + " ? " + g.boolean(d) + " : " + g.boolean(d) + ")" },
		func() string { return g.dynamic(d) + g.one(" == ", " != ") + g.dynamic(d) },
		func() string { return g.str(d) + g.one(" == ", " != ", " < ", " >= ") + g.str(d) },
		func() string { return g.integer(d) + g.one(" == ", " < ", " >= ") + g.integer(d) },
		func() string { return g.dynamic(d) + " in " + g.list(d) },
		func() string { return g.dynamic(d) + " in " + g.mapping(d) },
		func() string {
			return g.parenthesized(g.str(d)) + g.one(".startsWith(", ".contains(", ".matches(") + g.str(d) + ")"
		},
		func() string { return g.quantifier(d) },
		func() string { return g.list(d) + g.one(" == ", " != ") + g.list(d) },
		func() string { return g.mapping(d) + " == " + g.mapping(d) },
		func() string { return g.optional(d) + ".hasValue()" },
		func() string { return g.optional(d) + ".orValue(" + g.str(d) + ") == " + g.dynamic(d) },
		func() string { return g.library(d) },
		func() string { return "(" + g.boolean(d) + ") == " + g.dynamic(d) },
		func() string { return "dyn(" + g.boolean(d) + ") == " + g.parenthesized(g.loose(d)) },
	)
}

func (g *generator) parenthesized(text string) string { return "(" + text + ")" }

// loose is a dyn where a bool is wanted, which may be none.
func (g *generator) loose(depth int) string {
	return g.pick(
		func() string { return g.dynamic(depth) },
		func() string { return "dyn(" + g.boolean(depth) + ")" },
		func() string { return g.boolean(depth) },
	)
}

func (g *generator) known() string {
	return g.one("request.verb", "request.name", "request.namespace", "request.resource", "request.userInfo.username", "request.userInfo.uid",
		"request.userInfo.groups[0]", "request.userInfo.groups[1]", `request.userInfo.extra["team"][0]`, `request.userInfo.extra["nope"][0]`,
		"request.userInfo.extra[request.name][0]")
}

func (g *generator) path() string {
	return g.one("object.a", "object.b", "object.missing", "object.spec.x", "object.spec.y", "object.labels.owner", "oldObject.a", "oldObject.spec.x",
		"request.userInfo.extra.team", "request.userInfo.extra.nope", "namespaceObject.metadata.labels.env", "options.x")
}

func (g *generator) str(depth int) string {
	base := []func() string{
		func() string { return hostile[g.IntN(len(hostile))] },
		g.known,
		g.known,
		func() string {
			return g.one("operation", "impersonatedRequest.verb", "impersonatedUser.username", "namespaceObject.metadata.name")
		},
	}
	if depth > 0 {
		d := depth - 1
		base = append(base,
			func() string { return "(" + g.str(d) + " + " + g.str(d) + ")" },
			func() string { return "string(" + g.dynamic(d) + ")" },
			func() string { return "(" + g.boolean(d) + " ? " + g.str(d) + " : " + g.str(d) + ")" },
			func() string {
				return g.parenthesized(g.str(d)) + g.one(".lowerAscii()", ".trim()", `.replace("a", "b")`)
			},
			func() string { return g.strings(d) + ".join(\",\")" },
			func() string { return `"%s-%d".format([` + g.dynamic(d) + ", " + g.dynamic(d) + "])" },
		)
	}
	return g.pick(base...)
}

func (g *generator) integer(depth int) string {
	base := []func() string{
		func() string { return g.one("0", "1", "-3", "9223372036854775807", "(-1)", "2") },
		func() string { return "size(" + g.list(0) + ")" },
	}
	if depth > 0 {
		d := depth - 1
		base = append(base,
			func() string {
				return "(" + g.integer(d) + g.one(" + ", " - ", " * ", " / ", " % ") + g.integer(d) + ")"
			},
			func() string { return "int(" + g.dynamic(d) + ")" },
			func() string { return "size(" + g.str(d) + ")" },
			func() string { return "(-" + g.parenthesized(g.integer(d)) + ")" },
			func() string { return g.list(d) + ".size()" },
		)
	}
	return g.pick(base...)
}

func (g *generator) dynamic(depth int) string {
	base := []func() string{
		g.path, g.path,
		func() string {
			return g.one("object", "oldObject", "options", "object.list[0]", "object.list", "object.spec", "object.n", "object.f", "object.t")
		},
		func() string { return "dyn(" + g.str(0) + ")" },
		func() string { return "dyn(" + g.integer(0) + ")" },
		func() string {
			return g.one("null", "dyn(1.5)", "dyn(5u)", "dyn(true)", "dyn(b\"x\")", "dyn(duration(\"1.5s\"))")
		},
	}
	if len(g.binders) > 0 {
		base = append(base, func() string { return g.one(g.binders...) }, func() string { return g.one(g.binders...) })
	}
	if depth > 0 {
		d := depth - 1
		base = append(base,
			func() string { return "object.labels[" + g.str(d) + "]" },
			func() string { return "object[" + g.dynamic(d) + "]" },
			func() string { return "object.list[" + g.integer(d) + "]" },
			func() string { return g.parenthesized(g.loose(d)) + ".a" },
			func() string { return "dyn(" + g.list(d) + ")[" + g.dynamic(d) + "]" },
			func() string { return g.mapping(d) + "[" + g.str(d) + "]" },
			func() string {
				return "(" + g.boolean(d) + " ? " + g.parenthesized("dyn("+g.str(d)+")") + " : " + g.dynamic(d) + ")"
			},
			func() string { return g.optional(d) + ".value()" },
			func() string { return "dyn(" + g.optional(d) + ")" },
			func() string { return "dyn(" + g.boolean(d) + ")" },
			func() string { return "(" + g.dynamic(d) + " + " + g.dynamic(d) + ")" },
		)
	}
	return g.pick(base...)
}

// strings is a list of strings.
func (g *generator) strings(depth int) string {
	return g.pick(
		func() string { return "request.userInfo.groups" },
		func() string { return `request.userInfo.extra["team"]` },
		func() string { return "impersonatedUser.groups" },
		func() string { return "[" + g.str(depth-1) + ", " + g.str(depth-1) + "]" },
		func() string { return `["a", "b"]` },
		func() string {
			return "request.userInfo.groups" + g.one(`.filter(`, `.map(`) + g.bind(func(v string) string {
				return v + ", " + g.boolean(depth-1)
			}, "filter") + ")"
		},
	)
}

func (g *generator) list(depth int) string {
	base := []func() string{
		func() string { return "request.userInfo.groups" },
		func() string { return "object.list" },
		func() string { return `["a", "b"]` },
		func() string { return "[]" },
		func() string { return "[dyn(" + g.known() + "), " + g.path() + "]" },
	}
	if depth > 0 {
		d := depth - 1
		base = append(base,
			func() string { return "[dyn(" + g.dynamic(d) + "), dyn(" + g.dynamic(d) + ")]" },
			func() string { return "[" + g.str(d) + ", " + g.str(d) + "]" },
			func() string { return g.transformed(d) },
			func() string { return "dyn(" + g.list(d) + ")" },
			func() string { return "[?" + g.optional(d) + ", ?" + g.optional(d) + "]" },
			func() string { return "(" + g.boolean(d) + " ? dyn(" + g.list(d) + ") : dyn(" + g.list(d) + "))" },
		)
	}
	return g.pick(base...)
}

func (g *generator) mapping(depth int) string {
	base := []func() string{
		func() string { return "request.userInfo.extra" },
		func() string { return "object.labels" },
		func() string { return "impersonatedUser.extra" },
		func() string { return `{"a": 1}` },
		func() string { return "{}" },
		func() string { return "request.userInfo" },
	}
	if depth > 0 {
		d := depth - 1
		base = append(base,
			func() string { return `{"a": dyn(` + g.dynamic(d) + `), "b": dyn(` + g.dynamic(d) + ")}" },
			func() string { return "{" + g.str(d) + ": dyn(" + g.dynamic(d) + ")}" },
			func() string { return g.bindTwo(g.mapping(0)+g.one(".transformMap(", ".transformList("), d) },
		)
	}
	return g.parenthesizedMap(g.pick(base...))
}

func (g *generator) parenthesizedMap(text string) string {
	if strings.HasPrefix(text, "{") {
		return "(" + text + ")"
	}
	return text
}

func (g *generator) optional(depth int) string {
	base := []func() string{
		func() string {
			return g.one("object.?a", "object.?spec.?x", "object.?missing", "request.?name", "request.userInfo.?extra", "oldObject.?a", "object.labels[?request.name]")
		},
		func() string { return "optional.of(" + g.str(0) + ")" },
		func() string { return "optional.none()" },
		func() string { return `request.userInfo.extra[?` + g.str(0) + "]" },
		func() string { return "request.userInfo.groups[?" + g.integer(0) + "]" },
	}
	if depth > 0 {
		d := depth - 1
		base = append(base,
			func() string { return "optional.of(" + g.dynamic(d) + ")" },
			func() string { return g.optional(d) + ".or(" + g.optional(d) + ")" },
			func() string {
				return g.optional(d) + ".optMap(" + g.bind(func(v string) string { return v + ", " + g.dynamic(d) }, "") + ")"
			},
			func() string { return "object[?" + g.str(d) + "]" },
			func() string { return "optional.ofNonZeroValue(" + g.dynamic(d) + ")" },
		)
	}
	return g.pick(base...)
}

// bind brings a new variable into scope for a body.
func (g *generator) bind(body func(name string) string, _ string) string {
	g.serial++
	name := fmt.Sprintf("v%d", g.serial)
	g.binders = append(g.binders, name)
	defer func() { g.binders = g.binders[:len(g.binders)-1] }()
	return body(name)
}

func (g *generator) bindTwo(head string, depth int) string {
	return g.bind(func(k string) string {
		return g.bind(func(v string) string { return head + k + ", " + v + ", " + g.dynamic(depth) + ")" }, "")
	}, "")
}

func (g *generator) quantifier(depth int) string {
	over := g.list(depth)
	if g.IntN(4) == 0 {
		over = g.mapping(depth)
	}
	if g.IntN(4) == 0 {
		return g.bind(func(k string) string {
			return g.bind(func(v string) string {
				return over + g.one(".all(", ".exists(", ".existsOne(") + k + ", " + v + ", " + g.loose(depth) + ")"
			}, "")
		}, "")
	}
	return g.bind(func(v string) string {
		return over + g.one(".all(", ".exists(", ".exists_one(", ".all(", ".exists(") + v + ", " + g.loose(depth) + ")"
	}, "")
}

func (g *generator) transformed(depth int) string {
	over := g.list(depth)
	return g.bind(func(v string) string {
		switch g.IntN(3) {
		case 0:
			return over + ".filter(" + v + ", " + g.boolean(depth) + ")"
		case 1:
			return over + ".map(" + v + ", " + g.boolean(depth) + ", " + g.dynamic(depth) + ")"
		default:
			return over + ".map(" + v + ", " + g.dynamic(depth) + ")"
		}
	}, "")
}

func (g *generator) library(depth int) string {
	return g.pick(
		func() string { return "quantity(" + g.str(depth) + ").isLessThan(quantity(" + g.str(depth) + "))" },
		func() string { return "isQuantity(" + g.str(depth) + ")" },
		func() string { return "ip(" + g.str(depth) + ") == ip(" + g.str(depth) + ")" },
		func() string { return "cidr(" + g.str(depth) + ").containsIP(" + g.str(depth) + ")" },
		func() string {
			return "isURL(" + g.str(depth) + ") && url(" + g.str(depth) + ").getHost() == " + g.str(depth)
		},
		func() string { return "semver(" + g.str(depth) + ").isLessThan(semver(" + g.str(depth) + "))" },
		func() string {
			return "sets." + g.one("contains", "intersects", "equivalent") + "(" + g.strings(depth) + ", " + g.strings(depth) + ")"
		},
		func() string { return g.parenthesized(g.str(depth)) + ".find(" + g.str(depth) + ") == " + g.str(depth) },
		func() string { return "duration(" + g.str(depth) + ") == duration(" + g.str(depth) + ")" },
		func() string { return "timestamp(" + g.str(depth) + ") < timestamp(" + g.str(depth) + ")" },
		func() string {
			return "type(" + g.dynamic(depth) + ") == " + g.one("string", "int", "map", "list", "type("+g.dynamic(depth)+")")
		},
		func() string { return "format.dns1123Label().validate(" + g.str(depth) + ").hasValue()" },
		func() string { return "double(" + g.dynamic(depth) + ") < 2.5" },
		func() string { return g.strings(depth) + ".isSorted()" },
		func() string {
			return "lists.range(2).exists(" + g.bind(func(v string) string { return v + ", " + g.loose(depth) }, "") + ")"
		},
	)
}
