/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// gears is a custom resource, and the policies and the mapping about it that barriers enforce.
const gears = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.gears.example.com}
spec:
  group: gears.example.com
  names: {kind: Gear, plural: gears}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

const gearPolicies = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: one-group}
spec:
  effect: Deny
  rules: [{verbs: [create], apiGroups: [gears.example.com], apiVersions: [v1], resources: [gears]}]
  condition: '"frozen" in object.metadata.?labels.orValue({})'
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: all-groups}
spec:
  effect: Deny
  rules: [{verbs: [create], apiGroups: ["*"], apiVersions: ["*"], resources: [gears]}]
  condition: '"frozen" in object.metadata.?labels.orValue({})'
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: gears}
spec:
  resources: [{apiGroup: gears.example.com, apiVersions: [v1], resource: gears}]
  fields: [{path: 'metadata.labels["tier"]', permission: tier, exclusion: {}}]
`

// otherServer has another server serve the group of gears.
const otherServer = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.gears.example.com}
spec: {group: gears.example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 9, insecureSkipTLSVerify: true, service: {name: other, namespace: default, port: 443}}
`

// testTakenOver registers another server for a group whose requests barriers decide. kube-apiserver does not see them then, which the status of
// each policy and mapping tells, until it serves the group itself again.
func testTakenOver(t *testing.T, r *rig) {
	t.Helper()
	r.kubectl(t, gears, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Established", "crd/gears.gears.example.com")
	r.kubectl(t, gearPolicies, "apply", "-f", "-")
	objects := []string{"clusterauthorizationpolicy/one-group", "clusterauthorizationpolicy/all-groups", "fieldpermissionmapping/gears"}
	is := func(status, want string) {
		t.Helper()
		for _, object := range objects {
			poll.Eventually(t, object, func() string {
				got := r.kubectl(t, "", "get", object, `-o=jsonpath={.status.conditions[?(@.type=="Effective")]['status','reason','message']}`)
				if !strings.HasPrefix(got, status) || !strings.Contains(got, want) {
					return got
				}
				return ""
			})
		}
	}
	is("True Enforced", "")
	r.kubectl(t, otherServer, "replace", "-f", "-")
	is("False NotEnforced", "another server serves")
	r.kubectl(t, "", "delete", "apiservice", "v1.gears.example.com")
	is("True Enforced", "")
}

// testFinalizerOfAuthor has the author of a policy add the finalizer by which Proviso knows that a barrier may exist. An object of another
// tool with the name of the barrier stays what it is, also when the policy is deleted.
func testFinalizerOfAuthor(t *testing.T, r *rig) {
	t.Helper()
	const name = "validatingadmissionpolicy/mine.default.namespace.policy.proviso.dev"
	r.kubectl(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: mine.default.namespace.policy.proviso.dev}
spec:
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  validations: [{expression: '!object.metadata.name.startsWith("secret")'}]
`, "create", "-f", "-")
	const uidAndSpec = "-o=jsonpath={.metadata.uid} {.metadata.generation} {.spec}"
	before := r.kubectl(t, "", "get", name, uidAndSpec)
	r.kubectl(t, `
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: mine, namespace: default, finalizers: [policy.proviso.dev/barrier]}
spec:
  effect: Deny
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.metadata.name == "none"
`, "create", "-f", "-")
	poll.Eventually(t, "the status tells that the name is taken", func() string {
		got := r.kubectl(t, "", "get", "authorizationpolicy/mine", "-n=default", `-o=jsonpath={.metadata.finalizers}{.status.conditions[?(@.type=="Effective")]['status','reason','message']}`)
		if !strings.HasPrefix(got, "False ") || !strings.Contains(got, "mine.default.namespace.policy.proviso.dev") {
			return got
		}
		return ""
	})
	r.kubectl(t, "", "patch", "authorizationpolicy/mine", "-n=default", "--type=merge", `-p={"metadata":{"finalizers":["policy.proviso.dev/barrier"],"labels":{"a":"b"}}}`)
	r.kubectl(t, "", "delete", "authorizationpolicy/mine", "-n=default", "--timeout=1m")
	if after := r.kubectl(t, "", "get", name, uidAndSpec); after != before {
		t.Errorf("the object of another tool is %s, was %s", after, before)
	}
	r.kubectl(t, "", "delete", name)
}
