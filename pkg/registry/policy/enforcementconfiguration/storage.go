/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package enforcementconfiguration stores EnforcementConfiguration of policy.proviso.dev, and serves its status.
//
// Invariants:
//
//   - Every write is validated, updates as strictly as creations, and an invalid configuration is not stored.
//   - The status is written through /status only, and /status writes nothing else.
//   - A configuration lets requests pass on conditions that another server must evaluate. Its author needs the verb escalate on it,
//     in addition to the permission for the request itself. A deletion only closes, and needs no verb.
package enforcementconfiguration

import (
	"errors"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

const (
	resource = "enforcementconfigurations"
	singular = "enforcementconfiguration"
	// verbEscalate lets a user write configurations. It is the same verb as for Allow policies about more than the author may do.
	verbEscalate = "escalate"
)

// Storage holds the endpoints of configurations.
type Storage struct {
	// Configuration serves the configurations themselves.
	Configuration *stored.REST
	// Status serves their status.
	Status *stored.StatusREST
}

var errIncomplete = errors.New("a store of enforcement configurations needs an authorizer of their authors")

// NewStorage returns the endpoints of enforcementconfigurations. authors decides which users may write them, without conditions.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, authors authorizer.UnconditionalAuthorizer) (*Storage, error) {
	if authors == nil {
		return nil, errIncomplete
	}
	configurations, status, err := stored.New(stored.Kind[policy.EnforcementConfigurationSpec, policy.EnforcementConfigurationStatus]{
		Resource:   policy.Resource(resource),
		Singular:   policy.Resource(singular),
		Version:    v1alpha1.SchemeGroupVersion,
		Categories: []string{"authorization"},
		New:        func() runtime.Object { return &policy.EnforcementConfiguration{} },
		NewList:    func() runtime.Object { return &policy.EnforcementConfigurationList{} },
		Parts: func(obj runtime.Object) parts {
			c := obj.(*policy.EnforcementConfiguration)
			return parts{Meta: &c.ObjectMeta, Spec: &c.Spec, Status: &c.Status}
		},
		Validate: func(obj runtime.Object) field.ErrorList {
			return validation.ValidateEnforcementConfiguration(obj.(*policy.EnforcementConfiguration))
		},
		ValidateUpdate: func(obj, old runtime.Object) field.ErrorList {
			return validation.ValidateEnforcementConfigurationUpdate(obj.(*policy.EnforcementConfiguration), old.(*policy.EnforcementConfiguration))
		},
		ValidateStatusUpdate: func(obj, old runtime.Object) field.ErrorList {
			return validation.ValidateEnforcementConfigurationStatusUpdate(obj.(*policy.EnforcementConfiguration), old.(*policy.EnforcementConfiguration))
		},
		Guard: &stored.VerbGuard{
			Authors: authors, Verb: verbEscalate, Resource: policy.Resource(resource), Version: v1alpha1.SchemeGroupVersion.Version,
			Writes: "create or change an enforcement configuration, which leaves conditions to another server", SameSpec: sameSpec, FreeDeletes: true,
		},
		Table: table,
	}, scheme, optsGetter)
	if err != nil {
		return nil, err
	}
	return &Storage{Configuration: configurations, Status: status}, nil
}

// parts are the parts of a configuration.
type parts = stored.Parts[policy.EnforcementConfigurationSpec, policy.EnforcementConfigurationStatus]

// sameSpec reports whether two configurations have equal specifications.
func sameSpec(a, b runtime.Object) bool {
	x, ok := a.(*policy.EnforcementConfiguration)
	y, also := b.(*policy.EnforcementConfiguration)
	return ok && also && apiequality.Semantic.DeepEqual(x.Spec, y.Spec)
}
