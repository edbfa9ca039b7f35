/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriertable

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
)

// Reviewer asks Proviso's reviews about rows, through kube-apiserver.
type Reviewer struct {
	sender *Sender
	client versioned.Interface
}

// NewReviewer returns a Reviewer. The configuration is for an administrator.
func NewReviewer(admin *rest.Config, sender *Sender) (*Reviewer, error) {
	config := rest.CopyConfig(admin)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Reviewer{sender: sender, client: client}, nil
}

// Allows reports what reviews say about the request of a row, before it is sent: whether all of its checks are allowed, with the conditions
// evaluated on what admission will see.
func (r *Reviewer) Allows(t *testing.T, row *Row) bool {
	t.Helper()
	resolver := &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	target, err := url.Parse(row.Path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := resolver.NewRequestInfo(&http.Request{Method: row.Method, URL: target})
	if err != nil {
		t.Fatal(err)
	}
	data := r.data(t, row, info)
	verbs := []string{info.Verb}
	if data.Operation == authorizationv1alpha1.OperationCreate && info.Verb != "create" {
		verbs = append(verbs, "create")
	}
	for _, verb := range verbs {
		review := &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: row.User, Groups: row.Groups(),
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsMode(authorizationapi.ConditionsModeOptimized)},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource, Namespace: info.Namespace, Name: info.Name,
			},
		}}
		answer, err := r.client.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed {
			continue
		}
		if len(answer.Status.ConditionsChain) == 0 {
			return false
		}
		data := *data
		data.ConditionSets = answer.Status.ConditionsChain
		evaluated, err := r.client.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), &authorizationv1alpha1.AuthorizationConditionsReview{Request: &data}, metav1.CreateOptions{})
		if err != nil || evaluated.Response == nil {
			t.Fatalf("%s: %v", row, err)
		}
		if !evaluated.Response.Allowed {
			return false
		}
	}
	return true
}

// data returns what admission will see of a row, which the answer to the same dry run of an administrator shows.
func (r *Reviewer) data(t *testing.T, row *Row, info *genericapirequest.RequestInfo) *authorizationv1alpha1.AuthorizationConditionsRequest {
	t.Helper()
	admin := func(method, path, contentType, body string) (int, string) {
		code, answer, err := r.sender.Send(t.Context(), "", nil, method, path, contentType, body)
		if err != nil {
			t.Fatal(err)
		}
		return code, answer
	}
	object := func(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
	data := &authorizationv1alpha1.AuthorizationConditionsRequest{
		Resource:    &metav1.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource},
		SubResource: info.Subresource, Name: info.Name, Namespace: info.Namespace,
		UserInfo: &authenticationv1.UserInfo{Username: row.User, Groups: row.Groups()}, DryRun: strings.Contains(row.Path, "dryRun=All"),
	}
	if info.Namespace != "" && info.Resource != "namespaces" {
		_, namespace := admin(http.MethodGet, "/api/v1/namespaces/"+info.Namespace, "", "")
		data.NamespaceObject = object(namespace)
	}
	if strings.Contains(row.Path, "/pods/none/") {
		kind := map[string]string{"exec": "PodExecOptions", "attach": "PodAttachOptions"}[info.Subresource]
		data.Operation, data.Kind = authorizationv1alpha1.OperationConnect, &metav1.GroupVersionKind{Version: "v1", Kind: kind}
		data.Object = object(`{"apiVersion": "v1", "kind": "` + kind + `"}`)
		return data
	}
	path, query, _ := strings.Cut(row.Path, "?")
	stored := path
	if name, ok := strings.CutPrefix(query, "fieldSelector=metadata.name="); ok {
		stored += "/" + name
	}
	if row.Method == http.MethodPost {
		data.Operation = authorizationv1alpha1.OperationCreate
	} else if code, old := admin(http.MethodGet, stored, "", ""); code == http.StatusOK {
		data.Operation, data.OldObject = authorizationv1alpha1.OperationUpdate, object(old)
		data.Kind = kindOf(t, old)
	} else {
		data.Operation = authorizationv1alpha1.OperationCreate
	}
	if row.Method == http.MethodDelete {
		data.Operation = authorizationv1alpha1.OperationDelete
		return data
	}
	separator := "?"
	if strings.Contains(row.Path, "?") {
		separator = "&"
	}
	code, answer := admin(row.Method, row.Path+separator+"dryRun=All", row.ContentType, r.sender.body(t, row))
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
	kind := meta.GroupVersionKind()
	return &metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
}
