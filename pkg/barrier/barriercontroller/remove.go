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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	if err := removeAll(ctx, r, &bindingKind{name: "validatingadmissionpolicybinding", client: client.ValidatingAdmissionPolicyBindings()}, bindings); err != nil {
		return err
	}
	policies, err := client.ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := removeAll(ctx, r, &policyKind{name: "validatingadmissionpolicy", client: client.ValidatingAdmissionPolicies()}, policies); err != nil {
		return err
	}
	return r.freePolicies(ctx)
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

// removeAll removes the objects of one kind in a list that a controller has written.
func removeAll[T object](ctx context.Context, r *Remover, k *kind[T], stored runtime.Object) error {
	var errs []error
	err := meta.EachListItem(stored, func(obj runtime.Object) error {
		object, ok := obj.(T)
		if !ok || !isWritten(object) {
			return nil
		}
		if err := k.delete(ctx, object); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", k.name, object.GetName(), err))
			return nil
		}
		r.Log("%s/%s removed", k.name, object.GetName())
		return nil
	})
	return errors.Join(append(errs, err)...)
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
	lists := []runtime.Object{cluster, namespaced}
	mappings, err := r.Policies.PolicyV1alpha1().FieldPermissionMappings().List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // the server may store none
		return fmt.Errorf("mappings: %w", err)
	}
	if err == nil {
		//guard:mapping-barriers-finalizers-mappings
		lists = append(lists, mappings)
	}
	var errs []error
	for _, list := range lists {
		err := meta.EachListItem(list, func(obj runtime.Object) error {
			p, ok := policyOf(obj)
			if !ok || !p.hasFinalizer() {
				return nil
			}
			if err := letGo(ctx, r.Policies, p); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", p.key, err))
				return nil
			}
			r.Log("%s has no finalizer any more", p.key)
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
