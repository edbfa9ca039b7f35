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

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// are the times until they are written, until all are Effective after that, and until a server that is started again is ready, and what the processes need
// then: memory, and processor time in a minute of rest.
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
