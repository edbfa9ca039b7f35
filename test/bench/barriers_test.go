/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// barrierSpec is the policy of the benchmark. No two numbers have the same condition.
func barrierSpec(number int) *policyv1alpha1.AuthorizationPolicySpec {
	return &policyv1alpha1.AuthorizationPolicySpec{
		Effect:      policyv1alpha1.PolicyEffectDeny,
		Description: "only the team of the namespace",
		Rules:       []policyv1alpha1.PolicyRule{{Verbs: []string{"create", "update", "patch"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}},
		Condition:   fmt.Sprintf(`object.metadata.?labels.?team.orValue("") == "team-%d" && !("admins" in request.userInfo.groups)`, number),
	}
}

// handWritten is the ValidatingAdmissionPolicy that one would write by hand for barrierSpec(0), in a namespace of the same name.
const handWritten = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: hand-written}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: hand-written}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  matchConditions: [{name: no-masters, expression: '!("system:masters" in request.userInfo.groups)'}]
  validations:
  - expression: '!(object.metadata.?labels.?team.orValue("") == "team-0" && !("admins" in request.userInfo.groups))'
    message: only the team of the namespace
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: hand-written}
spec: {policyName: hand-written, validationActions: [Deny]}
`

// barriers creates barriers at a kube-apiserver.
type barriers struct {
	client   kubernetes.Interface
	compiler *barrier.Compiler
}

func newBarriers(b *testing.B, c *cluster.Cluster) *barriers {
	b.Helper()
	policies := compilers.Policies(b)
	compiler, err := barrier.NewCompiler(barrier.Config{Policies: policies})
	if err != nil {
		b.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(connect(b, c, cluster.Admin))
	if err != nil {
		b.Fatal(err)
	}
	return &barriers{client: client, compiler: compiler}
}

// create creates the barriers of policies of a namespace, from one number to another.
func (s *barriers) create(b *testing.B, namespace string, from, to int) {
	b.Helper()
	for number := from; number < to; number++ {
		compiled, err := s.compiler.Compile(engine.Key{Namespace: namespace, Name: "p" + strconv.Itoa(number)}, barrierSpec(number))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(b.Context(), compiled.Policy, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		if _, err := s.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(b.Context(), compiled.Binding, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// untilDenied waits until the policy with a number denies, and returns how long it took.
func untilDenied(b *testing.B, client kubernetes.Interface, namespace string, number int) time.Duration {
	b.Helper()
	began := time.Now()
	denied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "denied-", Labels: map[string]string{"team": "team-" + strconv.Itoa(number)}}}
	var last error
	if err := wait.PollUntilContextTimeout(b.Context(), 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = client.CoreV1().ConfigMaps(namespace).Create(ctx, denied, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(last), nil
	}); err != nil {
		b.Fatal(err, last)
	}
	return time.Since(began)
}

const barrierSetup = `
apiVersion: v1
kind: Namespace
metadata: {name: free}
---
apiVersion: v1
kind: Namespace
metadata: {name: hand-written}
---
apiVersion: v1
kind: Namespace
metadata: {name: barrier}
---
apiVersion: v1
kind: Namespace
metadata: {name: many}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: writer}
rules: [{verbs: ["*"], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: rob}]
`

// BenchmarkBarrier compares writes by a user whom RBAC allows them, which take turns in one run: in a namespace without policies ("free"), under a barrier
// ("barrier"), and under the same rule as a ValidatingAdmissionPolicy that was written by hand ("hand"). Then it has 1, 10, 100 and 1000
// barriers of one resource in one namespace. One operation is one turn of each, of 20 writes. The metrics are medians; "loaded" is the time
// from the last write of a barrier to its first refusal.
func BenchmarkBarrier(b *testing.B) {
	c := startAlone(b)
	if _, err := c.Kubectl(b.Context(), barrierSetup+"---"+handWritten, "apply", "-f", "-"); err != nil {
		b.Fatal(err)
	}
	s := newBarriers(b, c)
	s.create(b, "barrier", 0, 1)
	config := connectAs(b, c, "rob")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	untilDenied(b, client, "hand-written", 0)
	untilDenied(b, client, "barrier", 0)
	for _, write := range []struct {
		name    string
		creates bool
	}{{"create", true}, {"update", false}} {
		b.Run("write="+write.name, func(b *testing.B) {
			compareWays(b, []*way{
				{name: "free", connections: []attempt{writes(b, config, "free", "free", write.creates)}},
				{name: "hand", connections: []attempt{writes(b, config, "hand-written", "hand", write.creates)}},
				{name: "barrier", connections: []attempt{writes(b, config, "barrier", "barrier", write.creates)}},
			})
		})
	}
	have := 0
	for _, count := range []int{1, 10, 100, 1000} {
		s.create(b, "many", have, count)
		have = count
		loaded := untilDenied(b, client, "many", count-1)
		b.Run(fmt.Sprintf("barriers=%d", count), func(b *testing.B) {
			compareWays(b, []*way{
				{name: "free", connections: []attempt{writes(b, config, "free", "free", true)}},
				{name: "many", connections: []attempt{writes(b, config, "many", "many", true)}},
			})
			b.ReportMetric(float64(loaded.Milliseconds()), "loaded-ms")
		})
	}
}

// compareWays runs the ways in turns, and reports their medians, and their differences to the first.
func compareWays(b *testing.B, ways []*way) {
	b.Helper()
	for _, w := range ways { // connect, and fill the caches
		untilPasses(b, w.connections[0])
		if err := w.round(b.Context()); err != nil {
			b.Fatal(w.name, err)
		}
		w.elapsed, w.latencies = 0, nil
	}
	for b.Loop() {
		for _, w := range ways {
			if err := w.round(b.Context()); err != nil {
				b.Fatal(w.name, err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, w := range ways {
		b.ReportMetric(float64(w.median().Microseconds()), w.name+"-p50-us")
		if w != ways[0] {
			b.ReportMetric(float64((w.median() - ways[0].median()).Microseconds()), w.name+"-more-us")
		}
	}
}

// startAlone starts etcd and a kube-apiserver without Proviso.
func startAlone(b *testing.B) *cluster.Cluster {
	b.Helper()
	c := newCluster(b, cluster.Config{Managed: true})
	if err := c.StartEtcd(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := c.StartKubeAPIServer(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c
}
