/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// policy has the common part of policies of both kinds, and of mappings. It belongs to the cache, and must not be changed.
type policy struct {
	key  Key
	meta *metav1.ObjectMeta
	// spec is the specification of a policy, mapping the one of a mapping. One of both is set.
	spec    *policyv1alpha1.AuthorizationPolicySpec
	mapping *policyv1alpha1.FieldPermissionMappingSpec
}

// policyOf returns a policy of either kind, or a mapping.
func policyOf(obj any) (*policy, bool) {
	switch p := obj.(type) {
	case *policyv1alpha1.ClusterAuthorizationPolicy:
		return &policy{key: Key{Key: engine.Key{Name: p.Name}}, meta: &p.ObjectMeta, spec: &p.Spec}, true
	case *policyv1alpha1.AuthorizationPolicy:
		return &policy{key: Key{Key: engine.Key{Namespace: p.Namespace, Name: p.Name}}, meta: &p.ObjectMeta, spec: &p.Spec}, true
	case *policyv1alpha1.FieldPermissionMapping:
		return &policy{key: mappingKey(p.Name), meta: &p.ObjectMeta, mapping: &p.Spec}, true
	}
	return nil, false
}

// wantsBarrier reports whether a policy or a mapping is to have a barrier.
func (p *policy) wantsBarrier() bool {
	if p.mapping != nil {
		//guard:mapping-barriers-mappings-without-exclusions
		return p.meta.DeletionTimestamp == nil && slices.ContainsFunc(p.mapping.Fields, func(f policyv1alpha1.FieldPermission) bool { return f.Exclusion != nil })
	}
	return p.meta.DeletionTimestamp == nil && p.spec.Effect == policyv1alpha1.PolicyEffectDeny
}

func (p *policy) hasFinalizer() bool { return slices.Contains(p.meta.Finalizers, Finalizer) }

// isSame reports whether two reads of a policy have the same specification, of the same policy.
func (p *policy) isSame(other *policy) bool {
	return p.meta.UID == other.meta.UID && (p.meta.DeletionTimestamp == nil) == (other.meta.DeletionTimestamp == nil) &&
		apiequality.Semantic.DeepEqual(p.spec, other.spec) && apiequality.Semantic.DeepEqual(p.mapping, other.mapping)
}

// reference is the object of events about the policy.
func (p *policy) reference() *corev1.ObjectReference { return referenceOf(p.key, p.meta.UID) }

func referenceOf(key Key, uid types.UID) *corev1.ObjectReference {
	reference := &corev1.ObjectReference{
		APIVersion: policyv1alpha1.SchemeGroupVersion.String(), Kind: "ClusterAuthorizationPolicy", Namespace: key.Namespace, Name: key.Name, UID: uid,
	}
	switch {
	case key.IsMapping:
		reference.Kind = "FieldPermissionMapping"
	case key.Namespace != "":
		reference.Kind = "AuthorizationPolicy"
	}
	return reference
}

// cachedPolicy returns a policy from the cache, or nil.
func (c *Controller) cachedPolicy(key Key) *policy {
	informer, name := c.informers[0], key.Name
	switch {
	case key.IsMapping && c.mappings == nil:
		return nil
	case key.IsMapping:
		informer = c.mappings
	case key.Namespace != "":
		informer, name = c.informers[1], key.Namespace+"/"+key.Name
	}
	obj, exists, err := informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	p, _ := policyOf(obj)
	return p
}

// readPolicy reads a policy from the store, past all caches. It returns nil if the store does not have it.
func (c *Controller) readPolicy(ctx context.Context, key Key) (*policy, error) {
	var obj runtime.Object
	var err error
	//guard:mapping-barriers-server-without-mappings
	switch stored := c.config.Client.PolicyV1alpha1(); {
	case key.IsMapping && c.mappings == nil:
		return nil, nil // the server stores no mappings
	case key.IsMapping:
		obj, err = stored.FieldPermissionMappings().Get(ctx, key.Name, metav1.GetOptions{})
	case key.Namespace == "":
		obj, err = stored.ClusterAuthorizationPolicies().Get(ctx, key.Name, metav1.GetOptions{})
	default:
		obj, err = stored.AuthorizationPolicies(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, _ := policyOf(obj)
	return p, nil
}

// setFinalizers writes the finalizers of a policy, and returns the policy as it is stored then.
func setFinalizers(ctx context.Context, policies versioned.Interface, p *policy, finalizers []string) (*policy, error) {
	meta := p.meta.DeepCopy()
	meta.Finalizers = finalizers
	options := metav1.UpdateOptions{FieldManager: fieldManager}
	var obj runtime.Object
	var err error
	switch {
	case p.key.IsMapping:
		obj, err = policies.PolicyV1alpha1().FieldPermissionMappings().Update(ctx, &policyv1alpha1.FieldPermissionMapping{ObjectMeta: *meta, Spec: *p.mapping.DeepCopy()}, options)
	case p.key.Namespace == "":
		obj, err = policies.PolicyV1alpha1().ClusterAuthorizationPolicies().Update(ctx, &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: *meta, Spec: *p.spec.DeepCopy()}, options)
	default:
		obj, err = policies.PolicyV1alpha1().AuthorizationPolicies(p.key.Namespace).Update(ctx, &policyv1alpha1.AuthorizationPolicy{ObjectMeta: *meta, Spec: *p.spec.DeepCopy()}, options)
	}
	if err != nil {
		return nil, err
	}
	p, _ = policyOf(obj)
	return p, nil
}

// hold puts the finalizer on a policy.
func (c *Controller) hold(ctx context.Context, p *policy) (*policy, error) {
	if p.hasFinalizer() {
		return p, nil
	}
	return setFinalizers(ctx, c.config.Client, p, append(slices.Clone(p.meta.Finalizers), Finalizer))
}

// letGo takes the finalizer from a policy.
func letGo(ctx context.Context, policies versioned.Interface, p *policy) error {
	if !p.hasFinalizer() {
		return nil
	}
	_, err := setFinalizers(ctx, policies, p, slices.DeleteFunc(slices.Clone(p.meta.Finalizers), func(f string) bool { return f == Finalizer }))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// errOutdated says that the cache of policies lags behind the store.
var errOutdated = errors.New("the policy has changed in the meantime")
