/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/config"
)

// ValidateInnerDoorConfiguration validates the parts of a configuration that the manifest of the inner door does not have. The
// authorizers besides the front door are validated by the rules of kube-apiserver, by the package that uses them.
func ValidateInnerDoorConfiguration(c *config.InnerDoorConfiguration) field.ErrorList {
	var errs field.ErrorList
	switch given, inFile := len(c.CABundle) > 0, c.CAFile != ""; {
	case given && inFile:
		errs = append(errs, field.Forbidden(field.NewPath("caFile"), "must be empty if caBundle is set"))
	case !given && !inFile:
		errs = append(errs, field.Required(field.NewPath("caBundle"), "or caFile: kube-apiserver must verify the server that it calls"))
	}
	identities := field.NewPath("excludedIdentities")
	errs = append(errs, validateNames(c.ExcludedIdentities.Users, identities.Child("users"))...)
	errs = append(errs, validateNames(c.ExcludedIdentities.Groups, identities.Child("groups"))...)
	path := field.NewPath("kubeAPIServer")
	for _, p := range []struct{ name, value string }{
		{name: "directory", value: c.KubeAPIServer.Directory},
		{name: "clientCertificate", value: c.KubeAPIServer.ClientCertificate},
		{name: "clientKey", value: c.KubeAPIServer.ClientKey},
	} {
		if !filepath.IsAbs(p.value) {
			errs = append(errs, field.Invalid(path.Child(p.name), p.value, "must be an absolute path"))
		}
	}
	return append(errs, oneOf(c.KubeAPIServer.FrontDoorFailurePolicy, path.Child("frontDoorFailurePolicy"), config.FailurePolicyDeny, config.FailurePolicyNoOpinion)...)
}

// validateNames validates the names of excluded users or groups. kube-apiserver compares them with the user and the groups of each
// request.
func validateNames(names []string, path *field.Path) field.ErrorList {
	if len(names) > config.MaxExcludedIdentities {
		return field.ErrorList{field.TooMany(path, len(names), config.MaxExcludedIdentities)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range names {
		switch {
		case name == "":
			errs = append(errs, field.Required(path.Index(i), ""))
		case len(name) > config.MaxIdentityBytes:
			errs = append(errs, field.TooLong(path.Index(i), "", config.MaxIdentityBytes))
		case seen[name]:
			errs = append(errs, field.Duplicate(path.Index(i), name))
		case hasAllUsers(name):
			errs = append(errs, field.Invalid(path.Index(i), name, "must not be a group of all users: policies would decide nothing"))
		}
		seen[name] = true
	}
	return errs
}

// hasAllUsers reports whether a group has all users as members, or all users of one kind.
func hasAllUsers(name string) bool {
	switch name {
	case "system:authenticated", "system:unauthenticated", "system:serviceaccounts":
		return true
	}
	return false
}
