/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhooks_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// generous lets all users of the test create machines and policies by RBAC, and has policies that allow some users what the webhook denies them.
const generous = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: generous, namespace: ` + namespace + `}
rules:
- {apiGroups: [demo.proviso.dev], resources: [virtualmachines], verbs: [create]}
- {apiGroups: [""], resources: ["*"], verbs: [list]}
- {apiGroups: [policy.proviso.dev], resources: [authorizationpolicies], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: generous, namespace: ` + namespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: generous}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: hooked}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: pods-for-all}
spec:
  effect: Allow
  subjects: [{kind: User, name: closed-denied}, {kind: User, name: open-none}, {kind: User, name: closed-slow}]
  rules: [{verbs: [list], apiGroups: [""], resources: [pods]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: only-debian}
spec:
  effect: Allow
  subjects: [{kind: User, name: closed-nomachines}]
  rules: [{verbs: [create], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: object.spec.image == 'debian-12'
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: none-without-maps}
spec:
  effect: Deny
  description: who may not list ConfigMaps makes no machines
  subjects: [{kind: User, name: closed-nomaps}, {kind: User, name: open-none}]
  rules: [{verbs: [create], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: "!authorizer.group('').resource('configmaps').namespace('hooked').check('list').allowed()"
`

// config returns the client configuration of a user for kube-apiserver, or for Proviso's own port.
func (r *rig) config(t *testing.T, user string, isDirect bool) *rest.Config {
	t.Helper()
	certFile, keyFile, err := r.NewUser(user, "hooked")
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: r.KubeAPIServerURL(), TLSClientConfig: rest.TLSClientConfig{CAFile: r.CAFile(), CertFile: certFile, KeyFile: keyFile}}
	if isDirect {
		config.Host, config.CAFile, config.ServerName = r.ProvisoURL(), r.ProvisoCAFile(), cluster.ServerName
	}
	return config
}

func machine(image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.proviso.dev/v1alpha1", "kind": "VirtualMachine", "metadata": map[string]any{"generateName": "x-"}, "spec": map[string]any{"image": image},
	}}
}

var ownPolicies = schema.GroupVersionResource{Group: "policy.proviso.dev", Version: "v1alpha1", Resource: "authorizationpolicies"}

// grant is a policy with which its author passes on the permission to list a resource.
func grant(resource string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "AuthorizationPolicy", "metadata": map[string]any{"generateName": "mine-"},
		"spec": map[string]any{
			"effect": "Allow", "subjects": []any{map[string]any{"kind": "User", "name": "somebody"}},
			"rules": []any{map[string]any{"verbs": []any{"list"}, "apiGroups": []any{""}, "resources": []any{resource}}},
		},
	}}
}

// testBoundary has users whom RBAC or a policy allows what the webhook denies, in every place in which Proviso decides: at kube-apiserver and on Proviso's own port,
// as authors of policies, in the checks of conditions, and in reviews. Beside each is a user whom the webhook does not deny.
func testBoundary(t *testing.T, r *rig) {
	if out, err := r.Kubectl(t.Context(), generous, "apply", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
	if out, err := r.Kubectl(t.Context(), "", "wait", "--for=condition=Ready", "clusterauthorizationpolicies", "--all"); err != nil {
		t.Fatal(out, err)
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	create := func(resource schema.GroupVersionResource, object *unstructured.Unstructured) func(dynamic.Interface) error {
		return func(client dynamic.Interface) error {
			_, err := client.Resource(resource).Namespace(namespace).Create(t.Context(), object, dry)
			return err
		}
	}
	listPods := func(client dynamic.Interface) error {
		_, err := client.Resource(pods).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	}
	const byWebhook, noGrant, noMachines = "by the webhook", "list", "who may not list ConfigMaps makes no machines"
	// The policies become effective in their own time.
	for begun := time.Now(); listPods(r.as(t, "open-none")) != nil || !strings.Contains(text(create(machines, machine("any"))(r.as(t, "closed-nomaps"))), noMachines); time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatal(listPods(r.as(t, "open-none")), create(machines, machine("any"))(r.as(t, "closed-nomaps")))
		}
	}
	for _, tc := range []struct {
		name, user string
		request    func(dynamic.Interface) error
		// want is a part of the refusal, or "" if the request is allowed.
		want string
		// isForeign says that Proviso's own port does not serve the resource.
		isForeign bool
	}{
		{name: "a policy allows, and the webhook does not deny", user: "open-none", request: listPods, isForeign: true},
		{name: "a policy allows", user: "closed-denied", request: listPods, want: byWebhook, isForeign: true},
		{name: "a policy allows, and the webhook does not answer", user: "closed-slow", request: listPods, want: "the authorization webhook failed", isForeign: true},
		{name: "RBAC allows", user: "closed-denied", request: create(machines, machine("any")), want: byWebhook},
		{name: "RBAC allows, and the webhook does not deny", user: "open-none", request: create(machines, machine("any"))},
		{name: "RBAC allows, and the condition of a policy does not hold", user: "closed-nomachines", request: create(machines, machine("any")), want: byWebhook},
		{name: "RBAC allows, and the condition of a policy holds", user: "closed-nomachines", request: create(machines, machine("debian-12")), want: byWebhook},
		{name: "a check of a condition", user: "closed-nomaps", request: create(machines, machine("any")), want: noMachines},
		{name: "the author of a policy", user: "closed-nomaps", request: create(ownPolicies, grant("configmaps")), want: noGrant},
		{name: "the author of a policy with a wildcard", user: "closed-nomaps", request: create(ownPolicies, grant("*")), want: "held only in part"},
		{name: "an author whom the webhook does not deny", user: "open-none", request: create(ownPolicies, grant("configmaps"))},
	} {
		for _, isDirect := range []bool{false, true} {
			if isDirect && tc.isForeign {
				continue
			}
			err := tc.request(dynamic.NewForConfigOrDie(r.config(t, tc.user, isDirect)))
			isRefused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
			if (err == nil) != (tc.want == "") || err != nil && (!isRefused || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s, direct %t: got %v, want %q", tc.name, isDirect, err, tc.want)
			}
		}
	}
	t.Run("reviews", func(t *testing.T) { testReviewsOfBoundary(t, r) })
	t.Run("health", func(t *testing.T) { testHealth(t, r) })
}

// testHealth asks kube-apiserver for its health as a user about whom a webhook decides that is down, and denies.
func testHealth(t *testing.T, r *rig) {
	client, err := rest.HTTPClientFor(r.config(t, "closeddown-any", false))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusOK, "/version": http.StatusForbidden} {
		response, err := client.Get(r.KubeAPIServerURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: got %s, want %d", path, response.Status, want)
		}
	}
}

// testReviewsOfBoundary asks reviews of both servers about what the webhook denies. They agree.
func testReviewsOfBoundary(t *testing.T, r *rig) {
	proviso := versioned.NewForConfigOrDie(r.admin(r.KubeAPIServerURL()))
	for _, tc := range []struct {
		user   string
		verb   string
		of     schema.GroupVersionResource
		denied bool
	}{
		{"closed-denied", "list", pods, true},
		{"closed-denied", "list", configMaps, true},
		{"closed-denied", "create", machines, true},
		{"closed-nomachines", "create", machines, true},
		{"closed-nomaps", "list", configMaps, true},
		{"open-none", "list", pods, false},
		{"open-none", "list", configMaps, false},
	} {
		attributes := &authorizationv1.ResourceAttributes{Verb: tc.verb, Group: tc.of.Group, Version: tc.of.Version, Resource: tc.of.Resource, Namespace: namespace}
		v1, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: tc.user, Groups: []string{"hooked"}, ResourceAttributes: attributes}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		own, err := proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
			Spec: authorizationv1alpha1.SubjectAccessReviewSpec{User: tc.user, Groups: []string{"hooked"}, ResourceAttributes: attributes}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("kube-apiserver allowed %t denied %t, Proviso allowed %t denied %t", v1.Status.Allowed, v1.Status.Denied, own.Status.Allowed, own.Status.Denied)
		if want := fmt.Sprintf("kube-apiserver allowed %[1]t denied %[2]t, Proviso allowed %[1]t denied %[2]t", !tc.denied, tc.denied); got != want {
			t.Errorf("%s %ss %s: got %s, want %s", tc.user, tc.verb, tc.of.Resource, got, want)
		}
	}
}
