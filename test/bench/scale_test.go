/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	policyclient "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

const (
	// The sizes of the cluster of BenchmarkScale.
	scaleNamespaces, scaleUsers, scaleGroups = 1000, 5000, 500
	// scaleClients is how many clients write policies at a time.
	scaleClients = 8
)

// scaleSpec is a policy: every fourth one is a Deny policy, and half of all have a condition. No two have the same one.
func scaleSpec(n int) policyv1alpha1.AuthorizationPolicySpec {
	spec := policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectAllow,
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: fmt.Sprintf("group-%d", n%scaleGroups)}, {Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: fmt.Sprintf("user-%d", n%scaleUsers)},
		},
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create", "update", "patch"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}},
	}
	if n%4 == 0 {
		spec.Effect = policyv1alpha1.PolicyEffectDeny
		spec.Rules[0].Resources = []string{[]string{"configmaps", "pods", "persistentvolumeclaims"}[n/4%3]}
	}
	if n%4 < 2 {
		spec.Condition = fmt.Sprintf(`object.metadata.?labels["team"].orValue("") == "team-%d"`, n)
	}
	return spec
}

// BenchmarkScale writes as many policies as PROVISO_POLICIES says, in 1000 namespaces, every twentieth cluster-scoped, with both doors and barriers. The metrics
// are the times until they are written, until all are Effective after that, until changed Deny policies are, and until a server that is started again is ready;
// the latency of requests; and what the processes need then: memory, and processor time in a minute of rest.
func BenchmarkScale(b *testing.B) {
	count, err := strconv.Atoi(os.Getenv("PROVISO_POLICIES"))
	if err != nil {
		b.Skip("PROVISO_POLICIES is not set: make bench-scale")
	}
	c := newCluster(b, cluster.Config{InnerDoor: &cluster.InnerDoor{Configuration: "resources: [{resource: configmaps}]"}, Args: []string{"--barriers"}, Token: true, SharedStore: true})
	if err := c.Up(b.Context()); err != nil {
		b.Fatal(err)
	}
	config := connect(b, c, cluster.Admin)
	config.WarningHandler = rest.NoWarnings{}
	core, policies := kubernetes.NewForConfigOrDie(config).CoreV1(), policyclient.NewForConfigOrDie(config)
	for b.Loop() {
		began := time.Now()
		lap := func(metric string) {
			b.ReportMetric(time.Since(began).Seconds(), metric)
			began = time.Now()
		}
		eachOf(b, scaleNamespaces, func(ctx context.Context, n int) error {
			_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("scale-%d", n)}}, metav1.CreateOptions{})
			return err
		})
		began = time.Now()
		eachOf(b, count, func(ctx context.Context, n int) (err error) {
			object := metav1.ObjectMeta{Name: fmt.Sprintf("scale-%d", n)}
			if n%20 == 0 {
				_, err = policies.ClusterAuthorizationPolicies().Create(ctx, &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: object, Spec: scaleSpec(n)}, metav1.CreateOptions{})
				return err
			}
			_, err = policies.AuthorizationPolicies(fmt.Sprintf("scale-%d", n/4%scaleNamespaces)).Create(ctx, &policyv1alpha1.AuthorizationPolicy{ObjectMeta: object, Spec: scaleSpec(n)}, metav1.CreateOptions{})
			return err
		})
		lap("written-s")
		untilAllEffective(b, policies, count)
		lap("effective-s")
		reportChanges(b, policies, count)
		reportMix(b, config)
		if err := c.Kill(); err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		if err := c.StartProviso(b.Context()); err != nil {
			b.Fatal(err)
		}
		lap("ready-s")
		untilAllEffective(b, policies, count)
		time.Sleep(time.Minute) // what was known before the start counts until then
		proviso, kube := processTime(b, c.Pid()), processTime(b, c.KubeAPIServerPid())
		time.Sleep(time.Minute)
		b.ReportMetric((processTime(b, c.Pid()) - proviso).Seconds(), "proviso-rest-s/min")
		b.ReportMetric((processTime(b, c.KubeAPIServerPid()) - kube).Seconds(), "kube-apiserver-rest-s/min")
		b.ReportMetric(memoryOf(b, c.Pid()), "proviso-MiB")
		b.ReportMetric(memoryOf(b, c.KubeAPIServerPid()), "kube-apiserver-MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// scaleChanges is the number of Deny policies that reportChanges changes, one after the other.
const scaleChanges = 40

// reportChanges reports how long it takes until a changed Deny policy is Effective.
func reportChanges(b *testing.B, policies policyclient.PolicyV1alpha1Interface, count int) {
	b.Helper()
	var took []time.Duration
	for i := range min(scaleChanges, count/10) {
		n := i/4*20 + i%4*4 + 4 // a Deny policy, and not one of the cluster
		client := policies.AuthorizationPolicies(fmt.Sprintf("scale-%d", n/4%scaleNamespaces))
		patch := fmt.Sprintf(`{"spec": {"condition": "object.metadata.?labels[\"team\"].orValue(\"\") == \"changed-%d\""}}`, i)
		changed, err := client.Patch(b.Context(), fmt.Sprintf("scale-%d", n), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := wait.PollUntilContextTimeout(b.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			current, err := client.Get(ctx, changed.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			effective := meta.FindStatusCondition(current.Status.Conditions, policyv1alpha1.PolicyEffective)
			return effective != nil && effective.Status == metav1.ConditionTrue && effective.ObservedGeneration >= changed.Generation, nil
		}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	b.ReportMetric(percentile(took, 50).Seconds(), "change-p50-s")
	b.ReportMetric(percentile(took, 99).Seconds(), "change-p99-s")
}

// scaleRounds is how often reportMix has each client send a batch.
const scaleRounds = 100

// reportMix reports the latency of the requests of some users whom RBAC allows them: nine of ten read, and the others write a ConfigMap, a Pod or a Lease.
func reportMix(b *testing.B, config *rest.Config) {
	b.Helper()
	admin := kubernetes.NewForConfigOrDie(config)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "scale"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"", "coordination.k8s.io"}, Resources: []string{"configmaps", "pods", "leases", "serviceaccounts"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scale"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}}}
	if _, err := admin.RbacV1().ClusterRoles().Create(b.Context(), role, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(b.Context(), binding, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	reads, writes := &way{name: "read"}, &way{name: "write"}
	for client := range scaleClients {
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("user-%d", client), Groups: []string{fmt.Sprintf("group-%d", client), "system:authenticated"}}
		as.QPS = -1
		users, namespace := kubernetes.NewForConfigOrDie(as), fmt.Sprintf("scale-%d", client)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := users.CoreV1().ServiceAccounts(namespace).Create(b.Context(), account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			b.Fatal(err)
		}
		reads.connections = append(reads.connections, func(ctx context.Context, i int) error {
			if i%2 == 0 {
				_, err := users.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
				return err
			}
			_, err := users.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 10})
			return err
		})
		named := metav1.ObjectMeta{GenerateName: "mix-", Labels: map[string]string{"team": "none"}}
		writes.connections = append(writes.connections, func(ctx context.Context, i int) (err error) {
			switch i % 3 {
			case 0:
				_, err = users.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: named}, metav1.CreateOptions{})
			case 1:
				_, err = users.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}, metav1.CreateOptions{})
			case 2:
				_, err = users.CoordinationV1().Leases(namespace).Create(ctx, &coordinationv1.Lease{ObjectMeta: named}, metav1.CreateOptions{})
			}
			return err
		})
	}
	for range scaleRounds / 10 {
		for range 9 {
			if err := reads.round(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if err := writes.round(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for _, w := range []*way{reads, writes} {
		b.ReportMetric(float64(len(w.latencies))/w.elapsed.Seconds(), w.name+"s/s")
		b.ReportMetric(float64(percentile(w.latencies, 50).Microseconds()), w.name+"-p50-us")
		b.ReportMetric(float64(percentile(w.latencies, 99).Microseconds()), w.name+"-p99-us")
	}
}

// eachOf calls do for each number below n, with some clients at a time.
func eachOf(b *testing.B, n int, do func(ctx context.Context, i int) error) {
	b.Helper()
	workqueue.ParallelizeUntil(b.Context(), scaleClients, n, func(i int) {
		if err := do(b.Context(), i); err != nil {
			b.Error(err)
		}
	})
	if b.Failed() {
		b.FailNow()
	}
}

// untilAllEffective waits until all policies are Effective. It lists them rarely, which takes a second for 10,000.
func untilAllEffective(b *testing.B, policies policyclient.PolicyV1alpha1Interface, count int) {
	b.Helper()
	interval := time.Duration(count) * time.Millisecond
	effective := 0
	add := func(conditions []metav1.Condition) {
		if meta.IsStatusConditionTrue(conditions, policyv1alpha1.PolicyEffective) {
			effective++
		}
	}
	if err := wait.PollUntilContextTimeout(b.Context(), interval, 30*time.Minute, true, func(ctx context.Context) (bool, error) {
		namespaced, err := policies.AuthorizationPolicies(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ofCluster, err := policies.ClusterAuthorizationPolicies().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		effective = 0
		for i := range namespaced.Items {
			add(namespaced.Items[i].Status.Conditions)
		}
		for i := range ofCluster.Items {
			add(ofCluster.Items[i].Status.Conditions)
		}
		return effective == count, nil
	}); err != nil {
		b.Fatalf("%d of %d policies are Effective: %v", effective, count, err)
	}
}

// memoryOf returns the memory that a process has now, in MiB.
func memoryOf(b *testing.B, pid int) float64 {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := bytes.Cut(content, []byte("VmRSS:"))
	kilobytes, err := strconv.Atoi(strings.Fields(string(rest))[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kilobytes) / 1024
}
