/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel/presence"
)

// defaulted has the fields that kube-apiserver sets in every object of a kind, although schemas do not say so. TestDefaulted in test/e2e writes
// it from the answers of kube-apiserver.
//
//go:embed defaulted.yaml
var defaultedYAML []byte

// everyKind is the entry of the table for the kinds that have none.
const everyKind = "*"

var defaulted = sync.OnceValue(func() map[string][]string {
	table := map[string][]string{}
	if err := yaml.UnmarshalStrict(defaultedYAML, &table); err != nil {
		panic("the table of defaulted fields: " + err.Error())
	}
	return table
})

// warnOfMissing adds warnings about the accesses that may fail for the objects of a kind. q has the expressions and the shape of the objects. It returns
// how many of the steps are left.
func warnOfMissing(kind schema.GroupVersionKind, q presence.Question, policy *policyv1alpha1.AuthorizationPolicySpec, verbs sets.Set[string], steps int, found [][]policyv1alpha1.ExpressionWarning) int {
	seen := sets.New[string]()
	q.OnlySurprising = policy.Effect == policyv1alpha1.PolicyEffectAllow
	byOperation := map[string][]string{}
	for _, verb := range sets.List(verbs) {
		byOperation[writes[verb]] = append(byOperation[writes[verb]], verb)
	}
	for _, operation := range slices.Sorted(maps.Keys(byOperation)) {
		q.Operation, q.Verbs = operation, byOperation[operation]
		var missing []presence.Missing
		missing, steps = presence.Find(&q, steps)
		for _, m := range missing {
			what := "may be missing"
			switch isObject := m.Place == "object" || m.Place == "oldObject"; {
			case m.IsNull && isObject:
				what = "is null for operation " + operation
			case m.IsNull:
				what = "may be null"
			}
			text := fmt.Sprintf("%s %s: then the condition fails, and the policy %s; write %s%s", m.Place, what, failing(policy.Effect), m.Remedy, choice(policy.Effect, m.Remedy))
			if key := fmt.Sprint(m.Expression, text); !seen.Has(key) {
				seen.Insert(key)
				warn(kind, policy, m.Expression, text, found)
			}
		}
	}
	return steps
}

// choice returns what an author must know who writes the remedy. It is empty if the remedy can only keep a policy as closed as it is meant.
func choice(effect policyv1alpha1.PolicyEffect, remedy string) string {
	switch {
	case effect == policyv1alpha1.PolicyEffectAllow: // the access is under ! or beside ||
		return ", and check that the policy does not allow without it"
	//guard:missing-booleans
	case strings.HasSuffix(remedy, ".orValue(false)"):
		return ", or .orValue(true) if it is true by default"
	}
	return ""
}

// failing returns what a policy does whose condition fails.
func failing(effect policyv1alpha1.PolicyEffect) string {
	switch effect {
	case policyv1alpha1.PolicyEffectAllow:
		return "does not allow"
	case policyv1alpha1.PolicyEffectNoOpinion:
		return "keeps Allow policies from allowing"
	default:
		return "denies"
	}
}

// shapeOf returns which fields of the objects of a kind may be missing.
func shapeOf(kind schema.GroupVersionKind, s *spec.Schema) *presence.Shape {
	always, isBuiltIn := defaulted()[kind.String()]
	if !isBuiltIn {
		always = defaulted()[everyKind]
	}
	b := &shaper{budget: maxSchemaNodes, always: sets.New(always...), isBuiltIn: isBuiltIn}
	return b.resource("", s, true)
}

// shaper makes shapes of schemas.
type shaper struct {
	budget int
	always sets.Set[string]
	// isBuiltIn says that defaults in the schema do not count: kube-apiserver does not apply all of them.
	isBuiltIn bool
}

// resource returns the shape of a whole object.
func (b *shaper) resource(path string, s *spec.Schema, always bool) *presence.Shape {
	shape := b.value(path, s, always)
	if shape == nil {
		return nil
	}
	if shape.Fields == nil {
		shape.Fields = map[string]*presence.Shape{}
	}
	for _, name := range []string{"apiVersion", "kind"} {
		shape.Fields[name] = &presence.Shape{Always: true}
	}
	metadata := shape.Fields["metadata"]
	if metadata == nil {
		metadata = &presence.Shape{Free: true}
		shape.Fields["metadata"] = metadata
	}
	if metadata.Fields == nil {
		metadata.Fields = map[string]*presence.Shape{}
	}
	if path != "" { // an object in another one
		return shape
	}
	metadata.Always = true
	for at := range b.always {
		if name, ok := strings.CutPrefix(at, "metadata."); ok {
			metadata.Fields[name] = &presence.Shape{Always: true}
		}
	}
	return shape
}

// value returns the shape of a value, or nil if nothing is known of it. The path of an object ends in a dot if it is not empty.
func (b *shaper) value(path string, s *spec.Schema, always bool) *presence.Shape {
	if b.budget--; s == nil || b.budget < 0 {
		return nil
	}
	shape := &presence.Shape{Always: always, Nullable: s.Nullable, Free: isExtension(s, preserveUnknownFields)}
	nested := func(path string, s *spec.Schema, always bool) *presence.Shape {
		if isExtension(s, embeddedResource) {
			return b.resource(path, s, always)
		}
		return b.value(path, s, always)
	}
	if len(s.Properties) > 0 {
		shape.Fields = make(map[string]*presence.Shape, len(s.Properties))
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			property, at := s.Properties[name], path+name
			hasDefault := !b.isBuiltIn && property.Default != nil
			property.Nullable = property.Nullable || b.always.Has(at+"=null")
			shape.Fields[name] = nested(at+".", &property, hasDefault || slices.Contains(s.Required, name) || b.always.Has(at))
		}
	}
	isObject := len(s.Type) == 1 && s.Type[0] == "object"
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		at := path[:max(len(path)-1, 0)] + "[*]"
		shape.IsList, shape.Element = true, nested(at+".", s.Items.Schema, s.MinItems != nil && *s.MinItems > 0 || b.always.Has(at))
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		shape.Element = nested(path[:max(len(path)-1, 0)]+"[*].", s.AdditionalProperties.Schema, false)
	case isObject && len(s.Properties) == 0, len(s.Type) == 0 && !isExtension(s, intOrString) && s.Format != (intstr.IntOrString{}).OpenAPISchemaFormat():
		shape.Free = true
	}
	return shape
}
