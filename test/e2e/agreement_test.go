/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
)

const agreementRBAC = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agreement}
rules:
- {apiGroups: [""], resources: [pods, pods/log], verbs: [get, list]}
- {apiGroups: [""], resources: [pods/exec], verbs: [create]}
- {apiGroups: [""], resources: [configmaps], resourceNames: [one, two], verbs: [get, update]}
- {apiGroups: [apps], resources: ["*"], verbs: [get]}
- {apiGroups: ["*"], resources: ["*/scale"], verbs: [update]}
- {apiGroups: [demo.proviso.dev], resources: [virtualmachines], verbs: ["*"]}
- {nonResourceURLs: [/metrics, /logs/*], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agreement}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agreement}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "team:blue"}
- {kind: ServiceAccount, name: robot, namespace: demo}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: agreement-view, namespace: demo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agreement}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: erik}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agreement-dangling}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: does-not-exist}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: frida}]
`

// subjects and reviews make the table of TestAgreement: each of the one about each of
// the other.
func subjects() map[string]authorizationv1.SubjectAccessReviewSpec {
	return map[string]authorizationv1.SubjectAccessReviewSpec{
		"a user":               {User: "dora"},
		"a user of one group":  {User: "somebody", Groups: []string{"team:blue", "system:authenticated"}},
		"a group":              {Groups: []string{"team:blue"}},
		"a user in namespaces": {User: "erik", UID: "17", Groups: []string{"system:authenticated"}},
		"a user with extras":   {User: "dora", Extra: map[string]authorizationv1.ExtraValue{"example.com/scope": {"a", "b"}, "authorization.proviso.dev/delegated": {"forged"}}},
		"a binding to nothing": {User: "frida"},
		"a service account":    {User: "system:serviceaccount:demo:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:demo"}},
		"a node":               {User: "system:node:n1", Groups: []string{"system:nodes"}},
		"an administrator":     {User: "root", Groups: []string{"system:masters"}},
		"anonymous":            {User: "system:anonymous", Groups: []string{"system:unauthenticated"}},
		"a hostile name":       {User: `dora" || "a" == "a`, Groups: []string{"x\ny"}},
	}
}

func reviewSpecs() map[string]authorizationv1.SubjectAccessReviewSpec {
	resource := func(a authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
		return authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &a}
	}
	path := func(verb, path string) authorizationv1.SubjectAccessReviewSpec {
		return authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path}}
	}
	return map[string]authorizationv1.SubjectAccessReviewSpec{
		"get pods":              resource(authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "demo", Name: "p"}),
		"list pods everywhere":  resource(authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}),
		"list with selectors":   resource(authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "spec.nodeName=n1"}, LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "NotIn", Values: []string{"b"}}}}}),
		"a bad selector":        resource(authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "a in ("}}),
		"delete pods":           resource(authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods", Namespace: "demo"}),
		"get pods/log":          resource(authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "demo", Name: "p"}),
		"create pods/exec":      resource(authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: "other", Name: "p"}),
		"get pods/exec":         resource(authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Subresource: "exec", Namespace: "demo", Name: "p"}),
		"a named config map":    resource(authorizationv1.ResourceAttributes{Verb: "update", Resource: "configmaps", Namespace: "demo", Name: "one"}),
		"another config map":    resource(authorizationv1.ResourceAttributes{Verb: "update", Resource: "configmaps", Namespace: "demo", Name: "three"}),
		"any config map":        resource(authorizationv1.ResourceAttributes{Verb: "update", Resource: "configmaps", Namespace: "demo"}),
		"get deployments":       resource(authorizationv1.ResourceAttributes{Verb: "get", Group: "apps", Version: "v1", Resource: "deployments"}),
		"get any of apps":       resource(authorizationv1.ResourceAttributes{Verb: "get", Group: "apps", Version: "*", Resource: "*"}),
		"scale of anything":     resource(authorizationv1.ResourceAttributes{Verb: "update", Group: "example.com", Resource: "things", Subresource: "scale"}),
		"machines":              resource(authorizationv1.ResourceAttributes{Verb: "patch", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo", Name: "one"}),
		"all verbs on machines": resource(authorizationv1.ResourceAttributes{Verb: "*", Group: "demo.proviso.dev", Resource: "virtualmachines"}),
		"everything":            resource(authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Version: "*", Resource: "*"}),
		"nothing in particular": resource(authorizationv1.ResourceAttributes{}),
		"create reviews":        resource(authorizationv1.ResourceAttributes{Verb: "create", Group: "authorization.k8s.io", Version: "v1alpha1", Resource: "selfsubjectaccessreviews"}),
		"impersonation":         resource(authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: "dora"}),
		"constrained":           resource(authorizationv1.ResourceAttributes{Verb: "impersonate-on:user-info:list", Resource: "pods"}),
		"a verb of one's own":   resource(authorizationv1.ResourceAttributes{Verb: "use", Group: "policy", Resource: "podsecuritypolicies", Name: "restricted"}),
		"a node":                resource(authorizationv1.ResourceAttributes{Verb: "update", Resource: "nodes", Subresource: "status", Name: "n1"}),
		"a secret":              resource(authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: "demo", Name: "s"}),
		"get /metrics":          path("get", "/metrics"),
		"get /metrics/":         path("get", "/metrics/"),
		"get below /logs":       path("get", "/logs/a/b"),
		"post /metrics":         path("post", "/metrics"),
		"get /healthz":          path("get", "/healthz"),
		"delete /healthz":       path("delete", "/healthz"),
		"get /version":          path("get", "/version"),
		"no path":               path("get", ""),
	}
}

// TestAgreement sends Proviso and kube-apiserver the same reviews. With no policy in the
// way the answers must be the same.
func TestAgreement(t *testing.T) {
	t.Parallel()
	if _, errs, err := kubectlWithInput(t, "admin", agreementRBAC, "apply", "-f", "-"); err != nil {
		t.Fatal(errs)
	}
	kube, proviso := clients(t, "admin")
	var (
		mu      sync.Mutex
		group   sync.WaitGroup
		answers = map[string]int{}
		limit   = make(chan struct{}, 16)
	)
	for who, subject := range subjects() {
		for what, asked := range reviewSpecs() {
			spec := subject
			spec.ResourceAttributes, spec.NonResourceAttributes = asked.ResourceAttributes, asked.NonResourceAttributes
			group.Go(func() {
				limit <- struct{}{}
				defer func() { <-limit }()
				want, err := kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("%s, %s: kube-apiserver: %v", who, what, err)
					return
				}
				got, err := proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
					User: spec.User, Groups: spec.Groups, UID: spec.UID, Extra: spec.Extra,
					ResourceAttributes: spec.ResourceAttributes, NonResourceAttributes: spec.NonResourceAttributes,
				}}, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("%s, %s: Proviso: %v", who, what, err)
					return
				}
				// Which of several bindings allows is a matter of chance in RBAC itself.
				sameReason := want.Status.Allowed || strings.Contains(got.Status.Reason, want.Status.Reason)
				if got.Status.Allowed != want.Status.Allowed || got.Status.Denied != want.Status.Denied || !sameReason {
					t.Errorf("%s, %s: Proviso says %+v, kube-apiserver %+v", who, what, got.Status, want.Status)
				}
				mu.Lock()
				answers[fmt.Sprintf("allowed %v", want.Status.Allowed)]++
				mu.Unlock()
			})
		}
	}
	group.Wait()
	t.Logf("compared: %v", answers)
	if answers["allowed true"] < 50 || answers["allowed false"] < 50 || answers["allowed true"]+answers["allowed false"] < 200 {
		t.Errorf("the table is too small or one-sided: %v", answers)
	}
}
