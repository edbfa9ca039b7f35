/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// rolloutNamespaces and rolloutEach are the namespaces in which BenchmarkRollout writes policies, and how many each has.
const rolloutNamespaces, rolloutEach = 100, 10

// BenchmarkRollout writes 1,000 conditional Deny policies, with both doors and barriers. The metrics are the time until all are Effective, and the processor
// time of both servers until then and in a minute of rest after it. PROVISO_REST is another time of rest, such as 1h; the metrics are for one minute
// of it. Run it with -benchtime=1x.
func BenchmarkRollout(b *testing.B) {
	rest := time.Minute
	if text := os.Getenv("PROVISO_REST"); text != "" {
		var err error
		if rest, err = time.ParseDuration(text); err != nil {
			b.Fatal(err)
		}
	}
	c := newCluster(b, cluster.Config{InnerDoor: &cluster.InnerDoor{Configuration: "resources: [{resource: configmaps}]"}, Args: []string{"--barriers"}})
	if err := c.Up(b.Context()); err != nil {
		b.Fatal(err)
	}
	config := connect(b, c, cluster.Admin)
	config.QPS = -1
	core, policies := kubernetes.NewForConfigOrDie(config).CoreV1(), versioned.NewForConfigOrDie(config).PolicyV1alpha1()
	name := func(n int) string { return fmt.Sprintf("rollout-%d", n) }
	for n := range rolloutNamespaces {
		if _, err := core.Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(n)}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	var took, proviso, kube, provisoAtRest, kubeAtRest time.Duration
	for b.Loop() {
		began, provisoBefore, kubeBefore := time.Now(), processTime(b, c.Pid()), processTime(b, c.KubeAPIServerPid())
		for n := range rolloutNamespaces * rolloutEach {
			p := &policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name(n)}, Spec: policyv1alpha1.AuthorizationPolicySpec{
				Effect: policyv1alpha1.PolicyEffectDeny, Condition: fmt.Sprintf(`object.metadata.name == "no-%d"`, n),
				Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}},
			}}
			if _, err := policies.AuthorizationPolicies(name(n/rolloutEach)).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		effective := 0
		if err := wait.PollUntilContextTimeout(b.Context(), 2*time.Second, 20*time.Minute, true, func(ctx context.Context) (bool, error) {
			list, err := policies.AuthorizationPolicies(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			effective = 0
			for i := range list.Items {
				for _, condition := range list.Items[i].Status.Conditions {
					if condition.Type == policyv1alpha1.PolicyEffective && condition.Status == metav1.ConditionTrue {
						effective++
					}
				}
			}
			return effective == rolloutNamespaces*rolloutEach, nil
		}); err != nil {
			b.Fatalf("%d policies are Effective: %v", effective, err)
		}
		took, proviso, kube = time.Since(began), processTime(b, c.Pid())-provisoBefore, processTime(b, c.KubeAPIServerPid())-kubeBefore
		provisoBefore, kubeBefore = processTime(b, c.Pid()), processTime(b, c.KubeAPIServerPid())
		time.Sleep(rest)
		provisoAtRest, kubeAtRest = processTime(b, c.Pid())-provisoBefore, processTime(b, c.KubeAPIServerPid())-kubeBefore
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.Seconds(), "until-effective-s")
	b.ReportMetric(proviso.Seconds(), "proviso-s")
	b.ReportMetric(kube.Seconds(), "kube-apiserver-s")
	b.ReportMetric(provisoAtRest.Seconds()/rest.Minutes(), "proviso-rest-s/min")
	b.ReportMetric(kubeAtRest.Seconds()/rest.Minutes(), "kube-apiserver-rest-s/min")
}
