/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// ValidateImpersonationReview validates a review that a client creates. An impersonation that
// cannot be expressed in the headers of a request is invalid.
func ValidateImpersonationReview(review *authorization.ImpersonationReview) field.ErrorList {
	path := field.NewPath("spec")
	spec := &review.Spec
	var errs field.ErrorList
	if spec.User == "" && (spec.UID != "" || len(spec.Groups) > 0 || len(spec.Extra) > 0) {
		errs = append(errs, field.Required(path.Child("user"), "a requester with uid, groups or extra needs a name: omit all of them to review a request of the caller"))
	}
	errs = append(errs, validateImpersonated(&spec.Impersonate, path.Child("impersonate"))...)
	errs = append(errs, validateImpersonatedRequest(spec, path)...)
	errs = append(errs, validateConditionalAuthorization(spec.ConditionalAuthorization, path)...)
	return append(errs, validateMetadata(review.ObjectMeta, field.NewPath("metadata"))...)
}

func validateImpersonated(user *authenticationv1.UserInfo, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case user.Username == "":
		errs = append(errs, field.Required(path.Child("username"), "the user to impersonate needs a name"))
	case strings.HasPrefix(user.Username, serviceaccount.ServiceAccountUsernamePrefix):
		if _, _, err := serviceaccount.SplitUsername(user.Username); err != nil {
			errs = append(errs, field.Invalid(path.Child("username"), user.Username, fmt.Sprintf("must have the form %q",
				serviceaccount.MakeUsername("namespace", "name"))))
		}
	}
	errs = append(errs, validateHeader(user.Username, path.Child("username"))...)
	errs = append(errs, validateHeader(user.UID, path.Child("uid"))...)
	if len(user.Groups) > authorization.MaxImpersonatedGroups {
		return append(errs, field.TooMany(path.Child("groups"), len(user.Groups), authorization.MaxImpersonatedGroups))
	}
	for i, group := range user.Groups {
		errs = append(errs, validateHeader(group, path.Child("groups").Index(i))...)
	}
	return append(errs, validateImpersonatedExtra(user.Extra, path.Child("extra"))...)
}

func validateImpersonatedExtra(extra map[string]authenticationv1.ExtraValue, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	count := 0
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		values := extra[key]
		if count += max(1, len(values)); count > authorization.MaxImpersonatedExtraValues {
			return append(errs, field.TooMany(path, count, authorization.MaxImpersonatedExtraValues))
		}
		if len(key) > authorization.MaxImpersonatedValueBytes {
			errs = append(errs, field.TooLong(path, "", authorization.MaxImpersonatedValueBytes))
			continue
		}
		if len(values) == 0 {
			errs = append(errs, field.Required(path.Key(key), "a key of extra needs at least one value, because it is sent in a header"))
		}
		for i, value := range values {
			errs = append(errs, validateHeader(value, path.Key(key).Index(i))...)
		}
	}
	return errs
}

// validateHeader returns an error for values that cannot be sent in a header: servers refuse
// control characters, and strip white space around a value.
func validateHeader(value string, path *field.Path) field.ErrorList {
	if len(value) > authorization.MaxImpersonatedValueBytes {
		return field.ErrorList{field.TooLong(path, "", authorization.MaxImpersonatedValueBytes)}
	}
	isControl := func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }
	switch {
	case strings.ContainsFunc(value, isControl):
		return field.ErrorList{field.Invalid(path, value, "must not contain control characters: it is sent in a header")}
	case strings.Trim(value, " \t") != value:
		return field.ErrorList{field.Invalid(path, value, "must not start or end with white space: it is sent in a header")}
	}
	return nil
}

// validateImpersonatedRequest requires exactly one request. The verb must not be *: it would not
// stand for every verb, but for permission to impersonate for a verb with that name.
func validateImpersonatedRequest(spec *authorization.ImpersonationReviewSpec, path *field.Path) field.ErrorList {
	errs := validateAttributes(spec.ResourceAttributes, spec.NonResourceAttributes, path)
	verb := func(verb string, path *field.Path) {
		switch verb {
		case "":
			errs = append(errs, field.Required(path, "a request needs a verb"))
		case "*":
			errs = append(errs, field.Invalid(path, verb, "must be one verb: permissions to impersonate name the verb of the request"))
		}
	}
	if attributes := spec.ResourceAttributes; attributes != nil {
		verb(attributes.Verb, path.Child("resourceAttributes", "verb"))
		if attributes.Resource == "" {
			errs = append(errs, field.Required(path.Child("resourceAttributes", "resource"), "a request for a resource needs the resource"))
		}
	}
	if attributes := spec.NonResourceAttributes; attributes != nil {
		verb(attributes.Verb, path.Child("nonResourceAttributes", "verb"))
		if attributes.Path == "" {
			errs = append(errs, field.Required(path.Child("nonResourceAttributes", "path"), "a non-resource request needs a path"))
		}
	}
	return errs
}
