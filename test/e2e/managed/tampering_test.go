/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// tamperer is a user who weakens the barrier with a name.
type tamperer struct {
	client kubernetes.Interface
	sender *requests.Sender
	as     *requests.User
	name   string
}

// way is a way to weaken a barrier.
type way struct {
	name   string
	weaken func(t *testing.T, u tamperer) error
}

// ways are the ways to weaken a barrier: single requests, and some that are more than one.
func ways(t *testing.T) (list []way) {
	t.Helper()
	for _, row := range table(t, "ways.yaml").Rows["ways"] {
		list = append(list, way{row.Name, func(t *testing.T, u tamperer) error { return u.send(t, row) }})
	}
	return append(list,
		way{"annotations that leave no room, and a condition", func(t *testing.T, u tamperer) error {
			patch := `{"metadata": {"annotations": {"example.com/fill": "` + strings.Repeat("a", 261_500) + `"}}, "spec": {"validations": [{"expression": "true"}]}}`
			_, err := u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Patch(t.Context(), u.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}},
		way{"take the finalizer and delete", func(t *testing.T, u tamperer) error {
			policies := u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
			if _, err := policies.Patch(t.Context(), u.name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
				return err
			}
			return policies.Delete(t.Context(), u.name, metav1.DeleteOptions{})
		}},
		way{"an object of their own instead of the policy", func(t *testing.T, u tamperer) error {
			return replaceObject(t.Context(), u.name, u.client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
				p.ObjectMeta = metav1.ObjectMeta{Name: u.name}
				p.Spec.Variables, p.Spec.Validations = nil, []admissionregistrationv1.Validation{{Expression: "true"}}
			})
		}},
		way{"an object of their own instead of the binding", func(t *testing.T, u tamperer) error {
			return replaceObject(t.Context(), u.name, u.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings(), func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
				b.ObjectMeta = metav1.ObjectMeta{Name: u.name}
				b.Spec.PolicyName = "other"
			})
		}},
	)
}

// send sends a row, again if there is a conflict, and returns the status of a refusal as an error.
func (u tamperer) send(t *testing.T, row *requests.Row) error {
	t.Helper()
	runner := &requests.Runner{Sender: u.sender, Values: map[string]string{"name": u.name}, As: func(*requests.Row) *requests.User { return u.as }}
	for {
		answer, err := runner.Send(t.Context(), t, row)
		if err != nil || answer.Code == row.Code {
			return err
		}
		status := &apierrors.StatusError{}
		if err := json.Unmarshal([]byte(answer.Body), &status.ErrStatus); err != nil {
			return err
		}
		if answer.Code != http.StatusConflict {
			return status
		}
	}
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

// stored is a barrier as it is stored.
type stored struct {
	policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// barrierAt returns the stored barrier of a way.
func barrierAt(ctx context.Context, client kubernetes.Interface, i int) (b stored, err error) {
	admission := client.AdmissionregistrationV1()
	if b.policy, err = admission.ValidatingAdmissionPolicies().Get(ctx, barrierOf(i), metav1.GetOptions{}); err != nil {
		return b, err
	}
	b.binding, err = admission.ValidatingAdmissionPolicyBindings().Get(ctx, barrierOf(i), metav1.GetOptions{})
	return b, err
}

// runnerOf sends rows about the barrier of a way.
func (r *rig) runnerOf(i int) *requests.Runner {
	return &requests.Runner{Sender: r.Sender, Values: map[string]string{"name": barrierOf(i), "target": target(i)}}
}

// writeTargets writes a policy for each way, and returns its barriers once all are written.
func writeTargets(t *testing.T, r *rig, client kubernetes.Interface) (barriers []stored) {
	t.Helper()
	manifest := ""
	for i := range ways(t) {
		manifest += strings.ReplaceAll(plane.TestData(t, "way.yaml"), "NAME", target(i)) + "---\n"
	}
	r.MustApply(t, manifest)
	r.effective(t, "clusterauthorizationpolicy", "--all")
	for i := range ways(t) {
		b, err := barrierAt(t.Context(), client, i)
		if err != nil {
			t.Fatal(err)
		}
		barriers = append(barriers, b)
	}
	return barriers
}

// masters and root are the administrators: a member of system:masters, and a user to whom RBAC grants everything.
const masters, root = "system:masters", "cluster-admin"

// administrators are the clients of the administrators.
func administrators(t *testing.T, r *rig) map[string]kubernetes.Interface {
	t.Helper()
	r.MustKubectl(t, "create", "clusterrolebinding", "managed:root", "--clusterrole=cluster-admin", "--user=root")
	clients := map[string]kubernetes.Interface{}
	for name, impersonated := range map[string]rest.ImpersonationConfig{masters: {}, root: {UserName: "root"}} {
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

// identity is an administrator as a sender of requests.
func identity(administrator string) *requests.User {
	if administrator == masters {
		return nil
	}
	return &requests.User{Name: "root"}
}

// isRestored returns how the stored barrier of a way differs from the one before, or "".
func isRestored(t *testing.T, client kubernetes.Interface, i int, before stored) string {
	t.Helper()
	now, err := barrierAt(t.Context(), client, i)
	if err != nil {
		return err.Error()
	}
	for _, pair := range [][2]metav1.ObjectMeta{{now.policy.ObjectMeta, before.policy.ObjectMeta}, {now.binding.ObjectMeta, before.binding.ObjectMeta}} {
		got, want := pair[0], pair[1]
		if got.DeletionTimestamp != nil || !slices.Equal(got.Finalizers, []string{barriercontroller.Finalizer}) || len(got.OwnerReferences) > 0 ||
			got.Labels[barrier.ManagedByLabel] != barrier.ManagedBy || got.Annotations[barrier.PolicyAnnotation] != want.Annotations[barrier.PolicyAnnotation] {
			return fmt.Sprintf("the metadata is %v", got)
		}
	}
	if !barrier.EqualPolicies(now.policy, before.policy) || !barrier.EqualBindings(now.binding, before.binding) {
		return fmt.Sprintf("the specification is %v, %v", now.policy.Spec, now.binding.Spec)
	}
	return ""
}

// restored returns after what time each barrier was as it had been before, since its way began.
func restored(t *testing.T, ways []way, client kubernetes.Interface, barriers []stored, started []time.Time) []time.Duration {
	t.Helper()
	took := make([]time.Duration, len(ways))
	poll.Eventually(t, "all is undone", func() (problem string) {
		for i, way := range ways {
			if took[i] != 0 {
				continue
			}
			if difference := isRestored(t, client, i, barriers[i]); difference != "" {
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
		r.MustApply(t, plane.TestData(t, "writer.yaml"))
		users := administrators(t, r)
		barriers := writeTargets(t, r, users[masters])
		ways, sender, refusal := ways(t), r.Sender, table(t, "ways.yaml").Rows["target"][0]
		for _, user := range []string{masters, root} {
			client := users[user]
			started := make([]time.Time, len(ways))
			for i, way := range ways {
				started[i] = time.Now()
				if err := way.weaken(t, tamperer{client, sender, identity(user), barrierOf(i)}); err != nil && !apierrors.IsNotFound(err) {
					t.Errorf("%s: %s: %v", user, way.name, err)
				}
			}
			took := restored(t, ways, client, barriers, started)
			t.Logf("%s: %d ways are undone after %s at the median, %s at most", user, len(ways), took[len(took)/2], took[len(took)-1])
			for i := range ways {
				r.runnerOf(i).Await(t, refusal)
			}
			poll.Eventually(t, "events tell", func() string {
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
	r.MustApply(t, plane.TestData(t, "writer.yaml"))
	users := administrators(t, r)
	barriers := writeTargets(t, r, users[masters])
	testControlPlane(t, r, users[root], barriers)
	ways, sender, rows := ways(t), r.Sender, table(t, "ways.yaml").Rows
	const refused = "this object is a barrier, which Proviso generates from a Deny policy"
	for _, user := range []string{masters, root} {
		client := users[user]
		for i, way := range ways {
			if err := way.weaken(t, tamperer{client, sender, identity(user), barrierOf(i)}); err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refused) {
				t.Errorf("%s: %s: got %v", user, way.name, err)
			}
			if problem := isRestored(t, client, i, barriers[i]); problem != "" {
				t.Errorf("%s: %s: %s", user, way.name, problem)
			}
		}
		runner := r.runnerOf(0)
		runner.As = func(*requests.Row) *requests.User { return identity(user) }
		runner.Run(t, rows["guard"])
	}
	for i := range ways {
		r.runnerOf(i).Run(t, rows["target"])
	}
	// Proviso itself is not refused.
	r.MustKubectl(t, "delete", "clusterauthorizationpolicy", target(0), "--timeout=1m")
}
