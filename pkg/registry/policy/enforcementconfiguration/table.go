/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementconfiguration

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// table prints configurations.
var table = stored.Table{
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the configuration"},
		{Name: "Group", Type: "string", Description: "API group of the resources"},
		{Name: "Versions", Type: "string", Description: "Versions in which the server enforces conditions"},
		{Name: "Resources", Type: "string", Description: "Resources on which the server enforces conditions"},
		{Name: "Service", Type: "string", Description: "Service of the server"},
		{Name: "Effective", Type: "string", Description: "Whether requests pass on conditions in all of the versions"},
		{Name: "Age", Type: "string", Description: "Time since the configuration was created"},
		{Name: "Description", Type: "string", Priority: 1, Description: "Purpose of the configuration"},
	},
	Cells: func(obj runtime.Object, name, age string) ([]any, error) {
		c, ok := obj.(*policy.EnforcementConfiguration)
		if !ok {
			return nil, fmt.Errorf("not an enforcement configuration: %T", obj)
		}
		service := c.Spec.Service
		return []any{
			name, c.Spec.APIGroup, stored.ListCell(c.Spec.APIVersions), stored.ListCell(c.Spec.Resources), fmt.Sprintf("%s/%s:%d", service.Namespace, service.Name, service.Port),
			stored.ConditionCell(c.Status.Conditions, policy.EnforcementEffective), age, stored.LineCell(c.Spec.Description),
		}, nil
	},
}
