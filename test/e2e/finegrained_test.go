/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
)

// TestFineGrained is both stories of KEP-3617 on machines, with roles of RBAC, at a replica
// whose gate is on: an operator that may touch what has its prefix only, and a field that
// even those who write machines may not set to true.
func TestFineGrained(t *testing.T) {
	t.Parallel()
	url, stop, err := stack.Replica(t.Context(), "--feature-gates=FineGrainedAuthorization=true")
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	as := func(user string) versioned.Interface {
		c := config(t, "admin-direct")
		c.Host, c.CAFile = url, stack.CAFile()
		if user != "admin" {
			c.Impersonate = rest.ImpersonationConfig{UserName: user}
		}
		result, err := versioned.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	safe := []string{"granular", "granular:label(super.safe.com)", "granular:annotation(super.safe.com)", "granular:finalizer(super.safe.com)", "granular:condition(SuperSafe)"}
	grantMachines(t, "e2e-supersafe", safe...)
	grantMachines(t, "e2e-writer", "create", "update", "patch", "granular", "granular:specification")
	grantMachines(t, "e2e-tagger", "granular", "granular:tag(blue)", "granular:disk(data)")
	grantMachines(t, "e2e-owner", "create", "update", "patch", "granular:adminDevices")
	admin := as("admin")
	if err := makeMachine(t, admin, "e2e-fields", "dev"); err != nil {
		t.Fatal(err)
	}
	exclude := &policyv1alpha1.FieldPermissionMapping{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-admin-access"},
		Spec: policyv1alpha1.FieldPermissionMappingSpec{
			Resources: []policyv1alpha1.FieldPermissionResource{{APIGroup: "demo.proviso.dev", Resource: "virtualmachines"}},
			Fields:    []policyv1alpha1.FieldPermission{{Path: "spec.adminAccess", Permission: "adminDevices", Exclusion: &policyv1alpha1.FieldExclusion{NewValues: "value == true"}}},
		},
	}
	if _, err := admin.PolicyV1alpha1().FieldPermissionMappings().Create(t.Context(), exclude, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.PolicyV1alpha1().FieldPermissionMappings().Delete(context.Background(), exclude.Name, metav1.DeleteOptions{})
	})
	const (
		merge = types.MergePatchType
		json  = types.JSONPatchType
		apply = types.ApplyPatchType
		head  = `"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine"`
	)
	for _, tc := range []struct {
		name, user  string
		patch       types.PatchType
		body        string
		subresource string
		want        string // "" if it is allowed
	}{
		{"a label", "e2e-supersafe", merge, `{"metadata":{"labels":{"super.safe.com/x":"y"}}}`, "", ""},
		{"a label of others", "e2e-supersafe", merge, `{"metadata":{"labels":{"other.com/x":"y"}}}`, "", `changing the field metadata.labels["other.com/x"] needs the verb "granular:metadata" or "granular:labels" or "granular:label(other.com)"`},
		{"a label by JSON patch", "e2e-supersafe", json, `[{"op":"add","path":"/metadata/annotations","value":{"super.safe.com/x":"y"}}]`, "", ""},
		{"a spec by JSON patch", "e2e-supersafe", json, `[{"op":"replace","path":"/spec/image","value":"other"}]`, "", "changing the field spec.image needs"},
		{"a finalizer applied", "e2e-supersafe", apply, `{` + head + `,"metadata":{"finalizers":["super.safe.com/x"]}}`, "", ""},
		{"a tag applied", "e2e-supersafe", apply, `{` + head + `,"spec":{"tags":["a"]}}`, "", `changing the field spec.tags["a"] needs`},
		{"a tag, by the marker in the schema", "e2e-tagger", apply, `{` + head + `,"spec":{"tags":["blue"]}}`, "", ""},
		{"another tag", "e2e-tagger", apply, `{` + head + `,"spec":{"tags":["red"]}}`, "", `changing the field spec.tags["red"] needs the verb "granular:specification" or "granular:tag(red)"`},
		{"a disk, by the marker in the schema", "e2e-tagger", merge, `{"spec":{"disks":[{"name":"data","sizeGiB":1}]}}`, "", ""},
		{"another disk", "e2e-tagger", merge, `{"spec":{"disks":[{"name":"root","sizeGiB":1}]}}`, "", `needs the verb "granular:specification" or "granular:storage" or "granular:disk(root)"`},
		{"its condition", "e2e-supersafe", merge, `{"status":{"conditions":[{"type":"SuperSafe","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status", ""},
		{"another condition", "e2e-supersafe", merge, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status", `status.conditions[type="Ready"]`},
		{"the excluded value", "e2e-writer", merge, `{"spec":{"adminAccess":true}}`, "", `the field spec.adminAccess is excluded from general permission: changing it also needs the verb "granular:adminDevices"`},
		{"another value", "e2e-writer", merge, `{"spec":{"adminAccess":false}}`, "", ""},
		{"another field", "e2e-writer", merge, `{"spec":{"image":"other"}}`, "", ""},
		{"the excluded value with its permission", "e2e-owner", merge, `{"spec":{"adminAccess":true}}`, "", ""},
		{"somebody without the verb", "e2e-nobody", merge, `{"metadata":{"labels":{"super.safe.com/x":"y"}}}`, "", "forbidden"},
	} {
		got := settled(t, tc.want, func() string {
			options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
			if tc.patch == apply {
				options.FieldManager = tc.user
			}
			_, err := as(tc.user).DemoV1alpha1().VirtualMachines("demo").Patch(t.Context(), "e2e-fields", tc.patch, []byte(tc.body), options, nonEmpty(tc.subresource)...)
			switch {
			case err == nil:
				return ""
			case apierrors.IsForbidden(err) && tc.want != "" && strings.Contains(err.Error(), tc.want):
				return tc.want
			}
			return err.Error()
		})
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	review := &authorizationv1alpha1.SelfSubjectAccessReview{}
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: "granular:label(super.safe.com)", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo"}
	answer, err := as("e2e-supersafe").AuthorizationV1alpha1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil || !answer.Status.Allowed {
		t.Errorf("review of a permission on labels: got %+v, %v, want it to be allowed", answer, err)
	}
	if list := mustList(t, admin); !strings.Contains(list, "e2e-admin-access") {
		t.Errorf("got mappings %s", list)
	}
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func mustList(t *testing.T, client versioned.Interface) string {
	t.Helper()
	list, err := client.PolicyV1alpha1().FieldPermissionMappings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range list.Items {
		names = append(names, m.Name)
	}
	return strings.Join(names, " ")
}

// grantMachines gives a user verbs on machines and their status. It adds get, since only users
// who may get an object are shown why a write of it is refused.
func grantMachines(t *testing.T, user string, verbs ...string) {
	t.Helper()
	kube, _ := clients(t, "admin")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{Verbs: append([]string{"get"}, verbs...), APIGroups: []string{"demo.proviso.dev"}, Resources: []string{"virtualmachines", "virtualmachines/status"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
