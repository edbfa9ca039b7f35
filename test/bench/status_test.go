/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	typedv1alpha1 "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// BenchmarkStatus measures the time from a write of a policy until its condition Effective is True for what was written: created, edited, and, for
// Deny, switched from Audit to Enforce, with both doors and barriers. One operation is one policy. The metrics are medians and 99th percentiles. Run
// it with -benchtime=100x.
func BenchmarkStatus(b *testing.B) {
	c := newCluster(b, cluster.Config{InnerDoor: &cluster.InnerDoor{Configuration: "resources: [{resource: configmaps}]"}, Args: []string{"--barriers"}})
	if err := c.Up(b.Context()); err != nil {
		b.Fatal(err)
	}
	client, err := versioned.NewForConfig(connect(b, c, cluster.Admin))
	if err != nil {
		b.Fatal(err)
	}
	policies := client.PolicyV1alpha1().AuthorizationPolicies("default")
	for _, effect := range []policyv1alpha1.PolicyEffect{policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny} {
		var created, edited, switched []time.Duration
		b.Run(fmt.Sprintf("effect=%s", effect), func(b *testing.B) {
			policy := func(n int) *policyv1alpha1.AuthorizationPolicy {
				return &policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "status"}, Spec: policyv1alpha1.AuthorizationPolicySpec{
					Effect: effect, Condition: fmt.Sprintf(`object.metadata.name == "a%d"`, n),
					Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "pat"}},
					Rules:    []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}},
				}}
			}
			warm := policy(-1) // what other components do is known some seconds after a start
			untilEffective(b, policies, warm, policies.Create)
			untilGone(b, policies, warm.Name)
			for n := 0; b.Loop(); n++ {
				p := policy(n)
				created = append(created, untilEffective(b, policies, p, policies.Create))
				p.Spec.Condition = fmt.Sprintf(`object.metadata.name == "b%d"`, n)
				edited = append(edited, untilEffective(b, policies, p, changed(policies)))
				if effect == policyv1alpha1.PolicyEffectDeny {
					p.Spec.Enforcement = policyv1alpha1.PolicyEnforcementAudit
					if _, err := changed(policies)(b.Context(), p, metav1.CreateOptions{}); err != nil {
						b.Fatal(err)
					}
					p.Spec.Enforcement = policyv1alpha1.PolicyEnforcementEnforce
					switched = append(switched, untilEffective(b, policies, p, changed(policies)))
				}
				untilGone(b, policies, p.Name)
			}
			b.ReportMetric(0, "ns/op")
			for name, times := range map[string][]time.Duration{"created": created, "edited": edited, "switched": switched} {
				if len(times) == 0 {
					continue
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Milliseconds()), name+"-p50-ms")
				b.ReportMetric(float64(times[len(times)*99/100].Milliseconds()), name+"-p99-ms")
			}
		})
	}
}

// changed returns a function that writes the specification of a policy over the stored one.
func changed(policies typedv1alpha1.AuthorizationPolicyInterface) func(context.Context, *policyv1alpha1.AuthorizationPolicy, metav1.CreateOptions) (*policyv1alpha1.AuthorizationPolicy, error) {
	return func(ctx context.Context, p *policyv1alpha1.AuthorizationPolicy, _ metav1.CreateOptions) (written *policyv1alpha1.AuthorizationPolicy, err error) {
		return written, wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(ctx context.Context) (bool, error) {
			stored, err := policies.Get(ctx, p.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			stored.Spec = p.Spec
			written, err = policies.Update(ctx, stored, metav1.UpdateOptions{})
			return err == nil, nil // a conflict: the status was written meanwhile
		})
	}
}

// untilEffective writes a policy, and returns how long it took until the condition Effective was True.
func untilEffective(b *testing.B, policies typedv1alpha1.AuthorizationPolicyInterface, p *policyv1alpha1.AuthorizationPolicy,
	write func(context.Context, *policyv1alpha1.AuthorizationPolicy, metav1.CreateOptions) (*policyv1alpha1.AuthorizationPolicy, error),
) time.Duration {
	b.Helper()
	written, err := write(b.Context(), p, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	var last *metav1.Condition
	if err := wait.PollUntilContextTimeout(b.Context(), 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		stored, err := policies.Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = meta.FindStatusCondition(stored.Status.Conditions, policyv1alpha1.PolicyEffective)
		return last != nil && last.Status == metav1.ConditionTrue && last.ObservedGeneration >= written.Generation, nil
	}); err != nil {
		b.Fatal(err, last)
	}
	return time.Since(began)
}

// untilGone deletes a policy, and waits until its barrier is gone, too.
func untilGone(b *testing.B, policies typedv1alpha1.AuthorizationPolicyInterface, name string) {
	b.Helper()
	if err := policies.Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(b.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := policies.Get(ctx, name, metav1.GetOptions{})
		return err != nil, nil
	}); err != nil {
		b.Fatal(err)
	}
}
