/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

// checkMapping checks the content of a mapping for its author.
func (c CompletedConfig) checkMapping(name string, spec *policyapi.FieldPermissionMappingSpec) ([]string, field.ErrorList) {
	_, warnings, errs := mapping.Compile(name, spec)
	if len(errs) == 0 {
		warnings = append(warnings, exclusionWarnings(spec, c.innerDoorManifest())...)
	}
	return warnings, errs
}

// innerDoorManifest returns the configuration of the manifest of the inner door, or nil if there is no inner door.
func (c CompletedConfig) innerDoorManifest() *manifest.Config {
	if c.extra.FrontDoor == nil {
		return nil
	}
	return c.extra.FrontDoor.InnerDoor
}

// exclusionWarnings returns a warning for each resource whose excluded fields are not checked for every user. The inner door checks them
// only where kube-apiserver calls it.
func exclusionWarnings(spec *policyapi.FieldPermissionMappingSpec, door *manifest.Config) []string {
	if !slices.ContainsFunc(spec.Fields, func(f policyapi.FieldPermission) bool { return f.Exclusion != nil }) {
		return nil
	}
	var warnings []string
	for i, r := range spec.Resources {
		resource, at := schema.GroupResource{Group: r.APIGroup, Resource: r.Resource}, field.NewPath("spec", "resources").Index(i)
		switch {
		case MayServe(r.APIGroup):
		case door == nil || !slices.Contains(door.Resources, innerdoor.Resource{Group: r.APIGroup, Resource: r.Resource}):
			warnings = append(warnings, fmt.Sprintf("%s: Proviso does not decide writes of %s, so that it does not check the excluded fields; they count in reviews only", at, resource))
		case door.AsksOthers:
			warnings = append(warnings, fmt.Sprintf("%s: the excluded fields of %s are checked only for users whom no other authorizer of kube-apiserver, such as RBAC, allows the write", at, resource))
		}
	}
	return warnings
}

// MayServe reports whether this server can serve an API group.
func MayServe(group string) bool {
	return slices.ContainsFunc(servedVersions, func(gv schema.GroupVersion) bool { return gv.Group == group })
}
