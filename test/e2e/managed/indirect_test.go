/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
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
func testIndirectWrites(t *testing.T, r *rig, table *requests.Table) {
	t.Helper()
	r.kubectl(t, engines, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Established", "crd/engines.example.com")
	erin, frank := mappingRunners(t, r, table)
	for _, row := range table.Rows["before-indirect"] { // the custom resource may not be served yet
		poll.Eventually(t, row.String(), func() string { return erin.Try(t, row) })
	}
	r.kubectl(t, indirectMappings, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Effective", "--timeout=1m", "fieldpermissionmapping/engines", "fieldpermissionmapping/fuels", "fieldpermissionmapping/pods")
	for name, isNamed := range map[string]bool{"engines": false, "fuels": true, "pods": false} {
		message := r.kubectl(t, "", "get", "fieldpermissionmapping/"+name, `-o=jsonpath={.status.conditions[?(@.type=="Effective")].message}`)
		if strings.Contains(message, "name the apiVersions in which the objects have it") != isNamed || strings.Contains(message, "all requests") {
			t.Errorf("%s: the status says %s", name, message)
		}
	}
	for _, row := range table.Rows["indirect"] {
		erin.Await(t, row)
	}
	frank.Run(t, table.Rows["indirect"])
}
