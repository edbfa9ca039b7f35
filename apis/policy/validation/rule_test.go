/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/validation"
)

type rule = policy.PolicyRule

// ruleCase is a case in which the rule is changed.
func ruleCase(name string, change func(*rule), want ...string) specCase {
	return specCase{name, func(s *spec) { change(&s.Rules[0]) }, want}
}

func numbered(prefix string, n int) []string {
	var result []string
	for i := range n {
		result = append(result, fmt.Sprintf("%s%d", prefix, i))
	}
	return result
}

func TestValidateRules(t *testing.T) {
	t.Parallel()
	checkSpecs(t, []specCase{
		ruleCase("no verbs", func(r *rule) { r.Verbs = nil }, "spec.rules[0].verbs: Required"),
		ruleCase("an empty verb", func(r *rule) { r.Verbs = []string{"get", ""} }, "spec.rules[0].verbs[1]: Required"),
		ruleCase("every verb", func(r *rule) { r.Verbs = []string{"*"} }),
		ruleCase("every verb beside one", func(r *rule) { r.Verbs = []string{"get", "*"} }),
		ruleCase("the same verb twice", func(r *rule) { r.Verbs = []string{"get", "list", "get"} }, "spec.rules[0].verbs[2]: Duplicate"),
		ruleCase("a verb that nobody asks", func(r *rule) { r.Verbs = []string{"Create", "DELETE"} },
			`spec.rules[0].verbs[0]: Invalid value: "Create": must be in lower case`, "spec.rules[0].verbs[1]: Invalid"),
		ruleCase("verbs of others", func(r *rule) {
			r.Verbs = []string{"granular:nodeAssignment", "granular:label(mycompany.example.com)", "impersonate-on:user-info:list"}
		}),
		ruleCase("a verb with a space", func(r *rule) { r.Verbs = []string{"get "} }, "spec.rules[0].verbs[0]: Invalid"),
		ruleCase("too long a verb", func(r *rule) { r.Verbs = []string{strings.Repeat("x", 254)} }, "spec.rules[0].verbs[0]: Too long"),
		ruleCase("as many verbs as possible", func(r *rule) { r.Verbs = numbered("v", 64) }),
		ruleCase("too many verbs", func(r *rule) { r.Verbs = numbered("v", 65) }, "spec.rules[0].verbs: Too many: 65"),

		{"a Deny of update", func(s *spec) { s.Effect, s.Rules[0].Verbs = "Deny", []string{"get", "update"} }, []string{"spec.rules[0].verbs: Forbidden: must also have patch: a Deny of one"}},
		{"a Deny of patch", func(s *spec) { s.Effect, s.Rules[0].Verbs = "Deny", []string{"patch"} }, []string{"spec.rules[0].verbs: Forbidden: must also have update"}},
		{"a NoOpinion of patch", func(s *spec) { s.Effect, s.Rules[0].Verbs = "NoOpinion", []string{"patch"} }, nil},
		ruleCase("an Allow of update", func(r *rule) { r.Verbs = []string{"update"} }),
		ruleCase("neither resources nor paths", func(r *rule) { r.Resources = nil }, "spec.rules[0].resources: Required"),
		ruleCase("no groups", func(r *rule) { r.APIGroups = nil }, "spec.rules[0].apiGroups: Required"),
		ruleCase("groups", func(r *rule) { r.APIGroups = []string{"", "apps", "policy.proviso.dev", "*"} }),
		ruleCase("a version in a group", func(r *rule) { r.APIGroups = []string{"apps/v1"} }, `spec.rules[0].apiGroups[0]: Invalid value: "apps/v1": a group is written without its version: "apps" here, and "v1" in apiVersions`),
		ruleCase("a pattern of groups", func(r *rule) { r.APIGroups = []string{"*.example.com"} }, `spec.rules[0].apiGroups[0]: Invalid value: "*.example.com": names of groups have no wildcards`),
		ruleCase("the same group twice", func(r *rule) { r.APIGroups = []string{"", ""} }, "spec.rules[0].apiGroups[1]: Duplicate"),
		ruleCase("too many groups", func(r *rule) { r.APIGroups = numbered("g", 65) }, "spec.rules[0].apiGroups: Too many"),

		ruleCase("all versions", func(r *rule) { r.APIVersions = nil }),
		ruleCase("all versions, said so", func(r *rule) { r.APIVersions = []string{"*"} }),
		ruleCase("all versions beside one", func(r *rule) { r.APIVersions = []string{"v1", "*"} }, `spec.rules[0].apiVersions: Invalid value: "*": must not be listed with`),
		ruleCase("an empty version", func(r *rule) { r.APIVersions = []string{""} }, "spec.rules[0].apiVersions[0]: Required value: omit apiVersions"),
		ruleCase("a group in a version", func(r *rule) { r.APIVersions = []string{"apps/v1"} }, `spec.rules[0].apiVersions[0]: Invalid value: "apps/v1": a version is written without its group: "v1"`),
		ruleCase("the same version twice", func(r *rule) { r.APIVersions = []string{"v1", "v1beta1", "v1"} }, "spec.rules[0].apiVersions[2]: Duplicate"),
		ruleCase("too many versions", func(r *rule) { r.APIVersions = numbered("v", 65) }, "spec.rules[0].apiVersions: Too many"),

		ruleCase("names", func(r *rule) { r.ResourceNames = []string{"a", "system:node:x", "B"} }),
		ruleCase("an empty name", func(r *rule) { r.ResourceNames = []string{""} }, "spec.rules[0].resourceNames[0]: Required"),
		ruleCase("a wildcard for names", func(r *rule) { r.ResourceNames = []string{"*"} }, `spec.rules[0].resourceNames[0]: Invalid value: "*": names have no wildcard`),
		ruleCase("the same name twice", func(r *rule) { r.ResourceNames = []string{"a", "a"} }, "spec.rules[0].resourceNames[1]: Duplicate"),
		ruleCase("too long a name", func(r *rule) { r.ResourceNames = []string{strings.Repeat("x", 1025)} }, "spec.rules[0].resourceNames[0]: Too long"),
		ruleCase("as many names as possible", func(r *rule) { r.ResourceNames = numbered("n", 256) }),
		ruleCase("too many names", func(r *rule) { r.ResourceNames = numbered("n", 257) }, "spec.rules[0].resourceNames: Too many: 257"),
		ruleCase("no names, said so", func(r *rule) { r.ResourceNames = []string{} }),

		{"the second rule", func(s *spec) { s.Rules = append(s.Rules, rule{}) }, []string{"spec.rules[1].verbs: Required", "spec.rules[1].resources: Required"}},
	})
}

func TestValidateResources(t *testing.T) {
	t.Parallel()
	cases := []specCase{
		ruleCase("the same twice", func(r *rule) { r.Resources = []string{"pods", "pods"} }, "spec.rules[0].resources[1]: Duplicate"),
		ruleCase("everything beside one", func(r *rule) { r.Resources = []string{"pods", "*", "*/scale"} }),
		ruleCase("as many as possible", func(r *rule) { r.Resources = numbered("r", 64) }),
		ruleCase("too many", func(r *rule) { r.Resources = numbered("r", 65) }, "spec.rules[0].resources: Too many: 65"),
		ruleCase("a pattern", func(r *rule) { r.Resources = []string{"config*"} }, `spec.rules[0].resources[0]: Invalid value: "config*": names of resources have no wildcards: list the resources`),
		ruleCase("a kind", func(r *rule) { r.Resources = []string{"ConfigMap"} }, `spec.rules[0].resources[0]: Invalid value: "ConfigMap": must be in lower case: a resource is named as in URLs`),
		ruleCase("too long", func(r *rule) { r.Resources = []string{strings.Repeat("x", 254)} }, "spec.rules[0].resources[0]: Too long"),
	}
	for _, resource := range []string{"pods", "*", "pods/exec", "*/scale", "pods/ephemeralcontainers", "my-resources", "userextras/example.com/key", "userextras/a_b"} {
		cases = append(cases, ruleCase(resource, func(r *rule) { r.Resources = []string{resource} }))
	}
	for _, resource := range []string{"pods/*", "*/*", "a/b/c", "*/a/b", "Pods", "pods/Exec", "/exec", "pods/", "*/", "/", "**", "po*", " pods", "pods ", "userextras/*", "userextras/", "userextras/Key"} {
		cases = append(cases, ruleCase(resource+" is none", func(r *rule) { r.Resources = []string{resource} }, "spec.rules[0].resources[0]: Invalid"))
	}
	cases = append(cases, ruleCase("an empty one", func(r *rule) { r.Resources = []string{""} }, "spec.rules[0].resources[0]: Required"))
	checkSpecs(t, cases)
}

func TestValidatePaths(t *testing.T) {
	t.Parallel()
	const mixed = "Forbidden: a rule must have either resources or nonResourceURLs"
	for _, tc := range []struct {
		name string
		rule rule
		want []string
	}{
		{"paths", rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/healthz/*", "/", "*", "/*"}}, nil},
		{"an empty path", rule{Verbs: []string{"get"}, NonResourceURLs: []string{""}}, []string{"spec.rules[0].nonResourceURLs[0]: Required"}},
		{"no slash", rule{Verbs: []string{"get"}, NonResourceURLs: []string{"metrics"}}, []string{`spec.rules[0].nonResourceURLs[0]: Invalid value: "metrics": must start`}},
		{"a wildcard inside", rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/a/*/b", "/a**"}},
			[]string{"spec.rules[0].nonResourceURLs[0]: Invalid", "spec.rules[0].nonResourceURLs[1]: Invalid"}},
		{"a query", rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/a?b"}}, []string{"spec.rules[0].nonResourceURLs[0]: Invalid"}},
		{"the same twice", rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/a", "/a"}}, []string{"spec.rules[0].nonResourceURLs[1]: Duplicate"}},
		{"too long", rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/" + strings.Repeat("x", 1024)}}, []string{"spec.rules[0].nonResourceURLs[0]: Too long"}},
		{"too many", rule{Verbs: []string{"get"}, NonResourceURLs: numbered("/", 65)}, []string{"spec.rules[0].nonResourceURLs: Too many"}},
		{"with everything of resources", rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/a"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, ResourceNames: []string{"a"}},
			[]string{"spec.rules[0].apiGroups: " + mixed, "spec.rules[0].apiVersions: " + mixed, "spec.rules[0].resources: " + mixed, "spec.rules[0].resourceNames: " + mixed}},
		{"without verbs", rule{NonResourceURLs: []string{"/a"}}, []string{"spec.rules[0].verbs: Required"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := valid()
			s.Rules[0] = tc.rule
			check(t, "create", validation.ValidateClusterAuthorizationPolicy(clusterPolicy(meta{Name: "one"}, s, status{})), tc.want)
			check(t, "update", validation.ValidateClusterAuthorizationPolicyUpdate(clusterPolicy(stored(), s, status{}), clusterPolicy(stored(), valid(), status{})), tc.want)
		})
	}
	s := valid()
	s.Rules[0] = rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}
	check(t, "in a namespace", validation.ValidateAuthorizationPolicy(namespacedPolicy(meta{Name: "one"}, s, status{})), []string{"spec.rules[0].nonResourceURLs: Forbidden: paths have no namespace"})
}

// TestValidateNamelessVerbs has restrictions that would never bite. An Allow policy with
// one only grants less than it seems to, which is a matter of a warning.
func TestValidateNamelessVerbs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                    string
		verbs, resources, names []string
		want                    bool
	}{
		{"create", []string{"create"}, []string{"pods"}, []string{"a"}, true},
		{"deletecollection", []string{"get", "deletecollection"}, []string{"pods"}, []string{"a"}, true},
		{"every verb", []string{"*"}, []string{"pods"}, []string{"a"}, true},
		{"every resource", []string{"create"}, []string{"*"}, []string{"a"}, true},
		{"a subresource beside a resource", []string{"create"}, []string{"pods/exec", "pods"}, []string{"a"}, true},
		{"a subresource", []string{"create"}, []string{"pods/exec", "*/eviction"}, []string{"a"}, false},
		{"other verbs", []string{"get", "update", "patch", "delete"}, []string{"pods"}, []string{"a"}, false},
		{"no names", []string{"create"}, []string{"pods"}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, effect := range []policy.PolicyEffect{"Allow", "Deny", "NoOpinion"} {
				s := valid()
				s.Effect = effect
				s.Rules[0] = rule{Verbs: tc.verbs, APIGroups: []string{""}, Resources: tc.resources, ResourceNames: tc.names}
				if got := validation.NamelessVerb(&s.Rules[0]); got != tc.want {
					t.Errorf("NamelessVerb: got %v, want %v", got, tc.want)
				}
				var want []string
				if tc.want && effect != "Allow" {
					want = []string{"spec.rules[0].resourceNames: Forbidden: a create or deletecollection has no name"}
				}
				for what, got := range validateAll(s) {
					check(t, string(effect)+", "+what, got, want)
				}
			}
		})
	}
}
