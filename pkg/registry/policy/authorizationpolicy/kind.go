/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/validation"
)

// kind is what tells the two kinds of policies apart.
type kind struct {
	resource, singular, shortName string
	namespaced                    bool
	newObject, newList            func() runtime.Object
}

var (
	clusterKind = kind{
		resource: "clusterauthorizationpolicies", singular: "clusterauthorizationpolicy", shortName: "cap",
		newObject: func() runtime.Object { return &policy.ClusterAuthorizationPolicy{} },
		newList:   func() runtime.Object { return &policy.ClusterAuthorizationPolicyList{} },
	}
	namespacedKind = kind{
		resource: "authorizationpolicies", singular: "authorizationpolicy", shortName: "ap", namespaced: true,
		newObject: func() runtime.Object { return &policy.AuthorizationPolicy{} },
		newList:   func() runtime.Object { return &policy.AuthorizationPolicyList{} },
	}
)

// parts are the parts of a policy of either kind.
type parts struct {
	meta   *metav1.ObjectMeta
	spec   *policy.AuthorizationPolicySpec
	status *policy.AuthorizationPolicyStatus
}

func partsOf(obj runtime.Object) (parts, error) {
	switch p := obj.(type) {
	case *policy.ClusterAuthorizationPolicy:
		return parts{&p.ObjectMeta, &p.Spec, &p.Status}, nil
	case *policy.AuthorizationPolicy:
		return parts{&p.ObjectMeta, &p.Spec, &p.Status}, nil
	default:
		return parts{}, fmt.Errorf("not a policy: %T", obj)
	}
}

// mustParts is for strategies, which have no other way to fail: the store hands them
// nothing but what newObject makes.
func mustParts(obj runtime.Object) parts {
	p, err := partsOf(obj)
	if err != nil {
		panic(err)
	}
	return p
}

func validate(obj runtime.Object) field.ErrorList {
	if p, ok := obj.(*policy.ClusterAuthorizationPolicy); ok {
		return validation.ValidateClusterAuthorizationPolicy(p)
	}
	return validation.ValidateAuthorizationPolicy(obj.(*policy.AuthorizationPolicy))
}

func validateUpdate(obj, old runtime.Object) field.ErrorList {
	if p, ok := obj.(*policy.ClusterAuthorizationPolicy); ok {
		return validation.ValidateClusterAuthorizationPolicyUpdate(p, old.(*policy.ClusterAuthorizationPolicy))
	}
	return validation.ValidateAuthorizationPolicyUpdate(obj.(*policy.AuthorizationPolicy), old.(*policy.AuthorizationPolicy))
}

func validateStatusUpdate(obj, old runtime.Object) field.ErrorList {
	if p, ok := obj.(*policy.ClusterAuthorizationPolicy); ok {
		return validation.ValidateClusterAuthorizationPolicyStatusUpdate(p, old.(*policy.ClusterAuthorizationPolicy))
	}
	return validation.ValidateAuthorizationPolicyStatusUpdate(obj.(*policy.AuthorizationPolicy), old.(*policy.AuthorizationPolicy))
}

func attributesOf(obj runtime.Object) (labels.Set, fields.Set, error) {
	p, err := partsOf(obj)
	if err != nil {
		return nil, nil, err
	}
	_, namespaced := obj.(*policy.AuthorizationPolicy)
	return p.meta.Labels, generic.AddObjectMetaFieldsSet(fields.Set{}, p.meta, namespaced), nil
}

func match(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributesOf}
}
