/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// generator makes expressions at random, well typed for the most part, over the whole
// environment of policies.
type generator struct {
	*rand.Rand
	// binders are the macro variables in scope.
	binders []string
	serial  int
	// booleans and dynamics are the named expressions that there are.
	booleans, dynamics []string
}

// policy makes an expression, sometimes with named expressions, which bind the same names.
func (g *generator) policy(depth int) ([]cel.NamedExpression, string) {
	var variables []cel.NamedExpression
	if g.IntN(4) == 0 {
		for i := range 1 + g.IntN(3) {
			name, text := fmt.Sprintf("n%d", i), ""
			if g.IntN(2) == 0 {
				text = g.boolean(depth - 1)
				g.booleans = append(g.booleans, "variables."+name)
			} else {
				text = "dyn(" + g.dynamic(depth-1) + ")"
				g.dynamics = append(g.dynamics, "variables."+name)
			}
			variables = append(variables, cel.NamedExpression{Name: name, Expression: text})
			g.serial = 0
		}
	}
	switch g.IntN(8) {
	case 0, 1, 2, 3:
		return variables, g.focused()
	case 4:
		return variables, g.parenthesized(g.focused()) + g.one(" && ", " || ", " == ") + g.parenthesized(g.focused())
	}
	return variables, g.boolean(depth)
}

func (g *generator) pick(choices ...func() string) string { return choices[g.IntN(len(choices))]() }

func (g *generator) one(texts ...string) string { return texts[g.IntN(len(texts))] }

// hostile are strings that a user may be named.
var hostile = []string{
	`"alice"`, `"web"`, `"dev"`, `"devs"`, `"team"`, `""`, `"a"`, `"b"`, `"' || true || '"`, `"\" || true || \""`, `"\\"`,
	`"line\nbreak"`, `"é\u2028"`, `"("`, `"[a-z]+"`, `"1"`, `"-7"`, `"2Gi"`, `"10.0.0.1"`, `"10.0.0.0/8"`, `"https://x/y?z=1"`, `"1.2.3"`, `"90s"`, `"2024-01-02T03:04:05Z"`,
	`"\x00"`, `"\U0001d6fc"`, `"a{1000}"`, `"%s%d%f%%"`, `"9223372036854775808"`, `"1e300"`, `"NaN"`, `"::1"`, `"create"`, `"app"`, `"true"`, `"-9223372036854775808"`,
}

// numbers are integers at the edges.
var edges = []string{
	"0", "1", "-3", "2", "(-1)", "9223372036854775807", "-9223372036854775808", "(-9223372036854775808)", "9007199254740993", "4294967296",
}

func (g *generator) boolean(depth int) string {
	if len(g.booleans) > 0 && g.IntN(6) == 0 {
		return g.one(g.booleans...)
	}
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
		func() string { return g.dynamic(d) + g.one(" == ", " != ") + g.integer(d) },
		func() string { return g.dynamic(d) + " in " + g.list(d) },
		func() string { return g.dynamic(d) + " in " + g.mapping(d) },
		func() string {
			return g.parenthesized(g.str(d)) + g.one(".startsWith(", ".contains(", ".matches(", ".endsWith(") + g.str(d) + ")"
		},
		func() string { return "matches(" + g.str(d) + ", " + g.str(d) + ")" },
		func() string { return g.dynamic(d) + g.one(".startsWith(", ".matches(", ".contains(") + g.str(d) + ")" },
		func() string { return g.quantifier(d) },
		func() string { return g.list(d) + g.one(" == ", " != ") + g.list(d) },
		func() string { return g.mapping(d) + " == " + g.mapping(d) },
		func() string { return g.optional(d) + g.one(" == ", " != ") + g.optional(d) },
		func() string { return g.dynamic(d) + g.one(" < ", " > ", " <= ", " >= ") + g.dynamic(d) },
		func() string { return "has(" + g.parenthesized(g.mapping(d)) + g.one(".a", ".b", ".team") + ")" },
		func() string { return g.optional(d) + ".hasValue()" },
		func() string {
			return g.optional(d) + ".orValue(" + g.one("", "dyn") + g.parenthesized(g.str(d)) + ") == " + g.dynamic(d)
		},
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
		"request.userInfo.extra[request.name][0]", "request.fieldSelector.requirements[0].key", "request.labelSelector.requirements[0].values[0]",
		"request.labelSelector.requirements[1].operator", "request.subresource", "request.path", "request.apiGroup")
}

func (g *generator) path() string {
	return g.one("object.a", "object.b", "object.missing", "object.spec.x", "object.spec.y", "object.labels.owner", "oldObject.a", "oldObject.spec.x",
		"request.userInfo.extra.team", "request.userInfo.extra.nope", "namespaceObject.metadata.labels.env", "options.x", "object.n.x", "object.n",
		"object.spec.huge", "object.memory", "object.address", "object.big", "request.labelSelector", "request.fieldSelector.requirements", "request.name",
		"request.userInfo", "impersonatedUser.extra.team", "impersonatedRequest.name", "object.spec.list")
}

// dynamicPath is a path of which the checker knows nothing.
func (g *generator) dynamicPath() string {
	path := g.path()
	if strings.HasPrefix(path, "request.") || strings.HasPrefix(path, "impersonated") {
		return "dyn(" + path + ")"
	}
	return path
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
				return g.parenthesized(g.str(d)) + g.one(".lowerAscii()", ".trim()", `.replace("a", "b")`, ".upperAscii()", ".substring("+g.integer(0)+")",
					".charAt("+g.integer(0)+")", ".substring(0, "+g.integer(0)+")", ".replace("+g.str(0)+", "+g.str(0)+", "+g.integer(0)+")")
			},
			func() string { return "strings.quote(" + g.str(d) + ")" },
			func() string { return g.parenthesized(g.str(d)) + ".split(" + g.str(0) + ").join()" },
			func() string { return "string(dyn(" + g.special(d) + "))" },
			func() string {
				return "string(object.labels[?" + g.str(d) + "].orValue(" + g.one("dyn("+g.special(d)+")", "ip("+g.str(d)+")") + "))"
			},
			func() string { return "string(object.labels[?" + g.str(d) + "].orValue(" + g.integer(d) + "))" },
			func() string { return "dyn(" + g.str(d) + ").format([" + g.dynamic(d) + "])" },
			func() string { return g.optional(d) + ".orValue(" + g.one("", "dyn") + g.parenthesized(g.str(d)) + ")" },
			func() string { return g.strings(d) + ".join(\",\")" },
			func() string {
				return g.one(`"%s-%d"`, `"%s/%s"`, `"%x%b"`, `"%.3f %e"`) + `.format([` + g.dynamic(d) + ", " + g.dynamic(d) + "])"
			},
		)
	}
	return g.pick(base...)
}

func (g *generator) integer(depth int) string {
	base := []func() string{
		func() string { return g.one(edges...) },
		func() string { return g.one(edges...) },
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
	if len(g.dynamics) > 0 && g.IntN(6) == 0 {
		return g.one(g.dynamics...)
	}
	base := []func() string{
		g.dynamicPath, g.dynamicPath,
		func() string {
			return g.one("object", "oldObject", "options", "object.list[0]", "object.list", "object.spec", "object.n", "object.f", "object.t", "object.big", "object.least",
				"dyn(dryRun)", "dyn(operation)", "dyn(request)", "dyn(request.userInfo)", "dyn(request.labelSelector)", "dyn(impersonatedUser)", "dyn(namespaceObject)")
		},
		func() string { return "dyn(" + g.str(0) + ")" },
		func() string { return "dyn(" + g.integer(0) + ")" },
		func() string {
			return g.one("null", "dyn(1.5)", "dyn(5u)", "dyn(true)", "dyn(duration(\"1.5s\"))", "dyn(1e300)", "dyn(18446744073709551615u)",
				"dyn(-0.0)", "dyn(0.1)", "dyn(duration(\"-0.000000001s\"))", "dyn(timestamp(\"2024-01-02T03:04:05.000000006Z\"))", `dyn(double("NaN"))`, `dyn(double("-Infinity"))`)
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
			func() string { return "dyn(" + g.loose(d) + ").a" },
			func() string { return "dyn(" + g.list(d) + ")[" + g.dynamic(d) + "]" },
			func() string { return g.mapping(d) + "[" + g.str(d) + "]" },
			func() string { return "dyn(" + g.mapping(d) + ")[" + g.dynamic(d) + "]" },
			func() string { return "{" + g.dynamic(d) + ": " + g.str(d) + "}[" + g.dynamic(d) + "]" },
			func() string {
				return "(" + g.boolean(d) + " ? " + g.parenthesized("dyn("+g.str(d)+")") + " : " + g.dynamic(d) + ")"
			},
			func() string { return g.optional(d) + ".value()" },
			func() string { return "dyn(" + g.optional(d) + ")" },
			func() string { return "dyn(" + g.boolean(d) + ")" },
			func() string {
				return "(" + g.dynamic(d) + g.one(" + ", " + ", " - ", " * ", " / ", " % ") + g.dynamic(d) + ")"
			},
			func() string { return "(-" + g.parenthesized(g.dynamic(d)) + ")" },
			func() string { return "dyn(" + g.special(d) + ")" },
			func() string { return g.specials(d) + "[" + g.integer(0) + "]" },
			func() string { return "(" + g.boolean(d) + " ? dyn(" + g.special(d) + ") : " + g.dynamic(d) + ")" },
			func() string { return g.optional(d) + ".orValue(dyn(" + g.special(d) + "))" },
			func() string { return "dyn(" + g.list(d) + ")" },
			func() string { return "dyn(" + g.mapping(d) + ")" },
			func() string { return "dyn(" + g.integer(d) + ")" },
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
			return "request.userInfo.groups.filter(" + g.bind(func(v string) string { return v + ", " + g.boolean(depth-1) + ")" })
		},
		func() string {
			return "request.userInfo.groups.map(" + g.bind(func(v string) string { return v + ", " + g.str(depth-1) + ")" })
		},
		func() string {
			return g.parenthesized(g.str(depth-1)) + ".split(" + g.one(`","`, `""`, g.str(depth-1)) + ")"
		},
		func() string { return `request.labelSelector.requirements[0].values` },
		func() string {
			return "request.userInfo.groups" + g.one(".reverse()", ".sort()", ".distinct()", ".slice(0, 1)")
		},
		func() string { return "impersonatedUser.groups" + g.one(".reverse()", ".sort()") },
	)
}

func (g *generator) list(depth int) string {
	base := []func() string{
		func() string { return "request.userInfo.groups" },
		func() string { return "object.list" },
		func() string { return `["a", "b"]` },
		func() string { return "[]" },
		func() string { return "[dyn(" + g.known() + "), dyn(" + g.path() + ")]" },
	}
	if depth > 0 {
		d := depth - 1
		base = append(base,
			func() string { return "[dyn(" + g.dynamic(d) + "), dyn(" + g.dynamic(d) + ")]" },
			func() string { return "[" + g.str(d) + ", " + g.str(d) + "]" },
			func() string { return g.transformed(d) },
			func() string { return g.transformed(d) },
			func() string { return "(" + g.list(d) + " + " + g.list(d) + ")" },
			func() string {
				return g.list(d) + g.one(".reverse()", ".distinct()", ".flatten()", ".slice("+g.integer(0)+", "+g.integer(0)+")")
			},
			func() string { return g.specials(d) },
			func() string { return g.empties() },
			func() string { return "request.labelSelector.requirements" },
			func() string { return "optional.unwrap([" + g.optional(d) + ", " + g.optional(d) + "])" },
			func() string { return "[" + g.optional(d) + "]" + g.one(".unwrapOpt()", "") },
			func() string { return g.strings(d) },
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
		func() string { return "dyn(request.userInfo)" },
	}
	if depth > 0 {
		d := depth - 1
		base = append(base,
			func() string { return `{"a": dyn(` + g.dynamic(d) + `), "b": dyn(` + g.dynamic(d) + ")}" },
			func() string { return "{" + g.str(d) + ": dyn(" + g.dynamic(d) + ")}" },
			func() string { return "{" + g.str(d) + ": " + g.special(d) + "}" },
			func() string { return "{" + g.dynamic(d) + ": " + g.dynamic(d) + "}" },
			func() string { return "{?" + g.str(d) + ": " + g.optional(d) + "}" },
			func() string { return "(" + g.boolean(d) + " ? " + g.mapping(d) + " : dyn(" + g.mapping(d) + "))" },
			func() string { return g.transformedMap(d) },
			func() string { return g.transformedMap(d) },
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
				return g.optional(d) + ".optMap(" + g.bind(func(v string) string { return v + ", " + g.dynamic(d) + ")" })
			},
			func() string {
				return g.optional(d) + ".optFlatMap(" + g.bind(func(v string) string { return v + ", " + g.optional(d) + ")" })
			},
			func() string { return "optional.of(" + g.special(d) + ")" },
			func() string { return g.list(d) + g.one(".first()", ".last()") },
			func() string { return g.list(d) + "[?" + g.integer(d) + "]" },
			func() string { return "(" + g.boolean(d) + " ? " + g.optional(d) + " : " + g.optional(d) + ")" },
			func() string { return g.mapping(d) + "[?" + g.str(d) + "]" },
			func() string { return g.parenthesized(g.dynamic(d)) + ".?a" + g.one("", ".b", "[0]", ".?b") },
			func() string { return "object[?" + g.str(d) + "]" },
			func() string { return "optional.ofNonZeroValue(" + g.dynamic(d) + ")" },
		)
	}
	return g.pick(base...)
}

// bind brings a new variable into scope for a body.
func (g *generator) bind(body func(name string) string) string {
	g.serial++
	name := fmt.Sprintf("v%d", g.serial)
	g.binders = append(g.binders, name)
	defer func() { g.binders = g.binders[:len(g.binders)-1] }()
	return body(name)
}

func (g *generator) bindTwo(body func(k, v string) string) string {
	return g.bind(func(k string) string { return g.bind(func(v string) string { return body(k, v) }) })
}

// range of a macro: a list, or a map.
func (g *generator) ranged(depth int) string {
	if g.IntN(4) == 0 {
		return g.mapping(depth)
	}
	return g.list(depth)
}

func (g *generator) quantifier(depth int) string {
	return g.ranged(depth) + g.quantified(depth)
}

// quantified is a quantifier without its range.
func (g *generator) quantified(depth int) string {
	if g.IntN(4) == 0 {
		return g.bindTwo(func(k, v string) string {
			return g.one(".all(", ".exists(", ".existsOne(", ".exists_one(") + k + ", " + v + ", " + g.loose(depth) + ")"
		})
	}
	return g.bind(func(v string) string {
		return g.one(".all(", ".exists(", ".exists_one(", ".all(", ".exists(") + v + ", " + g.loose(depth) + ")"
	})
}

// empties is a list, most of it known, that tells nothing of its type, or little.
func (g *generator) empties() string {
	none := func() string {
		return g.one("[]", "{}", "[[]]", "optional.none()", "optional.of([])", "request.userInfo.groups.slice(0, 0)", "request.userInfo.groups.filter(e, false)",
			`request.userInfo.extra[?"nope"]`, `request.userInfo.extra[?request.name]`, "[?request.userInfo.extra[?request.name]]", `{?"a": optional.none()}`)
	}
	return g.pick(
		func() string { return "[" + none() + "]" },
		func() string { return "[dyn(" + none() + "), dyn(" + none() + ")]" },
		func() string { return "[" + none() + ", " + g.list(0) + "]" },
		func() string { return "(" + none() + " == " + g.dynamic(0) + " ? [" + none() + "] : [])" },
		func() string { return "[optional.of(" + none() + ")].unwrapOpt()" },
		func() string { return "[optional.of(" + none() + ").orValue(" + g.dynamic(0) + ")]" },
	)
}

func (g *generator) transformed(depth int) string {
	over := g.ranged(depth)
	if g.IntN(4) == 0 {
		return g.bindTwo(func(k, v string) string {
			return over + ".transformList(" + k + ", " + v + ", " + g.one("", g.loose(depth)+", ") + g.dynamic(depth) + ")"
		})
	}
	return g.bind(func(v string) string {
		switch g.IntN(3) {
		case 0:
			return over + ".filter(" + v + ", " + g.loose(depth) + ")"
		case 1:
			return over + ".map(" + v + ", " + g.loose(depth) + ", " + g.dynamic(depth) + ")"
		default:
			return over + ".map(" + v + ", " + g.pick(func() string { return g.dynamic(depth) }, func() string { return g.str(depth) }) + ")"
		}
	})
}

func (g *generator) transformedMap(depth int) string {
	over := g.ranged(depth)
	return g.bindTwo(func(k, v string) string {
		if g.IntN(3) == 0 {
			return over + ".transformMapEntry(" + k + ", " + v + ", " + g.one("", g.loose(depth)+", ") + "{" + g.dynamic(depth) + ": " + g.dynamic(depth) + "})"
		}
		return over + ".transformMap(" + k + ", " + v + ", " + g.one("", g.loose(depth)+", ") + g.dynamic(depth) + ")"
	})
}
