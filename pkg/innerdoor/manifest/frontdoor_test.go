/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package manifest_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

// asked returns a function that says whether kube-apiserver calls the front door about a review. A condition that fails ends the
// test: the failure policy would decide.
func asked(t *testing.T, conditions []string) func(*authorizationv1.SubjectAccessReview) bool {
	t.Helper()
	compiler := authorizationcel.NewDefaultCompiler()
	matcher := &authorizationcel.CELMatcher{}
	for _, condition := range conditions {
		result, err := compiler.CompileCELExpression(&authorizationcel.SubjectAccessReviewMatchCondition{Expression: condition})
		if err != nil {
			t.Fatalf("%s: %v", condition, err)
		}
		// As kube-apiserver does: it leaves out selectors that no expression reads.
		matcher.CompilationResults = append(matcher.CompilationResults, result)
		matcher.UsesLabelSelector = matcher.UsesLabelSelector || result.UsesLabelSelector
		matcher.UsesFieldSelector = matcher.UsesFieldSelector || result.UsesFieldSelector
	}
	return func(review *authorizationv1.SubjectAccessReview) bool {
		matches, err := matcher.Eval(t.Context(), review)
		if err != nil {
			t.Fatalf("%+v: %v", review.Spec, err)
		}
		return matches
	}
}

// marked is a question of the manifest as kube-apiserver's webhook authorizer writes it.
func marked(change func(*authorizationv1.ResourceAttributes)) *authorizationv1.SubjectAccessReview {
	attributes := &authorizationv1.ResourceAttributes{
		Verb: "create", Version: "*", Resource: "pods", Namespace: "demo",
		LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: manifest.OtherAuthorizersKey, Operator: metav1.LabelSelectorOpExists}}},
	}
	change(attributes)
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "alice", Groups: []string{"system:authenticated"}, ResourceAttributes: attributes}}
}

// TestMarker has reviews about which the front door is not asked, and others that look like them: a client chooses the selectors of
// its requests, so that each of these must be asked about.
func TestMarker(t *testing.T) {
	t.Parallel()
	isAsked := asked(t, config().FrontDoorConditions())
	type attributes = authorizationv1.ResourceAttributes
	requirements := func(a *attributes, r ...metav1.LabelSelectorRequirement) { a.LabelSelector.Requirements = r }
	marker := metav1.LabelSelectorRequirement{Key: manifest.OtherAuthorizersKey, Operator: metav1.LabelSelectorOpExists}
	for _, tc := range []struct {
		name   string
		change func(*attributes)
		want   bool
	}{
		{name: "a question of the manifest", change: func(*attributes) {}},
		{name: "with an empty list of values", change: func(a *attributes) { a.LabelSelector.Requirements[0].Values = []string{} }},
		{name: "in a concrete version", change: func(a *attributes) { a.Version = "v1" }, want: true},
		{name: "without a version", change: func(a *attributes) { a.Version = "" }, want: true},
		{name: "without a selector", change: func(a *attributes) { a.LabelSelector = nil }, want: true},
		{name: "without requirements", change: func(a *attributes) { requirements(a) }, want: true},
		{name: "twice", change: func(a *attributes) { requirements(a, marker, marker) }, want: true},
		{name: "with another requirement", change: func(a *attributes) {
			requirements(a, marker, metav1.LabelSelectorRequirement{Key: "a", Operator: "Exists"})
		}, want: true},
		{name: "another key", change: func(a *attributes) { a.LabelSelector.Requirements[0].Key = "authorization.proviso.dev/othe" }, want: true},
		{name: "negated", change: func(a *attributes) { a.LabelSelector.Requirements[0].Operator = metav1.LabelSelectorOpDoesNotExist }, want: true},
		{name: "in", change: func(a *attributes) {
			requirements(a, metav1.LabelSelectorRequirement{Key: marker.Key, Operator: "In", Values: []string{"a"}})
		}, want: true},
		{name: "with values", change: func(a *attributes) { a.LabelSelector.Requirements[0].Values = []string{""} }, want: true},
		{name: "without an operator", change: func(a *attributes) { a.LabelSelector.Requirements[0].Operator = "" }, want: true},
		{name: "with the text of a selector", change: func(a *attributes) { a.LabelSelector.RawSelector = manifest.OtherAuthorizersKey }, want: true},
		{name: "with the text alone", change: func(a *attributes) {
			a.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: manifest.OtherAuthorizersKey}
		}, want: true},
		{name: "with a field selector", change: func(a *attributes) {
			a.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"a"}}}}
		}, want: true},
		{name: "with the text of a field selector", change: func(a *attributes) {
			a.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: "metadata.name=a"}
		}, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := isAsked(marked(tc.change)); got != tc.want {
				t.Errorf("asked: %t, want %t", got, tc.want)
			}
		})
	}
	path := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "alice", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/version", Verb: "get"}}}
	if !isAsked(path) {
		t.Error("the front door is not asked about a path")
	}
	quiet := config()
	quiet.AsksOthers = false
	if !asked(t, quiet.FrontDoorConditions())(marked(func(*attributes) {})) {
		t.Error("a manifest that asks no questions leaves out reviews that look like them")
	}
}

// TestArtifactsLeaveOutTheSame compares the identities that artifacts/front-door leaves out with those of the inner door: an identity that
// only one of them leaves out would be let through without a decision, or not let through at all.
func TestArtifactsLeaveOutTheSame(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "artifacts", "front-door", "authorization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	installed := &apiserverv1.AuthorizationConfiguration{}
	if err := yaml.UnmarshalStrict(content, installed); err != nil {
		t.Fatal(err)
	}
	var conditions []string
	for _, condition := range installed.Authorizers[0].Webhook.MatchConditions {
		conditions = append(conditions, condition.Expression)
	}
	byArtifacts, byManifest := asked(t, conditions), asked(t, config().FrontDoorConditions())
	defaults := manifest.DefaultIdentities("proviso-system")
	users := append([]string{"", "alice", "system:anonymous", "system:node:n", "system:serviceaccount:kube-system:default", "system:serviceaccount:proviso-system:default", "system:kube-scheduler2", `a" || "a" == "a`}, defaults.Users...)
	groups := append([]string{"", "system:authenticated", "system:masters", "system:serviceaccounts", "system:nodes2", "system:serviceaccounts:proviso-system"}, defaults.Groups...)
	left := 0
	for _, name := range users {
		for _, group := range groups {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: name}}
			if group != "" {
				review.Spec.Groups = []string{"system:authenticated", group}
			}
			want := byArtifacts(review)
			if got := byManifest(review); got != want {
				t.Errorf("%q in %q: asked %t by the manifest, %t by artifacts/front-door", name, group, got, want)
			}
			if !want {
				left++
			}
		}
	}
	if left == 0 {
		t.Error("artifacts/front-door leaves out none of the identities")
	}
}

// TestNamesAreQuoted has names of identities with characters that end a text in CEL.
func TestNamesAreQuoted(t *testing.T) {
	t.Parallel()
	names := []string{`"`, `'`, `\`, "\n", "\x00", "ä", "\u2028", `"] + [""`, `" in ["a"]) || true || ("`}
	c := config()
	c.Identities = manifest.Identities{Users: names}
	isAsked := asked(t, c.FrontDoorConditions())
	for _, name := range names {
		if isAsked(&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: name}}) {
			t.Errorf("%q is not left out", name)
		}
	}
	if !isAsked(&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "alice"}}) {
		t.Error("alice is left out")
	}
}

// TestLeavesOut compares what the server knows of the identities that are left out with the manifest and with the front door's
// conditions.
func TestLeavesOut(t *testing.T) {
	t.Parallel()
	own := config()
	own.Identities = manifest.Identities{Users: []string{"backup"}, Groups: []string{"robots", `"quoted"`}}
	for name, c := range map[string]manifest.Config{"defaults": config(), "own": own} {
		written, err := manifest.New(c)
		if err != nil {
			t.Fatal(err)
		}
		isAsked := asked(t, c.FrontDoorConditions())
		for _, who := range []string{"alice", "backup", "backup2", "system:kube-scheduler", "system:apiserver", "system:serviceaccount:proviso-system:proviso-apiserver"} {
			for _, groups := range [][]string{nil, {"system:authenticated"}, {"a", "robots"}, {`"quoted"`}, {"system:nodes"}, {"system:serviceaccounts:kube-system"}, {"system:masters"}} {
				left := c.LeavesOut(&user.DefaultInfo{Name: who, Groups: groups})
				r := request{operation: admission.Create, resource: claims, namespace: "demo", object: `{"metadata": {}}`, user: who, groups: groups}
				if called := len(calls(t, written, r, &others{t: t})) > 0; called == left {
					t.Errorf("%s: %s %q: left out %t, called %t", name, who, groups, left, called)
				}
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: who, Groups: groups}}
				isPrivileged := slices.Contains(groups, "system:masters") // about whom kube-apiserver asks no authorizer
				if got := isAsked(review); got == left && !isPrivileged {
					t.Errorf("%s: %s %q: left out %t, asked at the front door %t", name, who, groups, left, got)
				}
			}
		}
		if !c.LeavesOut(nil) {
			t.Errorf("%s: no user is not left out", name)
		}
	}
}
