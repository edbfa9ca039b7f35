/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
)

// impersonator may do what BenchmarkImpersonationReview asks about, by the legacy verb and
// thus by the longest way, but for the one permission for all groups, or all extra, at once.
const impersonator = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bench-impersonator}
rules:
- {apiGroups: [""], resources: [users, groups], verbs: [impersonate]}
- {apiGroups: [authentication.k8s.io], resources: ["userextras/example.com/key"], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench-impersonator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bench-impersonator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: impersonator}]
`

// BenchmarkImpersonationReview reviews by how many groups and values of extra there are to
// impersonate. One operation is one review over the network of this machine, by one client.
// Every check is a SubjectAccessReview to kube-apiserver.
func BenchmarkImpersonationReview(b *testing.B) {
	c := start(b)
	if _, err := c.Kubectl(b.Context(), impersonator, "apply", "-f", "-"); err != nil {
		b.Fatal(err)
	}
	client, err := versioned.NewForConfig(connect(b, c, "alice-direct"))
	if err != nil {
		b.Fatal(err)
	}
	reviews := client.AuthorizationV1alpha1().ImpersonationReviews()
	for _, n := range []struct{ groups, extra int }{{0, 0}, {1, 0}, {16, 0}, {128, 0}, {0, 1}, {0, 16}, {0, 128}} {
		b.Run(fmt.Sprintf("groups=%d/extra=%d", n.groups, n.extra), func(b *testing.B) {
			impersonate := authenticationv1.UserInfo{Username: "bob"}
			for i := range n.groups {
				impersonate.Groups = append(impersonate.Groups, fmt.Sprint(i))
			}
			for i := range n.extra {
				if i == 0 {
					impersonate.Extra = map[string]authenticationv1.ExtraValue{}
				}
				impersonate.Extra["example.com/key"] = append(impersonate.Extra["example.com/key"], fmt.Sprint(i))
			}
			checks := 0
			for b.Loop() {
				got, err := reviews.Create(b.Context(), &authorizationv1alpha1.ImpersonationReview{Spec: authorizationv1alpha1.ImpersonationReviewSpec{
					User: "impersonator", Impersonate: impersonate,
					ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "pods", Namespace: "demo"},
				}}, metav1.CreateOptions{})
				if err != nil || !got.Status.Allowed {
					b.Fatal(got, err)
				}
				checks = len(got.Status.Checks)
			}
			b.ReportMetric(float64(checks), "checks/review")
		})
	}
}
