/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// testTakenOver registers another server for a group whose requests barriers decide. kube-apiserver does not see them then, which the status of
// each policy and mapping tells, until it serves the group itself again.
func testTakenOver(t *testing.T, r *rig) {
	t.Helper()
	r.MustApply(t, plane.TestData(t, "gears.yaml"))
	objects := []string{"clusterauthorizationpolicy/one-group", "clusterauthorizationpolicy/all-groups", "fieldpermissionmapping/gears"}
	is := func(status, want string) {
		t.Helper()
		for _, object := range objects {
			poll.Eventually(t, object, func() string {
				got := r.MustKubectl(t, "get", object, `-o=jsonpath={.status.conditions[?(@.type=="Effective")]['status','reason','message']}`)
				if !strings.HasPrefix(got, status) || !strings.Contains(got, want) {
					return got
				}
				return ""
			})
		}
	}
	is("True Enforced", "")
	r.MustKubectl(t, "replace", "-f", "testdata/other-server.yaml")
	is("False NotEnforced", "another server serves")
	r.MustKubectl(t, "delete", "apiservice", "v1.gears.example.com")
	is("True Enforced", "")
}

// testFinalizerOfAuthor has the author of a policy add the finalizer by which Proviso knows that a barrier may exist. An object of another
// tool with the name of the barrier stays what it is, also when the policy is deleted.
func testFinalizerOfAuthor(t *testing.T, r *rig) {
	t.Helper()
	const name = "validatingadmissionpolicy/mine.default.namespace.policy.proviso.dev"
	r.MustKubectl(t, "create", "-f", "testdata/mine-admission.yaml")
	const uidAndSpec = "-o=jsonpath={.metadata.uid} {.metadata.generation} {.spec}"
	before := r.MustKubectl(t, "get", name, uidAndSpec)
	r.MustKubectl(t, "create", "-f", "testdata/mine.yaml")
	poll.Eventually(t, "the status tells that the name is taken", func() string {
		got := r.MustKubectl(t, "get", "authorizationpolicy/mine", "-n=default", `-o=jsonpath={.metadata.finalizers}{.status.conditions[?(@.type=="Effective")]['status','reason','message']}`)
		if !strings.HasPrefix(got, "False ") || !strings.Contains(got, "mine.default.namespace.policy.proviso.dev") {
			return got
		}
		return ""
	})
	r.MustKubectl(t, "patch", "authorizationpolicy/mine", "-n=default", "--type=merge", `-p={"metadata":{"finalizers":["policy.proviso.dev/barrier"],"labels":{"a":"b"}}}`)
	r.MustKubectl(t, "delete", "authorizationpolicy/mine", "-n=default", "--timeout=1m")
	if after := r.MustKubectl(t, "get", name, uidAndSpec); after != before {
		t.Errorf("the object of another tool is %s, was %s", after, before)
	}
	r.MustKubectl(t, "delete", name)
}
