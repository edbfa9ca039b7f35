/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
)

// Policy is a policy that allows what a binding allows, or a part of it if the binding has more rules or subjects than a policy may have.
type Policy struct {
	Key  engine.Key
	Spec *policyv1alpha1.AuthorizationPolicySpec
}

// Result says what has happened to a binding.
type Result struct {
	// Source is the kind and the name of the binding.
	Source string
	// Policies are the names of its policies.
	Policies []string
	// LeftOut says what the binding allows, or may allow, and the policies do not.
	LeftOut []string
	// Remarks say what the binding does not allow either.
	Remarks []string
}

// Policies returns policies that decide like the bindings, and a result for each binding.
func Policies(permissions []*rbac.Permission) (policies []Policy, results []Result) {
	c := &converter{names: map[engine.Key]bool{}, refused: map[string]string{}}
	for _, p := range permissions { // names that need no change are kept
		if isName(p.Name) {
			c.names[p.Key()] = true
		}
	}
	for _, p := range permissions {
		made, result := c.convert(p)
		policies, results = append(policies, made...), append(results, result)
	}
	return policies, results
}

// converter converts bindings.
type converter struct {
	// names has the names of policies.
	names map[engine.Key]bool
	// refused has the reasons for which an entry of a list is refused, and an empty text for one that is not.
	refused map[string]string
}

func (c *converter) convert(p *rbac.Permission) ([]Policy, Result) {
	result := Result{Source: p.String(), Remarks: slices.Clone(p.Remarks)}
	switch {
	case p.Unknown:
		result.LeftOut, result.Remarks = p.Remarks, nil
		return nil, result
	case len(p.Spec.Subjects) == 0 || len(p.Spec.Rules) == 0:
		result.Remarks = append(result.Remarks, "the binding has no subjects, or its role no rules: it allows nothing")
		return nil, result
	}
	leftOut := func(text string) {
		if !slices.Contains(result.LeftOut, text) {
			result.LeftOut = append(result.LeftOut, text)
		}
	}
	subjects := slices.DeleteFunc(slices.Clone(p.Spec.Subjects), func(s rbacv1.Subject) bool {
		refused := c.refuses(fmt.Sprintf("%s %q of namespace %q", s.Kind, s.Name, s.Namespace), &policyv1alpha1.AuthorizationPolicySpec{Subjects: []rbacv1.Subject{s}})
		if refused != "" {
			leftOut(refused)
		}
		return refused != ""
	})
	var rules []policyv1alpha1.PolicyRule
	for i := range p.Spec.Rules {
		rules = append(rules, c.rules(&p.Spec.Rules[i], leftOut)...)
	}
	if len(subjects) == 0 || len(rules) == 0 {
		return nil, result
	}
	var policies []Policy
	for someSubjects := range slices.Chunk(subjects, policyapi.MaxSubjects) {
		for someRules := range slices.Chunk(rules, policyapi.MaxRules) {
			policy := Policy{Key: c.key(p, len(policies)), Spec: &policyv1alpha1.AuthorizationPolicySpec{
				Description: fmt.Sprintf("converted from the %s %q with the %s %q", p.Kind, p.Name, p.Role.Kind, p.Role.Name),
				Effect:      policyv1alpha1.PolicyEffectAllow, Subjects: someSubjects, Rules: someRules,
			}}
			if errs := validate(policy.Spec, p.Namespace != ""); len(errs) > 0 {
				leftOut(errs.ToAggregate().Error())
				continue
			}
			policies, result.Policies = append(policies, policy), append(result.Policies, policy.Key.Name)
		}
	}
	return policies, result
}

// rules returns the rules of policies that match like a rule, whose lists may be longer.
func (c *converter) rules(r *policyv1alpha1.PolicyRule, leftOut func(string)) (rules []policyv1alpha1.PolicyRule) {
	accepted := func(name string, entries []string, set func(rule *policyv1alpha1.PolicyRule, entries []string)) (kept []string, ok bool) {
		for _, entry := range entries {
			rule := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
			set(&rule, []string{entry})
			refused := c.refuses(fmt.Sprintf("%s %q", name, entry), &policyv1alpha1.AuthorizationPolicySpec{Rules: []policyv1alpha1.PolicyRule{rule}})
			switch {
			case refused != "":
				leftOut(refused)
			case !slices.Contains(kept, entry):
				kept = append(kept, entry)
			}
		}
		//guard:convert-lists-lose-all-entries
		return kept, len(kept) > 0 || len(entries) == 0 // a list that is empty now must not match everything
	}
	verbs, ok1 := accepted("the verb", r.Verbs, func(rule *policyv1alpha1.PolicyRule, e []string) { rule.Verbs = e })
	groups, ok2 := accepted("the API group", r.APIGroups, func(rule *policyv1alpha1.PolicyRule, e []string) { rule.APIGroups = e })
	resources, ok3 := accepted("the resource", r.Resources, func(rule *policyv1alpha1.PolicyRule, e []string) { rule.Resources = e })
	names, ok4 := accepted("the resource name", r.ResourceNames, func(rule *policyv1alpha1.PolicyRule, e []string) { rule.ResourceNames = e })
	urls, ok5 := accepted("the URL", normalizedURLs(r.NonResourceURLs), func(rule *policyv1alpha1.PolicyRule, e []string) {
		*rule = policyv1alpha1.PolicyRule{Verbs: rule.Verbs, NonResourceURLs: e}
	})
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return nil
	}
	for _, someVerbs := range chunks(verbs, policyapi.MaxRuleEntries) {
		for _, someGroups := range chunks(groups, policyapi.MaxRuleEntries) {
			for _, someResources := range chunks(resources, policyapi.MaxRuleEntries) {
				for _, someNames := range chunks(names, policyapi.MaxResourceNames) {
					for _, someURLs := range chunks(urls, policyapi.MaxRuleEntries) {
						rules = append(rules, policyv1alpha1.PolicyRule{Verbs: someVerbs, APIGroups: someGroups, Resources: someResources, ResourceNames: someNames, NonResourceURLs: someURLs})
					}
				}
			}
		}
	}
	return rules
}

// normalizedURLs returns URLs with one * at the end instead of several, which match the same paths in RBAC.
func normalizedURLs(urls []string) []string {
	var result []string
	for _, url := range urls {
		if strings.HasSuffix(url, "**") {
			url = strings.TrimRight(url, "*") + "*"
		}
		result = append(result, url)
	}
	return result
}

// chunks returns a list in parts. An empty list is one part.
func chunks(entries []string, size int) [][]string {
	if len(entries) == 0 {
		return [][]string{nil}
	}
	return slices.Collect(slices.Chunk(entries, size))
}

// refuses returns the reason for which a policy may not have the one entry in spec, or an empty text. The specification gets the other fields that
// a policy needs.
func (c *converter) refuses(name string, spec *policyv1alpha1.AuthorizationPolicySpec) string {
	if reason, ok := c.refused[name]; ok {
		return reason
	}
	spec.Effect = policyv1alpha1.PolicyEffectAllow
	if spec.Subjects == nil {
		spec.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "a"}}
	}
	if spec.Rules == nil {
		spec.Rules = []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	}
	reason := ""
	if errs := validate(spec, false); len(errs) > 0 {
		reason = fmt.Sprintf("%s: %s", name, errs[0].ErrorBody())
	}
	c.refused[name] = reason
	return reason
}

// validate validates a specification as the server does.
func validate(spec *policyv1alpha1.AuthorizationPolicySpec, isNamespaced bool) field.ErrorList {
	internal := &policyapi.AuthorizationPolicySpec{}
	if err := policyv1alpha1.Convert_v1alpha1_AuthorizationPolicySpec_To_policy_AuthorizationPolicySpec(spec, internal, nil); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	internal.Enforcement = policyapi.PolicyEnforcementEnforce
	return validation.ValidateSpec(internal, isNamespaced, nil)
}

func isName(name string) bool {
	return len(name) <= policyapi.MaxNameBytes && len(utilvalidation.IsDNS1123Subdomain(name)) == 0
}

const (
	// keptBytes is how much of a name that must be changed stays readable: a hash, and the number of a policy, follow.
	keptBytes = 40
	hashBytes = 8
)

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// key returns the name of a policy: the name of the binding, if a policy may have it, or one that is made from it.
func (c *converter) key(p *rbac.Permission, index int) engine.Key {
	key := p.Key()
	if index == 0 && isName(p.Name) {
		return key
	}
	kept := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(p.Name), "-"), "-")
	kept = strings.Trim(kept[:min(len(kept), keptBytes)], "-")
	for attempt := 0; ; attempt++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%s", index, attempt, p.Name))
		key.Name = strings.TrimPrefix(fmt.Sprintf("%s-%s", kept, hex.EncodeToString(sum[:])[:hashBytes]), "-")
		if !c.names[key] {
			c.names[key] = true
			return key
		}
	}
}
