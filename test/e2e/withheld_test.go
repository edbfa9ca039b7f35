/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

const (
	// withheldSecret is in the objects that the user of these tests may not read.
	withheldSecret = "tHeSecrET"
	withheldUser   = "e2e-withheld"
	withheldHint   = "details are shown to users who may get the object"
)

// withheldPolicies let the user change what has a label that nothing has.
const withheldPolicies = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: e2e-withheld}
spec:
  description: e2e-withheld changes open objects
  effect: Allow
  subjects: [{kind: User, name: e2e-withheld}]
  rules:
  - {verbs: [patch, delete], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}
  - {verbs: [patch, delete], apiGroups: [policy.proviso.dev], apiVersions: [v1alpha1], resources: [clusterauthorizationpolicies, authorizationpolicies]}
  condition: oldObject.metadata.?labels.open.orValue("") == "yes"
`

const withheldTargets = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: e2e-withheld-target, labels: {tier: tHeSecrET}}
spec:
  description: tHeSecrET
  effect: Allow
  subjects: [{kind: User, name: e2e-nobody-at-all}]
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: e2e-withheld-target, namespace: demo, labels: {tier: tHeSecrET}}
spec:
  description: tHeSecrET
  effect: Allow
  subjects: [{kind: User, name: e2e-nobody-at-all}]
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: demo.proviso.dev/v1alpha1
kind: VirtualMachine
metadata: {name: e2e-withheld-target, namespace: demo, labels: {tier: tHeSecrET}}
spec: {image: tHeSecrET, storageClassName: dev}
`

// withheldProbes are JSON patches that the handlers answer with values of the object, or
// whose answers depend on values of the object. The first is valid.
var withheldProbes = []string{
	`[{"op":"add","path":"/metadata/labels/a","value":"b"}]`,
	`[{"op":"copy","from":"/spec","path":"/metadata/labels/x"}]`,
	`[{"op":"copy","from":"/metadata/labels/tier","path":"/metadata/name"}]`,
	`[{"op":"move","from":"/spec","path":"/metadata/annotations"}]`,
	`[{"op":"test","path":"/metadata/labels/tier","value":"tHeSecrET"},{"op":"add","path":"/metadata/labels/a","value":"b"}]`,
	`[{"op":"test","path":"/metadata/labels/tier","value":"other"},{"op":"add","path":"/metadata/labels/a","value":"b"}]`,
	`[{"op":"replace","path":"/spec/none","value":"b"}]`,
	`[{"op":"replace","path":"/metadata/uid","value":"00000000-0000-0000-0000-000000000000"}]`,
}

// probeWithheld has a user send requests that fail or are refused, and wants one answer.
func probeWithheld(t *testing.T, c *rest.Config, user, path string, deletes bool) {
	t.Helper()
	c.Impersonate, c.QPS = rest.ImpersonationConfig{UserName: user}, -1
	client, err := versioned.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	send := func(body string) (string, error) {
		raw, err := client.DemoV1alpha1().RESTClient().Patch(types.JSONPatchType).AbsPath(path).Body([]byte(body)).Do(t.Context()).Raw()
		return string(raw), err
	}
	want, _ := send(withheldProbes[0])
	poll.Holds(t, "the policies hold", func() bool {
		want, _ = send(withheldProbes[0])
		return strings.Contains(want, withheldHint)
	})
	for _, body := range withheldProbes {
		got, err := send(body)
		if !apierrors.IsForbidden(err) || got != want {
			t.Errorf("%s: %s: got %v %s, want %s", path, body, err, got, want)
		}
		if strings.Contains(got, withheldSecret) {
			t.Errorf("%s: %s shows the object: %s", path, body, got)
		}
	}
	if !deletes {
		return
	}
	uid := types.UID("00000000-0000-0000-0000-000000000000")
	err = client.DemoV1alpha1().RESTClient().Delete().AbsPath(path).Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}).Do(t.Context()).Error()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), withheldHint) || strings.Contains(err.Error(), "UID") {
		t.Errorf("%s: a wrong precondition: got %v", path, err)
	}
}

// TestWithheldAnswers probes machines and policies on both routes, as a user who may only
// change them on a condition that does not hold.
func TestWithheldAnswers(t *testing.T) {
	t.Parallel()
	applyPolicy(t, "e2e-withheld", withheldPolicies)
	if _, errs, err := kubectlWithInput(t, "admin", withheldTargets, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	const target = "e2e-withheld-target"
	t.Cleanup(func() {
		_, _, _ = kubectl(t, "admin", "delete", "--namespace=demo", "--ignore-not-found", "virtualmachine/"+target, "clusterauthorizationpolicy/"+target, "authorizationpolicy/"+target)
	})
	for _, route := range enforcementRoutes {
		t.Run(route.name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{
				"/apis/demo.proviso.dev/v1alpha1/namespaces/demo/virtualmachines/" + target,
				"/apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies/" + target,
				"/apis/policy.proviso.dev/v1alpha1/namespaces/demo/authorizationpolicies/" + target,
			} {
				probeWithheld(t, config(t, "admin"+route.suffix), withheldUser, path, true)
			}
			// Server-side apply is how kubectl writes without reading first. Its conflicts name
			// the fields of other managers.
			manifest := fmt.Sprintf("apiVersion: demo.proviso.dev/v1alpha1\nkind: VirtualMachine\nmetadata: {name: %s, namespace: demo}\nspec: {image: other}\n", target)
			_, errs, err := kubectlWithInput(t, "admin"+route.suffix, manifest, "apply", "--as="+withheldUser, "--server-side", "--validate=false", "-f", "-")
			if err == nil || !strings.Contains(errs, "Error from server (Forbidden)") || !strings.Contains(errs, withheldHint) || strings.Contains(errs, "conflict") {
				t.Errorf("kubectl apply: got %v %s", err, errs)
			}
		})
	}
}

// checkWithheld probes a machine as a user who only has permission on a label.
func (f *fine) checkWithheld(t *testing.T) {
	t.Helper()
	f.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: e2e-withheld, namespace: demo}
rules: [{apiGroups: [demo.proviso.dev], resources: [virtualmachines], verbs: [granular, "granular:label(super.safe.com)"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: e2e-withheld, namespace: demo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: e2e-withheld}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: e2e-withheld}]
`)
	admin, err := f.Client("admin-direct")
	if err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	machines := client.DemoV1alpha1().VirtualMachines("demo")
	vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "e2e-withheld-target", Labels: map[string]string{"tier": withheldSecret}}, Spec: demov1alpha1.VirtualMachineSpec{Image: withheldSecret}}
	if _, err := machines.Create(t.Context(), vm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = machines.Delete(context.Background(), vm.Name, metav1.DeleteOptions{}) })
	for _, route := range enforcementRoutes {
		c, err := f.Client("admin" + route.suffix)
		if err != nil {
			t.Fatal(err)
		}
		probeWithheld(t, c, withheldUser, "/apis/demo.proviso.dev/v1alpha1/namespaces/demo/virtualmachines/"+vm.Name, false)
	}
}
