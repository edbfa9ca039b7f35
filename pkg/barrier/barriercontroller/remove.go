/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/barrier"
)

// Remover removes all barriers of a cluster, before Proviso is uninstalled.
type Remover struct {
	KubeAPIServer kubernetes.Interface
	// Policies reaches the policies through kube-apiserver. If it is nil, they keep their finalizers.
	Policies versioned.Interface
	// Namespace is the namespace of Proviso.
	Namespace string
	// Log is called for each removed object.
	Log func(format string, args ...any)
}

// LeaderError says that a replica still writes barriers, and would write them again.
type LeaderError struct{ Holder string }

func (e *LeaderError) Error() string {
	return fmt.Sprintf("the replica %q still writes barriers: turn the flag --barriers off first", e.Holder)
}

// Remove removes all objects that a controller has written, bindings first, and then the finalizers of policies. It can be repeated. It
// returns a LeaderError if a replica holds the Lease.
func (r *Remover) Remove(ctx context.Context) error {
	if err := r.checkLease(ctx); err != nil {
		return err
	}
	client := r.KubeAPIServer.AdmissionregistrationV1()
	bindings, err := client.ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := removeAll(ctx, r, &bindingKind{
		name: "validatingadmissionpolicybinding", client: client.ValidatingAdmissionPolicyBindings(), copy: (*admissionregistrationv1.ValidatingAdmissionPolicyBinding).DeepCopy,
	}, pointers(bindings.Items)); err != nil {
		return err
	}
	policies, err := client.ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := removeAll(ctx, r, &policyKind{
		name: "validatingadmissionpolicy", client: client.ValidatingAdmissionPolicies(), copy: (*admissionregistrationv1.ValidatingAdmissionPolicy).DeepCopy,
	}, pointers(policies.Items)); err != nil {
		return err
	}
	return r.freePolicies(ctx)
}

func pointers[T any](items []T) []*T {
	result := make([]*T, 0, len(items))
	for i := range items {
		result = append(result, &items[i])
	}
	return result
}

// checkLease returns a LeaderError if a replica holds the Lease.
func (r *Remover) checkLease(ctx context.Context) error {
	lease, err := r.KubeAPIServer.CoordinationV1().Leases(r.Namespace).Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if holder != "" && lease.Spec.RenewTime != nil && time.Since(lease.Spec.RenewTime.Time) < leaseDuration {
		return &LeaderError{Holder: holder}
	}
	return nil
}

// isWritten reports whether a controller has written an object, also if others have changed it. Rendered manifests are not such objects.
func isWritten(stored metav1.Object) bool {
	return slices.Contains(stored.GetFinalizers(), Finalizer) || stored.GetAnnotations()[UIDAnnotation] != "" || stored.GetName() == barrier.SentinelName && isMarked(stored)
}

// removeAll removes the objects of one kind that a controller has written.
func removeAll[T object](ctx context.Context, r *Remover, k *kind[T], stored []T) error {
	var errs []error
	for _, object := range stored {
		if !isWritten(object) {
			continue
		}
		if err := k.delete(ctx, object); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", k.name, object.GetName(), err))
			continue
		}
		r.Log("%s/%s removed", k.name, object.GetName())
	}
	return errors.Join(errs...)
}

// freePolicies takes the finalizer from all policies and mappings, so that they can be deleted.
func (r *Remover) freePolicies(ctx context.Context) error {
	if r.Policies == nil {
		return nil
	}
	cluster, err := r.Policies.PolicyV1alpha1().ClusterAuthorizationPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("policies: %w", err)
	}
	namespaced, err := r.Policies.PolicyV1alpha1().AuthorizationPolicies(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("policies: %w", err)
	}
	var stored []any
	for i := range cluster.Items {
		stored = append(stored, &cluster.Items[i])
	}
	for i := range namespaced.Items {
		stored = append(stored, &namespaced.Items[i])
	}
	mappings, err := r.Policies.PolicyV1alpha1().FieldPermissionMappings().List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // the server may store none
		return fmt.Errorf("mappings: %w", err)
	}
	if err == nil {
		for i := range mappings.Items {
			//guard:mapping-barriers-finalizers-mappings
			stored = append(stored, &mappings.Items[i])
		}
	}
	var errs []error
	for _, obj := range stored {
		p, _ := policyOf(obj)
		if !p.hasFinalizer() {
			continue
		}
		if err := letGo(ctx, r.Policies, p); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.key, err))
			continue
		}
		r.Log("%s has no finalizer any more", p.key)
	}
	return errors.Join(errs...)
}
