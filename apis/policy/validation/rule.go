/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation

import (
	"fmt"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
)

const all = "*"

func validateRules(rules []policy.PolicyRule, effect policy.PolicyEffect, in scope, path *field.Path) field.ErrorList {
	switch {
	case len(rules) == 0:
		return field.ErrorList{field.Required(path, "a policy needs at least one rule")}
	case len(rules) > policy.MaxRules:
		return field.ErrorList{field.TooMany(path, len(rules), policy.MaxRules)}
	}
	var errs field.ErrorList
	for i := range rules {
		errs = append(errs, validateRule(&rules[i], effect, in, path.Index(i))...)
	}
	return errs
}

func validateRule(rule *policy.PolicyRule, effect policy.PolicyEffect, in scope, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Verbs) == 0 {
		errs = append(errs, field.Required(path.Child("verbs"), ""))
	}
	errs = append(errs, validateEntries(rule.Verbs, policy.MaxRuleEntries, path.Child("verbs"), validateVerb)...)
	switch {
	case len(rule.NonResourceURLs) > 0:
		return append(errs, validatePaths(rule, in, path)...)
	case len(rule.Resources) == 0:
		return append(errs, field.Required(path.Child("resources"), "a rule needs resources or nonResourceURLs"))
	}
	return append(errs, validateResourceRule(rule, effect, path)...)
}

func validateResourceRule(rule *policy.PolicyRule, effect policy.PolicyEffect, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rule.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), `a rule with resources needs their API groups; "" is the core group`))
	}
	errs = append(errs, validateEntries(rule.APIGroups, policy.MaxRuleEntries, path.Child("apiGroups"), validateGroup)...)
	errs = append(errs, validateEntries(rule.APIVersions, policy.MaxRuleEntries, path.Child("apiVersions"), validateVersion)...)
	if len(rule.APIVersions) > 1 && slices.Contains(rule.APIVersions, all) {
		errs = append(errs, field.Invalid(path.Child("apiVersions"), all, "must not be listed with other versions: a condition is written either for some versions or for all"))
	}
	errs = append(errs, validateEntries(rule.Resources, policy.MaxRuleEntries, path.Child("resources"), validateResource)...)
	errs = append(errs, validateEntries(rule.ResourceNames, policy.MaxResourceNames, path.Child("resourceNames"), validateResourceName)...)
	if effect != policy.PolicyEffectAllow && NamelessVerb(rule) {
		errs = append(errs, field.Forbidden(path.Child("resourceNames"), "a create or deletecollection has no name when it is authorized, so that the restriction would never apply: compare object.metadata.name or oldObject.metadata.name in the condition, or put these verbs into a rule without resourceNames"))
	}
	return errs
}

// validateDeniedVerbs returns an error for each rule of a Deny policy with one of update and patch. A rule that was stored before is accepted, and read as
// having both: the policy could not be changed otherwise.
func validateDeniedVerbs(spec, before *policy.AuthorizationPolicySpec, path *field.Path) (errs field.ErrorList) {
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		isSame := func(old policy.PolicyRule) bool { return apiequality.Semantic.DeepEqual(&old, rule) }
		read := policy.VerbsOf(spec.Effect, rule.Resources, rule.Verbs)
		//guard:policies-deny-stored-rules
		if len(read) > len(rule.Verbs) && (before == nil || before.Effect != spec.Effect || !slices.ContainsFunc(before.Rules, isSame)) {
			errs = append(errs, field.Forbidden(path.Index(i).Child("verbs"), fmt.Sprintf("must also have %s: a Deny of one of update and patch denies both, which look the same at admission", read[len(read)-1])))
		}
	}
	return errs
}

// NamelessVerb reports whether a rule has resource names, and describes requests without a name at
// authorization.
func NamelessVerb(rule *policy.PolicyRule) bool {
	return len(rule.ResourceNames) > 0 && DescribesNameless(rule)
}

// DescribesNameless reports whether a rule describes requests without a name at authorization:
// create and deletecollection, except for subresources.
func DescribesNameless(rule *policy.PolicyRule) bool {
	nameless := func(verb string) bool { return verb == "create" || verb == "deletecollection" || verb == all }
	whole := func(resource string) bool { return !strings.Contains(resource, "/") }
	return slices.ContainsFunc(rule.Verbs, nameless) && slices.ContainsFunc(rule.Resources, whole)
}

func validatePaths(rule *policy.PolicyRule, in scope, path *field.Path) field.ErrorList {
	at := path.Child("nonResourceURLs")
	if in == namespaceScope {
		return field.ErrorList{field.Forbidden(at, "paths have no namespace: use a ClusterAuthorizationPolicy")}
	}
	var errs field.ErrorList
	for _, other := range []struct {
		name    string
		entries []string
	}{{name: "apiGroups", entries: rule.APIGroups}, {name: "apiVersions", entries: rule.APIVersions}, {name: "resources", entries: rule.Resources}, {name: "resourceNames", entries: rule.ResourceNames}} {
		if len(other.entries) > 0 {
			errs = append(errs, field.Forbidden(path.Child(other.name), "a rule must have either resources or nonResourceURLs: use two rules"))
		}
	}
	return append(errs, validateEntries(rule.NonResourceURLs, policy.MaxRuleEntries, at, validatePath)...)
}

// validateEntries validates a list without duplicates.
func validateEntries(entries []string, limit int, path *field.Path, validate func(string, *field.Path) field.ErrorList) field.ErrorList {
	if len(entries) > limit {
		return field.ErrorList{field.TooMany(path, len(entries), limit)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, entry := range entries {
		if seen.Has(entry) {
			errs = append(errs, field.Duplicate(path.Index(i), entry))
			continue
		}
		seen.Insert(entry)
		errs = append(errs, validate(entry, path.Index(i))...)
	}
	return errs
}

// standardVerbs are the verbs of requests to API servers. Other verbs are defined by the clients
// that check them, in any case.
var standardVerbs = sets.New("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "put", "head", "options")

func validateVerb(verb string, path *field.Path) field.ErrorList {
	if errs := validateWord(verb, path); len(errs) > 0 {
		return errs
	}
	if lower := strings.ToLower(verb); verb != lower && standardVerbs.Has(lower) {
		return field.ErrorList{field.Invalid(path, verb, "must be in lower case")}
	}
	return nil
}

// validateWord validates a word that is compared literally and has no defined syntax.
func validateWord(word string, path *field.Path) field.ErrorList {
	if errs := validateText(word, policy.MaxEntryBytes, path); len(errs) > 0 {
		return errs
	}
	if strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return field.ErrorList{field.Invalid(path, word, "must not contain white space or control characters")}
	}
	return nil
}

func validateGroup(group string, path *field.Path) field.ErrorList {
	name, version, hasVersion := strings.Cut(group, "/")
	switch {
	case group == "" || group == all:
		return nil
	case hasVersion:
		return field.ErrorList{field.Invalid(path, group, fmt.Sprintf("a group is written without its version: %q here, and %q in apiVersions", name, version))}
	case strings.Contains(group, all):
		return field.ErrorList{field.Invalid(path, group, `names of groups have no wildcards: list the groups, or use "*", which includes all of them`)}
	}
	return validateDNSSubdomain(group, path)
}

func validateVersion(version string, path *field.Path) field.ErrorList {
	switch version {
	case "":
		return field.ErrorList{field.Required(path, "omit apiVersions to match all versions")}
	case all:
		return nil
	}
	if _, name, hasGroup := strings.Cut(version, "/"); hasGroup {
		return field.ErrorList{field.Invalid(path, version, fmt.Sprintf("a version is written without its group: %q", name))}
	}
	return invalid(path, version, utilvalidation.IsDNS1035Label(version))
}

// userExtras is the resource whose subresource is the key of a user's extra. A key may have any
// characters that are valid in a header name.
const userExtras = "userextras"

func validateResource(resource string, path *field.Path) field.ErrorList {
	if errs := validateWord(resource, path); len(errs) > 0 {
		return errs
	}
	name, subresource, hasSubresource := strings.Cut(resource, "/")
	if name != all {
		if strings.Contains(name, all) {
			return field.ErrorList{field.Invalid(path, resource, `names of resources have no wildcards: list the resources, or use "*", which includes all of them`)}
		}
		if name != strings.ToLower(name) {
			return field.ErrorList{field.Invalid(path, resource, `must be in lower case: a resource is named as in URLs, such as "deployments" for the kind Deployment`)}
		}
		if messages := utilvalidation.IsDNS1123Subdomain(name); len(messages) > 0 {
			return invalid(path, resource, prefixed("the resource: ", messages))
		}
	}
	switch {
	case !hasSubresource:
		return nil
	case subresource == all:
		return field.ErrorList{field.Invalid(path, resource, `subresources have no wildcard: list them, or use "*", which includes all of them`)}
	case name == userExtras && subresource != "" && subresource == strings.ToLower(subresource):
		return nil
	}
	return invalid(path, resource, prefixed("the subresource: ", utilvalidation.IsDNS1123Subdomain(subresource)))
}

func prefixed(prefix string, messages []string) []string {
	var result []string
	for _, message := range messages {
		result = append(result, prefix+message)
	}
	return result
}

func validateResourceName(name string, path *field.Path) field.ErrorList {
	if name == all {
		return field.ErrorList{field.Invalid(path, name, "names have no wildcard: omit resourceNames to match all names")}
	}
	return validateText(name, policy.MaxReferenceBytes, path)
}

func validatePath(url string, path *field.Path) field.ErrorList {
	if errs := validateText(url, policy.MaxReferenceBytes, path); len(errs) > 0 {
		return errs
	}
	switch {
	case url == all:
		return nil
	case !strings.HasPrefix(url, "/"):
		return field.ErrorList{field.Invalid(path, url, `must start with "/" or be "*"`)}
	case strings.Contains(strings.TrimSuffix(url, all), all):
		return field.ErrorList{field.Invalid(path, url, `"*" may only be the last character`)}
	case strings.ContainsAny(url, "?#"):
		return field.ErrorList{field.Invalid(path, url, "must be a path without query or fragment")}
	}
	return nil
}
