/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package requests

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
)

// Reviewer asks Proviso's reviews about requests, through kube-apiserver.
type Reviewer struct {
	client versioned.Interface
}

// NewReviewer returns a Reviewer. The configuration is for an administrator.
func NewReviewer(admin *rest.Config) (*Reviewer, error) {
	config := rest.CopyConfig(admin)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := versioned.NewForConfig(config)
	return &Reviewer{client: client}, err
}

// Checks returns the authorizations of a row, as kube-apiserver makes them: also a creation by a method of updates.
func (r *Runner) Checks(t *testing.T, row *Row) (checks []*authorizationv1.ResourceAttributes) {
	t.Helper()
	return checksOf(row, r.target(t, row))
}

func checksOf(row *Row, q *resolved) (checks []*authorizationv1.ResourceAttributes) {
	verbs := []string{q.info.Verb}
	if row.Creates() {
		verbs = append(verbs, "create")
	}
	for _, verb := range verbs {
		checks = append(checks, &authorizationv1.ResourceAttributes{
			Verb: verb, Group: q.info.APIGroup, Version: q.info.APIVersion, Resource: q.info.Resource, Subresource: q.info.Subresource, Namespace: q.info.Namespace, Name: q.info.Name,
		})
	}
	return checks
}

// result returns the result of reviews about a row: whether all of its checks are allowed, with the conditions evaluated on what the inner door was shown. If the runner
// does not know that, the request must not have been sent yet, and the conditions are evaluated on what admission will see.
func (r *Reviewer) result(t *testing.T, runner *Runner, row *Row, q *resolved, shown []*admissionv1.AdmissionRequest) string {
	t.Helper()
	u := runner.user(row)
	groups := u.Groups
	if !slices.Contains(groups, user.AllAuthenticated) {
		groups = append(slices.Clone(groups), user.AllAuthenticated)
	}
	for _, check := range checksOf(row, q) {
		review := &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: u.Name, Groups: groups, ResourceAttributes: check,
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsMode(authorizationapi.ConditionsModeOptimized)},
		}}
		answer, err := r.client.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		if answer.Status.Allowed {
			continue
		}
		if len(answer.Status.ConditionsChain) == 0 {
			return ReviewRefused
		}
		var data []*authorizationv1alpha1.AuthorizationConditionsRequest
		if runner.Calls == nil {
			data = append(data, runner.admitted(t, row, q))
		}
		for _, call := range shown {
			data = append(data, runner.shown(t, call))
		}
		if len(data) == 0 {
			return ReviewConditional
		}
		for _, d := range data {
			d.ConditionSets, d.UserInfo = answer.Status.ConditionsChain, &authenticationv1.UserInfo{Username: u.Name, Groups: groups}
			evaluated, err := r.client.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), &authorizationv1alpha1.AuthorizationConditionsReview{Request: d}, metav1.CreateOptions{})
			if err != nil || evaluated.Response == nil {
				t.Fatalf("%s: %v", row, err)
			}
			if !evaluated.Response.Allowed {
				return ReviewRefused
			}
		}
	}
	return ReviewAllowed
}

// shown returns the data that the inner door was shown.
func (r *Runner) shown(t *testing.T, call *admissionv1.AdmissionRequest) *authorizationv1alpha1.AuthorizationConditionsRequest {
	t.Helper()
	orNil := func(raw runtime.RawExtension) *runtime.RawExtension {
		if len(raw.Raw) == 0 {
			return nil
		}
		return &raw
	}
	return &authorizationv1alpha1.AuthorizationConditionsRequest{
		Operation: authorizationv1alpha1.Operation(call.Operation), Kind: &call.Kind, Resource: &call.Resource, SubResource: call.SubResource,
		Name: call.Name, Namespace: call.Namespace, NamespaceObject: r.namespace(t, call.Namespace, call.Resource.Resource),
		Object: orNil(call.Object), OldObject: orNil(call.OldObject), Options: orNil(call.Options), DryRun: call.DryRun != nil && *call.DryRun,
	}
}

// namespace returns the namespace of a request. A namespace has none.
func (r *Runner) namespace(t *testing.T, name, resource string) *runtime.RawExtension {
	t.Helper()
	if name == "" || resource == "namespaces" {
		return nil
	}
	code, namespace := r.Sender.Send(t, nil, http.MethodGet, "/api/v1/namespaces/"+name, "", "")
	if code != http.StatusOK {
		t.Fatalf("got %d %s", code, namespace)
	}
	return &runtime.RawExtension{Raw: []byte(namespace)}
}

// admitted returns what admission will see of a row, which the answer to the same dry run of the administrator shows.
func (r *Runner) admitted(t *testing.T, row *Row, q *resolved) *authorizationv1alpha1.AuthorizationConditionsRequest {
	t.Helper()
	object := func(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
	info := q.info
	data := &authorizationv1alpha1.AuthorizationConditionsRequest{
		Resource:    &metav1.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource},
		SubResource: info.Subresource, Name: info.Name, Namespace: info.Namespace, NamespaceObject: r.namespace(t, info.Namespace, info.Resource),
		DryRun: strings.Contains(q.path, "dryRun=All"),
	}
	if kind := map[string]string{"exec": "PodExecOptions", "attach": "PodAttachOptions"}[info.Subresource]; kind != "" {
		data.Operation, data.Kind = authorizationv1alpha1.OperationConnect, &metav1.GroupVersionKind{Version: "v1", Kind: kind}
		data.Object = object(`{"apiVersion": "v1", "kind": "` + kind + `"}`)
		return data
	}
	path, query, _ := strings.Cut(q.path, "?")
	if name, ok := strings.CutPrefix(query, "fieldSelector=metadata.name="); ok { // of a deletecollection
		path += "/" + name
	}
	data.Operation = authorizationv1alpha1.OperationCreate
	if q.method != http.MethodPost {
		if code, old := r.Sender.Send(t, nil, http.MethodGet, path, "", ""); code == http.StatusOK {
			data.Operation, data.OldObject, data.Kind = authorizationv1alpha1.OperationUpdate, object(old), kindOf(t, old)
		}
	}
	if q.method == http.MethodDelete {
		data.Operation = authorizationv1alpha1.OperationDelete
		return data
	}
	dry := q.path
	if !data.DryRun {
		dry = withQuery(dry, "dryRun=All")
	}
	code, answer := r.Sender.Send(t, nil, q.method, dry, q.contentType, q.body)
	if code >= http.StatusMultipleChoices {
		t.Fatalf("%s: the administrator got %d %s", row, code, answer)
	}
	data.Object, data.Kind = object(answer), kindOf(t, answer)
	return data
}

func kindOf(t *testing.T, text string) *metav1.GroupVersionKind {
	t.Helper()
	var meta metav1.TypeMeta
	if err := json.Unmarshal([]byte(text), &meta); err != nil {
		t.Fatal(err)
	}
	kind := metav1.GroupVersionKind(meta.GroupVersionKind())
	return &kind
}
