/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	api "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// newChecker returns a checker for a server that enforces conditions on everything that it serves.
func newChecker(t *testing.T) *policy.Checker {
	t.Helper()
	return newCheckerOf(t, enforcementstatus.Server{FrontDoor: true, Coverage: func(authorizer.Attributes, []string) (enforced, folded sets.Set[string]) {
		return sets.New("create", "update", "patch", "delete", "get", "list"), nil
	}})
}

func newCheckerOf(t *testing.T, server enforcementstatus.Server) *policy.Checker {
	t.Helper()
	compiler := compilers.Policies(t)
	return policy.NewChecker(compiler, server, nil)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	checker := newChecker(t)
	pods := api.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"demo.proviso.dev"}, Resources: []string{"pods"}}
	versioned := pods
	versioned.APIVersions = []string{"v1"}
	exec := api.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"demo.proviso.dev"}, Resources: []string{"pods/exec"}}
	long := strings.Repeat("true&&", 1600) + "true"
	costly := "[" + strings.Repeat(`authorizer.path("/x").check("get").allowed(), `, 3) + "true] == object"
	paths := api.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}
	v := func(expressions ...string) []api.Variable {
		var result []api.Variable
		for i, e := range expressions {
			result = append(result, api.Variable{Name: fmt.Sprintf("v%d", i), Expression: e})
		}
		return result
	}
	const version = "apiVersions: Required value: the condition reads an object"
	for _, tc := range []struct {
		name         string
		effect       api.PolicyEffect
		rules        []api.PolicyRule
		variables    []api.Variable
		condition    string
		wantWarnings []string
		want         string // the beginning of the error
	}{
		{"no condition", api.PolicyEffectAllow, []api.PolicyRule{pods}, nil, "", nil, ""},
		{"a condition on the request", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("request.name"), `variables.v0 == "a"`, nil, ""},
		{"a condition on the object", api.PolicyEffectAllow, []api.PolicyRule{versioned, paths}, nil, `has(object.a)`, []string{"spec.rules[1] (get /metrics): conditions on objects are not evaluated for these requests to Proviso", "spec.rules[1] (get /metrics): conditions on objects are not evaluated for these requests to kube-apiserver"}, ""},
		{"without versions", api.PolicyEffectAllow, []api.PolicyRule{versioned, pods, versioned}, nil, `has(object.a)`, nil, "spec.rules[1]." + version},
		{"of the old object", api.PolicyEffectAllow, []api.PolicyRule{pods}, nil, `has(oldObject.a)`, nil, "spec.rules[0]." + version},
		{"in a variable", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("object", "has(variables.v0.a)"), `variables.v1`, nil, "spec.rules[0]." + version},
		{"a variable that nothing reads", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("object"), `true`, nil, ""},
		{"a mistake in the condition", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("object"), `variables.v0 &&`, nil, `spec.condition: Invalid value: "variables.v0 &&": expression does not compile: ERROR: <input>:1:16`},
		{"no bool", api.PolicyEffectAllow, []api.PolicyRule{pods}, nil, `"a"`, nil, `spec.condition: Invalid value: "\"a\"": expression does not compile: it must yield bool, but yields string`},
		{"an unknown variable", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("1"), `variables.v1 == 1`, nil, `spec.condition: Invalid`},
		{"a mistake in the first variable", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("object.", "1", "2"), `true`, nil, `spec.variables[0].expression: Invalid value: "object.": variable "v0": expression does not compile: ERROR: <input>:1:8`},
		{"a mistake in the last variable", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("1", "2", "object."), `true`, nil, `spec.variables[2].expression: Invalid`},
		{"variables that are too long together", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("1", long, long, long, "2"), `true`, nil, `spec.variables[3].expression: Invalid`},
		{"two mistakes", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("1", "a +", "b +", "2"), `c +`, nil, `spec.variables[1].expression: Invalid value: "a +"`},
		{"a Deny that reads the name of what has none", api.PolicyEffectDeny, []api.PolicyRule{pods}, nil, `request.name == "a"`, nil, `spec.condition: Forbidden: reads request.name, but spec.rules[0]`},
		{"a NoOpinion that does so in a variable", api.PolicyEffectNoOpinion, []api.PolicyRule{paths, pods}, v("request"), `variables.v0.name == "a"`, nil, `spec.condition: Forbidden: reads request.name, but spec.rules[1]`},
		{"a Deny that reads the name of a subresource's object", api.PolicyEffectDeny, []api.PolicyRule{exec}, nil, `request.name == "a"`, nil, ""},
		{"a Deny that reads something else", api.PolicyEffectDeny, []api.PolicyRule{pods}, nil, `request.namespace == "a"`, nil, ""},
		{"one that always costs too much", api.PolicyEffectAllow, []api.PolicyRule{versioned}, nil, costly, nil, `spec.condition: Forbidden: the authorization checks of each evaluation cost at least`},
		{"a variable that reads those after it", api.PolicyEffectAllow, []api.PolicyRule{pods}, v("variables.v1", "2"), `true`, nil, `spec.variables[0].expression: Invalid`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			warnings, errs := checker.Check(engine.Key{Name: "p"}, &api.AuthorizationPolicySpec{Effect: tc.effect, Rules: tc.rules, Variables: tc.variables, Condition: tc.condition})
			if len(warnings) != len(tc.wantWarnings) {
				t.Fatalf("got warnings %q, want %q", warnings, tc.wantWarnings)
			}
			for i := range warnings {
				if !strings.HasPrefix(warnings[i], tc.wantWarnings[i]) {
					t.Errorf("got warning %q, want %q", warnings[i], tc.wantWarnings[i])
				}
			}
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("got %v, want no error", errs)
			case tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)):
				t.Errorf("got  %v\nwant %s", errs, tc.want)
			}
		})
	}
}

// TestPolicyChecksForOthers has specifications of a namespace.
func TestPolicyChecksForOthers(t *testing.T) {
	t.Parallel()
	checker := newChecker(t)
	const others, own = `authorizer.serviceAccount("kube-system", "x").path("/").check("get").allowed()`, `authorizer.serviceAccount("n", "x").path("/").check("get").allowed()`
	v := func(expression string) []api.Variable { return []api.Variable{{Name: "v", Expression: expression}} }
	for _, tc := range []struct {
		name      string
		condition string
		variables []api.Variable
		want      bool
	}{
		{name: "no condition"},
		{name: "no check", condition: "true"},
		{name: "in the condition", condition: others, want: true},
		{name: "in a variable", condition: "variables.v", variables: v(others), want: true},
		{name: "of the own namespace", condition: own},
		{name: "of the own namespace in a variable", condition: "variables.v", variables: v(own)},
		{name: "a condition that does not compile", condition: `authorizer.serviceAccount(`, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := checker.ChecksForOthers(&api.AuthorizationPolicySpec{Condition: tc.condition, Variables: tc.variables}, "n"); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// TestCheckOfCost refuses a condition that makes more checks in every evaluation than the cost limit allows.
func TestCheckOfCost(t *testing.T) {
	t.Parallel()
	checker := newChecker(t)
	const check, refused = `authorizer.group("").resource("pods").check("get").allowed()`, "spec.condition: Forbidden: the authorization checks of each evaluation cost at least 1050000, where 1000000 is allowed"
	three := check + " == (" + check + " == " + check + ")"
	for _, tc := range []struct{ name, condition, want string }{
		{name: "no check", condition: `request.verb == "get"`},
		{name: "two checks", condition: check + " == " + check},
		{name: "three checks", condition: three, want: refused},
		{name: "three checks only if something is as it need not be", condition: `request.verb == "get" || ` + three},
		{name: "a check for each element of a list", condition: `request.userInfo.groups.exists(g, ` + three + `)`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pods := api.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}
			_, errs := checker.Check(engine.Key{Name: "p"}, &api.AuthorizationPolicySpec{Effect: api.PolicyEffectAllow, Rules: []api.PolicyRule{pods}, Condition: tc.condition})
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("got %v, want no error", errs)
			case tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)):
				t.Errorf("got  %v\nwant %s", errs, tc.want)
			}
		})
	}
}

// TestWarningsAboutEnforcement writes policies that this server enforces in part.
func TestWarningsAboutEnforcement(t *testing.T) {
	t.Parallel()
	pods := []api.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}, APIVersions: []string{"v1"}}}
	const reads = `object.a == 1`
	for _, tc := range []struct {
		name      string
		frontDoor bool
		effect    api.PolicyEffect
		condition string
		want      []string
	}{
		{"decided at the front door", true, api.PolicyEffectDeny, `request.name == "a" || true`, nil},
		{"no condition", true, api.PolicyEffectDeny, "", nil},
		{"no front door", false, api.PolicyEffectDeny, "", []string{"spec.rules[0] (create pods): the front door is disabled, so that only reviews show the policy"}},
		{"an Allow that is folded", true, api.PolicyEffectAllow, reads, []string{"spec.rules[0] (create pods): conditions on objects are not evaluated for these requests to kube-apiserver, so that the policy allows none of them, unless the request or its namespace makes the condition true"}},
		{"a Deny that is folded", true, api.PolicyEffectDeny, reads, []string{"spec.rules[0] (create pods): conditions on objects are not evaluated for these requests to kube-apiserver, so that the policy denies all of them, unless the request or its namespace makes the condition false"}},
		{"a NoOpinion that is folded", true, api.PolicyEffectNoOpinion, reads, []string{"spec.rules[0] (create pods): conditions on objects are not evaluated for these requests to kube-apiserver, so that no Allow policy allows any of them, unless the request or its namespace makes the condition false"}},
		{"a mistake", true, api.PolicyEffectDeny, `object.`, nil},
	} {
		rules := slices.Clone(pods)
		if strings.Contains(tc.condition, "request.name") {
			rules[0].Verbs = []string{"get"}
		}
		got, _ := newCheckerOf(t, enforcementstatus.Server{FrontDoor: tc.frontDoor}).Check(engine.Key{Name: "p"}, &api.AuthorizationPolicySpec{Effect: tc.effect, Rules: rules, Condition: tc.condition})
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}
