/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	demoinstall "github.com/proviso-authz/proviso/apis/demo/install"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// widgets are resources made up for the tests, by "group/version/kind".
var widgets = map[string]string{
	"example.com/v1/Widget":      `{"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}}}}`,
	"example.com/v1beta1/Widget": `{"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "string"}}}}}`,
	"example.com/v1/Freeform":    `{"type": "object", "x-kubernetes-preserve-unknown-fields": true}`,
	"example.com/v1/Odd": `{"type": "object", "properties": {
		"metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
		"namespace": {"type": "string"}, "dash-ed": {"type": "string"},
		"time": {"type": "string", "format": "date-time"}, "data": {"type": "string", "format": "byte"},
		"number": {"type": "number"}, "port": {"x-kubernetes-int-or-string": true}, "untyped": {},
		"unknown": {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": true},
		"empty": {"type": "object"}, "anyMap": {"type": "object", "additionalProperties": true},
		"map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
		"list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}, "anyList": {"type": "array"},
		"nullString": {"type": "string", "nullable": true}, "nullList": {"type": "array", "nullable": true, "items": {"type": "string"}},
		"nullMap": {"type": "object", "nullable": true, "additionalProperties": {"type": "string"}},
		"nullObject": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
		"template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"a": {"type": "string"}}}
	}}`,
	"example.com/v1/Text":         `{"type": "string"}`,
	"other.example.com/v1/Widget": `{"type": "object", "properties": {"spec": {"type": "object", "properties": {"other": {"type": "string"}}}}}`,
}

// schemas resolves schemas of a table and counts how often it is asked. What it has not
// got is looked up among Proviso's own.
type schemas struct {
	table map[string]string
	own   resolver.SchemaResolver
	err   error // of everything

	mu    sync.Mutex
	asked []string
}

func (s *schemas) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.Trim(kind.GroupVersion().String()+"/"+kind.Kind, "/")
	s.asked = append(s.asked, name)
	if s.err != nil {
		return nil, s.err
	}
	if text, ok := s.table[name]; ok {
		result := &spec.Schema{}
		return result, json.Unmarshal([]byte(text), result)
	}
	if s.own != nil {
		return s.own.ResolveSchema(kind)
	}
	return nil, fmt.Errorf("%s: %w", name, resolver.ErrSchemaNotFound)
}

func (s *schemas) kindsAsked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func ownSchemas(t *testing.T) resolver.SchemaResolver {
	t.Helper()
	scheme := runtime.NewScheme()
	demoinstall.Install(scheme)
	return resolver.NewDefinitionsSchemaResolver(generatedopenapi.GetOpenAPIDefinitions, scheme)
}

// mapper maps the resources of kinds.
func mapper(table map[string]string, more ...schema.GroupVersionKind) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for name := range table {
		parts := strings.Split(name, "/")
		more = append(more, schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]})
	}
	for _, kind := range more {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	return m
}

func checker(t *testing.T, s resolver.SchemaResolver, kinds typechecking.Kinds) *typechecking.Checker {
	t.Helper()
	c, err := typechecking.New(s, kinds)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rule makes a rule of lists of names.
func rule(groups, versions, resources string) policyv1alpha1.PolicyRule {
	split := func(names string) []string {
		if names == "" {
			return nil
		}
		return strings.Split(strings.ReplaceAll(names, "core", ""), ",")
	}
	return policyv1alpha1.PolicyRule{Verbs: []string{"create"}, APIGroups: split(groups), APIVersions: split(versions), Resources: split(resources)}
}

// policy makes a policy for the versions v1 of resources of example.com.
func policy(resources, condition string, variables ...policyv1alpha1.Variable) *policyv1alpha1.AuthorizationPolicySpec {
	return &policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectAllow, Condition: condition, Variables: variables,
		Rules: []policyv1alpha1.PolicyRule{rule("example.com", "v1", resources)},
	}
}

// warningsOf are the warnings as "field: warning".
func warningsOf(result *policyv1alpha1.TypeChecking) []string {
	var lines []string
	for _, w := range result.ExpressionWarnings {
		lines = append(lines, w.FieldRef+": "+w.Warning)
	}
	return lines
}
