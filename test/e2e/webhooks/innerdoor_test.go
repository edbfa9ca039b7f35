/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhooks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// small lets two users create small ConfigMaps. RBAC lets one of them create all. The webhook denies that user all.
const small = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: small}
spec:
  effect: Allow
  subjects: [{kind: User, name: closed-denied}, {kind: User, name: open-none}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.data.size == "small"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: ` + namespace + `}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer, namespace: ` + namespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: closed-denied}]
`

// TestInnerDoorWithWebhooks creates ConfigMaps on conditions of policies and of webhooks, which the inner door evaluates. If kube-apiserver does not call it for
// what RBAC allows, nothing passes on conditions: the webhook may deny another request that looks the same at admission and that RBAC allows.
func TestInnerDoorWithWebhooks(t *testing.T) {
	t.Parallel()
	const missed = "a webhook could deny it"
	for _, tc := range []struct {
		asksOthers bool
		// want has the results for small and other ConfigMaps, by user: "" for a creation, or a part of the refusal.
		want map[string][2]string
	}{
		{asksOthers: false, want: map[string][2]string{
			"closed-denied": {"by the webhook", "by the webhook"}, "open-none": {"", "denied the request"}, "open-polite": {"", "denied the request"}, "open-opaque": {"", "denied the request"},
			"open-writes": {"", ""}, "closed-slow": {"the authorization webhook failed", "the authorization webhook failed"},
		}},
		{asksOthers: true, want: map[string][2]string{
			"closed-denied": {"by the webhook", "by the webhook"}, "open-none": {missed, missed}, "open-polite": {"forbidden", "forbidden"}, "open-opaque": {"forbidden", "forbidden"},
			"open-writes": {"", ""},
		}},
	} {
		t.Run(fmt.Sprintf("askOtherAuthorizers %t", tc.asksOthers), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &cluster.InnerDoor{Configuration: fmt.Sprintf("resources: [{resource: configmaps}]\naskOtherAuthorizers: %t", tc.asksOthers)})
			if _, err := r.Kubectl(t.Context(), small, "apply", "-f", "-"); err != nil {
				t.Fatal(err)
			}
			// Until the first canaries have been answered, nothing passes.
			for begun := time.Now(); ; time.Sleep(time.Second) {
				err := create(t, r.as(t, "open-none"), "small")
				if text(err) == tc.want["open-none"][0] || err != nil && strings.Contains(text(err), missed) {
					break
				}
				if time.Since(begun) > 2*time.Minute {
					t.Fatal(err)
				}
			}
			for user, want := range tc.want {
				client := r.as(t, user)
				for i, size := range []string{"small", "big"} {
					err := create(t, client, size)
					if (err == nil) != (want[i] == "") || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(text(err), want[i])) {
						t.Errorf("%s creates a %s ConfigMap: got %v, want %q", user, size, err, want[i])
					}
				}
			}
		})
	}
}

func create(t *testing.T, client dynamic.Interface, size string) error {
	t.Helper()
	_, err := client.Resource(configMaps).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "x-"}, "data": map[string]any{"size": size},
	}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
