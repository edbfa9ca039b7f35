/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// tamperer is a user who weakens the barrier with a name.
type tamperer struct {
	client kubernetes.Interface
	name   string
}

func (u tamperer) patchPolicy(ctx context.Context, kind types.PatchType, patch string, options metav1.PatchOptions) error {
	_, err := u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Patch(ctx, u.name, kind, []byte(patch), options)
	return err
}

func (u tamperer) patchBinding(ctx context.Context, kind types.PatchType, patch string) error {
	_, err := u.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Patch(ctx, u.name, kind, []byte(patch), metav1.PatchOptions{})
	return err
}

// replacePolicy changes the policy with PUT.
func (u tamperer) replacePolicy(ctx context.Context, change func(*admissionregistrationv1.ValidatingAdmissionPolicy)) error {
	for {
		stored, err := u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, u.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(stored)
		if _, err = u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(ctx, stored, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// merge is a way to weaken a barrier with a merge patch of the policy.
func merge(patch string) func(context.Context, tamperer) error {
	return func(ctx context.Context, u tamperer) error {
		return u.patchPolicy(ctx, types.MergePatchType, patch, metav1.PatchOptions{})
	}
}

// mergeBinding is merge for the binding.
func mergeBinding(patch string) func(context.Context, tamperer) error {
	return func(ctx context.Context, u tamperer) error { return u.patchBinding(ctx, types.MergePatchType, patch) }
}

func replace(change func(*admissionregistrationv1.ValidatingAdmissionPolicy)) func(context.Context, tamperer) error {
	return func(ctx context.Context, u tamperer) error { return u.replacePolicy(ctx, change) }
}

// ways are the ways to weaken a barrier.
var ways = []struct {
	name   string
	weaken func(ctx context.Context, u tamperer) error
}{
	{"delete the policy", func(ctx context.Context, u tamperer) error {
		return u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, u.name, metav1.DeleteOptions{})
	}},
	{"delete the binding", func(ctx context.Context, u tamperer) error {
		return u.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, u.name, metav1.DeleteOptions{})
	}},
	{"delete the policy at once", func(ctx context.Context, u tamperer) error {
		return u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, u.name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)})
	}},
	{"delete the policy in the foreground", func(ctx context.Context, u tamperer) error {
		return u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, u.name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	}},
	{"delete a collection of policies", func(ctx context.Context, u tamperer) error {
		return u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + u.name})
	}},
	{"delete a collection of bindings", func(ctx context.Context, u tamperer) error {
		return u.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + u.name})
	}},
	{"take the finalizer", func(ctx context.Context, u tamperer) error {
		return u.patchPolicy(ctx, types.JSONPatchType, `[{"op": "remove", "path": "/metadata/finalizers"}]`, metav1.PatchOptions{})
	}},
	{"take the finalizer of the binding", func(ctx context.Context, u tamperer) error {
		return u.patchBinding(ctx, types.JSONPatchType, `[{"op": "remove", "path": "/metadata/finalizers"}]`)
	}},
	{"take the label", func(ctx context.Context, u tamperer) error {
		return u.patchPolicy(ctx, types.JSONPatchType, `[{"op": "remove", "path": "/metadata/labels"}]`, metav1.PatchOptions{})
	}},
	{"take the label of the binding", mergeBinding(`{"metadata": {"labels": null}}`)},
	{"another value of the label", merge(`{"metadata": {"labels": {"app.kubernetes.io/managed-by": "helm"}}}`)},
	{"take the annotations", merge(`{"metadata": {"annotations": null}}`)},
	{"annotation of another policy", merge(`{"metadata": {"annotations": {"policy.proviso.dev/policy": "other"}}}`)},
	{"annotation of another UID", merge(`{"metadata": {"annotations": {"policy.proviso.dev/policy-uid": "other"}}}`)},
	{"a revision of the future, and a condition", merge(`{"metadata": {"annotations": {"policy.proviso.dev/store-revision": "99999999999"}}, "spec": {"validations": [{"expression": "true"}]}}`)},
	{"annotations that leave no room, and a condition", merge(`{"metadata": {"annotations": {"example.com/fill": "` + strings.Repeat("a", 261_500) + `"}}, "spec": {"validations": [{"expression": "true"}]}}`)},
	{"an owner that does not exist", merge(`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "gone"}]}}`)},
	{"another finalizer", merge(`{"metadata": {"finalizers": ["example.com/other"]}}`)},
	{"a validation that is true", merge(`{"spec": {"validations": [{"expression": "true"}]}}`)},
	{"a variable that is false", merge(`{"spec": {"variables": [{"name": "denied", "expression": "false"}]}}`)},
	{"the failure policy", merge(`{"spec": {"failurePolicy": "Ignore"}}`)},
	{"a match condition that is false", merge(`{"spec": {"matchConditions": [{"name": "never", "expression": "false"}]}}`)},
	{"other resources", replace(func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
		p.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"secrets"}
	})},
	{"other operations", replace(func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
		p.Spec.MatchConstraints.ResourceRules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
	})},
	{"other versions", replace(func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
		p.Spec.MatchConstraints.ResourceRules[0].APIVersions = []string{"v9"}
	})},
	{"names of resources", replace(func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
		p.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"none"}
	})},
	{"excluded resources", merge(`{"spec": {"matchConstraints": {"excludeResourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]}}}`)},
	{"a selector of namespaces", merge(`{"spec": {"matchConstraints": {"namespaceSelector": {"matchLabels": {"no": "namespace"}}}}}`)},
	{"a selector of objects", merge(`{"spec": {"matchConstraints": {"objectSelector": {"matchLabels": {"no": "object"}}}}}`)},
	{"a binding that audits", mergeBinding(`{"spec": {"validationActions": ["Audit"]}}`)},
	{"a binding that warns", mergeBinding(`{"spec": {"validationActions": ["Warn"]}}`)},
	{"a binding of another policy", mergeBinding(`{"spec": {"policyName": "other"}}`)},
	{"a binding with a selector", mergeBinding(`{"spec": {"matchResources": {"namespaceSelector": {"matchLabels": {"no": "namespace"}}}}}`)},
	{"a strategic merge patch", func(ctx context.Context, u tamperer) error {
		return u.patchPolicy(ctx, types.StrategicMergePatchType, `{"spec": {"failurePolicy": "Ignore"}}`, metav1.PatchOptions{})
	}},
	{"server-side apply that forces", func(ctx context.Context, u tamperer) error {
		return u.patchPolicy(ctx, types.ApplyPatchType, fmt.Sprintf(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": %q}, "spec": {"validations": [{"expression": "true"}]}}`, u.name),
			metav1.PatchOptions{Force: ptr.To(true), FieldManager: "kubectl"})
	}},
	{"all marks and the condition at once", merge(`{"metadata": {"labels": null, "annotations": null, "finalizers": null}, "spec": {"validations": [{"expression": "true"}]}}`)},
	{"take the finalizer and delete", func(ctx context.Context, u tamperer) error {
		if err := u.patchPolicy(ctx, types.MergePatchType, `{"metadata": {"finalizers": null}}`, metav1.PatchOptions{}); err != nil {
			return err
		}
		return u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, u.name, metav1.DeleteOptions{})
	}},
	{"an object of their own instead of the policy", func(ctx context.Context, u tamperer) error {
		return replaceObject(ctx, u.name, u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.ObjectMeta = metav1.ObjectMeta{Name: u.name}
			p.Spec.Variables, p.Spec.Validations = nil, []admissionregistrationv1.Validation{{Expression: "true"}}
		})
	}},
	{"an object of their own instead of the binding", func(ctx context.Context, u tamperer) error {
		return replaceObject(ctx, u.name, u.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings(), func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
			b.ObjectMeta = metav1.ObjectMeta{Name: u.name}
			b.Spec.PolicyName = "other"
		})
	}},
}

// objectClient is the client of one of the two kinds of objects of a barrier.
type objectClient[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// replaceObject takes the finalizer from an object, deletes it and creates another one, until that has come before Proviso.
func replaceObject[T any](ctx context.Context, name string, client objectClient[T], change func(T)) error {
	object, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	change(object)
	for {
		if _, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if _, err := client.Create(ctx, object, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

// target returns the name of a policy for a way, which denies that a ConfigMap has the name of the policy as a key.
func target(i int) string { return fmt.Sprintf("way-%02d", i) }

func barrierOf(i int) string { return target(i) + ".cluster.policy.proviso.dev" }

// writeTargets writes a policy for each way, and returns its barriers once all are written.
func writeTargets(t *testing.T, r *rig, client kubernetes.Interface) (policies []*admissionregistrationv1.ValidatingAdmissionPolicy, bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	var text strings.Builder
	for i := range ways {
		fmt.Fprintf(&text, `
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: %s}
spec:
  effect: Deny
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.?data.orValue({}).exists(key, key == %q)
`, target(i), target(i))
	}
	r.kubectl(t, text.String(), "apply", "-f", "-")
	for i := range ways {
		eventually(t, "the barrier is written", func() string {
			policy, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), barrierOf(i), metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			binding, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), barrierOf(i), metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			policies, bindings = append(policies[:i:i], policy), append(bindings[:i:i], binding)
			return ""
		})
	}
	r.kubectl(t, "", append([]string{"wait", "--for=condition=Effective", "--timeout=1m", "clusterauthorizationpolicy"}, "--all")...)
	return policies, bindings
}

// administrators are a member of system:masters, a user to whom RBAC grants everything, and carol, who is none.
func administrators(t *testing.T, r *rig) map[string]kubernetes.Interface {
	t.Helper()
	r.kubectl(t, "", "create", "clusterrolebinding", "managed:root", "--clusterrole=cluster-admin", "--user=root")
	clients := map[string]kubernetes.Interface{}
	for name, impersonated := range map[string]rest.ImpersonationConfig{"system:masters": {}, "cluster-admin": {UserName: "root"}, "carol": {UserName: "carol"}} {
		config, err := r.Client(cluster.Admin)
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate, config.QPS = impersonated, -1
		if clients[name], err = kubernetes.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
	}
	return clients
}

// isRestored returns how the stored barrier of a way differs from the one before, or "".
func isRestored(t *testing.T, client kubernetes.Interface, i int, policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) string {
	t.Helper()
	gotPolicy, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), barrierOf(i), metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	gotBinding, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), barrierOf(i), metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, pair := range [][2]metav1.ObjectMeta{{gotPolicy.ObjectMeta, policy.ObjectMeta}, {gotBinding.ObjectMeta, binding.ObjectMeta}} {
		got, want := pair[0], pair[1]
		if got.DeletionTimestamp != nil || !slices.Equal(got.Finalizers, []string{barriercontroller.Finalizer}) || len(got.OwnerReferences) > 0 ||
			got.Labels[barrier.ManagedByLabel] != barrier.ManagedBy || got.Annotations[barrier.PolicyAnnotation] != want.Annotations[barrier.PolicyAnnotation] {
			return fmt.Sprintf("the metadata is %v", got)
		}
	}
	if !barrier.EqualPolicies(gotPolicy, policy) || !barrier.EqualBindings(gotBinding, binding) {
		return fmt.Sprintf("the specification is %v, %v", gotPolicy.Spec, gotBinding.Spec)
	}
	return ""
}

// refuses returns whether kube-apiserver lets carol do what the policy of a way denies, as a problem.
func refuses(t *testing.T, carol kubernetes.Interface, i int) string {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{target(i): "a"}}
	_, err := carol.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), barrierOf(i)) {
		return fmt.Sprintf("%s: got %v", target(i), err)
	}
	return ""
}

// restored returns after what time each barrier was as it had been before, since its way began.
func restored(t *testing.T, client kubernetes.Interface, policies []*admissionregistrationv1.ValidatingAdmissionPolicy, bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding, started []time.Time) []time.Duration {
	t.Helper()
	took := make([]time.Duration, len(ways))
	eventually(t, "all is undone", func() (problem string) {
		for i, way := range ways {
			if took[i] != 0 {
				continue
			}
			if difference := isRestored(t, client, i, policies[i], bindings[i]); difference != "" {
				problem = way.name + ": " + difference
				continue
			}
			took[i] = time.Since(started[i])
		}
		return problem
	})
	slices.Sort(took)
	return took
}

// TestTampering has administrators weaken barriers in many ways, on a cluster without the guard. Each is undone and told.
func TestTampering(t *testing.T) {
	t.Parallel()
	onEachKubernetes(t, func(t *testing.T, r *rig) {
		r.kubectl(t, writer, "apply", "-f", "-")
		users := administrators(t, r)
		policies, bindings := writeTargets(t, r, users["system:masters"])
		for _, user := range []string{"system:masters", "cluster-admin"} {
			client := users[user]
			started := make([]time.Time, len(ways))
			for i, way := range ways {
				started[i] = time.Now()
				if err := way.weaken(t.Context(), tamperer{client, barrierOf(i)}); err != nil && !apierrors.IsNotFound(err) {
					t.Errorf("%s: %s: %v", user, way.name, err)
				}
			}
			took := restored(t, client, policies, bindings, started)
			t.Logf("%s: %d ways are undone after %s at the median, %s at most", user, len(ways), took[len(took)/2], took[len(took)-1])
			for i, way := range ways {
				eventually(t, user+": "+way.name+" has no effect", func() string { return refuses(t, users["carol"], i) })
			}
			eventually(t, "events tell", func() string {
				events, err := client.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=BarrierRestored"})
				if err != nil {
					return err.Error()
				}
				told := map[string]bool{}
				for _, event := range events.Items {
					told[event.Regarding.Name] = true
				}
				for i, way := range ways {
					if !told[target(i)] {
						return way.name
					}
				}
				return ""
			})
			if err := client.EventsV1().Events(metav1.NamespaceDefault).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// writeGuard writes the guard, as the command prints it, and returns the flag of kube-apiserver for it.
func writeGuard(t *testing.T) string {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join("..", "..", "..", "_output", "bin", "proviso-apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := exec.CommandContext(t.Context(), bin, "barrier-guard").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	manifests := filepath.Join(dir, "manifests")
	if err := os.Mkdir(manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	admission, err := json.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
		"plugins": []any{map[string]any{"name": "ValidatingAdmissionPolicy", "configuration": map[string]any{
			"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ValidatingAdmissionPolicyConfiguration", "staticManifestsDir": manifests,
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{filepath.Join(manifests, "guard.yaml"): manifest, filepath.Join(dir, "admission.yaml"): admission} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "--admission-control-config-file=" + filepath.Join(dir, "admission.yaml")
}

// TestGuard has administrators weaken barriers in the same ways on a cluster with the guard and kube-controller-manager. The guard refuses them all.
func TestGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, cluster.Config{Deployment: true, Managed: true, ControllerManager: true, KubeAPIServerArgs: []string{writeGuard(t)}}, (*cluster.Cluster).Up)
	r.kubectl(t, writer, "apply", "-f", "-")
	users := administrators(t, r)
	policies, bindings := writeTargets(t, r, users["system:masters"])
	testControlPlane(t, r, users["cluster-admin"], policies)
	const refused = "this object is a barrier, which Proviso generates from a Deny policy"
	for _, user := range []string{"system:masters", "cluster-admin"} {
		client := users[user]
		for i, way := range ways {
			if err := way.weaken(t.Context(), tamperer{client, barrierOf(i)}); err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refused) {
				t.Errorf("%s: %s: got %v", user, way.name, err)
			}
			if problem := isRestored(t, client, i, policies[i], bindings[i]); problem != "" {
				t.Errorf("%s: %s: %s", user, way.name, problem)
			}
		}
		admission := client.AdmissionregistrationV1()
		for name, write := range map[string]func() error{
			"a barrier of theirs": func() error {
				_, err := admission.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: policies[0].Labels}, Spec: policies[0].Spec}, metav1.CreateOptions{})
				return err
			},
			"the name of a barrier": func() error {
				_, err := admission.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "next.cluster.policy.proviso.dev"}, Spec: policies[0].Spec}, metav1.CreateOptions{})
				return err
			},
			"the sentinel": func() error {
				return admission.ValidatingAdmissionPolicies().Delete(t.Context(), barrier.SentinelName, metav1.DeleteOptions{})
			},
		} {
			if err := write(); err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("%s: %s: got %v", user, name, err)
			}
		}
		other := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"}, Spec: policies[0].Spec}
		for name, write := range map[string]func() error{
			"a status": func() error {
				_, err := admission.ValidatingAdmissionPolicies().Patch(t.Context(), barrierOf(0), types.MergePatchType, []byte(`{"status": {"observedGeneration": 1}}`), metav1.PatchOptions{}, "status")
				return err
			},
			"an update without a change": func() error {
				return tamperer{client, barrierOf(0)}.replacePolicy(t.Context(), func(*admissionregistrationv1.ValidatingAdmissionPolicy) {})
			},
			"the policies of other tools": func() error {
				created, err := admission.ValidatingAdmissionPolicies().Create(t.Context(), other, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				return admission.ValidatingAdmissionPolicies().Delete(t.Context(), created.Name, metav1.DeleteOptions{})
			},
		} {
			if err := write(); err != nil {
				t.Errorf("%s: %s: got %v", user, name, err)
			}
		}
	}
	for i := range ways {
		if problem := refuses(t, users["carol"], i); problem != "" {
			t.Error(problem)
		}
	}
	// Proviso itself is not refused.
	r.kubectl(t, "", "delete", "clusterauthorizationpolicy", target(0), "--timeout=1m")
}
