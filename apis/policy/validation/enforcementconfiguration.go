/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation

import (
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
)

// ownDomain ends the groups of Proviso, which evaluates conditions on them itself.
const ownDomain = "proviso.dev"

// GroupsOfKubernetes are the API groups with a dot in their name that kube-apiserver serves in some release. All groups
// without a dot belong to Kubernetes. An aggregated server may serve other groups of k8s.io, such as metrics.k8s.io.
var GroupsOfKubernetes = sets.New(
	"admissionregistration.k8s.io", "apidiscovery.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
	"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io",
	"imagepolicy.k8s.io", "internal.apiserver.k8s.io", "lifecycle.k8s.io", "networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io",
	"resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
)

// connections are subresources that connect to something. The answer to a connection cannot be taken back.
var connections = []string{"attach", "exec", "portforward", "proxy"}

// finalizers is a subresource about which kube-apiserver asks, for an owner reference that blocks the deletion of the owner. No request reaches it, so that
// no server would evaluate a condition.
const finalizers = "finalizers"

// ValidateEnforcementConfiguration validates a new configuration.
func ValidateEnforcementConfiguration(c *policy.EnforcementConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, validateName, field.NewPath("metadata"))
	path, spec := field.NewPath("spec"), &c.Spec
	if len(spec.Description) > policy.MaxDescriptionBytes {
		errs = append(errs, field.TooLong(path.Child("description"), "", policy.MaxDescriptionBytes))
	}
	errs = append(errs, validateEnforcedGroup(spec.APIGroup, path.Child("apiGroup"))...)
	errs = append(errs, validateEnforced(spec.APIVersions, policy.MaxEnforcedVersions, path.Child("apiVersions"), validateEnforcedVersion)...)
	errs = append(errs, validateEnforced(spec.Resources, policy.MaxRuleEntries, path.Child("resources"), validateEnforcedResource)...)
	at := path.Child("service")
	errs = append(errs, invalid(at.Child("namespace"), spec.Service.Namespace, utilvalidation.IsDNS1123Label(spec.Service.Namespace))...)
	errs = append(errs, invalid(at.Child("name"), spec.Service.Name, utilvalidation.IsDNS1123Label(spec.Service.Name))...)
	for _, message := range utilvalidation.IsValidPortNum(int(spec.Service.Port)) {
		errs = append(errs, field.Invalid(at.Child("port"), spec.Service.Port, message))
	}
	return errs
}

// ValidateEnforcementConfigurationUpdate validates a changed configuration as strictly as a new one.
func ValidateEnforcementConfigurationUpdate(c, old *policy.EnforcementConfiguration) field.ErrorList {
	errs := ValidateEnforcementConfiguration(c)
	return append(errs, apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
}

// ValidateEnforcementConfigurationStatusUpdate validates a changed status of a configuration.
func ValidateEnforcementConfigurationStatusUpdate(c, old *policy.EnforcementConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateObserved(&c.ObjectMeta, c.Status.ObservedGeneration, old.Status.ObservedGeneration, c.Status.Conditions)...)
}

func validateEnforcedGroup(group string, path *field.Path) field.ErrorList {
	errs := validateText(group, policy.MaxEntryBytes, path)
	if len(errs) > 0 {
		return errs
	}
	switch {
	//guard:configurations-groups-proviso
	case group == ownDomain || strings.HasSuffix(group, "."+ownDomain):
		return field.ErrorList{field.Forbidden(path, "Proviso serves this group and evaluates conditions on it itself")}
	//guard:configurations-groups-kube-apiserver
	case !strings.Contains(group, ".") && group != "*", GroupsOfKubernetes.Has(group):
		return field.ErrorList{field.Forbidden(path, "kube-apiserver serves this group, and calls no other server for it: conditions on its resources need the inner door")}
	}
	return validateDNSSubdomain(group, path)
}

// validateEnforced validates a list that must not be empty.
func validateEnforced(entries []string, limit int, path *field.Path, validate func(string, *field.Path) field.ErrorList) field.ErrorList {
	if len(entries) == 0 {
		return field.ErrorList{field.Required(path, "name each of them: * is not allowed, because a list must not grow by itself")}
	}
	return validateEntries(entries, limit, path, validate)
}

func validateEnforcedVersion(version string, path *field.Path) field.ErrorList {
	return invalid(path, version, utilvalidation.IsDNS1035Label(version))
}

func validateEnforcedResource(resource string, path *field.Path) field.ErrorList {
	if errs := validateText(resource, policy.MaxEntryBytes, path); len(errs) > 0 {
		return errs
	}
	name, subresource, hasSubresource := strings.Cut(resource, "/")
	errs := invalid(path, resource, utilvalidation.IsDNS1123Label(name))
	if !hasSubresource {
		return errs
	}
	//guard:configurations-connections
	if slices.Contains(connections, subresource) {
		return append(errs, field.Forbidden(path, "the answer to a connection cannot be taken back"))
	}
	//guard:configurations-finalizers
	if subresource == finalizers {
		return append(errs, field.Forbidden(path, "components ask for permission on it, and send no request on which the server could evaluate conditions"))
	}
	return append(errs, invalid(path, resource, utilvalidation.IsDNS1123Label(subresource))...)
}
