/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// canIManifest has the objects, RBAC and policies of TestCanI, in a namespace of its own. carol may do nothing by RBAC, admin everything.
const canIManifest = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: can-i}, data: {a: b}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: can-i}, data: {a: b}}
- {apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, metadata: {name: dev, namespace: can-i, labels: {class: dev}}, spec: {image: debian-12, storageClassName: dev}}
- {apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, metadata: {name: prod, namespace: can-i, labels: {class: prod}}, spec: {image: debian-12, storageClassName: prod, tags: [guarded]}}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: alice, namespace: can-i}
  rules:
  - {apiGroups: [demo.proviso.dev], resources: [virtualmachines], verbs: [get, list, watch]}
  - {apiGroups: [""], resources: [configmaps], verbs: [get, update]}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: bob, namespace: can-i}
  rules:
  - {apiGroups: [demo.proviso.dev], resources: [virtualmachines, virtualmachines/status, virtualmachines/console], verbs: ["*"]}
  - {apiGroups: [""], resources: [configmaps], verbs: [get, list, create, update]}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: agent, namespace: can-i}
  rules:
  - {apiGroups: [demo.proviso.dev], resources: [virtualmachines/console], verbs: [get]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: alice, namespace: can-i}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: alice}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: bob, namespace: can-i}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: bob}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: agent, namespace: can-i}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: agent}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: agent}]}
`

// canIPolicies are the policies of TestCanI by name: whom they are for, and the rest of their specs in YAML.
var canIPolicies = []struct{ name, user, spec string }{
	{"dev-class", "carol", `{effect: Allow, description: carol manages machines of class dev, rules: [{verbs: [create, update, patch, delete, deletecollection], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: '(operation == "DELETE" ? oldObject : object).spec.storageClassName == "dev"'}`},
	{"look", "carol", `{effect: Allow, rules: [{verbs: [get, list], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]}`},
	{"one-map", "carol", `{effect: Allow, rules: [{verbs: [get], apiGroups: [""], resources: [configmaps], resourceNames: [c]}]}`},
	{"new-maps", "carol", `{effect: Allow, description: conditions on core objects are not enforced, rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}], condition: 'size(object.data) == 1'}`},
	{"console", "carol", `{effect: Allow, description: carol opens consoles without a command, rules: [{verbs: [get, create], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines/console]}], condition: 'object.?command.orValue("") == ""'}`},
	{"guarded", "bob", `{effect: Deny, description: guarded machines stay, rules: [{verbs: [delete], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: '"guarded" in oldObject.spec.?tags.orValue([])'}`},
	{"no-edge", "bob", `{effect: Deny, description: bob places nothing at the edge, rules: [{verbs: [create, update], apiGroups: [demo.proviso.dev], apiVersions: ["*"], resources: [virtualmachines]}], condition: 'object.spec.?nodeName.orValue("") == "edge"'}`},
	{"no-collections", "bob", `{effect: Deny, rules: [{verbs: [deletecollection], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]}`},
	{"small-maps", "bob", `{effect: Deny, description: conditions on core objects always deny, rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}], condition: 'size(object.data) > 1'}`},
	{"not-prod", "alice", `{effect: Deny, rules: [{verbs: [get], apiGroups: [demo.proviso.dev], resources: [virtualmachines], resourceNames: [prod]}]}`},
	{"by-name", "alice", `{effect: Allow, description: alice patches the machine dev, rules: [{verbs: [patch], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}], condition: 'request.name == "dev"'}`},
	{"not-d", "alice", `{effect: Deny, description: alice leaves d alone, rules: [{verbs: [update], apiGroups: [""], resources: [configmaps]}], condition: 'request.name == "d"'}`},
	{"this-version", "agent", `{effect: Allow, description: agent knows v1alpha1 only, rules: [{verbs: [get, list], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]}`},
	{"another-version", "agent", `{effect: Allow, rules: [{verbs: [watch], apiGroups: [demo.proviso.dev], apiVersions: [v9], resources: [virtualmachines]}]}`},
	{"patches", "agent", `{effect: Allow, rules: [{verbs: [patch], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]}`},
	{"not-on-prod", "agent", `{effect: NoOpinion, description: policies do not let agent patch prod, rules: [{verbs: [patch], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: 'oldObject.spec.storageClassName == "prod"'}`},
}

const (
	canIMachines   = "virtualmachines.demo.proviso.dev"
	canIMaps       = "configmaps"
	dependsOn      = "the answer depends on conditions, and the review does not name one verb, group, version and resource: "
	allowedIf      = dependsOn + "allowed on conditions: "
	deniedIf       = dependsOn + "one condition could deny: "
	keptIf         = dependsOn + "one condition could keep Allow policies from allowing: "
	canIConditions = `policy=can-i/`
)

// canICheck is a check by kubectl auth can-i. reason is the beginning of the reason of a "no".
type canICheck struct {
	user, verb, resource, sub, name string

	answer bool
	passes bool
	reason string
}

// canIChecks are 60 checks, of which some are about one object. A check whose answer differs from passes is in
// docs/can-i.md.
var canIChecks = []canICheck{
	{"alice", "get", canIMachines, "", "", true, true, ""},
	{"alice", "list", canIMachines, "", "", true, true, ""},
	{"alice", "watch", canIMachines, "", "", true, true, ""},
	{"alice", "get", canIMachines, "", "dev", true, true, ""},
	{"alice", "get", canIMachines, "", "prod", false, false, `policy=can-i/not-prod reason=Denied`},
	{"alice", "create", canIMachines, "", "", false, false, ""},
	{"alice", "patch", canIMachines, "", "", false, true, allowedIf + canIConditions + `by-name (alice patches the machine dev)`},
	{"alice", "patch", canIMachines, "", "dev", false, true, allowedIf + canIConditions + `by-name`},
	{"alice", "patch", canIMachines, "", "prod", false, false, allowedIf + canIConditions + `by-name`},
	{"alice", "update", canIMachines, "status", "dev", false, false, ""},
	{"alice", "get", canIMaps, "", "c", true, true, ""},
	{"alice", "update", canIMaps, "", "c", false, true, deniedIf + canIConditions + `not-d (alice leaves d alone)`},
	{"alice", "update", canIMaps, "", "d", false, false, deniedIf + canIConditions + `not-d`},
	{"alice", "delete", canIMaps, "", "c", false, false, ""},

	{"bob", "get", canIMachines, "", "", true, true, ""},
	{"bob", "list", canIMachines, "", "", true, true, ""},
	{"bob", "patch", canIMachines, "", "prod", true, true, ""},
	{"bob", "create", canIMachines, "", "", false, true, deniedIf + canIConditions + `no-edge (bob places nothing at the edge)`},
	{"bob", "update", canIMachines, "", "dev", false, true, deniedIf + canIConditions + `no-edge`},
	{"bob", "delete", canIMachines, "", "", false, true, deniedIf + canIConditions + `guarded (guarded machines stay)`},
	{"bob", "delete", canIMachines, "", "dev", false, true, deniedIf + canIConditions + `guarded`},
	{"bob", "delete", canIMachines, "", "prod", false, false, deniedIf + canIConditions + `guarded`},
	{"bob", "deletecollection", canIMachines, "", "", false, false, `policy=can-i/no-collections reason=Denied`},
	{"bob", "update", canIMachines, "status", "dev", true, true, ""},
	{"bob", "get", canIMachines, "console", "dev", true, true, ""},
	{"bob", "create", canIMachines, "console", "dev", true, true, ""},
	{"bob", "list", canIMaps, "", "", true, true, ""},
	{"bob", "create", canIMaps, "", "", false, false, deniedIf + canIConditions + `small-maps`},
	{"bob", "update", canIMaps, "", "c", true, true, ""},
	{"bob", "delete", canIMaps, "", "", false, false, ""},

	{"carol", "get", canIMachines, "", "", true, true, ""},
	{"carol", "list", canIMachines, "", "", true, true, ""},
	{"carol", "watch", canIMachines, "", "", false, false, ""},
	{"carol", "create", canIMachines, "", "", false, true, allowedIf + canIConditions + `dev-class (carol manages machines of class dev)`},
	{"carol", "update", canIMachines, "", "dev", false, true, allowedIf + canIConditions + `dev-class`},
	{"carol", "patch", canIMachines, "", "dev", false, true, allowedIf + canIConditions + `dev-class`},
	{"carol", "delete", canIMachines, "", "dev", false, true, allowedIf + canIConditions + `dev-class`},
	{"carol", "delete", canIMachines, "", "prod", false, false, allowedIf + canIConditions + `dev-class`},
	{"carol", "deletecollection", canIMachines, "", "", false, true, allowedIf + canIConditions + `dev-class`},
	{"carol", "update", canIMachines, "status", "dev", false, false, ""},
	{"carol", "get", canIMachines, "console", "dev", false, true, allowedIf + canIConditions + `console (carol opens consoles without a command)`},
	{"carol", "create", canIMachines, "console", "dev", false, true, allowedIf + canIConditions + `console`},
	{"carol", "get", canIMaps, "", "c", true, true, ""},
	{"carol", "get", canIMaps, "", "d", false, false, ""},
	{"carol", "create", canIMaps, "", "", false, false, allowedIf + canIConditions + `new-maps`},

	{"agent", "get", canIMachines, "", "dev", false, true, allowedIf + canIConditions + `this-version (agent knows v1alpha1 only)`},
	{"agent", "list", canIMachines, "", "", false, true, allowedIf + canIConditions + `this-version`},
	{"agent", "watch", canIMachines, "", "", false, false, allowedIf + canIConditions + `another-version`},
	{"agent", "patch", canIMachines, "", "dev", false, true, keptIf + canIConditions + `not-on-prod (policies do not let agent patch prod); allowed on conditions: ` + canIConditions + `patches`},
	{"agent", "patch", canIMachines, "", "prod", false, false, keptIf + canIConditions + `not-on-prod`},
	{"agent", "delete", canIMachines, "", "dev", false, false, ""},
	{"agent", "create", canIMachines, "console", "dev", false, false, ""},
	{"agent", "get", canIMaps, "", "c", false, false, ""},

	{"admin", "get", canIMachines, "", "prod", true, true, ""},
	{"admin", "create", canIMachines, "", "", true, true, ""},
	{"admin", "patch", canIMachines, "", "prod", true, true, ""},
	{"admin", "delete", canIMachines, "", "prod", true, true, ""},
	{"admin", "deletecollection", canIMachines, "", "", true, true, ""},
	{"admin", "get", canIMachines, "console", "dev", true, true, ""},
	{"admin", "create", canIMaps, "", "", true, true, ""},
}

const canIHead = `# What kubectl auth can-i answers

This page shows where ` + "`kubectl auth can-i`" + ` answers "no" although a request of the same verb, resource and name passes. A test writes
the page: it runs the command for %d checks as %d users, and makes the requests. The answer is never "yes" if none passes, with
[one exception](adr/0028-what-a-v1-review-can-say.md): a connection also needs the verb ` + "`create`" + `.

kubectl names no version, and gets no conditions. A "no" with "allowed on conditions" or "one condition could deny" therefore depends on the
request. Each of these reasons begins with *the answer depends on conditions*, and ends with *%s*.

[` + "`kubectl proviso can-i`" + `](kubectl-proviso.md#may-i) has the same arguments, and shows the conditions.

| user | check | reason of the "no" |
| --- | --- | --- |
`

const howToSee = "to see the conditions, create the review of authorization.k8s.io/v1alpha1 with spec.conditionalAuthorization.mode"

// TestCanI compares the answers of kubectl auth can-i with what happens to requests: no answer is yes if no request passes, and
// a "no" for a request that passes has a reason that names the conditions. It is not parallel, because policies for the cluster
// of other tests would change the answers.
func TestCanI(t *testing.T) {
	mustKubectl(t, "admin", "create", "namespace", canINamespace)
	if _, errs, err := kubectlWithInput(t, "admin", canIManifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	for _, p := range canIPolicies {
		manifest := fmt.Sprintf(`{apiVersion: policy.proviso.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: %s, namespace: %s}, spec: {subjects: [{kind: User, name: %s}], %s}`,
			p.name, canINamespace, p.user, strings.TrimPrefix(p.spec, "{"))
		if _, errs, err := kubectlWithInput(t, "admin", manifest, "apply", "-f", "-"); err != nil {
			t.Fatalf("%s: %v: %s", p.name, err, errs)
		}
	}
	mustKubectl(t, "admin", "wait", "--for=condition=Ready", "--namespace", canINamespace, "authorizationpolicies", "--all")

	var table strings.Builder
	users := map[string]bool{}
	for _, q := range canIChecks {
		users[q.user] = true
		answer, reason := q.ask(t)
		passed, requests := q.passed(t)
		switch {
		case answer && !passed:
			t.Errorf("%s: yes, but every request is refused: %s", q, requests)
		case answer != q.answer || passed != q.passes:
			t.Errorf("%s: got %t (%s), and %t of the requests; want %t and %t: %s", q, answer, reason, passed, q.answer, q.passes, requests)
		case !strings.HasPrefix(reason, q.reason) || q.reason == "" && reason != "":
			t.Errorf("%s: got the reason %q, want %q", q, reason, q.reason)
		case strings.HasPrefix(q.reason, dependsOn) && !strings.HasSuffix(reason, "; "+howToSee):
			t.Errorf("%s: the reason %q does not say how to see the conditions", q, reason)
		case !answer && passed:
			t.Logf("%s: no, but a request passes: %s", q, reason)
			fmt.Fprintf(&table, "| %s | `%s` | %s |\n", q.user, q.arguments(), strings.TrimPrefix(strings.TrimSuffix(reason, "; "+howToSee), dependsOn))
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
	golden.Compare(t, filepath.Join(stack.Repository, "docs", "can-i.md"), fmt.Sprintf(canIHead, len(canIChecks), len(users), howToSee)+table.String())

	t.Run("a connection needs two verbs", func(t *testing.T) { // ADR 28
		q := canICheck{user: "agent", verb: "get", resource: canIMachines, sub: "console", name: "dev"}
		answer, _ := q.ask(t)
		if passed, requests := q.passed(t); !answer || passed {
			t.Errorf("got %t, and %t of the requests, want yes and none: docs/adr/0028 describes the exception: %s", answer, passed, requests)
		}
	})
}

const canINamespace = "can-i"

func (q canICheck) String() string { return q.user + ": " + q.arguments() }

func (q canICheck) arguments() string {
	arguments := q.verb + " " + q.resource
	if q.name != "" {
		arguments += "/" + q.name
	}
	if q.sub != "" {
		arguments += " --subresource=" + q.sub
	}
	return arguments
}

// ask returns the answer of kubectl, and its reason if it is "no".
func (q canICheck) ask(t *testing.T) (yes bool, reason string) {
	t.Helper()
	out, errs, err := kubectl(t, q.user, append([]string{"auth", "can-i", "--namespace", canINamespace}, strings.Fields(q.arguments())...)...)
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
func (q canICheck) review(t *testing.T) authorizationv1alpha1.SubjectAccessReviewStatus {
	t.Helper()
	_, proviso := clients(t, q.user)
	resource, group, _ := strings.Cut(q.resource, ".")
	answer, err := proviso.AuthorizationV1alpha1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SelfSubjectAccessReview{
		Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{
			ResourceAttributes:       &authorizationv1.ResourceAttributes{Verb: q.verb, Group: group, Resource: resource, Subresource: q.sub, Name: q.name, Namespace: canINamespace},
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return answer.Status
}

// isComplete reports whether a review can describe the check: Proviso serves the resource, and every object has a name.
func (q canICheck) isComplete() bool {
	return q.resource == canIMachines && (q.name != "" || slices.Contains([]string{"create", "list", "watch", "deletecollection"}, q.verb))
}

// canIRequest is a request that a check is about. Nothing is stored.
type canIRequest struct{ method, path, contentType, body string }

// passed reports whether one of the requests that the check is about passes.
func (q canICheck) passed(t *testing.T) (passed bool, codes string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config(t, q.user))
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, r := range q.requests() {
		request, err := http.NewRequestWithContext(t.Context(), r.method, stack.KubeAPIServerURL()+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", r.contentType)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprintf("%s %s: %d", r.method, r.path, response.StatusCode))
		switch response.StatusCode {
		case http.StatusOK, http.StatusCreated:
			passed = true
		case http.StatusForbidden:
		default:
			t.Fatalf("%s: %s %s: got %d %s", q, r.method, r.path, response.StatusCode, body)
		}
	}
	return passed, strings.Join(seen, ", ")
}

// requests returns the requests that the check is about. If it names no object, they are about every object.
func (q canICheck) requests() []canIRequest {
	collection, names, kind := "/apis/demo.proviso.dev/v1alpha1/namespaces/"+canINamespace+"/virtualmachines", []string{"dev", "prod"}, `"apiVersion": "demo.proviso.dev/v1alpha1", "kind": "VirtualMachine"`
	if q.resource == canIMaps {
		collection, names, kind = "/api/v1/namespaces/"+canINamespace+"/configmaps", []string{"c", "d"}, `"apiVersion": "v1", "kind": "ConfigMap"`
	}
	query := url.Values{"dryRun": {"All"}}
	switch q.verb {
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
	if q.name != "" {
		names = []string{q.name}
	}
	var requests []canIRequest
	for _, name := range names {
		object := collection + "/" + name
		content := fmt.Sprintf(`"spec": {"image": "debian-13", "storageClassName": %q}`, name)
		if q.resource == canIMaps {
			content = `"data": {"a": "c"}`
		}
		r := canIRequest{contentType: "application/json", path: object + "?" + query.Encode()}
		switch {
		case q.sub == "console":
			r.method, r.path = map[string]string{"get": http.MethodGet, "create": http.MethodPost}[q.verb], object+"/console"
		case q.verb == "get":
			r.method = http.MethodGet
		case q.verb == "create":
			r.method, r.path, r.body = http.MethodPost, collection+"?"+query.Encode(), fmt.Sprintf(`{%s, "metadata": {"name": "new"}, %s}`, kind, content)
		case q.verb == "update":
			if q.sub != "" {
				r.path = object + "/" + q.sub + "?" + query.Encode()
			}
			r.method, r.body = http.MethodPut, fmt.Sprintf(`{%s, "metadata": {"name": %q}, %s}`, kind, name, content)
		case q.verb == "patch":
			r.method, r.contentType, r.body = http.MethodPatch, "application/merge-patch+json", `{"metadata": {"labels": {"a": "b"}}}`
		case q.verb == "delete":
			r.method = http.MethodDelete
		}
		requests = append(requests, r)
	}
	return requests
}
