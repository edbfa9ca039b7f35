/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/standin"
)

// rulesSay is the answer of kube-apiserver's review of rules.
func rulesSay(evaluationError string, rules ...authorizationv1.ResourceRule) standin.Handler {
	return standin.To(func(review *authorizationv1.SelfSubjectRulesReview) any {
		review.Status = authorizationv1.SubjectRulesReviewStatus{
			ResourceRules: rules, NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}},
			Incomplete: evaluationError != "", EvaluationError: evaluationError,
		}
		return review
	})
}

// byAction answers reviews by "VERB RESOURCE", or "VERB RESOURCE/SUBRESOURCE"; others by otherwise.
func byAction(kube map[string]bool, proviso map[string]authorizationv1alpha1.SubjectAccessReviewStatus) standin.Answers {
	action := func(a *authorizationv1.ResourceAttributes) string {
		return strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/")
	}
	return standin.Answers{
		reviewOfKube: standin.Handler(func(r *http.Request, body []byte) any {
			return standin.To(func(review *authorizationv1.SelfSubjectAccessReview) any {
				return kubeSays(kube[action(review.Spec.ResourceAttributes)], "")(r, body)
			})(r, body)
		}),
		reviewOfProviso: standin.To(func(review *authorizationv1alpha1.SelfSubjectAccessReview) any {
			review.Status = proviso[action(review.Spec.ResourceAttributes)]
			return review
		}),
	}
}

// How the warnings of a list begin.
const (
	manyMore   = "Warning: policies can also depend on names, and on URLs that are no resources: check single actions\n"
	incomplete = "Warning: the list may be incomplete: "
)

const rulesOfPods = "Resources   Non-Resource URLs   Resource Names   Verbs\n            [/healthz]          []               [get]\npods        []                  []               [create get]\n"

// TestList lists what kube-apiserver allows, and what policies change.
func TestList(t *testing.T) {
	t.Parallel()
	pods := authorizationv1.ResourceRule{Verbs: []string{"create", "get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	onX := onCondition("Allow", `object.x == "a"`)
	no := authorizationv1alpha1.SubjectAccessReviewStatus{Reason: "policy p"}
	both := map[string]bool{"create pods": true, "get pods": true}
	without := func(others standin.Answers, keys ...string) standin.Answers {
		for _, key := range keys {
			others[key] = nil
		}
		return others
	}
	const changes = "\nRESOURCE   VERBS   ANSWER   EFFECT   CONDITION   POLICY   DESCRIPTION\n"
	for _, tc := range []struct {
		name    string
		args    string
		rules   any
		answers standin.Answers
		want    printed
	}{
		{"no changes", "", rulesSay("", pods), byAction(both, map[string]authorizationv1alpha1.SubjectAccessReviewStatus{"create pods": allowed, "get pods": allowed}), printed{0, rulesOfPods, []string{manyMore}}},
		{
			"a refusal", "", rulesSay("", pods), byAction(both, map[string]authorizationv1alpha1.SubjectAccessReviewStatus{"create pods": no, "get pods": allowed}),
			printed{0, rulesOfPods + strings.Replace(changes, "VERBS   ", "VERBS      ", 1) + "pods       [create]   no       -        -           -        policy p\n", []string{manyMore}},
		},
		{
			"two refusals of one resource", "--no-headers", rulesSay("", pods), byAction(both, map[string]authorizationv1alpha1.SubjectAccessReviewStatus{"create pods": no, "get pods": no}),
			printed{0, "       [/healthz]   []    [get]\npods   []           []    [create get]\n\npods   [create get]   no    -     -     -     policy p\n", []string{manyMore}},
		},
		{
			"conditions", "--no-headers -n n", rulesSay(""), byAction(map[string]bool{"create virtualmachines": true}, map[string]authorizationv1alpha1.SubjectAccessReviewStatus{"create virtualmachines": onX}),
			printed{0, "      [/healthz]   []    [get]\n\nvirtualmachines.demo.proviso.dev   [create]   yes, if   Allow   x is a   p     -\n", []string{manyMore}},
		},
		{
			"conditions that no server evaluates", "--no-headers", rulesSay(""), byAction(nil, map[string]authorizationv1alpha1.SubjectAccessReviewStatus{"create pods": onX, "get pods/log": onX}),
			printed{0, "      [/healthz]   []    [get]\n", []string{manyMore, "Warning: policies of Proviso have conditions about these actions, but kube-apiserver refuses them before any server evaluates the conditions: create pods, get pods/log\n"}},
		},
		{
			"an action that a policy allows beside the rules", "--no-headers", rulesSay(""), byAction(map[string]bool{"create namespaces": true}, map[string]authorizationv1alpha1.SubjectAccessReviewStatus{"create namespaces": allowed}),
			printed{0, "      [/healthz]   []    [get]\n\nnamespaces   [create]   yes   -     -     -     -\n", []string{manyMore}},
		},
		{"an action that only Proviso allows", "--no-headers", rulesSay(""), byAction(nil, map[string]authorizationv1alpha1.SubjectAccessReviewStatus{"create namespaces": allowed}), printed{0, "      [/healthz]   []    [get]\n", []string{manyMore}}},
		{"rules that may be incomplete", "--no-headers", rulesSay("a webhook \u202e"), byAction(nil, nil), printed{0, "      [/healthz]   []    [get]\n", []string{incomplete + "a webhook \\u202e\n", manyMore}}},
		{"no Proviso", "", rulesSay("", pods), without(byAction(nil, nil), "GET /apis/authorization.proviso.dev/v1alpha1"), printed{0, rulesOfPods, []string{withoutProviso}}},
		{"a group that does not answer", "--no-headers", rulesSay(""), without(byAction(nil, nil), "GET /apis/demo.proviso.dev/v1alpha1"), printed{0, "      [/healthz]   []    [get]\n", []string{manyMore, incomplete}}},
		{"no review of rules", "", nil, byAction(nil, nil), printed{2, "", []string{"error: the server could not find the requested resource\n"}}},
		{"discovery of Proviso fails", "--no-headers", rulesSay(""), standin.Answers{"GET /apis/authorization.proviso.dev/v1alpha1": errEtcd}, printed{2, "      [/healthz]   []    [get]\n", []string{"error: Internal error occurred: etcd\n"}}},
		{"a question fails", "--no-headers", rulesSay(""), standin.Answers{reviewOfProviso: errEtcd}, printed{2, "      [/healthz]   []    [get]\n", []string{manyMore, "error: may I "}}},
		{"a question is not answered", "--no-headers", rulesSay(""), standin.Answers{reviewOfProviso: nil}, printed{2, "      [/healthz]   []    [get]\n", []string{manyMore, "error: may I "}}},
		{"discovery fails", "--no-headers", rulesSay(""), standin.Answers{"GET /apis": errEtcd, "GET /api": errEtcd, reviewOfProviso: provisoSays(allowed)}, printed{2, "      [/healthz]   []    [get]\n", []string{manyMore, "error: "}}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			answers := standin.Answers{reviewOfRules: tc.rules}
			maps.Copy(answers, tc.answers)
			tc.want.check(t, answers, "", append([]string{"--list"}, strings.Fields(tc.args)...)...)
		})
	}
}

// TestListOfVersions asks about each resource in the preferred version of its group, once, and in another version if only that one has it.
func TestListOfVersions(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	resource := func(name string) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: "K", Namespaced: true, Verbs: []string{"create"}}
	}
	answers := standin.Discovery(
		metav1.APIResourceList{GroupVersion: "g/v2", APIResources: []metav1.APIResource{resource("a")}},
		metav1.APIResourceList{GroupVersion: "g/v1", APIResources: []metav1.APIResource{resource("a"), resource("b")}},
		reviewsOfProviso,
	)
	answers[reviewOfRules], answers[reviewOfKube] = rulesSay(""), kubeSays(false, "")
	answers[reviewOfProviso] = standin.To(func(review *authorizationv1alpha1.SelfSubjectAccessReview) any {
		asked <- review.Spec.ResourceAttributes.Version + " " + review.Spec.ResourceAttributes.Resource
		return review
	})
	printed{0, "      [/healthz]   []    [get]\n", []string{manyMore}}.check(t, answers, "", "--list", "--no-headers")
	close(asked)
	got := map[string]int{}
	for question := range asked {
		got[question]++
	}
	if want := map[string]int{"v2 a": 1, "v1 b": 1}; !maps.Equal(want, got) {
		t.Errorf("asked %v, want %v", got, want)
	}
}
