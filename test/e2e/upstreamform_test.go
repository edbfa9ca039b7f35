/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/poll"
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
	return h.authorize(t, "ann", &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: resource, Namespace: "form", Name: name})
}

// review sends a review with a spec, and returns the decision if it is conditional, or an outcome.
func (h handling) review(t *testing.T, spec string) (conditional json.RawMessage, outcome string) {
	t.Helper()
	code, body := post(t, h.client, h.url+frontdoor.AuthorizePath, `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": `+spec+`}`)
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
	return h.evaluate(t, decision, json.RawMessage(request))
}

// evaluate sends conditions back with an AdmissionRequest whose uid is u1, and returns the outcome: Allow, Deny or NoOpinion.
func (h handling) evaluate(t *testing.T, decision json.RawMessage, admissionRequest any) string {
	t.Helper()
	code, body := post(t, h.client, h.url+innerdoor.ConditionsPath, fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "AuthorizationConditionsReview",
		"request": {"decision": %s, "admissionRequest": %s}}`, decision, mustJSON(admissionRequest)))
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
	alone := startAlone(t, "--feature-gates=UpstreamConditionalDecisions=true")
	client := stack.ClientAt(t, "admin-direct", alone.URL)
	storePolicies(t, client, map[string]policyv1alpha1.AuthorizationPolicySpec{
		"form-dev":   {Effect: policyv1alpha1.PolicyEffectAllow, Subjects: users("ann"), Condition: `object.spec.storageClassName == "dev"`, Rules: rulesFor("create", "update", "patch")},
		"form-reads": {Effect: policyv1alpha1.PolicyEffectAllow, Subjects: users("ann"), Rules: rulesFor("get")},
		"form-kept":  {Effect: policyv1alpha1.PolicyEffectDeny, Subjects: users("ann"), Condition: `oldObject.metadata.?labels.kept.hasValue()`, Rules: rulesFor("update", "patch", "delete")},
		"form-loose": {Effect: policyv1alpha1.PolicyEffectAllow, Subjects: users("ann"), Rules: rulesFor("delete")},
	})
	server := handling{client: withCA(t, stack.CAFile(), alone.CertFile, alone.KeyFile), url: alone.FrontDoorURL}
	poll.Holds(t, "kube-apiserver gets conditions", func() bool {
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
		{"patch of what is kept", "patch", "UPDATE", claim("dev", ""), claim("dev", kept), "Deny"},
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
	must(t, err)
	if code, _ := post(t, withCA(t, stack.CAFile(), certFile, keyFile), stack.FrontDoorURL()+innerdoor.ConditionsPath, `{}`); code != http.StatusNotFound {
		t.Errorf("without the gate, conditions are evaluated: %d", code)
	}
}

// formReviews are reviews in both forms, by kind and form. alice may create claims of class dev, and so may frida.
var formReviews = map[string]string{
	"subjectaccessreview/kep":           `{"kind": "SubjectAccessReview", "spec": {"user": "frida", "resourceAttributes": %[1]s, "conditionalAuthorization": {"mode": "HumanReadable"}}}`,
	"subjectaccessreview/upstream":      `{"kind": "SubjectAccessReview", "spec": {"user": "frida", "resourceAttributes": %[1]s, "authorizationOptions": %[2]s}}`,
	"selfsubjectaccessreview/kep":       `{"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": %[1]s, "conditionalAuthorization": {"mode": "HumanReadable"}}}`,
	"selfsubjectaccessreview/upstream":  `{"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": %[1]s, "authorizationOptions": %[2]s}}`,
	"localsubjectaccessreview/kep":      `{"kind": "LocalSubjectAccessReview", "metadata": {"namespace": "forms"}, "spec": {"user": "frida", "resourceAttributes": %[1]s, "conditionalAuthorization": {"mode": "HumanReadable"}}}`,
	"localsubjectaccessreview/upstream": `{"kind": "LocalSubjectAccessReview", "metadata": {"namespace": "forms"}, "spec": {"user": "frida", "resourceAttributes": %[1]s, "authorizationOptions": %[2]s}}`,
	"authorizationconditionsreview/kep": `{"kind": "AuthorizationConditionsReview", "request": {"operation": "CREATE", "object": {"spec": {"storageClassName": "dev"}},
		"conditionSets": [{"authorizerName": "a", "conditions": [{"id": "example.com/dev", "effect": "Allow", "type": "authorizer.kubernetes.io/cel", "condition": "object.spec.storageClassName == \"dev\""}]}]}}`,
	"authorizationconditionsreview/upstream": `{"kind": "AuthorizationConditionsReview", "request": {
		"decision": {"type": "Union", "union": [{"authorizerName": "a", "decision": {"type": "ConditionsMap", "conditionsMap": {
			"allowConditions": [{"id": "example.com/dev", "type": "authorizer.kubernetes.io/cel", "condition": "object.spec.storageClassName == \"dev\""}]}}}]},
		"admissionRequest": {"uid": "705ab4f5", "operation": "CREATE", "object": {"spec": {"storageClassName": "dev"}}}}}`,
}

// TestReviewsInBothForms creates reviews in both forms and both groups with kubectl. The golden files have the answers, which differ in apiVersion alone.
func TestReviewsInBothForms(t *testing.T) {
	inNamespace(t, "forms")
	alone := startAlone(t, "--feature-gates=UpstreamConditionalDecisions=true")
	client := stack.ClientAt(t, "admin-direct", alone.URL)
	storePolicies(t, client, map[string]policyv1alpha1.AuthorizationPolicySpec{"forms-dev": {
		Effect: policyv1alpha1.PolicyEffectAllow, Description: "claims of class dev", Condition: `object.spec.storageClassName == "dev"`, Rules: rulesFor("create"), Subjects: users("frida", "alice"),
	}})
	create := func(review, version string) (string, error) {
		review = strings.ReplaceAll(review, "%[1]s", `{"verb": "create", "version": "v1", "resource": "persistentvolumeclaims", "namespace": "forms"}`)
		review = strings.ReplaceAll(review, "%[2]s", `{"handledDecisionTypes": ["Allow", "Deny", "NoOpinion", "ConditionsMap", "Union"]}`)
		out, errs, err := kubectlWithInput(t, "alice-direct", fmt.Sprintf(`{"apiVersion": %q, %s`, version, review[1:]),
			"--server", alone.URL, "--certificate-authority", stack.CAFile(), "create", "-f", "-", "-o", "yaml")
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, errs)
		}
		return out, nil
	}
	poll.Holds(t, "the policy decides", func() bool {
		answer, err := create(formReviews["selfsubjectaccessreview/kep"], officialReviews)
		return err == nil && strings.Contains(answer, "forms-dev")
	})
	for name, review := range formReviews {
		for _, version := range []string{officialReviews, ownReviews} {
			got, err := create(review, version)
			if err != nil {
				t.Errorf("%s of %s: %v", name, version, err)
				continue
			}
			if !strings.Contains(got, "apiVersion: "+version+"\n") {
				t.Errorf("%s: the answer is not in the version %s:\n%s", name, version, got)
			}
			golden.Compare(t, "testdata/forms/"+strings.ReplaceAll(name, "/", "-")+".golden.yaml", strings.Replace(got, "apiVersion: "+version, "apiVersion: "+officialReviews, 1))
		}
	}
	if files, err := os.ReadDir("testdata/forms"); err != nil || len(files) != len(formReviews) {
		t.Errorf("there are %d golden files for %d reviews: %v", len(files), len(formReviews), err)
	}
	for name, review := range map[string]string{
		"a mode and options":     `{"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": %[1]s, "conditionalAuthorization": {"mode": "HumanReadable"}, "authorizationOptions": %[2]s}}`,
		"two forms":              strings.Replace(formReviews["authorizationconditionsreview/upstream"], `"request": {`, `"request": {"operation": "CREATE",`, 1),
		"a field of no decision": strings.Replace(formReviews["authorizationconditionsreview/upstream"], `"decision": {"type": "Union"`, `"decision": {"unless": 1, "type": "Union"`, 1),
	} {
		if answer, err := create(review, officialReviews); err == nil || !strings.Contains(err.Error(), "BadRequest") {
			t.Errorf("%s: got %v %s, want 400", name, err, answer)
		}
	}
}

// TestProvisosOfDifferentForms lets Provisos with and without the gate ask each other, in both forms. A Proviso that does not know the form in which it is
// asked answers without conditions. A decision of a server with the gate is sent to one without it, as after a downgrade: no answer has a decision.
func TestProvisosOfDifferentForms(t *testing.T) {
	const gate = "--feature-gates=UpstreamConditionalDecisions=true"
	first := startAlone(t, gate)
	_, shared := clients(t, "admin-direct")
	for _, client := range []versioned.Interface{stack.ClientAt(t, "admin-direct", first.URL), shared} {
		storePolicies(t, client, map[string]policyv1alpha1.AuthorizationPolicySpec{"forms-differ": {
			Effect: policyv1alpha1.PolicyEffectAllow, Subjects: users("carol"), Condition: "object.spec.storageClassName == 'forms'",
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"demo.proviso.dev"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"virtualmachines"}}},
		}})
	}
	review := &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
		User:                 "carol",
		ResourceAttributes:   &authorizationv1.ResourceAttributes{Verb: "create", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo"},
		AuthorizationOptions: &authorizationv1alpha1.AuthorizationOptions{HandledDecisionTypes: []string{"ConditionsMap", "Union"}},
	}}
	var answer *authorizationv1alpha1.SubjectAccessReview
	var err error
	poll.Holds(t, "the policy decides", func() bool {
		answer, err = stack.ClientAt(t, "admin-direct", first.URL).AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		return err == nil && answer.Status.ConditionalDecision != nil
	})
	if downgraded, err := shared.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil || downgraded.Status.ConditionalDecision != nil || downgraded.Status.Allowed {
		t.Errorf("options without the gate: %+v, %v", downgraded, err)
	}
	conditions := &authorizationv1alpha1.AuthorizationConditionsReview{Request: &authorizationv1alpha1.AuthorizationConditionsRequest{
		Decision: answer.Status.ConditionalDecision, AdmissionRequest: &runtime.RawExtension{Raw: []byte(`{"uid": "1", "operation": "CREATE", "object": {"spec": {"storageClassName": "forms"}}}`)},
	}}
	if _, err := shared.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), conditions, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("conditions after a downgrade: got %v, want 400", err)
	}
	evaluated, err := stack.ClientAt(t, "admin-direct", first.URL).AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), conditions, metav1.CreateOptions{})
	if err != nil || evaluated.Response.UID != "1" || !strings.Contains(string(evaluated.Response.Decision.Raw), `"type":"Allow"`) {
		t.Errorf("with the gate: %+v, %v", evaluated, err)
	}

	withGate := clientcmdapi.Cluster{Server: first.URL, CertificateAuthority: stack.CAFile()}
	without := clientcmdapi.Cluster{Server: stack.ProvisoURL(), CertificateAuthority: stack.ProvisoCAFile(), TLSServerName: cluster.ServerName}
	const (
		upstream = "conditionsReview: {version: v1alpha1, kubeConfigContextName: conditions}"
		kep      = "conditionsEndpointKubeConfigContext: conditions\n    authorizationConditionsReviewVersion: v1alpha1"
	)
	for _, tc := range []struct {
		name    string
		asked   clientcmdapi.Cluster
		form    string
		gate    string
		allowed bool
	}{
		{"both know the form", withGate, upstream, gate, true},
		{"the asked one does not know the form", without, upstream, gate, false},
		{"the asking one does not know the form", withGate, kep, "--feature-gates=UpstreamConditionalDecisions=false", true},
		{"the asking one knows both", without, kep, gate, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// A store of its own, so that the policies of the asked server alone decide.
			second := startAlone(t, tc.gate, "--etcd-prefix=/forms", "--authorization-config="+webhookConfigOf(t, tc.asked, tc.form))
			carol := stack.ClientAt(t, "carol-direct", second.URL)
			create := func(class string) error {
				vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "forms"}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian-12", StorageClassName: class}}
				_, err := carol.DemoV1alpha1().VirtualMachines("demo").Create(t.Context(), vm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}
			if tc.allowed {
				poll.Holds(t, "carol may create a machine of her class", func() bool { return create("forms") == nil })
			} else if err := create("forms"); !apierrors.IsForbidden(err) {
				t.Errorf("got %v, want 403", err)
			}
			if err := create("other"); !apierrors.IsForbidden(err) {
				t.Errorf("another class: got %v, want 403", err)
			}
		})
	}
}

func rulesFor(verbs ...string) []policyv1alpha1.PolicyRule {
	return []policyv1alpha1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumeclaims"}}}
}
