/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// TestKubectlWhoCan runs the plugin by kubectl, and compares what it prints.
func TestKubectlWhoCan(t *testing.T) {
	applyForTest(t, strings.ReplaceAll(plane.TestData(t, "plugin.yaml"), "plugin", "shared")) // the namespace plugin may still be being deleted
	printed := transcript(t, "who-can")
	golden.Compare(t, filepath.Join("testdata", "who-can.golden.txt"), printed)
	checkDocument(t, "admin", "who-can", printed)
	t.Run("with a part of the permissions", func(t *testing.T) {
		applyForTest(t, plane.TestData(t, "who-can-reader.yaml"))
		out, errOut, code := plugin(t, "agent", "", "who-can", "get", "virtualmachines", "-n", "shared", "-o", "json")
		list := whoCan{}
		if err := json.Unmarshal([]byte(out), &list); err != nil || code != 1 || list.Complete || len(list.Gaps) < 3 || !strings.Contains(errOut, "the list may be incomplete") {
			t.Errorf("got %d %s%s, %v", code, out, errOut, err)
		}
		for _, want := range []string{"Roles cannot be listed", "policies cannot be listed", `the Role "viewer", or its rules, are missing`} {
			if !strings.Contains(errOut, want) {
				t.Errorf("got %s, want %s", errOut, want)
			}
		}
	})
}

// whoCan is the JSON of who-can.
type whoCan struct {
	Complete bool
	Gaps     []string
	Subjects []whoCanSubject
}

type whoCanSubject struct {
	Kind, Namespace, Name, Answer string
	Parts                         []struct{ Condition, Words string }
}

func (w *whoCan) has(kind, namespace, name string) bool {
	return slices.ContainsFunc(w.Subjects, func(s whoCanSubject) bool {
		return s.Kind == kind && s.Namespace == namespace && s.Name == name && s.Answer == "yes"
	})
}

// TestKubectlWhoCanNarrower makes the requests that the list says: without what it takes they are refused, and with it they pass.
func TestKubectlWhoCanNarrower(t *testing.T) {
	applyForTest(t, plane.TestData(t, "narrow.yaml"))
	var rows []struct{ Question, User, Want, Without, With string }
	plane.ReadYAML(t, "narrower.yaml", &rows)
	for _, tc := range rows {
		out, errOut, code := plugin(t, "admin", "", append([]string{"who-can", "-o", "json"}, strings.Fields(tc.Question)...)...)
		list := whoCan{}
		if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || !list.Complete {
			t.Fatalf("%s: %d %s, %v", tc.Question, code, errOut, err)
		}
		got := ""
		for _, s := range list.Subjects {
			for _, part := range s.Parts { // users may have permissions in the namespaces of other tests, too
				if found := s.Answer + " " + cmp.Or(part.Words, part.Condition); s.Kind == "User" && s.Name == tc.User && (got == "" || found == tc.Want) {
					got = found
				}
			}
		}
		if got != tc.Want {
			t.Errorf("%s: %s: got %q, want %q", tc.Question, tc.User, got, tc.Want)
		}
		if tc.Without != "" {
			if _, errs, err := kubectl(t, tc.User, strings.Fields(tc.Without)...); err == nil || !strings.Contains(errs, "forbidden") {
				t.Errorf("%s: %s passes: %v %s", tc.User, tc.Without, err, errs)
			}
		}
		if tc.With != "" {
			if _, errs, err := kubectl(t, tc.User, strings.Fields(tc.With)...); err != nil {
				t.Errorf("%s: %s is refused: %s", tc.User, tc.With, errs)
			}
		}
	}
}

// TestKubectlWhoCanAgrees compares lists with the answers of kube-apiserver for random roles.
func TestKubectlWhoCanAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(pluginSeed, 3))
	subjects := []string{"{kind: User, name: wc-a}", "{kind: User, name: wc-b}", "{kind: Group, name: wc-devs}", "{kind: Group, name: 'system:serviceaccounts:wc-blue'}", "{kind: ServiceAccount, name: robot, namespace: wc-blue}"}
	manifest := "{apiVersion: v1, kind: Namespace, metadata: {name: wc-blue}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: wc-red}}\n"
	verbs, resources := []string{"get", "list", "create", "update", "bind", "*"}, []string{"configmaps", "secrets", "pods", "pods/log", "deployments", "deployments/scale", "*/scale", "*"}
	for i := range 24 {
		kind, namespace := "Role", ", namespace: "+pick(r, "wc-blue", "wc-red")
		if i%4 == 0 {
			kind, namespace = "ClusterRole", ""
		}
		names := pick(r, "", "", ", resourceNames: [a]")
		manifest += fmt.Sprintf(`---
{apiVersion: rbac.authorization.k8s.io/v1, kind: %[1]s, metadata: {name: wc-%[2]d%[3]s}, rules: [{apiGroups: ["", apps], resources: %[4]s, verbs: %[5]s%[6]s}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: %[1]sBinding, metadata: {name: wc-%[2]d%[3]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: wc-%[2]d}, subjects: [%[7]s]}
`, kind, i, namespace, someOf(r, resources[:7-r.IntN(2)]...), someOf(r, verbs[:5]...), names, pick(r, subjects...))
	}
	applyForTest(t, manifest)
	time.Sleep(time.Second) // until the authorizer of kube-apiserver has the roles
	kube, _ := clients(t, "admin")
	users := []struct {
		kind, namespace, name string
		user                  string
		groups                []string
	}{
		{"User", "", "wc-a", "wc-a", []string{"system:authenticated"}},
		{"User", "", "wc-b", "wc-b", []string{"system:authenticated"}},
		{"Group", "", "wc-devs", "wc-member", []string{"wc-devs", "system:authenticated"}},
		{"ServiceAccount", "wc-blue", "robot", "system:serviceaccount:wc-blue:robot", []string{"system:serviceaccounts", "system:serviceaccounts:wc-blue", "system:authenticated"}},
		{"Group", "", "system:masters", "wc-root", []string{"system:masters", "system:authenticated"}},
	}
	answers := map[bool]int{}
	for range 80 {
		attributes := &authorizationv1.ResourceAttributes{Verb: pick(r, verbs...), Namespace: pick(r, "wc-blue", "wc-red", ""), Name: pick(r, "", "a", "b"), Version: "v1"}
		resource := pick(r, resources[:6]...)
		attributes.Resource, attributes.Subresource, _ = strings.Cut(resource, "/")
		if attributes.Resource == "deployments" {
			attributes.Group = "apps"
		}
		args := []string{"who-can", attributes.Verb, strings.TrimSuffix(attributes.Resource+"."+attributes.Group, ".") + "/" + attributes.Name, "--subresource=" + attributes.Subresource, "-o", "json", "-n", attributes.Namespace}
		if attributes.Namespace == "" {
			args[len(args)-2], args = "-A", args[:len(args)-1]
		}
		out, errOut, code := plugin(t, "admin", "", args...)
		list := whoCan{}
		if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || !list.Complete {
			t.Fatalf("%v: %d %s%s, %v", args, code, out, errOut, err)
		}
		for _, u := range users {
			review, err := kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: u.user, Groups: u.groups, ResourceAttributes: attributes},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := list.has(u.kind, u.namespace, u.name) || u.kind == "ServiceAccount" && list.has("Group", "", "system:serviceaccounts:wc-blue")
			if answers[got]++; got != review.Status.Allowed {
				t.Errorf("%v: %s: got %v, want %v (%s)", args, u.name, got, review.Status.Allowed, review.Status.Reason)
			}
		}
	}
	if t.Logf("answers: %v", answers); answers[true] < 80 || answers[false] < 80 {
		t.Errorf("too few different answers: %v", answers)
	}
}
