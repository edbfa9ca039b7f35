/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"os"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
)

// reviewPolicies let carol evaluate what others may only evaluate unconditionally, and keep
// bob, who may ask by RBAC, from asking about one group.
const reviewPolicies = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: e2e-reviews-evaluate}
spec:
  description: carol evaluates creations only
  effect: Allow
  subjects: [{kind: User, name: carol}]
  rules:
  - {verbs: [create], apiGroups: [authorization.k8s.io], apiVersions: [v1alpha1], resources: [authorizationconditionsreviews]}
  condition: object.request.operation == "CREATE"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: e2e-reviews-secret}
spec:
  description: bob does not ask about the secret group
  effect: Deny
  subjects: [{kind: User, name: bob}]
  rules:
  - {verbs: [create], apiGroups: [authorization.k8s.io], apiVersions: [v1alpha1], resources: [subjectaccessreviews, localsubjectaccessreviews]}
  condition: '"e2e:secret" in object.spec.?groups.orValue([])'
`

// TestReviewsAboutCertainUsers applies the policy of the example for carol, and asks: in
// reviews, which are never stored, conditions hold like in everything else. It is not
// parallel: whoever asks whether bob may create reviews gets a folded answer meanwhile.
func TestReviewsAboutCertainUsers(t *testing.T) {
	example, err := os.ReadFile(useCaseFile("reviews-about-certain-users", "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	applyPolicy(t, "e2e-reviews", strings.NewReplacer("alice-reviews", "carol", "alice-team-reviews", "e2e-reviews").Replace(string(example)))
	for _, policy := range strings.Split(reviewPolicies, "---\n") {
		_, name, _ := strings.Cut(policy, "{name: ")
		name, _, _ = strings.Cut(name, "}")
		applyPolicy(t, name, policy)
	}
	const team, asksAboutTeam = "system:serviceaccount:demo:ci", `policy=e2e-reviews reason=NotMet: carol asks about the service accounts of the namespace demo only`
	for _, tc := range []struct {
		name, as, user string
		groups         []string
		kubectl        bool
		local          bool
		dryRun         bool
		want           string // what a refusal says
	}{
		{name: "about the team", as: "carol", user: team},
		{name: "about the team, with its groups", as: "carol", user: team, groups: []string{"system:authenticated", "system:serviceaccounts"}},
		{name: "about the team, with kubectl", as: "carol", user: team, kubectl: true},
		{name: "about the team, as a rehearsal", as: "carol", user: team, dryRun: true},
		{name: "about the team with the groups of others", as: "carol", user: team, groups: []string{"operators"}, want: asksAboutTeam},
		{name: "about somebody", as: "carol", user: "bob", want: asksAboutTeam},
		{name: "about somebody, with kubectl", as: "carol", user: "bob", kubectl: true, want: asksAboutTeam},
		{name: "about somebody, as a rehearsal", as: "carol", user: "bob", dryRun: true, want: asksAboutTeam},
		{name: "about a group", as: "carol", groups: []string{"system:authenticated"}, want: "policy=e2e-reviews reason=Error: carol asks about the service accounts of the namespace demo only: its condition could not be evaluated: no such key"},
		{name: "about the team in another resource", as: "carol", user: team, local: true, want: `cannot create resource "localsubjectaccessreviews"`},
		{name: "by RBAC", as: "alice", user: "bob"},
		{name: "by RBAC, and not denied", as: "bob", user: "alice", groups: []string{"operators"}},
		{name: "by RBAC, and denied", as: "bob", user: "alice", groups: []string{"e2e:secret"}, want: `policy=e2e-reviews-secret reason=Denied: bob does not ask about the secret group`},
		{name: "by RBAC, and denied in another resource", as: "bob", user: "alice", groups: []string{"e2e:secret"}, local: true, want: "bob does not ask about the secret group"},
	} {
		for _, route := range routes {
			t.Run(route.name+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				as := tc.as + route.suffix
				review := &authorizationv1alpha1.SubjectAccessReview{
					TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1alpha1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
					Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
						User: tc.user, Groups: tc.groups,
						ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "pods", Namespace: "demo"},
					},
				}
				options := metav1.CreateOptions{}
				if tc.dryRun {
					options.DryRun = []string{metav1.DryRunAll}
				}
				_, proviso := clients(t, as)
				message, err := "", error(nil)
				switch {
				case tc.kubectl:
					_, message, err = kubectlWithInput(t, as, string(mustJSON(review)), "create", "-f", "-")
				case tc.local:
					_, err = proviso.AuthorizationV1alpha1().LocalSubjectAccessReviews("demo").Create(t.Context(), &authorizationv1alpha1.LocalSubjectAccessReview{
						ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}, Spec: review.Spec,
					}, options)
				default:
					_, err = proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), review, options)
				}
				if err != nil && message == "" {
					message = err.Error()
				}
				if (err != nil) != (tc.want != "") || !strings.Contains(message, tc.want) || err != nil && !strings.Contains(strings.ToLower(message), "forbidden") {
					t.Errorf("got %v: %s; want %q", err, message, tc.want)
				}
			})
		}
	}
	for _, route := range routes {
		t.Run(route.name+"/evaluations are never allowed on conditions", func(t *testing.T) {
			t.Parallel()
			_, proviso := clients(t, "carol"+route.suffix)
			_, err := proviso.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), conditionsReview(nil, "dev"), metav1.CreateOptions{})
			if err == nil || !strings.Contains(err.Error(), "policy=e2e-reviews-evaluate reason=Error: carol evaluates creations only: its condition cannot be evaluated") {
				t.Errorf("got %v, want a refusal that names the policy", err)
			}
		})
	}
	t.Run("kube-apiserver's own reviews are not allowed on conditions", func(t *testing.T) {
		t.Parallel()
		kube, _ := clients(t, "carol")
		_, err := kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: team, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "pods", Namespace: "demo"},
		}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "policy=e2e-reviews reason=Error: carol asks") {
			t.Errorf("got %v, want a refusal that names the policy", err)
		}
	})
}
