/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// TestSchemas checks what the parts of a schema mean for expressions, which see the data
// as it is in JSON.
func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, condition, want string
	}{
		{"fields of every object", `object.apiVersion == "example.com/v1" && object.kind == "Odd" && object.metadata.name == "c"`, ""},
		{"metadata that the schema describes", `object.metadata.nam == "c"`, "undefined field 'nam'"},
		{"a reserved word", `object.namespace == "a"`, ""},
		{"the escaped form of one does not exist in data", `object.__if__ == "a"`, "undefined field"},
		{"a name that must be quoted", "object.`dash-ed` == 1", "(string, int)"},
		{"a time is a string", `object.time == "2000-01-01T00:00:00Z" && timestamp(object.time) < timestamp("2000-01-01T00:00:00Z")`, ""},
		{"and no timestamp", `object.time < timestamp("2000-01-01T00:00:00Z")`, "(string, timestamp)"},
		{"bytes are a string", `object.data == "aGFsbG8="`, ""},
		{"a number may be whole", `object.number == 1 || object.number > 1.5`, "object.number may be missing"},
		{"int or string", `object.port == 80 || object.port == "http"`, "object.port may be missing"},
		{"without type", `object.untyped.a.b[1] == 3`, ""},
		{"unknown fields are there", `object.unknown.b == 3`, ""},
		{"an object that the schema does not describe", `object.empty.a == 1`, ""},
		{"a map of anything", `object.anyMap.a.b == 1`, ""},
		{"a map", `object.map["x"].a == "a" && object.map.x.a == "a"`, ""},
		{"a mistake in a map", `object.map["x"].b == "a"`, "undefined field 'b'"},
		{"a list", `object.list.all(e, e.a == "a") && size(object.list) > 1`, ""},
		{"a mistake in a list", `object.list[0].b == "a"`, "undefined field 'b'"},
		{"a list of anything", `object.anyList[0].a == 1`, ""},
		{"what may be null", `object.nullString == null || object.nullList == null || object.nullMap == null || object.nullObject == null`, "object.nullString may be missing"},
		{"an object that may be null has fields", `object.nullObject.b == "a"`, "undefined field 'b'"},
		{"what may not be null", `object.namespace == null`, "(string, null)"},
		{"an embedded object", `object.template.kind == "a" && object.template.metadata.x == 1 && object.template.a == "a"`, ""},
		{"a mistake in an embedded object", `object.template.b == "a"`, "undefined field 'b'"},
		{"what a field may be", `has(object.map) && !has(object.mop)`, "undefined field 'mop'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := checker(t, &schemas{table: widgets}, mapper(widgets)).Check("", policy("odds", tc.condition))
			if err != nil {
				t.Fatal(err)
			}
			wantWarning(t, warningsOf(got), tc.want)
		})
	}
}

func wantWarning(t *testing.T, got []string, want string) {
	t.Helper()
	if (want == "") != (len(got) == 0) || (want != "" && !strings.Contains(got[0], want)) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLargeSchema checks that a schema without end is cut off where it costs nothing, and
// always at the same place.
func TestLargeSchema(t *testing.T) {
	t.Parallel()
	var fields []string
	for i := range 20_100 {
		fields = append(fields, fmt.Sprintf(`"f%05d": {"type": "string"}`, i))
	}
	large := &schemas{table: map[string]string{
		"example.com/v1/Large": `{"type": "object", "properties": {` + strings.Join(fields, ",") + `}}`,
	}}
	c := checker(t, large, mapper(large.table))
	for condition, want := range map[string]string{
		`object.f00000 == 1`: "(string, int)",
		`object.f19998 == 1`: "(string, int)",
		`object.f19999 == 1`: "",
		`object.f99999 == 1`: "undefined field",
	} {
		got, err := c.Check("", policy("larges", condition))
		if err != nil {
			t.Fatal(err)
		}
		wantWarning(t, warningsOf(got), want)
	}
}

// TestKubernetesSchemas checks the schemas that a kube-apiserver publishes.
func TestKubernetesSchemas(t *testing.T) {
	t.Parallel()
	published := &resolver.ClientDiscoveryResolver{Discovery: openAPIOnly{client: openapitest.NewEmbeddedFileClient()}}
	kinds := mapper(nil,
		schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionKind{Version: "v1", Kind: "Secret"},
		schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	c := checker(t, published, kinds)
	for _, tc := range []struct {
		name, group, resource, condition, want string
	}{
		{"of the design", "core", "persistentvolumeclaims", `object.spec.storageClassName == "dev"`, "object.spec.storageClassName may be missing"},
		{"a mistake", "core", "persistentvolumeclaims", `object.spec.storageClass == "dev"`, "/v1, Kind=PersistentVolumeClaim: ERROR: <input>:1:12: undefined field 'storageClass'"},
		{"quantities", "core", "pods", `object.spec.containers.all(c, quantity(c.resources.limits["cpu"]).isLessThan(quantity("1")))`, "object.spec.containers[*].resources.limits may be missing"},
		{"int or string", "core", "pods", `object.spec.containers[0].livenessProbe.httpGet.port == "http"`, "object.spec.containers[*].livenessProbe may be missing"},
		{"deep in a template", "apps", "deployments", `object.spec.template.spec.containers.all(c, !has(c.securityContext.privileged) || !c.securityContext.privileged)`, "object.spec.template.spec.containers[*].securityContext may be missing"},
		{"a mistake deep in a template", "apps", "deployments", `object.spec.template.spec.containers.all(c, c.securityContext.privileged == "no")`, "'_==_' applied to '(bool, string)'"},
		{"base64", "core", "secrets", `object.data["password"] == "aGFsbG8="`, "object.data may be missing"},
		{"times", "core", "pods", `timestamp(object.metadata.creationTimestamp) < timestamp("2000-01-01T00:00:00Z")`, ""},
		{"managed fields", "core", "pods", `object.metadata.managedFields[0].fieldsV1["f:metadata"].x == 1`, "object.metadata.managedFields may be missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.Check("", &policyv1alpha1.AuthorizationPolicySpec{Condition: tc.condition, Rules: []policyv1alpha1.PolicyRule{rule(tc.group, "v1", tc.resource)}})
			if err != nil {
				t.Fatal(err)
			}
			wantWarning(t, warningsOf(got), tc.want)
		})
	}
}

// openAPIOnly is a client of which only the OpenAPI works.
type openAPIOnly struct {
	discovery.DiscoveryInterface
	client openapi.Client
}

func (o openAPIOnly) OpenAPIV3() openapi.Client { return o.client }
