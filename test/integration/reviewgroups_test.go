/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/proviso-authz/proviso/test/testutil/server"
)

// TestReviewGroupsAreOne sends requests of every kind to both groups of reviews. The answers differ in the name of the group
// alone. The function post compares the answers to all other reviews of these tests.
func TestReviewGroupsAreOne(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	const body = `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","spec":{"user":"u","resourceAttributes":{"verb":"get"},"typo":1}}`
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	for _, tc := range []struct {
		name, method, path, accept, body string
		wantCode                         int
	}{
		{"discovery", http.MethodGet, "", "application/json", "", 200},
		{"discovery in protobuf", http.MethodGet, "", "application/vnd.kubernetes.protobuf", "", 406},
		{"discovery that prefers protobuf", http.MethodGet, "", "application/vnd.kubernetes.protobuf,application/json", "", 200},
		{"OpenAPI", http.MethodGet, "openapi", "application/json", "", 200},
		{"a table", http.MethodPost, "subjectaccessreviews", table, body, 201},
		{"a table of a review about oneself", http.MethodPost, "selfsubjectaccessreviews", table, strings.Replace(body, "SubjectAccessReview", "SelfSubjectAccessReview", 1), 201},
		{"YAML", http.MethodPost, "subjectaccessreviews", "application/yaml", body, 201},
		{"CBOR", http.MethodPost, "subjectaccessreviews", "application/cbor", body, 406},
		{"strict", http.MethodPost, "subjectaccessreviews?fieldValidation=Strict", "application/json", body, 400},
		{"dry run", http.MethodPost, "subjectaccessreviews?dryRun=All", "application/json", body, 201},
		{"an invalid option", http.MethodPost, "subjectaccessreviews?dryRun=Some", "application/json", body, 422},
		{"list", http.MethodGet, "subjectaccessreviews", "application/json", "", 405},
		{"another method", http.MethodPut, "subjectaccessreviews/a", "application/json", body, 404},
		{"a resource of kube-apiserver", http.MethodPost, "selfsubjectrulesreviews", "application/json", body, 404},
		{"not a subresource", http.MethodPost, "subjectaccessreviews/u/impersonation", "application/json", body, 404},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answer := func(name string) (int, string) {
				path := "/apis/" + name + "/v1alpha1/" + tc.path
				if tc.path == "openapi" {
					path = "/openapi/v3/apis/" + name + "/v1alpha1"
				}
				request := httptest.NewRequest(tc.method, path, strings.NewReader(strings.ReplaceAll(tc.body, "authorization.k8s.io", name)))
				request.Header.Set(server.UserHeader, "alice")
				request.Header.Set("Accept", tc.accept)
				request.Header.Set("Content-Type", "application/json")
				recorder := httptest.NewRecorder()
				s.Handler.ServeHTTP(recorder, request)
				text := recorder.Body.String()
				for _, of := range [][2]string{{name, "GROUP"}, {"AuthorizationProvisoDev", "Authorization"}, {"authorizationProvisoDev", "authorization"}} {
					text = strings.ReplaceAll(text, of[0], of[1])
				}
				return recorder.Code, withoutTimes(text)
			}
			code, official := answer("authorization.k8s.io")
			ownCode, own := answer("authorization.proviso.dev")
			if code != tc.wantCode || ownCode != code {
				t.Errorf("got %d and %d, want %d: %.300s", code, ownCode, tc.wantCode, own)
			}
			if tc.path == "openapi" { // both groups of a kind are listed in its schema
				return
			}
			if diff := cmp.Diff(official, own); diff != "" {
				t.Errorf("the groups have different answers (-official +own):\n%s", diff)
			}
		})
	}
}

// TestReviewGroupsAreEquivalent checks that an admission webhook or policy with the matchPolicy Equivalent for one of the two
// groups is called for both.
func TestReviewGroupsAreEquivalent(t *testing.T) {
	t.Parallel()
	var seen seenResources
	s := server.New(t, server.Config{Authorizer: rules, Admission: []admission.Interface{&seen}})
	for _, path := range []string{group, otherGroup} {
		seen.equivalent = nil
		body := `{"apiVersion":"` + strings.Trim(strings.TrimPrefix(path, "/apis/"), "/") + `","kind":"SubjectAccessReview","spec":{"user":"u","resourceAttributes":{"verb":"get"}}}`
		if got := postOnce(s, "alice", path+"subjectaccessreviews", "application/json", body); got.Code != http.StatusCreated {
			t.Fatalf("got %d %s", got.Code, got.Body)
		}
		var groups []string
		for _, resource := range seen.equivalent {
			groups = append(groups, resource.Group)
		}
		slices.Sort(groups)
		if diff := cmp.Diff([]string{"authorization.k8s.io", "authorization.proviso.dev"}, groups); diff != "" {
			t.Errorf("%s: equivalent groups (-want +got):\n%s", path, diff)
		}
	}
}

// seenResources is an admission plugin that records what is equivalent to the resource of a request.
type seenResources struct {
	equivalent []schema.GroupVersionResource
}

func (*seenResources) Handles(admission.Operation) bool { return true }

func (s *seenResources) Validate(_ context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	s.equivalent = o.GetEquivalentResourceMapper().EquivalentResourcesFor(a.GetResource(), a.GetSubresource())
	return nil
}

// TestReviewGroupsInDiscovery checks that both groups list the same resources.
func TestReviewGroupsInDiscovery(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	request := httptest.NewRequest(http.MethodGet, "/apis", nil)
	request.Header.Set(server.UserHeader, "alice")
	recorder := httptest.NewRecorder()
	s.Handler.ServeHTTP(recorder, request)
	var list struct {
		Groups []struct {
			Name             string
			PreferredVersion struct{ Version string }
		}
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, g := range list.Groups {
		if strings.HasPrefix(g.Name, "authorization.") && g.PreferredVersion.Version == "v1alpha1" {
			found++
		}
	}
	if found != 2 {
		t.Errorf("got %+v, want both groups of reviews", list)
	}
}
