/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package validation validates files of config.proviso.dev. It neither reads other files nor
// compiles expressions; the package that uses the configuration does both.
package validation

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/config"
)

// The versions of authorization.k8s.io for the reviews that are sent to a webhook.
const (
	versionV1       = "v1"
	versionV1alpha1 = "v1alpha1"
)

// ValidateAuthorizationConfiguration validates a configuration after defaulting. Its authorizers
// must not have the names in reserved.
func ValidateAuthorizationConfiguration(c *config.AuthorizationConfiguration, reserved []string) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("authorizers")
	if len(c.Authorizers) == 0 {
		// A file that is read while it is being written may be empty.
		errs = append(errs, field.Required(path, "at least one authorizer must be configured"))
	}
	if len(c.Authorizers) > config.MaxAuthorizers {
		errs = append(errs, field.TooMany(path, len(c.Authorizers), config.MaxAuthorizers))
	}
	seen := map[string]bool{}
	for i := range c.Authorizers {
		a, at := &c.Authorizers[i], path.Index(i)
		errs = append(errs, validateName(a.Name, seen, reserved, at.Child("name"))...)
		seen[a.Name] = true
		switch {
		case a.Type == "":
			errs = append(errs, field.Required(at.Child("type"), ""))
		case a.Type != config.AuthorizerTypeWebhook:
			errs = append(errs, field.NotSupported(at.Child("type"), a.Type, []config.AuthorizerType{config.AuthorizerTypeWebhook}))
		case a.Webhook == nil:
			errs = append(errs, field.Required(at.Child("webhook"), "required when type is Webhook"))
		default:
			errs = append(errs, validateWebhook(a.Webhook, at.Child("webhook"))...)
		}
	}
	return errs
}

func validateName(name string, seen map[string]bool, reserved []string, path *field.Path) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "")}
	case seen[name]:
		return field.ErrorList{field.Duplicate(path, name)}
	case slices.Contains(reserved, name):
		return field.ErrorList{field.Invalid(path, name, "must not be the name of a built-in authorizer")}
	}
	var errs field.ErrorList
	for _, message := range utilvalidation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func validateWebhook(w *config.WebhookConfiguration, path *field.Path) field.ErrorList {
	errs := validateDurations(w, path)
	errs = append(errs, oneOf(w.SubjectAccessReviewVersion, path.Child("subjectAccessReviewVersion"), versionV1, versionV1alpha1)...)
	errs = append(errs, oneOf(w.FailurePolicy, path.Child("failurePolicy"), config.FailurePolicyDeny, config.FailurePolicyNoOpinion)...)
	errs = append(errs, validateConnection(&w.ConnectionInfo, path.Child("connectionInfo"))...)
	errs = append(errs, validateMatchConditions(w, path)...)
	return append(errs, validateConditionsEndpoint(w, path)...)
}

func validateDurations(w *config.WebhookConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch at, timeout := path.Child("timeout"), w.Timeout.Duration; {
	case timeout == 0:
		errs = append(errs, field.Required(at, ""))
	case timeout < 0 || timeout > config.MaxTimeout:
		errs = append(errs, field.Invalid(at, timeout.String(), fmt.Sprintf("must be greater than 0s and at most %s", config.MaxTimeout)))
	}
	for _, ttl := range []struct {
		name  string
		value metav1.Duration
	}{{name: "authorizedTTL", value: w.AuthorizedTTL}, {name: "unauthorizedTTL", value: w.UnauthorizedTTL}} {
		if ttl.value.Duration <= 0 {
			errs = append(errs, field.Invalid(path.Child(ttl.name), ttl.value.Duration.String(), "must be greater than 0s"))
		}
	}
	return errs
}

func oneOf[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(supported, value):
		return field.ErrorList{field.NotSupported(path, value, supported)}
	}
	return nil
}

func validateConnection(c *config.WebhookConnectionInfo, path *field.Path) field.ErrorList {
	errs := oneOf(c.Type, path.Child("type"), config.ConnectionInfoKubeConfigFile)
	switch at := path.Child("kubeConfigFile"); {
	case c.KubeConfigFile == nil || *c.KubeConfigFile == "":
		errs = append(errs, field.Required(at, ""))
	case !filepath.IsAbs(*c.KubeConfigFile):
		errs = append(errs, field.Invalid(at, *c.KubeConfigFile, "must be an absolute path"))
	}
	return errs
}

func validateMatchConditions(w *config.WebhookConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if version := w.MatchConditionSubjectAccessReviewVersion; version != "" || len(w.MatchConditions) > 0 {
		errs = append(errs, oneOf(version, path.Child("matchConditionSubjectAccessReviewVersion"), versionV1)...)
	}
	path = path.Child("matchConditions")
	if len(w.MatchConditions) > config.MaxMatchConditions {
		return append(errs, field.TooMany(path, len(w.MatchConditions), config.MaxMatchConditions))
	}
	seen := map[string]bool{}
	for i, c := range w.MatchConditions {
		switch at := path.Index(i).Child("expression"); {
		case strings.TrimSpace(c.Expression) == "":
			errs = append(errs, field.Required(at, ""))
		case seen[c.Expression]:
			errs = append(errs, field.Duplicate(at, c.Expression))
		}
		seen[c.Expression] = true
	}
	return errs
}

// validateConditionsEndpoint requires that a webhook can both return and evaluate conditions, or
// neither.
func validateConditionsEndpoint(w *config.WebhookConfiguration, path *field.Path) field.ErrorList {
	version := path.Child("authorizationConditionsReviewVersion")
	if w.ConditionsReview != nil {
		errs := oneOf(w.ConditionsReview.Version, path.Child("conditionsReview", "version"), versionV1alpha1)
		if w.ConditionsEndpointKubeConfigContext != "" {
			errs = append(errs, field.Forbidden(path.Child("conditionsEndpointKubeConfigContext"), "may not be specified together with conditionsReview"))
		}
		if w.AuthorizationConditionsReviewVersion != "" {
			errs = append(errs, field.Forbidden(version, "may not be specified together with conditionsReview"))
		}
		return errs
	}
	if w.ConditionsEndpointKubeConfigContext == "" {
		if w.AuthorizationConditionsReviewVersion != "" {
			return field.ErrorList{field.Forbidden(version, "needs conditionsEndpointKubeConfigContext")}
		}
		return nil
	}
	return oneOf(w.AuthorizationConditionsReviewVersion, version, versionV1alpha1)
}
