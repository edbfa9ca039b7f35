/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestFineGrainedReviewsOfOthers asks about the fields of what kube-apiserver serves, pods and
// custom resources: their lists have keys by the schemas that it publishes.
func TestFineGrainedReviewsOfOthers(t *testing.T) {
	t.Parallel()
	proviso := stack.ClientAt(t, "admin-direct", startReplica(t, "--feature-gates=FineGrainedAuthorization=true"))
	const user = "e2e-readier"
	grant(t, user, []string{"granular", "granular:condition(Ready)", "granular:finalizer(super.safe.com)"}, []string{"", "fields.example.com"}, "pods/status", "gizmos/status")
	apply(t, readText(t, "testdata/fields-pod.yaml"))
	kube, _ := clients(t, "admin")
	pod, err := kube.CoreV1().Pods("demo").Get(t.Context(), "e2e-fields", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	changed := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pod.DeepCopy()
		change(p)
		return p
	}
	pods := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	for _, tc := range []struct {
		name  string
		after *corev1.Pod
		want  string // "" if it is allowed
	}{
		{"nothing", pod, ""},
		{"its condition", changed(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }), ""},
		{"another condition", changed(func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }),
			`changing the field status.conditions[type="PodScheduled"].status needs the verb "granular:status" or "granular:conditions" or "granular:condition(PodScheduled)"`},
		{"a finalizer", changed(func(p *corev1.Pod) { p.Finalizers = []string{"super.safe.com/x"} }), ""},
		{"an image", changed(func(p *corev1.Pod) { p.Spec.Containers[1].Image = "c" }), `changing the field spec.containers[name="b"].image needs the verb "granular:specification"`},
		{"the node", changed(func(p *corev1.Pod) { p.Spec.NodeName = "n" }), `changing the field spec.nodeName needs the verb "granular:specification" or "granular:nodeAssignment"`},
	} {
		got := settled(t, tc.want, func() string {
			return reviewFields(t, proviso, user, pods, "Pod", mustJSON(pod), mustJSON(tc.after), tc.want)
		})
		if got != tc.want {
			t.Errorf("pods, %s: got %q, want %q", tc.name, got, tc.want)
		}
	}

	definition := readText(t, "testdata/gizmos.yaml")
	apply(t, strings.ReplaceAll(definition, "EXTENSIONS", ""))
	gizmo := func(status string) []byte {
		return []byte(`{"apiVersion":"fields.example.com/v1","kind":"Gizmo","metadata":{"name":"a","namespace":"demo"},"status":{"conditions":[{"type":"Ready","status":"` + status + `"},{"type":"Other","status":"x"}]}}`)
	}
	resource := metav1.GroupVersionResource{Group: "fields.example.com", Version: "v1", Resource: "gizmos"}
	want := `changing the field status.conditions needs the verb "granular:status" or "granular:conditions"`
	ask := func(want string) func() string {
		return func() string {
			return reviewFields(t, proviso, user, resource, "Gizmo", gizmo("False"), gizmo("True"), want)
		}
	}
	const unknown = "does not fit the schema of its kind"
	odd := strings.Replace(string(gizmo("True")), `"status":{`, `"status":{"odd":1,`, 1)
	if got := settled(t, unknown, func() string {
		return reviewFields(t, proviso, user, resource, "Gizmo", gizmo("False"), []byte(odd), unknown)
	}); got != unknown {
		t.Errorf("a field that is not in the schema: got %q, want %q", got, unknown)
	}
	if got := ask(want)(); got != want {
		t.Errorf("a list of one piece: got %q, want %q", got, want)
	}
	apply(t, strings.ReplaceAll(definition, "EXTENSIONS", "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type],"))
	got := ""
	if !poll.Until(t.Context(), changes.SchemaExpiry+30*time.Second, func() bool { got = ask("")(); return got == "" }) {
		t.Errorf("after the schema has changed: got %q, want it to be allowed", got)
	}
}

// reviewFields asks what a user may do with conditions, and then what these say about an
// update of the status. It returns nothing if that is allowed, what was wanted if the reason
// has that in it, and the reason otherwise.
func reviewFields(t *testing.T, proviso versioned.Interface, user string, resource metav1.GroupVersionResource, kind string, before, after []byte, want string) string {
	t.Helper()
	access, err := proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
		Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "update", Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Subresource: "status", Namespace: "demo", Name: "e2e-fields",
			},
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(access.Status.ConditionsChain) == 0 {
		return fmt.Sprintf("no conditions: %+v", access.Status)
	}
	answer, err := proviso.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), &authorizationv1alpha1.AuthorizationConditionsReview{
		Request: &authorizationv1alpha1.AuthorizationConditionsRequest{
			ConditionSets: access.Status.ConditionsChain, Operation: "UPDATE",
			Kind:     &metav1.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: kind},
			Resource: &resource, SubResource: "status", Namespace: "demo", Name: "e2e-fields",
			UserInfo:  &authenticationv1.UserInfo{Username: user, Groups: []string{"system:authenticated"}},
			OldObject: &runtime.RawExtension{Raw: before}, Object: &runtime.RawExtension{Raw: after},
		},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		t.Fatal(err)
	case answer.Response.Allowed:
		return ""
	case want != "" && strings.Contains(answer.Response.Reason, want):
		return want
	}
	return fmt.Sprintf("%+v", answer.Response)
}
