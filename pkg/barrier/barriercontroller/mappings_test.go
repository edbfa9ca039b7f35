/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// compileMapping compiles exclusions to their paths and verbs.
func compileMapping(name string, exclusions []mapping.Exclusion) *barrier.Barrier {
	b := &barrier.Barrier{Key: engine.Key{Name: name}, IsOfMapping: true}
	meta := metav1.ObjectMeta{Name: barrier.MappingName(name)}
	b.Policy = &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta}
	b.Binding = &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}
	b.Binding.Spec.PolicyName = meta.Name
	for _, e := range exclusions {
		if e.Subresource != "" {
			continue
		}
		text := fmt.Sprintf("%s %s %t", e.Path, e.Verb, e.Broken != "")
		b.Policy.Spec.Validations = append(b.Policy.Spec.Validations, admissionregistrationv1.Validation{Expression: text})
		b.Report = append(b.Report, barrier.RuleReport{Rule: e.Field, Verbs: []string{"create"}})
	}
	return b
}

// fieldMapping excludes a field with a permission.
func fieldMapping(name, permission string, generation int64) *policyv1alpha1.FieldPermissionMapping {
	m := &policyv1alpha1.FieldPermissionMapping{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
	m.Spec.Description = "one"
	m.Spec.Resources = []policyv1alpha1.FieldPermissionResource{{APIGroup: "example.com", Resource: "machines"}}
	m.Spec.Fields = []policyv1alpha1.FieldPermission{{Path: "spec.boom", Permission: permission, Exclusion: &policyv1alpha1.FieldExclusion{}}}
	return m
}

func (r *rig) createMapping(t *testing.T, m *policyv1alpha1.FieldPermissionMapping) {
	t.Helper()
	if _, err := r.policies.PolicyV1alpha1().FieldPermissionMappings().Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) mapping(t *testing.T, name string) *policyv1alpha1.FieldPermissionMapping {
	t.Helper()
	m, err := r.policies.PolicyV1alpha1().FieldPermissionMappings().Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (r *rig) changeMapping(t *testing.T, name string, change func(*policyv1alpha1.FieldPermissionMapping)) {
	t.Helper()
	for {
		m := r.mapping(t, name)
		change(m)
		m.Generation++
		_, err := r.policies.PolicyV1alpha1().FieldPermissionMappings().Update(t.Context(), m, metav1.UpdateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// mapped returns the objects of the barrier of a mapping, which are nil if there are none.
func (r *rig) mapped(t *testing.T, name string) (policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	client := r.kubeClient.AdmissionregistrationV1()
	policy, err := client.ValidatingAdmissionPolicies().Get(t.Context(), barrier.MappingName(name), metav1.GetOptions{})
	if err != nil {
		policy = nil
	}
	binding, err = client.ValidatingAdmissionPolicyBindings().Get(t.Context(), barrier.MappingName(name), metav1.GetOptions{})
	if err != nil {
		binding = nil
	}
	return policy, binding
}

// isUnmapped reports whether a mapping has no barrier.
func (r *rig) isUnmapped(t *testing.T, name string) bool {
	t.Helper()
	policy, binding := r.mapped(t, name)
	return policy == nil && binding == nil
}

// isMapped reports whether a mapping has a barrier with a text, as it must be.
func (r *rig) isMapped(t *testing.T, name, text string) bool {
	t.Helper()
	policy, binding := r.mapped(t, name)
	if policy == nil || binding == nil {
		return false
	}
	for _, object := range []metav1.Object{policy, binding} {
		if object.GetAnnotations()[barrier.MappingAnnotation] != name || object.GetAnnotations()[barrier.PolicyAnnotation] != "" || !slices.Contains(object.GetFinalizers(), barriercontroller.Finalizer) {
			return false
		}
	}
	return len(policy.Spec.Validations) == 1 && policy.Spec.Validations[0].Expression == text && slices.Contains(r.mapping(t, name).Finalizers, barriercontroller.Finalizer)
}

// TestBarrierControllerMappings keeps the barriers of mappings, beside a policy with the same name.
func TestBarrierControllerMappings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, _ := r.start(t, lead)
	r.create(t, policy("a", "true"))
	r.createMapping(t, fieldMapping("a", "booms", 1))
	eventually(t, "the barriers of the mapping and of the policy", func() bool {
		return r.isMapped(t, "a", "spec.boom granular:booms false") && r.isBarred(t, "a", "true")
	})
	eventually(t, "the state", func() bool {
		state, ok := c.State(barriercontroller.Key{Key: engine.Key{Name: "a"}, IsMapping: true})
		return ok && state.Phase == barriercontroller.Written && len(state.Report) == 1
	})

	changed, _ := r.mapped(t, "a")
	changed.Spec.Validations, changed.Annotations, changed.Finalizers = nil, nil, nil
	if _, err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the barrier that others have changed", func() bool { return r.isMapped(t, "a", "spec.boom granular:booms false") })
	eventually(t, "the event", func() bool { return r.recorder.has("a BarrierRestored: Others had changed the barrier of the mapping") })

	// Another mapping contradicts it.
	r.createMapping(t, fieldMapping("b", "others", 1))
	eventually(t, "the contradiction in both barriers", func() bool {
		return r.isMapped(t, "a", "spec.boom granular:booms true") && r.isMapped(t, "b", "spec.boom granular:others true")
	})
	if err := r.policies.PolicyV1alpha1().FieldPermissionMappings().Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the barrier without the contradiction", func() bool {
		return r.mapping(t, "b") == nil && r.isUnmapped(t, "b") && r.isMapped(t, "a", "spec.boom granular:booms false")
	})

	// A mapping that is not valid keeps its barrier.
	r.changeMapping(t, "a", func(m *policyv1alpha1.FieldPermissionMapping) { m.Spec.Fields[0].Exclusion.NewValues = "value ==" })
	eventually(t, "the state of an invalid mapping", func() bool {
		state, _ := c.State(barriercontroller.Key{Key: engine.Key{Name: "a"}, IsMapping: true})
		return state.Phase == barriercontroller.Broken
	})
	if err := r.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), barrier.MappingName("a"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the barrier of an invalid mapping is restored", func() bool {
		_, binding := r.mapped(t, "a")
		return r.isMapped(t, "a", "spec.boom granular:booms false") && binding.DeletionTimestamp == nil
	})

	r.changeMapping(t, "a", func(m *policyv1alpha1.FieldPermissionMapping) { m.Spec.Fields[0].Exclusion = nil })
	eventually(t, "no barrier without exclusions", func() bool {
		return r.isUnmapped(t, "a") && len(r.mapping(t, "a").Finalizers) == 0
	})
	if !r.isBarred(t, "a", "true") {
		t.Error("the barrier of the policy is gone")
	}
}

// TestRemoveMappings removes the barrier of a mapping, and its finalizer, before Proviso is uninstalled.
func TestRemoveMappings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, stop := r.start(t, lead)
	r.createMapping(t, fieldMapping("a", "booms", 1))
	eventually(t, "the barrier", func() bool { return r.isMapped(t, "a", "spec.boom granular:booms false") })
	stop()
	var log strings.Builder
	remover := &barriercontroller.Remover{KubeAPIServer: r.kubeClient, Policies: r.policies, Namespace: namespace, Log: func(format string, args ...any) { fmt.Fprintf(&log, format+"\n", args...) }}
	if err := remover.Remove(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !r.isUnmapped(t, "a") || len(r.mapping(t, "a").Finalizers) > 0 || !strings.Contains(log.String(), "FieldPermissionMapping a has no finalizer any more") {
		t.Errorf("got %+v\n%s", r.mapping(t, "a"), log.String())
	}
}

// TestMappingsWithoutGate restarts a server without permission on fields, which stores no mappings. Their barriers stay.
func TestMappingsWithoutGate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, stop := r.start(t, lead)
	r.createMapping(t, fieldMapping("a", "booms", 1))
	eventually(t, "the barrier", func() bool { return r.isMapped(t, "a", "spec.boom granular:booms false") })
	stop()
	r.storesNoMappings = true
	_, stop = r.start(t, lead)
	eventually(t, "the event", func() bool {
		return r.recorder.has(barrier.MappingName("a") + " BarrierOrphaned: The mapping of the barrier is not in the store of Proviso")
	})
	stop()
	r.storesNoMappings = false
	r.start(t, lead)
	r.changeMapping(t, "a", func(m *policyv1alpha1.FieldPermissionMapping) { m.Spec.Fields[0].Path = "spec.bang" })
	eventually(t, "the barrier of the changed mapping", func() bool { return r.isMapped(t, "a", "spec.bang granular:booms false") })
}
