/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/discovery"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestTypeChecking checks policies against what kube-apiserver and Proviso publish.
func TestTypeChecking(t *testing.T) {
	t.Parallel()
	apply(t, readText(t, "testdata/gadgets.yaml"))
	var clients []discovery.DiscoveryInterface
	for _, user := range []string{"alice-direct", "alice"} { // what every user may read suffices
		client, err := discovery.NewDiscoveryClientForConfig(config(t, user))
		must(t, err)
		clients = append(clients, client)
	}
	for _, tc := range []struct {
		name, group, resource, condition, want string
	}{
		{"a claim", "", "persistentvolumeclaims", `object.spec.?storageClassName.orValue("") == "dev" && object.spec.?resources.?requests[?"storage"].hasValue() && quantity(object.spec.resources.requests["storage"]).isLessThan(quantity("1Gi"))`, ""},
		{"a mistake in a claim", "", "persistentvolumeclaims", `object.spec.storageClass == "dev"`, "/v1, Kind=PersistentVolumeClaim: ERROR: <input>:1:12: undefined field 'storageClass', did you mean 'storageClassName'?"},
		{"a role binding", "rbac.authorization.k8s.io", "rolebindings", `object.subjects.all(s, s.namespace == 1)`, "rbac.authorization.k8s.io/v1, Kind=RoleBinding: ERROR: <input>:1:36: found no matching overload for '_==_' applied to '(string, int)'; a number is written without quotes, and a text in quotes"},
		{"a machine", "demo.proviso.dev", "virtualmachines/status", `object.status.phase == 1`, "demo.proviso.dev/v1alpha1, Kind=VirtualMachine: ERROR: <input>:1:21: found no matching overload for '_==_' applied to '(string, int)'; a number is written without quotes, and a text in quotes"},
		{"a custom resource, with fields that are not in its schema", "typechecking.example.com", "gadgets", `object.spec.more.of.it == 1 && object.metadata.labels.a == "b" && object.spec.sise == 1`, "typechecking.example.com/v1, Kind=Gadget: ERROR: <input>:1:78: undefined field 'sise', did you mean 'size'?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			policy := &policyv1alpha1.AuthorizationPolicySpec{
				Condition: tc.condition,
				Rules:     []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{tc.group}, Resources: []string{tc.resource}}},
			}
			var want []policyv1alpha1.ExpressionWarning
			if tc.want != "" {
				want = []policyv1alpha1.ExpressionWarning{{FieldRef: "spec.condition", Warning: tc.want}}
			}
			if diff := eventually(t, clients, policy, want); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// eventually checks a policy until the result is as wanted, for the schema of a custom
// resource is published some time after its discovery. Each try has a cache of its own.
func eventually(t *testing.T, clients []discovery.DiscoveryInterface, policy *policyv1alpha1.AuthorizationPolicySpec, want []policyv1alpha1.ExpressionWarning) (diff string) {
	t.Helper()
	poll.Until(t.Context(), 20*time.Second, func() bool {
		published := typechecking.NewDiscovery(clients...)
		checker, err := typechecking.New(published, published)
		must(t, err)
		got, err := checker.Check("", policy)
		must(t, err)
		diff = cmp.Diff(want, got.ExpressionWarnings)
		return diff == ""
	})
	return diff
}
