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
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

var errIncomplete = errors.New("a store of enforcement configurations needs an authorizer of their authors")

// NewStorage returns the endpoints of enforcementconfigurations. authors decides which users may write them, without conditions.
func NewStorage(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, authors authorizer.UnconditionalAuthorizer) (*stored.Storage, error) {
	if authors == nil {
		return nil, errIncomplete
	}
	return stored.New(stored.Kind[*policy.EnforcementConfiguration, policy.EnforcementConfigurationSpec, policy.EnforcementConfigurationStatus]{
		Resource:   policy.Resource(resource),
		Singular:   policy.Resource(singular),
		Version:    v1alpha1.SchemeGroupVersion,
		Categories: []string{"authorization"},
		New:        func() runtime.Object { return &policy.EnforcementConfiguration{} },
		NewList:    func() runtime.Object { return &policy.EnforcementConfigurationList{} },
		Parts: func(c *policy.EnforcementConfiguration) parts {
			return parts{Meta: &c.ObjectMeta, Spec: &c.Spec, Status: &c.Status}
		},
		Validate:             validation.ValidateEnforcementConfiguration,
		ValidateUpdate:       validation.ValidateEnforcementConfigurationUpdate,
		ValidateStatusUpdate: validation.ValidateEnforcementConfigurationStatusUpdate,
		Guard: &stored.VerbGuard{
			Authors: authors, Verb: verbEscalate, Resource: policy.Resource(resource), Version: v1alpha1.SchemeGroupVersion.Version,
			Writes: "create or change an enforcement configuration, which leaves conditions to another server", FreeDeletes: true,
			Spec: func(obj runtime.Object) any { return obj.(*policy.EnforcementConfiguration).Spec },
		},
		Columns: columns,
		Cells:   cells,
	}, scheme, optsGetter)
}

// parts are the parts of a configuration.
type parts = stored.Parts[policy.EnforcementConfigurationSpec, policy.EnforcementConfigurationStatus]

// columns are the columns of the table of configurations.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the configuration"},
	{Name: "Group", Type: "string", Description: "API group of the resources"},
	{Name: "Versions", Type: "string", Description: "Versions in which the server enforces conditions"},
	{Name: "Resources", Type: "string", Description: "Resources on which the server enforces conditions"},
	{Name: "Service", Type: "string", Description: "Service of the server"},
	{Name: "Effective", Type: "string", Description: "Whether requests pass on conditions in all of the versions"},
	{Name: "Age", Type: "string", Description: "Time since the configuration was created"},
	{Name: "Description", Type: "string", Priority: 1, Description: "Purpose of the configuration"},
}

func cells(p parts, name, age string) []any {
	service := p.Spec.Service
	return []any{
		name, p.Spec.APIGroup, stored.ListCell(p.Spec.APIVersions), stored.ListCell(p.Spec.Resources), fmt.Sprintf("%s/%s:%d", service.Namespace, service.Name, service.Port),
		stored.ConditionCell(p.Status.Conditions, policy.EnforcementEffective), age, stored.LineCell(p.Spec.Description),
	}
}
