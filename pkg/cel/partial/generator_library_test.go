/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/randfill"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// This file generates what the libraries of Kubernetes bring: values that no literal
// stands for, and the functions over them.

// special is a value that no literal stands for, as it is, or in the hands of something
// that passes it on.
func (g *generator) special(depth int) string {
	d := depth - 1
	base := []func() string{
		func() string { return "quantity(" + g.str(d) + ")" },
		func() string { return `quantity(` + g.one(`"1Gi"`, `"2Gi"`, `"100m"`, `"-7"`, g.known()) + ")" },
		func() string { return "ip(" + g.one(`"10.0.0.1"`, `"::1"`, g.str(d)) + ")" },
		func() string { return "cidr(" + g.one(`"10.0.0.0/8"`, `"::/0"`, g.str(d)) + ")" },
		func() string { return "semver(" + g.one(`"1.2.3"`, `"2.0.0-a+b"`, `"v1", true`, g.str(d)) + ")" },
		func() string { return "url(" + g.one(`"https://x/y?z=1"`, g.str(d)) + ")" },
		func() string { return "type(" + g.dynamic(d) + ")" },
		func() string { return g.one("string", "int", "map", "list", "type", "null_type", "optional_type") },
		g.format,
	}
	if depth > 0 {
		base = append(base,
			func() string { return "(" + g.boolean(d) + " ? " + g.special(d) + " : " + g.special(d) + ")" },
			func() string { return g.specials(d) + "[" + g.integer(0) + "]" },
			func() string { return "quantity(" + g.known() + ")" + g.one(".add(", ".sub(") + g.special(d) + ")" },
			func() string { return `quantity("1")` + g.one(".add(", ".sub(") + g.integer(0) + ")" },
			func() string { return `cidr("10.0.0.0/8")` + g.one(".ip()", ".masked()") },
			func() string { return "optional.of(" + g.special(d) + ").value()" },
			func() string { return g.specials(d) + g.one(".first()", ".last()") + ".value()" },
			func() string { return "optional.none().orValue(" + g.special(d) + ")" },
			func() string {
				return "optional.of(" + g.special(d) + ").or(optional.of(" + g.special(d) + ")).value()"
			},
			func() string { return `{"a": ` + g.special(d) + "}." + g.one("a", "b") },
			func() string { return "{" + g.str(d) + ": " + g.special(d) + "}[" + g.str(d) + "]" },
			func() string {
				return "optional.of(" + g.str(d) + ").orValue(dyn(" + g.special(d) + "))"
			},
		)
	}
	return g.pick(base...)
}

func (g *generator) format() string {
	return g.one("format.dns1123Label()", "format.uuid()", "format.date()", `format.named("dns1123Label").value()`, `format.named(request.name).value()`)
}

// specials is a list of what no literal stands for.
func (g *generator) specials(depth int) string {
	d := depth - 1
	base := []func() string{
		func() string { return "[" + g.special(d) + "]" },
		func() string { return "[" + g.special(d) + ", " + g.special(d) + "]" },
		func() string { return "[dyn(" + g.special(d) + "), dyn(" + g.str(d) + "), dyn(" + g.special(d) + ")]" },
	}
	if depth > 0 {
		base = append(base,
			func() string {
				return g.strings(d) + ".map(" + g.bind(func(v string) string { return v + ", quantity(" + v + "))" })
			},
			func() string {
				return g.list(d) + ".map(" + g.bind(func(v string) string { return v + ", " + g.special(d) + ")" })
			},
			func() string {
				return g.specials(d) + ".filter(" + g.bind(func(v string) string { return v + ", " + g.loose(d) + ")" })
			},
			func() string { return g.specials(d) + g.one(".reverse()", ".distinct()") },
			func() string { return "(" + g.specials(d) + " + " + g.specials(d) + ")" },
			func() string { return "(" + g.boolean(d) + " ? " + g.specials(d) + " : " + g.specials(d) + ")" },
			func() string { return "dyn(" + g.specials(d) + ")" },
			func() string { return "optional.of(" + g.specials(d) + ").orValue(" + g.specials(d) + ")" },
		)
	}
	return g.pick(base...)
}

// compared is a bool of what no literal stands for.
func (g *generator) compared(depth int) string {
	d := depth - 1
	return g.pick(
		func() string { return g.special(d) + g.one(" == ", " != ") + g.special(d) },
		func() string { return "dyn(" + g.special(d) + ")" + g.one(" == ", " != ") + g.dynamic(d) },
		func() string { return g.special(d) + " in " + g.specials(d) },
		func() string { return "dyn(" + g.special(d) + ") in " + g.list(d) },
		func() string { return g.specials(d) + g.one(" == ", " != ") + g.specials(d) },
		func() string {
			return "quantity(" + g.str(d) + ")" + g.one(".isLessThan(", ".isGreaterThan(") + "quantity(" + g.str(d) + "))"
		},
		func() string { return g.specials(d) + g.quantified(d) },
		func() string { return g.specials(d) + g.quantified(d) },
		func() string {
			return g.specials(d) + g.one(".all(", ".exists(", ".exists_one(") + g.bind(func(v string) string {
				return v + ", dyn(" + v + ")" + g.one(".isLessThan(", ".isGreaterThan(") + "quantity(" + g.dynamicString() + ")))"
			})
		},
		func() string {
			return "optional.of(" + g.special(d) + ").optMap(" + g.bind(func(v string) string { return v + ", " + v + " == " + g.special(d) + ")" }) + ".hasValue()"
		},
		func() string { return g.special(d) + g.one(" == ", " != ") + "dyn(" + g.special(d) + ")" },
		func() string { return g.format() + ".validate(" + g.str(d) + ").hasValue()" },
		func() string {
			return "(" + g.loose(d) + " ? " + g.special(d) + " : dyn(" + g.special(d) + ")) == " + g.dynamic(d)
		},
		func() string {
			return "cidr(" + g.str(d) + ")" + g.one(".containsIP(", ".containsCIDR(") + g.pick(func() string { return g.str(d) }, func() string { return "dyn(" + g.special(d) + ")" }) + ")"
		},
	)
}

// dynamicString is unknown, but may be a string.
func (g *generator) dynamicString() string {
	return "string(" + g.one("object.memory", "object.a", "object.b", "oldObject.memory", "object.address") + ")"
}

// library is a bool of the functions that the libraries bring.
func (g *generator) library(depth int) string {
	return g.pick(
		func() string { return g.compared(depth) },
		func() string { return g.compared(depth) },
		func() string {
			return g.one("isQuantity", "isIP", "isCIDR", "isURL", "isSemver", "ip.isCanonical") + "(" + g.str(depth) + ")"
		},
		func() string {
			return "ip(" + g.str(depth) + ")" + g.one(".isLoopback()", ".family() == 4", ".isGlobalUnicast()")
		},
		func() string {
			return "isURL(" + g.str(depth) + ") && url(" + g.str(depth) + ")" + g.one(".getHost()", ".getScheme()", ".getEscapedPath()", ".getPort()", ".getQuery()") + " == " + g.dynamic(depth)
		},
		func() string {
			return "semver(" + g.str(depth) + ")" + g.one(".major()", ".minor()", ".patch()") + " == " + g.integer(depth)
		},
		func() string {
			return "sets." + g.one("contains", "intersects", "equivalent") + "(" + g.strings(depth) + ", " + g.strings(depth) + ")"
		},
		func() string {
			return "sets." + g.one("contains", "intersects", "equivalent") + "(" + g.list(depth) + ", " + g.list(depth) + ")"
		},
		func() string { return g.parenthesized(g.str(depth)) + ".find(" + g.str(depth) + ") == " + g.str(depth) },
		func() string {
			return g.parenthesized(g.str(depth)) + ".findAll(" + g.str(depth) + ", " + g.integer(0) + ") == " + g.strings(depth)
		},
		func() string { return "duration(" + g.str(depth) + ") == duration(" + g.str(depth) + ")" },
		func() string { return "timestamp(" + g.str(depth) + ") < timestamp(" + g.str(depth) + ")" },
		func() string {
			return "timestamp(" + g.str(depth) + ")" + g.one(".getFullYear()", ".getHours()") + " == " + g.integer(depth)
		},
		func() string {
			return "type(" + g.dynamic(depth) + ") == " + g.one("string", "int", "map", "list", "type("+g.dynamic(depth)+")")
		},
		func() string { return "format.dns1123Label().validate(" + g.str(depth) + ").hasValue()" },
		func() string {
			return g.one("double(", "uint(") + g.dynamic(depth) + ") " + g.one("< dyn(2.5)", "== dyn(1)", ">= dyn(7u)")
		},
		func() string { return g.strings(depth) + ".isSorted()" },
		func() string {
			return g.strings(depth) + g.one(".min()", ".max()", ".first().orValue(\"\")", ".last().value()") + " == " + g.str(depth)
		},
		func() string {
			return g.list(depth) + g.one(".indexOf(", ".lastIndexOf(") + g.dynamic(depth) + ") == " + g.integer(depth)
		},
		func() string { return "lists.range(2)" + g.quantified(depth) },
		func() string { return g.list(depth) + ".includes(" + g.dynamic(depth) + ")" },
		func() string { return g.authorization(depth) },
	)
}

// authorization is a secondary check.
func (g *generator) authorization(depth int) string {
	d := depth - 1
	return g.pick(
		func() string { return "authorizer.requestResource" },
		func() string { return "authorizer.group(" + g.str(d) + ").resource(" + g.str(d) + ")" },
		func() string {
			return `authorizer.group("").resource("things").namespace(` + g.str(d) + ").name(" + g.str(d) + ")"
		},
		func() string {
			return `authorizer.serviceAccount("n", ` + g.str(d) + `).group("").resource(` + g.known() + ")"
		},
		func() string { return "authorizer.path(" + g.str(d) + ")" },
	) + ".check(" + g.one(`"get"`, `"create"`, g.str(d)) + ")" + g.one(".allowed()", ".allowed()", ".errored()", `.reason() == "web"`)
}

// builtInKinds makes an empty object of each kind that the oracle evaluates with its Go type in the
// process, and as it is decoded from JSON elsewhere.
var builtInKinds = []func() runtime.Object{
	func() runtime.Object { return &corev1.Pod{} },
	func() runtime.Object { return &corev1.Service{} },
	func() runtime.Object { return &corev1.ConfigMap{} },
	func() runtime.Object { return &corev1.Secret{} },
	func() runtime.Object { return &corev1.PersistentVolumeClaim{} },
	func() runtime.Object { return &corev1.Node{} },
	func() runtime.Object { return &appsv1.Deployment{} },
	func() runtime.Object { return &batchv1.Job{} },
	func() runtime.Object { return &networkingv1.NetworkPolicy{} },
	func() runtime.Object { return &rbacv1.ClusterRole{} },
}

// typedInput is an object of a built-in kind and what it is decoded to.
type typedInput struct {
	object  runtime.Object
	decoded map[string]any
}

// typedInputs are objects of all built-in kinds, of each one that is nearly empty and some with
// fields at random.
func typedInputs(tb testing.TB) []typedInput {
	tb.Helper()
	const each = 4
	filler := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 2).Funcs(metafuzzer.Funcs(serializer.NewCodecFactory(runtime.NewScheme()))...)
	var inputs []typedInput
	for _, kind := range builtInKinds {
		for i := range each {
			object := kind()
			if i > 0 {
				filler.Fill(object)
			}
			accessor, err := meta.Accessor(object)
			if err != nil {
				tb.Fatal(err)
			}
			accessor.SetName("web")
			accessor.SetLabels(map[string]string{"owner": "alice", "web": "web", "": "x"})
			inputs = append(inputs, typedInput{object: object, decoded: decoded(tb, object)})
		}
	}
	return inputs
}

// decoded is an object as it is decoded from JSON.
func decoded(tb testing.TB, object runtime.Object) map[string]any {
	tb.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	var data map[string]any
	if err := utiljson.Unmarshal(text, &data); err != nil {
		tb.Fatal(err)
	}
	return data
}

// input is what is unknown at authorization, as the process and as a reader of JSON has it.
type input struct {
	values cel.Values
	// typed is the object in the process, if it has a type there.
	typed runtime.Object
}

// inProcess returns the values that the process evaluates, for one evaluation.
func (in input) inProcess() cel.Values {
	values := make(cel.Values, len(in.values)+2)
	for name, value := range in.values {
		values[name] = value
	}
	if in.typed != nil {
		values[cel.Object] = (&cel.ObjectReader{}).Read(in.typed)
	}
	return values
}
