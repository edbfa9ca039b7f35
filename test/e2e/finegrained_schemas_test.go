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
	must(t, err)
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	changed := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pod.DeepCopy()
		change(p)
		return p
	}
	review := updateReview{
		user:     authenticationv1.UserInfo{Username: user, Groups: []string{"system:authenticated"}},
		resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, subresource: "status", kind: "Pod", before: mustJSON(pod),
	}
	// await waits until an update is refused for a reason, or allowed without one.
	await := func(what string, after []byte, want string) {
		t.Helper()
		review.after = after
		var allowed bool
		var why string
		if !poll.Until(t.Context(), changes.SchemaExpiry+30*time.Second, func() bool {
			allowed, why = review.ask(t, proviso)
			return allowed == (want == "") && strings.Contains(why, want)
		}) {
			t.Errorf("%s: got %t, %q, want %q", what, allowed, why, want)
		}
	}
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
		await("pods, "+tc.name, mustJSON(tc.after), tc.want)
	}

	// A custom resource whose list is of one piece until its schema says what the key is.
	definition := readText(t, "testdata/gizmos.yaml")
	apply(t, strings.ReplaceAll(definition, "EXTENSIONS", ""))
	gizmo := func(status string) []byte {
		return []byte(`{"apiVersion":"fields.example.com/v1","kind":"Gizmo","metadata":{"name":"a","namespace":"demo"},"status":{"conditions":[{"type":"Ready","status":"` + status + `"},{"type":"Other","status":"x"}]}}`)
	}
	review.resource, review.kind, review.before = metav1.GroupVersionResource{Group: "fields.example.com", Version: "v1", Resource: "gizmos"}, "Gizmo", gizmo("False")
	odd := strings.Replace(string(gizmo("True")), `"status":{`, `"status":{"odd":1,`, 1)
	await("a field that is not in the schema", []byte(odd), "does not fit the schema of its kind")
	const want = `changing the field status.conditions needs the verb "granular:status" or "granular:conditions"`
	review.after = gizmo("True")
	if allowed, why := review.ask(t, proviso); allowed || !strings.Contains(why, want) {
		t.Errorf("a list of one piece: got %t, %q, want %q", allowed, why, want)
	}
	apply(t, strings.ReplaceAll(definition, "EXTENSIONS", "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type],"))
	await("after the schema has changed", gizmo("True"), "")
}

// updateReview is a question about an update.
type updateReview struct {
	user              authenticationv1.UserInfo
	resource          metav1.GroupVersionResource
	kind, subresource string
	before, after     []byte
	// sets is how many sets of conditions there must be, if it is not 0.
	sets int
}

// ask asks what the user may do on conditions, which there must be, and then what these say about the update. It returns why it is refused.
func (u *updateReview) ask(t *testing.T, proviso versioned.Interface) (allowed bool, why string) {
	t.Helper()
	access, err := proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
		Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: u.user.Username, Groups: u.user.Groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "update", Group: u.resource.Group, Version: u.resource.Version, Resource: u.resource.Resource, Subresource: u.subresource, Namespace: "demo", Name: "e2e-fields",
			},
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	if n := len(access.Status.ConditionsChain); n == 0 || u.sets != 0 && n != u.sets {
		return false, fmt.Sprintf("%d sets of conditions: %+v", n, access.Status)
	}
	answer, err := proviso.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), &authorizationv1alpha1.AuthorizationConditionsReview{
		Request: &authorizationv1alpha1.AuthorizationConditionsRequest{
			ConditionSets: access.Status.ConditionsChain, Operation: "UPDATE",
			Kind:     &metav1.GroupVersionKind{Group: u.resource.Group, Version: u.resource.Version, Kind: u.kind},
			Resource: &u.resource, SubResource: u.subresource, Namespace: "demo", Name: "e2e-fields", UserInfo: &u.user,
			OldObject: &runtime.RawExtension{Raw: u.before}, Object: &runtime.RawExtension{Raw: u.after},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return answer.Response.Allowed, answer.Response.Reason
}
