/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

const (
	policyGroup        = "/apis/policy.proviso.dev/v1alpha1"
	clusterPolicies    = policyGroup + "/clusterauthorizationpolicies"
	namespacedPolicies = policyGroup + "/namespaces/n/authorizationpolicies"

	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// policyRights lets admin do everything. bob may write policies like any other resource,
// escalator and restrictor have one verb more; each may get pods in the namespace n.
var policyRights = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	verb, name := a.GetVerb(), a.GetUser().GetName()
	special := map[string]string{"escalate": "escalator", "restrict": "restrictor"}[verb]
	switch {
	case name == "admin", special != "" && special == name:
		return authorizer.DecisionAllow, "", nil
	case a.GetAPIGroup() == "policy.proviso.dev" && special == "":
		return authorizer.DecisionAllow, "", nil
	case a.GetResource() == "pods" && verb == "get" && a.GetNamespace() == "n":
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})

func policyServer(t *testing.T) *server.Server {
	t.Helper()
	return server.New(t, server.Config{Authorizer: policyRights})
}

// send sends a request to the handler of the server, as a user.
func send(s *server.Server, user, method, path, contentType, body string) *httptest.ResponseRecorder {
	return s.Answer(func() *http.Request {
		request := httptest.NewRequest(method, path, strings.NewReader(body))
		request.Header.Set(server.UserHeader, user)
		request.Header.Set("Content-Type", contentType)
		request.Header.Set("Accept", "application/json")
		return request
	})
}

// policyJSON is a policy of either kind, about all users who are authenticated unless it has other subjects. Further
// fields of the specification come last.
func policyJSON(collection, name, effect, more string) string {
	if !strings.Contains(more, `"subjects"`) {
		more += `,"subjects":[{"kind":"Group","name":"system:authenticated"}]`
	}
	kind := "ClusterAuthorizationPolicy"
	if collection == namespacedPolicies {
		kind = "AuthorizationPolicy"
	}
	return fmt.Sprintf(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":%q,"metadata":{"name":%q},"spec":{"effect":%q,"rules":[{"verbs":["get"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]%s}}`, kind, name, effect, more)
}

// mustSend fails the test unless the request succeeds, and decodes the policy.
func mustSend(t *testing.T, s *server.Server, user, method, path, contentType, body string) policyv1alpha1.ClusterAuthorizationPolicy {
	t.Helper()
	response := send(s, user, method, path, contentType, body)
	if response.Code/100 != 2 {
		t.Fatalf("%s %s: got %d %s", method, path, response.Code, response.Body)
	}
	var p policyv1alpha1.ClusterAuthorizationPolicy // the other kind has the same fields
	if err := json.Unmarshal(response.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func eachCollection(t *testing.T, test func(t *testing.T, s *server.Server, collection string)) {
	t.Helper()
	for name, collection := range map[string]string{"cluster": clusterPolicies, "namespaced": namespacedPolicies} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, policyServer(t), collection)
		})
	}
}

// TestMetadataClients sends what the controller of namespaces sends: it prefers protobuf, which the types do not have, in all requests.
func TestMetadataClients(t *testing.T) {
	t.Parallel()
	s := policyServer(t)
	for _, collection := range []string{namespacedPolicies, clusterPolicies} {
		for _, tc := range []struct{ method, accept, want string }{
			{http.MethodGet, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json", "PartialObjectMetadataList"},
			{http.MethodDelete, "application/vnd.kubernetes.protobuf,application/json", "List"},
		} {
			response := s.Answer(func() *http.Request {
				request := httptest.NewRequest(tc.method, collection, nil)
				request.Header.Set(server.UserHeader, "admin")
				request.Header.Set("Accept", tc.accept)
				return request
			})
			if response.Code != http.StatusOK || !strings.Contains(response.Body.String(), tc.want) {
				t.Errorf("%s %s: got %d %s, want %s", tc.method, collection, response.Code, response.Body, tc.want)
			}
		}
	}
}

// TestAuthorsLearnNothingOfOthers has an author who may restrict and escalate, and may not create SubjectAccessReviews, write conditions about service
// accounts.
func TestAuthorsLearnNothingOfOthers(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "reviewer" || a.GetAPIGroup() == "policy.proviso.dev" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})})
	const check = `.group(\"\").resource(\"secrets\").check(\"get\").allowed()"`
	for i, tc := range []struct {
		name, user, collection string
		fields                 string
		want                   int
	}{
		{name: "another namespace", user: "author", collection: namespacedPolicies, fields: `"condition":"authorizer.serviceAccount(\"kube-system\", \"x\")` + check, want: http.StatusForbidden},
		{name: "another namespace, in a variable", user: "author", collection: namespacedPolicies,
			fields: `"condition":"variables.v","variables":[{"name":"v","expression":"authorizer.serviceAccount(\"kube-system\", \"x\")` + check + `}]`, want: http.StatusForbidden},
		{name: "any namespace", user: "author", collection: namespacedPolicies, fields: `"condition":"authorizer.serviceAccount(object.metadata.name, \"x\")` + check, want: http.StatusForbidden},
		{name: "the own namespace", user: "author", collection: namespacedPolicies, fields: `"condition":"authorizer.serviceAccount(\"n\", \"x\")` + check, want: http.StatusCreated},
		{name: "the namespace of the request", user: "author", collection: namespacedPolicies, fields: `"condition":"authorizer.serviceAccount(request.namespace, \"x\")` + check, want: http.StatusCreated},
		{name: "a policy of the cluster", user: "author", collection: clusterPolicies, fields: `"condition":"authorizer.serviceAccount(request.namespace, \"x\")` + check, want: http.StatusForbidden},
		{name: "another namespace, with permission", user: "reviewer", collection: namespacedPolicies, fields: `"condition":"authorizer.serviceAccount(\"kube-system\", \"x\")` + check, want: http.StatusCreated},
		{name: "a policy of the cluster, with permission", user: "reviewer", collection: clusterPolicies, fields: `"condition":"authorizer.serviceAccount(\"kube-system\", \"x\")` + check, want: http.StatusCreated},
	} {
		for _, effect := range []string{"Allow", "Deny", "NoOpinion"} {
			got := send(s, tc.user, http.MethodPost, tc.collection, "application/json", policyJSON(tc.collection, fmt.Sprintf("p%d-%s", i, strings.ToLower(effect)), effect, ","+tc.fields))
			if got.Code != tc.want || tc.want == http.StatusForbidden && !strings.Contains(got.Body.String(), "that needs the verb create on subjectaccessreviews.authorization.k8s.io") {
				t.Errorf("%s, %s: got %d %s, want %d", tc.name, effect, got.Code, got.Body, tc.want)
			}
		}
	}
}

func TestPolicyLife(t *testing.T) {
	t.Parallel()
	eachCollection(t, func(t *testing.T, s *server.Server, collection string) {
		const jsonType = "application/json"
		one := collection + "/one"
		withStatus := strings.Replace(policyJSON(collection, "one", "Allow", ""), `"spec"`, `"status":{"observedGeneration":1},"spec"`, 1)
		p := mustSend(t, s, "admin", http.MethodPost, collection, jsonType, withStatus)
		if p.Generation != 1 || p.Status.ObservedGeneration != 0 || p.UID == "" {
			t.Errorf("created: got %+v, want generation 1 and no status", p)
		}
		p = mustSend(t, s, "admin", http.MethodPatch, one, mergePatch, `{"spec":{"description":"d"},"status":{"observedGeneration":1}}`)
		if p.Generation != 2 || p.Spec.Description != "d" || p.Status.ObservedGeneration != 0 {
			t.Errorf("patched: got %+v, want the specification and nothing of the status", p)
		}
		p = mustSend(t, s, "bob", http.MethodPatch, one+"/status", mergePatch, `{"metadata":{"labels":{"a":"b"}},"spec":{"effect":"Deny"},"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","reason":"Compiled","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
		if p.Generation != 2 || p.Spec.Effect != "Allow" || len(p.Labels) > 0 || p.Status.ObservedGeneration != 2 || len(p.Status.Conditions) != 1 {
			t.Errorf("status patched: got %+v, want the status and nothing else", p)
		}
		if response := send(s, "admin", http.MethodPatch, one+"/status", mergePatch, `{"status":{"observedGeneration":1}}`); response.Code != http.StatusUnprocessableEntity {
			t.Errorf("an older status: got %d %s, want 422", response.Code, response.Body)
		}
		p = mustSend(t, s, "admin", http.MethodPut, one, jsonType, policyJSON(collection, "one", "Deny", `,"subjects":[{"kind":"User","name":"eve"}]`))
		if p.Generation != 3 || p.Spec.Effect != "Deny" || len(p.Spec.Subjects) != 1 || p.Spec.Subjects[0].APIGroup != "rbac.authorization.k8s.io" || p.Status.ObservedGeneration != 2 {
			t.Errorf("replaced: got %+v, want the new specification, the API group of its subject, and the old status", p)
		}
		if response := send(s, "admin", http.MethodPut, collection+"/none", jsonType, policyJSON(collection, "none", "Deny", "")); response.Code != http.StatusNotFound {
			t.Errorf("a PUT of what is not there: got %d %s, want 404", response.Code, response.Body)
		}
		p = mustSend(t, s, "admin", http.MethodPatch, collection+"/two?fieldManager=m", applyPatch, policyJSON(collection, "two", "NoOpinion", ""))
		if p.Generation != 1 || p.Spec.Effect != "NoOpinion" || len(p.ManagedFields) != 1 {
			t.Errorf("applied: got %+v, want it to be created", p)
		}
		if response := send(s, "admin", http.MethodDelete, one, jsonType, ""); response.Code != http.StatusOK {
			t.Errorf("delete: got %d %s", response.Code, response.Body)
		}
		if response := send(s, "admin", http.MethodDelete, collection, jsonType, ""); response.Code != http.StatusOK {
			t.Errorf("deletecollection: got %d %s", response.Code, response.Body)
		}
		if got := policyNames(t, s, collection); len(got) > 0 {
			t.Errorf("left: %q, want nothing", got)
		}
	})
}

func policyNames(t *testing.T, s *server.Server, collection string) []string {
	t.Helper()
	var list policyv1alpha1.ClusterAuthorizationPolicyList
	response := send(s, "admin", http.MethodGet, collection, "application/json", "")
	if err := json.Unmarshal(response.Body.Bytes(), &list); err != nil || response.Code != http.StatusOK {
		t.Fatalf("list: got %d, %v", response.Code, err)
	}
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name+" "+string(p.Spec.Effect)+p.Spec.Description)
	}
	return names
}

// TestPolicyAuthors sends every kind of write as users with limited rights. Each is a dry
// run first, which is refused in the same way, and changes nothing.
func TestPolicyAuthors(t *testing.T) {
	t.Parallel()
	const (
		grants    = "is attempting to grant permissions not currently held"
		restricts = "the verb restrict on"
	)
	for _, tc := range []struct {
		name, method, path, contentType, effect, more string
		// may are the users who may do it, besides admin; want is what others are told.
		may  []string
		want string
	}{
		{"create Allow", http.MethodPost, "", "", "Allow", "", []string{"escalator"}, grants},
		{"create Deny", http.MethodPost, "", "", "Deny", "", []string{"restrictor"}, restricts},
		{"create NoOpinion", http.MethodPost, "", "", "NoOpinion", "", []string{"restrictor"}, restricts},
		{"apply Allow", http.MethodPatch, "/new", applyPatch, "Allow", "", []string{"escalator"}, grants},
		{"apply Deny", http.MethodPatch, "/new", applyPatch, "Deny", "", []string{"restrictor"}, restricts},
		{"update Allow", http.MethodPut, "/allow", "", "Allow", `,"description":"x"`, []string{"escalator"}, grants},
		{"update Deny", http.MethodPut, "/deny", "", "Deny", `,"description":"x"`, []string{"restrictor"}, restricts},
		{"Deny to Allow", http.MethodPut, "/deny", "", "Allow", "", nil, ""},
		{"Allow to Deny", http.MethodPut, "/allow", "", "Deny", "", []string{"restrictor"}, restricts},
		{"patch Deny", http.MethodPatch, "/deny", mergePatch, "", `{"spec":{"description":"x"}}`, []string{"restrictor"}, restricts},
		{"apply over Deny", http.MethodPatch, "/deny", applyPatch, "Deny", `,"description":"x"`, []string{"restrictor"}, restricts},
		{"label Deny", http.MethodPatch, "/deny", mergePatch, "", `{"metadata":{"labels":{"a":"b"}}}`, []string{"bob", "escalator", "restrictor"}, ""},
		{"delete Allow", http.MethodDelete, "/allow", "", "", "", []string{"bob", "escalator", "restrictor"}, ""},
		{"delete Deny", http.MethodDelete, "/deny", "", "", "", []string{"restrictor"}, restricts},
		{"deletecollection", http.MethodDelete, "", "", "", "", []string{"restrictor"}, restricts},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			// In the namespace, everybody holds what the policies allow.
			s, collection := policyServer(t), clusterPolicies
			for _, user := range []string{"bob", "escalator", "restrictor"} {
				send(s, "admin", http.MethodDelete, collection, "application/json", "")
				mustSend(t, s, "admin", http.MethodPost, collection, "application/json", policyJSON(collection, "allow", "Allow", ""))
				mustSend(t, s, "admin", http.MethodPost, collection, "application/json", policyJSON(collection, "deny", "Deny", ""))
				body, contentType := tc.more, "application/json"
				if tc.effect != "" {
					name := strings.TrimPrefix(tc.path, "/")
					if name == "" {
						name = "new"
					}
					body = policyJSON(collection, name, tc.effect, tc.more)
				}
				if tc.contentType != "" {
					contentType = tc.contentType
				}
				before := policyNames(t, s, collection)
				for _, query := range []string{"?fieldManager=m&force=true&dryRun=All", "?fieldManager=m&force=true"} {
					if contentType != applyPatch {
						query = strings.Replace(query, "&force=true", "", 1)
					}
					if tc.method == http.MethodDelete {
						query = strings.Replace(query, "fieldManager=m", "", 1)
					}
					response := send(s, user, tc.method, collection+tc.path+query, contentType, body)
					switch may := slices.Contains(tc.may, user); {
					case may && response.Code/100 != 2:
						t.Errorf("%s, %s: got %d %s, want it to be done", user, query, response.Code, response.Body)
					case !may && (response.Code != http.StatusForbidden || !strings.Contains(response.Body.String(), tc.want)):
						t.Errorf("%s, %s: got %d %s, want 403 with %q", user, query, response.Code, response.Body, tc.want)
					case !may && strings.Contains(tc.name, "collection"):
						// What may be deleted may be gone.
					case (!may || strings.Contains(query, "dryRun")) && !cmp.Equal(before, policyNames(t, s, collection)):
						t.Errorf("%s, %s: it was done", user, query)
					}
				}
			}
		})
	}
}

// TestPolicyUnsafeDelete is answered with 409 once it is past the guard: the policy can be
// read.
func TestPolicyUnsafeDelete(t *testing.T) {
	t.Parallel()
	s := policyServer(t)
	mustSend(t, s, "admin", http.MethodPost, clusterPolicies, "application/json", policyJSON(clusterPolicies, "one", "Allow", ""))
	const unsafe = `{"apiVersion":"v1","kind":"DeleteOptions","ignoreStoreReadErrorWithClusterBreakingPotential":true}`
	for user, want := range map[string]int{"bob": http.StatusForbidden, "restrictor": http.StatusConflict} {
		if response := send(s, user, http.MethodDelete, clusterPolicies+"/one", "application/json", unsafe); response.Code != want {
			t.Errorf("%s: got %d %s, want %d", user, response.Code, response.Body, want)
		}
	}
}

// TestPolicyAuthorsHandOnWhatTheyHold: bob may get pods in one namespace.
func TestPolicyAuthorsHandOnWhatTheyHold(t *testing.T) {
	t.Parallel()
	s := policyServer(t)
	mustSend(t, s, "bob", http.MethodPost, namespacedPolicies, "application/json", policyJSON(namespacedPolicies, "one", "Allow", ""))
	for path, body := range map[string]string{
		clusterPolicies: policyJSON(clusterPolicies, "one", "Allow", ""),
		strings.Replace(namespacedPolicies, "/n/", "/m/", 1): policyJSON(namespacedPolicies, "one", "Allow", ""),
		namespacedPolicies: strings.Replace(policyJSON(namespacedPolicies, "two", "Allow", ""), `["get"]`, `["get","delete"]`, 1),
	} {
		if response := send(s, "bob", http.MethodPost, path, "application/json", body); response.Code != http.StatusForbidden {
			t.Errorf("%s: got %d %s, want 403", path, response.Code, response.Body)
		}
	}
}

func TestPolicyBadInput(t *testing.T) {
	t.Parallel()
	s := policyServer(t)
	mustSend(t, s, "admin", http.MethodPost, clusterPolicies, "application/json", policyJSON(clusterPolicies, "one", "Allow", ""))
	for _, tc := range []struct {
		name, more string
		wantCode   int
		want       string
	}{
		{"a misspelt field", `,"subject":[]`, 400, `unknown field \"spec.subject\"`},
		{"a field twice", `,"effect":"Deny"`, 400, `duplicate field \"spec.effect\"`},
		{"an empty list of subjects", `,"subjects":[]`, 422, "spec.subjects: Required value"},
		{"a condition that does not compile", `,"condition":"object.x =="`, 422, "spec.condition: Invalid value: "},
		{"a condition that is no bool", `,"condition":"\"x\""`, 422, "it must yield bool"},
		{"a variable that does not compile", `,"variables":[{"name":"a","expression":"1"},{"name":"b","expression":"oops"}],"condition":"true"`, 422, "spec.variables[1].expression: Invalid value"},
		{"a blank condition", `,"condition":" "`, 422, "omit it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, request := range [][3]string{
				{http.MethodPost, clusterPolicies, "application/json"},
				{http.MethodPut, clusterPolicies + "/one", "application/json"},
				{http.MethodPatch, clusterPolicies + "/one?fieldManager=m&force=true", applyPatch},
			} {
				response := send(s, "admin", request[0], request[1], request[2], policyJSON(clusterPolicies, "one", "Allow", tc.more))
				if request[2] == applyPatch && tc.wantCode == http.StatusBadRequest {
					// Server-side apply says it in other words, and with 500 if a field is unknown.
					if response.Code < http.StatusBadRequest {
						t.Errorf("%s: got %d %s, want a refusal", request[0], response.Code, response.Body)
					}
					continue
				}
				if response.Code != tc.wantCode || !strings.Contains(response.Body.String(), tc.want) {
					t.Errorf("%s: got %d %s, want %d with %s", request[0], response.Code, response.Body, tc.wantCode, tc.want)
				}
			}
		})
	}
}

func TestPolicyWarnings(t *testing.T) {
	t.Parallel()
	s := policyServer(t)
	body := strings.Replace(policyJSON(clusterPolicies, "one", "Allow", `,"condition":"has(object.x)"`), `"resources"`, `"resourceNames":["a"],"resources"`, 1)
	body = strings.Replace(body, `["get"]`, `["create"]`, 1)
	response := send(s, "admin", http.MethodPost, clusterPolicies, "application/json", body)
	got := strings.Join(response.Header().Values("Warning"), "\n")
	for _, want := range []string{"spec.rules[0] (create pods): the front door is disabled", "spec.rules[0].resourceNames: a POST has no name at authorization"} {
		if response.Code != http.StatusCreated || !strings.Contains(got, want) {
			t.Errorf("got %d with the warnings %s, want %q among them", response.Code, got, want)
		}
	}
}

func TestPolicyDiscovery(t *testing.T) {
	t.Parallel()
	s := policyServer(t)
	var list metav1.APIResourceList
	if err := json.Unmarshal(send(s, "admin", http.MethodGet, policyGroup, "", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list.APIResources {
		got = append(got, fmt.Sprintf("%s %s %s %v %v %v %v", r.Name, r.SingularName, r.Kind, r.Namespaced, r.ShortNames, r.Categories, r.Verbs))
	}
	want := []string{
		"authorizationpolicies authorizationpolicy AuthorizationPolicy true [ap] [authorization] [create delete deletecollection get list patch update watch]",
		"authorizationpolicies/status  AuthorizationPolicy true [] [] [get patch update]",
		"clusterauthorizationpolicies clusterauthorizationpolicy ClusterAuthorizationPolicy false [cap] [authorization] [create delete deletecollection get list patch update watch]",
		"clusterauthorizationpolicies/status  ClusterAuthorizationPolicy false [] [] [get patch update]",
		"enforcementconfigurations enforcementconfiguration EnforcementConfiguration false [] [authorization] [create delete deletecollection get list patch update watch]",
		"enforcementconfigurations/status  EnforcementConfiguration false [] [] [get patch update]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestPolicyTable(t *testing.T) {
	t.Parallel()
	eachCollection(t, func(t *testing.T, s *server.Server, collection string) {
		mustSend(t, s, "admin", http.MethodPost, collection, "application/json", policyJSON(collection, "one", "Deny", `,"subjects":null,"condition":"request.name == \"a\""`))
		for _, path := range []string{"", "/one"} {
			recorder := s.Answer(func() *http.Request {
				request := httptest.NewRequest(http.MethodGet, collection+path, nil)
				request.Header.Set(server.UserHeader, "admin")
				request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
				return request
			})
			var table metav1.Table
			if err := json.Unmarshal(recorder.Body.Bytes(), &table); err != nil {
				t.Fatal(err)
			}
			if len(table.Rows) != 1 || len(table.ColumnDefinitions) != 12 || len(table.Rows[0].Cells) != 12 {
				t.Fatalf("got %+v, want one row of 12 columns", table)
			}
			if diff := cmp.Diff([]any{"one", "Deny", "Enforce", "<all users>", "pods", `request.name == "a"`, "Unknown"}, table.Rows[0].Cells[:7]); diff != "" {
				t.Errorf("cells (-want +got):\n%s", diff)
			}
		}
	})
}
