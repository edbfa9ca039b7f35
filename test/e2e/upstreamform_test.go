/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// handling is a stand-in for a kube-apiserver that handles conditional decisions: it asks the front door with options, and has the conditions
// evaluated at admission. It knows the form as JSON only.
type handling struct {
	client *http.Client
	url    string
}

// anyDecision is a decision with its type. The stand-in sends it back as it came.
type anyDecision struct {
	Type string `json:"type"`
}

// ask asks whether ann may make a write, and returns the decision if it is conditional, or an outcome.
func (h handling) ask(t *testing.T, verb, resource string) (conditional json.RawMessage, outcome string) {
	t.Helper()
	name := "c"
	if verb == "create" { // the name is in the object
		name = ""
	}
	code, body := post(t, h.client, h.url+frontdoor.AuthorizePath, fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
		"user": "ann", "groups": ["system:authenticated"], "resourceAttributes": {"verb": %q, "version": "v1", "resource": %q, "namespace": "form", "name": %q},
		"authorizationOptions": {"handledDecisionTypes": ["Allow", "Deny", "NoOpinion", "ConditionsMap", "Union"]}}}`, verb, resource, name))
	var review struct {
		Status struct {
			Allowed, Denied     bool
			ConditionalDecision json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(body), &review); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	switch status := review.Status; {
	case status.ConditionalDecision != nil:
		return status.ConditionalDecision, ""
	case status.Allowed:
		return nil, "Allow"
	case status.Denied:
		return nil, "Deny"
	}
	return nil, "NoOpinion"
}

// decide returns the outcome of a write with its objects: Allow, Deny or NoOpinion.
func (h handling) decide(t *testing.T, verb, operation, object, oldObject string) string {
	t.Helper()
	decision, outcome := h.ask(t, verb, "persistentvolumeclaims")
	if decision == nil {
		return outcome
	}
	const resource = `{"group": "", "version": "v1", "resource": "persistentvolumeclaims"}`
	const kind = `{"group": "", "version": "v1", "kind": "PersistentVolumeClaim"}`
	request := fmt.Sprintf(`{"uid": "u1", "kind": %s, "requestKind": %s, "resource": %s, "requestResource": %s, "name": "c", "namespace": "form", "operation": %q,
		"userInfo": {"username": "ann", "groups": ["system:authenticated"]}, "object": %s, "oldObject": %s}`, kind, kind, resource, resource, operation, object, oldObject)
	code, body := post(t, h.client, h.url+innerdoor.ConditionsPath, fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "AuthorizationConditionsReview",
		"request": {"decision": %s, "admissionRequest": %s}}`, decision, request))
	var review struct {
		Response struct {
			UID      string
			Decision anyDecision
		}
	}
	if err := json.Unmarshal([]byte(body), &review); err != nil || code != http.StatusOK || review.Response.UID != "u1" {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	return review.Response.Decision.Type
}

// TestKubeAPIServerThatHandlesConditions lets a server with the gate decide for a stand-in of such a kube-apiserver.
func TestKubeAPIServerThatHandlesConditions(t *testing.T) {
	inNamespace(t, "form")
	alone, err := stack.Alone(t.Context(), "--feature-gates=UpstreamConditionalDecisions=true")
	t.Cleanup(alone.Stop)
	if err != nil {
		t.Fatal(err)
	}
	config := config(t, "admin-direct")
	config.Host, config.CAFile = alone.URL, stack.CAFile()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	policies := client.PolicyV1alpha1().ClusterAuthorizationPolicies()
	for name, spec := range map[string]policyv1alpha1.AuthorizationPolicySpec{
		"form-dev":   {Effect: policyv1alpha1.PolicyEffectAllow, Condition: `object.spec.storageClassName == "dev"`, Rules: rulesFor("create", "update", "patch")},
		"form-reads": {Effect: policyv1alpha1.PolicyEffectAllow, Rules: rulesFor("get")},
		"form-kept":  {Effect: policyv1alpha1.PolicyEffectDeny, Condition: `oldObject.metadata.?labels.kept.hasValue()`, Rules: rulesFor("update", "delete")},
		"form-loose": {Effect: policyv1alpha1.PolicyEffectAllow, Rules: rulesFor("delete")},
	} {
		spec.Subjects = []rbacv1.Subject{{Kind: "User", Name: "ann"}}
		if _, err := policies.Create(t.Context(), &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = policies.Delete(t.Context(), name, metav1.DeleteOptions{}) })
	}
	server := handling{client: withCA(t, stack.CAFile(), alone.CertFile, alone.KeyFile), url: alone.FrontDoorURL}
	waitUntil(t, "kube-apiserver gets conditions", func() bool {
		decision, _ := server.ask(t, "update", "persistentvolumeclaims")
		return strings.Contains(string(decision), "form-dev") && strings.Contains(string(decision), "form-kept")
	})
	claim := func(class, labels string) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "form", "labels": {%s}}, "spec": {"storageClassName": %q}}`, labels, class)
	}
	const kept = `"kept": "yes"`
	for _, tc := range []struct {
		name, verb, operation, object, old, want string
	}{
		{"create", "create", "CREATE", claim("dev", ""), "null", "Allow"},
		{"create of another class", "create", "CREATE", claim("gold", ""), "null", "NoOpinion"},
		{"create without a class", "create", "CREATE", `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {}, "spec": {}}`, "null", "NoOpinion"},
		{"update", "update", "UPDATE", claim("dev", `"a": "b"`), claim("dev", ""), "Allow"},
		{"update of what is kept", "update", "UPDATE", claim("dev", ""), claim("dev", kept), "Deny"},
		{"update to another class", "update", "UPDATE", claim("gold", ""), claim("dev", ""), "NoOpinion"},
		{"patch, which no policy denies", "patch", "UPDATE", claim("dev", ""), claim("dev", kept), "Allow"},
		{"delete", "delete", "DELETE", "null", claim("gold", ""), "Allow"},
		{"delete of what is kept", "delete", "DELETE", "null", claim("gold", kept), "Deny"},
		{"delete without the object", "delete", "DELETE", "null", "null", "Deny"},
	} {
		if got := server.decide(t, tc.verb, tc.operation, tc.object, tc.old); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
	for _, verb := range []string{"get", "list", "deletecollection"} {
		if decision, _ := server.ask(t, verb, "persistentvolumeclaims"); decision != nil {
			t.Errorf("%s: got the conditions %s", verb, decision)
		}
	}
	certFile, keyFile, err := stack.FrontDoorCertificate()
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := post(t, withCA(t, stack.CAFile(), certFile, keyFile), stack.FrontDoorURL()+innerdoor.ConditionsPath, `{}`); code != http.StatusNotFound {
		t.Errorf("without the gate, conditions are evaluated: %d", code)
	}
}

func rulesFor(verbs ...string) []policyv1alpha1.PolicyRule {
	return []policyv1alpha1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumeclaims"}}}
}
