/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"slices"
	"strings"
	"testing"
)

// engines are custom resources whose scale is spec.cylinders. Their version v2 does not have this field.
const engines = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: engines.example.com}
spec:
  group: example.com
  names: {kind: Engine, plural: engines}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.cylinders, statusReplicasPath: .status.cylinders}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {cylinders: {type: integer}, fuel: {type: string}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {fuel: {type: string}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`

const indirectMappings = `
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: engines}
spec:
  description: who may change cylinders
  resources: [{apiGroup: example.com, apiVersions: [v1], resource: engines}]
  fields: [{path: spec.cylinders, permission: cylinders, exclusion: {}}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: fuels}
spec:
  description: who may change the fuel, in any version
  resources: [{apiGroup: example.com, resource: engines}]
  fields: [{path: 'metadata.labels["fuel"]', permission: fuel, exclusion: {}}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: pods}
spec:
  description: who may assign nodes, and set the tier
  resources: [{resource: pods}]
  fields:
  - {path: spec.nodeName, permission: nodeAssignment, exclusion: {}}
  - {path: status.conditions, permission: conditions, exclusion: {}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "indirect:writer"}
rules:
- {apiGroups: [example.com], resources: [engines, engines/status, engines/scale], verbs: [get, list, create, update, patch]}
- {apiGroups: [""], resources: [pods, pods/binding, pods/eviction, bindings], verbs: [get, list, create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "indirect:fields"}
rules:
- {apiGroups: [example.com], resources: [engines, engines/status, engines/scale], verbs: ["granular:cylinders"]}
- {apiGroups: [""], resources: [pods/binding, pods/eviction, bindings], verbs: ["granular:nodeAssignment", "granular:conditions"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "indirect:writer"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "indirect:writer"}
subjects: [{kind: User, name: erin, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: frank, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "indirect:fields"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "indirect:fields"}
subjects: [{kind: User, name: frank, apiGroup: rbac.authorization.k8s.io}]
`

// testIndirectWrites has users change excluded fields by requests whose objects do not show them. The users are those of mappings.
func testIndirectWrites(t *testing.T, r *rig) {
	t.Helper()
	r.kubectl(t, engines, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Established", "crd/engines.example.com")
	const engine = `{"apiVersion":"example.com/v1","kind":"Engine","metadata":{"name":"e","namespace":"default"},"spec":{"cylinders":4,"fuel":"a"}}`
	create := func(manifest string) {
		eventually(t, "the object can be created", func() string {
			if output, err := r.Kubectl(t.Context(), manifest, "apply", "-f", "-"); err != nil {
				return output
			}
			return ""
		})
	}
	create(engine)
	create(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","namespace":"default"}}`)
	create(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default"},"spec":{"containers":[{"name":"a","image":"a"}]}}`)
	r.kubectl(t, indirectMappings, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Effective", "--timeout=1m", "fieldpermissionmapping/engines", "fieldpermissionmapping/fuels", "fieldpermissionmapping/pods")
	for name, isNamed := range map[string]bool{"engines": false, "fuels": true, "pods": false} {
		message := r.kubectl(t, "", "get", "fieldpermissionmapping/"+name, `-o=jsonpath={.status.conditions[?(@.type=="Effective")].message}`)
		if strings.Contains(message, "name the apiVersions in which the objects have it") != isNamed || strings.Contains(message, "all requests") {
			t.Errorf("%s: the status says %s", name, message)
		}
	}
	const shown = "does not show: it also needs the verb"
	scale := func(resource, patch string) []string {
		return []string{"patch", resource, "--namespace=default", "--dry-run=server", "--subresource=scale", "--type=merge", "-p=" + patch}
	}
	inV2 := []string{"patch", "engines.v2.example.com/e", "--namespace=default", "--dry-run=server", "--type=merge", "-p={}"}
	post := func(path string) []string {
		return []string{"create", "--raw=/api/v1/namespaces/default/" + path + "?dryRun=All", "-f", "-"}
	}
	const binding = `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p","namespace":"default"},"target":{"kind":"Node","name":"n"}}`
	rows := []struct {
		name, input string
		args        []string
		want        string // the refusal, "" for a write that changes no excluded field
	}{
		{"bindings", binding, post("bindings"), shown},
		{"pods/binding", binding, post("pods/p/binding"), shown},
		{"pods/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p","namespace":"default"}}`, post("pods/p/eviction"), shown},
		{"scale of a custom resource", "", scale("engines.v1.example.com/e", `{"spec":{"replicas":8}}`), shown},
		{"scale of a custom resource, without a change", "", scale("engines.v1.example.com/e", `{}`), shown},
		{"scale", "", scale("replicaset/set", `{"spec":{"replicas":2}}`), shown},
		{"the managers of a scale", "", scale("replicaset/set", `{"metadata":{"managedFields":[{}]}}`), shown},
		{"a version without the field", "", inV2, shown},
		{"the status in a version without the field", "", append(slices.Clone(inV2), "--subresource=status"), shown},
		{"the field", "", []string{"patch", "engines.v1.example.com/e", "--namespace=default", "--dry-run=server", "--type=merge", `-p={"spec":{"cylinders":8}}`}, "the field spec.cylinders is excluded"},
		{"another field", "", []string{"patch", "engines.v1.example.com/e", "--namespace=default", "--dry-run=server", "--type=merge", `-p={"spec":{"fuel":"b"}}`}, ""},
		{"a label of the pod", "", []string{"label", "pod/p", "--namespace=default", "--dry-run=server", "a=b"}, ""},
	}
	for _, row := range rows {
		eventually(t, row.name+" is refused or passes", func() string {
			output, err := r.Kubectl(t.Context(), row.input, append(slices.Clone(row.args), "--as=erin")...)
			if (err == nil) == (row.want == "") && strings.Contains(output, row.want) {
				return ""
			}
			return output
		})
		if output, err := r.Kubectl(t.Context(), row.input, append(slices.Clone(row.args), "--as=frank")...); err != nil {
			t.Errorf("%s by frank: %s", row.name, output)
		}
	}
}
