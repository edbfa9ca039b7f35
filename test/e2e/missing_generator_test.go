/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// objects makes objects of a kind that are valid by its schema.
type objects struct {
	schema    *spec.Schema
	always    map[string]bool
	isBuiltIn bool
}

func newObjects(kind schema.GroupVersionKind, s *spec.Schema, table map[string][]string) *objects {
	o := &objects{schema: s, always: map[string]bool{}}
	var paths []string
	if paths, o.isBuiltIn = table[kind.String()]; !o.isBuiltIn {
		paths = table["*"]
	}
	for _, path := range append([]string{"metadata"}, paths...) {
		o.always[path] = true
	}
	return o
}

func (o *objects) isAlways(s *spec.Schema, name, path string) bool {
	property := s.Properties[name]
	return path == "kind" || path == "apiVersion" || slices.Contains(s.Required, name) || o.always[path] || !o.isBuiltIn && property.Default != nil
}

// random returns an object that has values for the fields with the given names only.
func (o *objects) random(r *rand.Rand, names []string) any {
	share := []float64{0.1, 0.5, 0.9}[r.IntN(3)]
	var value func(s *spec.Schema, path string, depth int) any
	value = func(s *spec.Schema, path string, depth int) any {
		isAbsent := func() bool { return r.Float64() < share }
		isFree, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields")
		isEither, _ := s.Extensions.GetBool("x-kubernetes-int-or-string")
		kind := ""
		if len(s.Type) == 1 {
			kind = s.Type[0]
		}
		text := func() any { return []any{"", "a", "b"}[r.IntN(3)] }
		switch {
		case isEither || s.Format == "int-or-string":
			return []any{"a", int64(r.IntN(3))}[r.IntN(2)]
		case kind == "string":
			return text()
		case kind == "boolean":
			return r.IntN(2) == 0
		case kind == "integer" || kind == "number":
			return int64(r.IntN(4))
		case kind == "array":
			list := []any{}
			for range r.IntN(4) {
				list = append(list, value(s.Items.Schema, path+"[*]", depth+1))
			}
			if len(list) == 0 && (s.MinItems != nil || o.always[path+"[*]"]) {
				list = append(list, value(s.Items.Schema, path+"[*]", depth+1))
			}
			return list
		case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
			entries := map[string]any{}
			for _, key := range []string{"k", "l"} {
				if !isAbsent() {
					entries[key] = value(s.AdditionalProperties.Schema, path+"[*]", depth+1)
				}
			}
			return entries
		}
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			property, at := s.Properties[name], strings.TrimPrefix(path+"."+name, ".")
			switch {
			case !slices.Contains(names, name), !o.isAlways(s, name, at) && isAbsent():
			case (property.Nullable && property.Default == nil || o.always[at+"=null"]) && r.IntN(3) == 0:
				object[name] = nil
			default:
				object[name] = value(&property, at, depth+1)
			}
		}
		for _, name := range []string{"k", "l"} {
			if (isFree || len(s.Properties) == 0) && !isAbsent() {
				object[name] = text()
			}
		}
		return object
	}
	return value(o.schema, "", 0)
}

// missingGenerator makes conditions.
type missingGenerator struct {
	*rand.Rand

	objects *objects
	binders int
}

func newMissingGenerator(number uint64) *missingGenerator {
	return &missingGenerator{Rand: rand.New(rand.NewPCG(32, number))} //nolint:gosec // a test must be repeatable
}

// at is an expression and what it yields.
type at struct {
	text   string
	schema *spec.Schema
	path   string
}

func (g *missingGenerator) policy(kind schema.GroupVersionKind, objects *objects) *policyv1alpha1.AuthorizationPolicySpec {
	g.objects, g.binders = objects, 0
	roots, verbs := []string{"object"}, []string{"create"}
	switch g.IntN(5) {
	case 0, 1:
		roots, verbs = []string{"object", "oldObject"}, []string{"update"}
	case 2:
		roots, verbs = []string{"oldObject"}, []string{"delete"}
	case 3:
		roots, verbs = []string{`(operation == "DELETE" ? oldObject : object)`}, []string{"create", "delete"}
	}
	condition := g.condition(1+g.IntN(3), func() at { return at{text: roots[g.IntN(len(roots))], schema: objects.schema} })
	return &policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectDeny, Rules: []policyv1alpha1.PolicyRule{ruleFor(kind, verbs...)}, Condition: condition}
}

func (g *missingGenerator) condition(depth int, root func() at) string {
	if depth == 0 {
		return g.test(root(), nil, nil, 0)
	}
	left := g.condition(depth-1, root)
	switch g.IntN(6) {
	case 0, 1:
		return "(" + left + " && " + g.condition(depth-1, root) + ")"
	case 2, 3:
		return "(" + left + " || " + g.condition(depth-1, root) + ")"
	case 4:
		return "!(" + left + ")"
	}
	return "(" + left + " ? " + g.condition(0, root) + " : " + g.condition(0, root) + ")"
}

// hop is a step to a member: its text as it is, and as an optional one, and the test for it.
type hop struct{ plain, optional, test string }

// test makes a test of a random value below a value.
func (g *missingGenerator) test(of at, hops []hop, prefixes []string, depth int) string {
	s := of.schema
	switch {
	case len(s.Properties) > 0 && (depth < 7):
		names := slices.Sorted(maps.Keys(s.Properties))
		name := names[g.IntN(len(names))]
		if depth == 0 { // most of the fields are in the specification
			if _, ok := s.Properties["spec"]; ok && g.IntN(3) > 0 {
				name = "spec"
			}
		}
		for name == "status" || name == "managedFields" || name == "ownerReferences" {
			name = names[g.IntN(len(names))]
		}
		property := s.Properties[name]
		of.path = strings.TrimPrefix(of.path+"."+name, ".")
		h := hop{plain: "." + name, optional: ".?" + name, test: "has(%s." + name + ")"}
		if g.objects.isAlways(s, name, of.path) {
			h.optional, h.test = "", ""
		}
		of.schema = &property
		return g.test(of, append(slices.Clone(hops), h), prefixes, depth+1)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && g.IntN(3) > 0:
		of.schema, of.path = s.AdditionalProperties.Schema, of.path+"[*]"
		return g.test(of, append(slices.Clone(hops), hop{plain: `["k"]`, optional: `[?"k"]`, test: `"k" in %s`}), prefixes, depth+1)
	case s.Items != nil && g.IntN(4) == 0:
		h := hop{plain: "[0]", optional: "[?0]", test: "size(%s) > 0"}
		if s.MinItems != nil || g.objects.always[of.path+"[*]"] {
			h.optional, h.test = "", ""
		}
		of.schema, of.path = s.Items.Schema, of.path+"[*]"
		return g.test(of, append(slices.Clone(hops), h), prefixes, depth+1)
	}
	return g.guarded(of, hops)
}

// guarded makes a test of a value that is read by hops, with guards before some hops or before all.
func (g *missingGenerator) guarded(of at, hops []hop) string {
	text, guards, isOptional := of.text, []string{}, false
	how := g.IntN(8)
	from := 0
	if how == 7 && len(hops) > 0 {
		from = g.IntN(len(hops))
	}
	for i, h := range hops {
		switch {
		case how <= 2 && h.optional != "", isOptional && h.optional != "":
			text, isOptional = text+h.optional, true
		case h.test != "" && how >= 3 && how != 6 && i >= from:
			guards = append(guards, fmt.Sprintf(h.test, text))
			text += h.plain
		default:
			text += h.plain
		}
	}
	leaf := g.leaf(at{text: text, schema: of.schema, path: of.path}, isOptional)
	switch guard := strings.Join(guards, " && "); {
	case guard == "":
		return leaf
	case how == 4:
		return "(!(" + guard + ") || " + leaf + ")"
	case how == 5:
		return "(" + guard + " ? " + leaf + " : false)"
	default:
		return "(" + guard + " && " + leaf + ")"
	}
}

// leaf makes a test of a value.
func (g *missingGenerator) leaf(v at, isOptional bool) string {
	kind := ""
	if len(v.schema.Type) == 1 {
		kind = v.schema.Type[0]
	}
	isEither, _ := v.schema.Extensions.GetBool("x-kubernetes-int-or-string")
	isMap := v.schema.AdditionalProperties != nil && v.schema.AdditionalProperties.Schema != nil
	or := func(zero string) string {
		if isOptional {
			return v.text + ".orValue(" + zero + ")"
		}
		return v.text
	}
	null := ""
	if v.schema.Nullable && g.IntN(2) == 0 && !isOptional {
		null = v.text + " != null && "
	}
	pick := func(options ...string) string { return "(" + null + options[g.IntN(len(options))] + ")" }
	switch {
	case v.schema.Nullable && isOptional:
		return pick(v.text+".hasValue()", or("null")+" == null")
	case isEither || v.schema.Format == "int-or-string":
		return pick(or("0")+` == 1`, or("0")+` != "a"`)
	case kind == "string":
		return pick(or(`""`)+` == "a"`, or(`""`)+` != "a"`, or(`""`)+`.startsWith("a")`, or(`""`)+` in ["a", "b"]`, "size("+or(`""`)+") > 0")
	case kind == "integer":
		return pick(or("0")+" > 1", or("0")+" == 2", or("0")+" != 1", or("0")+" <= 2")
	case kind == "boolean":
		return pick(or("false"), "!"+or("false"))
	case kind == "array":
		g.binders++
		binder := fmt.Sprintf("x%d", g.binders)
		inner := g.test(at{text: binder, schema: v.schema.Items.Schema, path: v.path + "[*]"}, nil, nil, 3)
		list := or("[]")
		return pick(list+".all("+binder+", "+inner+")", list+".exists("+binder+", "+inner+")", list+".filter("+binder+", "+inner+").size() > 0",
			list+".exists_one("+binder+", "+inner+")", list+".map("+binder+", "+inner+").all(b, b)", "size("+list+") > 0", list+".size() == 1")
	case isMap:
		g.binders++
		binder := fmt.Sprintf("x%d", g.binders)
		return pick(`"k" in `+or("{}"), or("{}")+".all("+binder+", "+binder+` == "k")`, or("{}")+".exists("+binder+", "+binder+` != "l")`, "size("+or("{}")+") > 0")
	case isOptional:
		return pick(v.text + ".hasValue()")
	}
	return pick("has("+v.text+".k)", v.text+`.k == "a"`, v.text+`.?k.orValue("") == "a"`)
}
