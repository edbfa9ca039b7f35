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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// statusKinds are what BenchmarkStatus writes. Each specification has a number in the place of %[1]s, and an enforcement in the place of %[2]s.
var statusKinds = []struct{ name, resource, kind, namespace, spec string }{
	{"Allow", "authorizationpolicies", "AuthorizationPolicy", "default", `{effect: Allow, enforcement: %[2]s, condition: 'object.metadata.name == "%[1]s"', subjects: [{kind: User, name: pat}], ` +
		`rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}`},
	{"Deny", "authorizationpolicies", "AuthorizationPolicy", "default", `{effect: Deny, enforcement: %[2]s, condition: 'object.metadata.name == "%[1]s"', subjects: [{kind: User, name: pat}], ` +
		`rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}`},
	{"mapping", "fieldpermissionmappings", "FieldPermissionMapping", "", `{resources: [{apiVersions: [v1], resource: configmaps}], fields: [{path: 'data["%[1]s"]', permission: data, exclusion: {}}]}`},
}

// auditTime is how long a policy is in Audit before it is switched. Its barrier has been written by then.
const auditTime = 2 * time.Second

// BenchmarkStatus measures the time from a write of a policy or a mapping until its condition Effective is True for what was written: created, edited, and, for
// policies, switched from Audit to Enforce, with both doors and barriers. One operation is one object. The metrics are medians and 99th percentiles. Run
// it with -benchtime=100x.
func BenchmarkStatus(b *testing.B) {
	c := newCluster(b, cluster.Config{InnerDoor: &cluster.InnerDoor{Configuration: "resources: [{resource: configmaps}]"}, Args: []string{"--barriers", "--feature-gates=FineGrainedAuthorization=true"}})
	if err := c.Up(b.Context()); err != nil {
		b.Fatal(err)
	}
	client, err := dynamic.NewForConfig(connect(b, c, cluster.Admin))
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range statusKinds {
		b.Run("kind="+kind.name, func(b *testing.B) {
			in := client.Resource(policyv1alpha1.SchemeGroupVersion.WithResource(kind.resource)).Namespace(kind.namespace)
			name := "" // another one for each object: barriers of one policy are written at most once a second
			object := func(number, enforcement string) *unstructured.Unstructured {
				spec := map[string]any{}
				if err := yaml.Unmarshal(fmt.Appendf(nil, kind.spec, number, enforcement), &spec); err != nil {
					b.Fatal(err)
				}
				return &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": policyv1alpha1.SchemeGroupVersion.String(), "kind": kind.kind, "metadata": map[string]any{"name": name, "namespace": kind.namespace}, "spec": spec,
				}}
			}
			// What other components do is known some seconds after a start.
			name = "warm"
			untilEffective(b, in, object("warm", "Enforce"))
			untilGone(b, in, name)
			times := map[string][]time.Duration{}
			for n := 0; b.Loop(); n++ {
				name = fmt.Sprintf("status-%d", n)
				times["created"] = append(times["created"], untilEffective(b, in, object(fmt.Sprintf("a%d", n), "Enforce")))
				times["edited"] = append(times["edited"], untilEffective(b, in, object(fmt.Sprintf("b%d", n), "Enforce")))
				if kind.namespace != "" {
					written(b, in, object(fmt.Sprintf("b%d", n), "Audit"))
					time.Sleep(auditTime)
					times["switched"] = append(times["switched"], untilEffective(b, in, object(fmt.Sprintf("b%d", n), "Enforce")))
				}
				untilGone(b, in, name)
			}
			b.ReportMetric(0, "ns/op")
			for name, took := range times {
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Milliseconds()), name+"-p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), name+"-p99-ms")
			}
		})
	}
}

// written creates an object, or writes its specification over the stored one, and returns what is stored.
func written(b *testing.B, in dynamic.ResourceInterface, object *unstructured.Unstructured) (stored *unstructured.Unstructured) {
	b.Helper()
	err := retry.OnError(wait.Backoff{Steps: 1000, Duration: time.Millisecond}, apierrors.IsConflict, func() (err error) { // the status may be written meanwhile
		stored, err = in.Get(b.Context(), object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			stored, err = in.Create(b.Context(), object, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		stored.Object["spec"] = object.Object["spec"]
		stored, err = in.Update(b.Context(), stored, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return stored
}

// untilEffective writes an object, and returns how long it took until the condition Effective was True.
func untilEffective(b *testing.B, in dynamic.ResourceInterface, object *unstructured.Unstructured) time.Duration {
	b.Helper()
	began := time.Now()
	generation := written(b, in, object).GetGeneration()
	var last *unstructured.Unstructured
	if err := wait.PollUntilContextTimeout(b.Context(), 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (isEffective bool, err error) {
		if last, err = in.Get(ctx, object.GetName(), metav1.GetOptions{}); err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(last.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition := c.(map[string]any)
			observed, _ := condition["observedGeneration"].(int64)
			return condition["type"] == policyv1alpha1.PolicyEffective && condition["status"] == string(metav1.ConditionTrue) && observed >= generation
		}), err
	}); err != nil {
		b.Fatal(err, last)
	}
	return time.Since(began)
}

// untilGone deletes the object, and waits until its barrier is gone, too.
func untilGone(b *testing.B, in dynamic.ResourceInterface, name string) {
	b.Helper()
	if err := in.Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(b.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := in.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}); err != nil {
		b.Fatal(err)
	}
}
