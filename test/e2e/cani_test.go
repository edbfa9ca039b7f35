/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// canITable is testdata/can-i.yaml.
type canITable struct {
	Setup  []json.RawMessage
	Checks []*canICheck
}

const (
	canIMachines = "virtualmachines.demo.proviso.dev"
	canIMaps     = "configmaps"
	dependsOn    = "the answer depends on conditions, and the review does not name one verb, group, version and resource: "
)

// canIReasons replaces the words for dependence on conditions.
var canIReasons = strings.NewReplacer("ALLOWED ", dependsOn+"allowed on conditions: ", "DENIED ", dependsOn+"one condition could deny: ", "KEPT ", dependsOn+"one condition could keep Allow policies from allowing: ")

// canICheck is a check by kubectl auth can-i.
type canICheck struct {
	User, Verb, Resource, Sub, Name string

	Answer, Passes bool
	Reason         string
}

const howToSee = "to see the conditions, create the review of authorization.proviso.dev/v1alpha1 with spec.conditionalAuthorization.mode"

// TestCanI compares the answers of kubectl auth can-i with what happens to requests: no answer is yes if no request passes, and
// a "no" for a request that passes has a reason that names the conditions. It is not parallel, because policies for the cluster
// of other tests would change the answers.
func TestCanI(t *testing.T) {
	file := &canITable{}
	readYAML(t, "testdata/can-i.yaml", file)
	manifest := ""
	for _, object := range file.Setup {
		manifest += "---\n" + string(object) + "\n"
	}
	apply(t, manifest)
	sender := newSender(t, "admin")
	page := readText(t, filepath.Join(stack.Repository, "docs", "troubleshooting.md"))
	for _, q := range file.Checks {
		want := canIReasons.Replace(q.Reason)
		if how, depends := strings.CutPrefix(want, dependsOn); depends {
			if how, _, _ = strings.Cut(how, ":"); !strings.Contains(page, "| `"+how+"` |") {
				t.Errorf("docs/troubleshooting.md does not explain %q", how)
			}
		}
		answer, reason := q.ask(t)
		passed, sent := q.passed(t, sender)
		switch {
		case answer && !passed:
			t.Errorf("%s: yes, but every request is refused: %s", q, sent)
		case answer != q.Answer || passed != q.Passes:
			t.Errorf("%s: got %t (%s), and %t of the requests; want %t and %t: %s", q, answer, reason, passed, q.Answer, q.Passes, sent)
		case !strings.HasPrefix(reason, want) || want == "" && reason != "":
			t.Errorf("%s: got the reason %q, want %q", q, reason, want)
		case strings.HasPrefix(want, dependsOn) && !strings.HasSuffix(reason, "; "+howToSee):
			t.Errorf("%s: the reason %q does not say how to see the conditions", q, reason)
		case !answer && passed:
			t.Logf("%s: no, but a request passes: %s", q, reason)
		}
		if !q.isComplete() {
			continue
		}
		// The same check with a mode has conditions where kubectl gets "no" for a request that passes.
		status := q.review(t)
		if conditional := len(status.ConditionsChain) > 0; status.Allowed && !passed || passed && !status.Allowed && !conditional || conditional && answer {
			t.Errorf("%s with a mode: got %+v, but %t of the requests", q, status, passed)
		}
	}

	t.Run("a connection needs two verbs", func(t *testing.T) { // ADR 28
		q := &canICheck{User: "agent", Verb: "get", Resource: canIMachines, Sub: "console", Name: "dev"}
		answer, _ := q.ask(t)
		if passed, sent := q.passed(t, sender); !answer || passed {
			t.Errorf("got %t, and %t of the requests, want yes and none: docs/adr/0028 describes the exception: %s", answer, passed, sent)
		}
	})
}

const canINamespace = "can-i"

func (q *canICheck) String() string { return q.User + ": " + q.arguments() }

func (q *canICheck) arguments() string {
	arguments := q.Verb + " " + q.Resource
	if q.Name != "" {
		arguments += "/" + q.Name
	}
	if q.Sub != "" {
		arguments += " --subresource=" + q.Sub
	}
	return arguments
}

// ask returns the answer of kubectl, and its reason if it is "no".
func (q *canICheck) ask(t *testing.T) (yes bool, reason string) {
	t.Helper()
	out, errs, err := kubectl(t, q.User, append([]string{"auth", "can-i", "--namespace", canINamespace}, strings.Fields(q.arguments())...)...)
	out = strings.TrimSpace(out)
	if out == "yes" {
		return true, ""
	}
	if err == nil || !strings.HasPrefix(out, "no") {
		t.Fatalf("%s: got %q: %s", q, out, errs)
	}
	// kube-apiserver puts the name of the authorizer before a reason without an opinion.
	return false, strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(out, "no"), " - "), "proviso.front-door: ")
}

// review sends the same check to Proviso, with a mode and without a version.
func (q *canICheck) review(t *testing.T) authorizationv1alpha1.SubjectAccessReviewStatus {
	t.Helper()
	_, proviso := clients(t, q.User)
	resource, group, _ := strings.Cut(q.Resource, ".")
	answer, err := proviso.AuthorizationV1alpha1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SelfSubjectAccessReview{
		Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{
			ResourceAttributes:       &authorizationv1.ResourceAttributes{Verb: q.Verb, Group: group, Resource: resource, Subresource: q.Sub, Name: q.Name, Namespace: canINamespace},
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return answer.Status
}

// isComplete reports whether a review can describe the check: Proviso serves the resource, and every object has a name.
func (q *canICheck) isComplete() bool {
	return q.Resource == canIMachines && (q.Name != "" || slices.Contains([]string{"create", "list", "watch", "deletecollection"}, q.Verb))
}

// canIRequest is a request that a check is about. Nothing is stored.
type canIRequest struct{ method, path, contentType, body string }

// passed reports whether one of the requests that the check is about passes.
func (q *canICheck) passed(t *testing.T, sender *requests.Sender) (passed bool, codes string) {
	t.Helper()
	var seen []string
	for _, r := range q.requests() {
		code, body := sender.Send(t, &requests.User{Name: q.User, Certificate: true}, r.method, r.path, r.contentType, r.body)
		seen = append(seen, fmt.Sprintf("%s %s: %d", r.method, r.path, code))
		switch code {
		case http.StatusOK, http.StatusCreated:
			passed = true
		case http.StatusForbidden:
		default:
			t.Fatalf("%s: %s %s: got %d %s", q, r.method, r.path, code, body)
		}
	}
	return passed, strings.Join(seen, ", ")
}

// requests returns the requests that the check is about. If it names no object, they are about every object.
func (q *canICheck) requests() []canIRequest {
	collection, names, kind := "/apis/demo.proviso.dev/v1alpha1/namespaces/"+canINamespace+"/virtualmachines", []string{"dev", "prod"}, `"apiVersion": "demo.proviso.dev/v1alpha1", "kind": "VirtualMachine"`
	if q.Resource == canIMaps {
		collection, names, kind = "/api/v1/namespaces/"+canINamespace+"/configmaps", []string{"c", "d"}, `"apiVersion": "v1", "kind": "ConfigMap"`
	}
	query := url.Values{"dryRun": {"All"}}
	switch q.Verb {
	case "list":
		return []canIRequest{{method: http.MethodGet, path: collection}}
	case "watch":
		return []canIRequest{{method: http.MethodGet, path: collection + "?watch=true&timeoutSeconds=1"}}
	case "deletecollection":
		var requests []canIRequest
		for _, selector := range []string{"", "class=dev", "class=prod"} {
			query.Set("labelSelector", selector)
			requests = append(requests, canIRequest{method: http.MethodDelete, path: collection + "?" + query.Encode()})
		}
		return requests
	}
	if q.Name != "" {
		names = []string{q.Name}
	}
	var requests []canIRequest
	for _, name := range names {
		object := collection + "/" + name
		content := fmt.Sprintf(`"spec": {"image": "debian-13", "storageClassName": %q}`, name)
		if q.Resource == canIMaps {
			content = `"data": {"a": "c"}`
		}
		r := canIRequest{contentType: "application/json", path: object + "?" + query.Encode()}
		switch {
		case q.Sub == "console":
			r.method, r.path = map[string]string{"get": http.MethodGet, "create": http.MethodPost}[q.Verb], object+"/console"
		case q.Verb == "get":
			r.method = http.MethodGet
		case q.Verb == "create":
			r.method, r.path, r.body = http.MethodPost, collection+"?"+query.Encode(), fmt.Sprintf(`{%s, "metadata": {"name": "new"}, %s}`, kind, content)
		case q.Verb == "update":
			if q.Sub != "" {
				r.path = object + "/" + q.Sub + "?" + query.Encode()
			}
			r.method, r.body = http.MethodPut, fmt.Sprintf(`{%s, "metadata": {"name": %q}, %s}`, kind, name, content)
		case q.Verb == "patch":
			r.method, r.contentType, r.body = http.MethodPatch, "application/merge-patch+json", `{"metadata": {"labels": {"a": "b"}}}`
		case q.Verb == "delete":
			r.method = http.MethodDelete
		}
		requests = append(requests, r)
	}
	return requests
}
