/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// kind has the differences between the two kinds of policies.
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
type parts = stored.Parts[policy.AuthorizationPolicySpec, policy.AuthorizationPolicyStatus]

func partsOf(obj runtime.Object) (parts, error) {
	switch p := obj.(type) {
	case *policy.ClusterAuthorizationPolicy:
		return parts{Meta: &p.ObjectMeta, Spec: &p.Spec, Status: &p.Status}, nil
	case *policy.AuthorizationPolicy:
		return parts{Meta: &p.ObjectMeta, Spec: &p.Spec, Status: &p.Status}, nil
	default:
		return parts{}, fmt.Errorf("not a policy: %T", obj)
	}
}

// mustParts is for callers that cannot return an error. The store calls them only with objects
// that newObject created.
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
