/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// story is who impersonates whom for what.
type story struct {
	// file has the policies: an example in artifacts/impersonation, or a file in testdata.
	file string
	rows []storyRow
}

// storyRow is a request that the agent of a story makes as somebody else.
type storyRow struct {
	name   string
	as     string
	groups []string
	verb   string
	// object is the name of the machine, labels what is written into it.
	object, subresource string
	labels              map[string]string
	namespace           string // demo if empty

	// wantMode is the mode of the impersonation; empty if it is refused.
	wantMode string
	// wantCode is the answer, and wantText is in it.
	wantCode int
	wantText string
	// wantResidual says that the impersonation depends on the object.
	wantResidual bool
}

func stories() []story {
	label := func(value string) map[string]string { return map[string]string{"lucas-impersonated": value} }
	return []story{
		{"union.yaml", []storyRow{
			{name: "list as bob", as: "bob", verb: "list", wantMode: "user-info", wantCode: 200},
			{name: "create as carol", as: "carol", verb: "create", object: "new", wantMode: "user-info", wantCode: 201},
			{name: "create as bob, which nobody meant", as: "bob", verb: "create", object: "new2", wantMode: "user-info", wantCode: 403, wantText: `User "bob" cannot create resource "virtualmachines"`},
			{name: "list as carol, which nobody meant", as: "carol", verb: "list", wantMode: "user-info", wantCode: 200},
		}},
		{"no-union.yaml", []storyRow{
			{name: "list as bob", as: "bob", verb: "list", wantMode: "conditional", wantCode: 200},
			{name: "create as carol", as: "carol", verb: "create", object: "new", wantMode: "conditional", wantCode: 201},
			{name: "create as bob", as: "bob", verb: "create", object: "new2", wantCode: 403, wantText: `cannot impersonate-on:user-info:create resource`},
			{name: "list as carol", as: "carol", verb: "list", wantCode: 403, wantText: `cannot impersonate-on:user-info:list resource`},
			{name: "list as bob in a group", as: "bob", groups: []string{"g"}, verb: "list", wantCode: 403},
			{name: "a console as carol", as: "carol", verb: "create", object: "old", subresource: "console", wantCode: 403},
			{name: "list as lucas", as: "lucas", verb: "list", wantCode: 403},
		}},
		{"together-with-group.yaml", []storyRow{
			{name: "get as lucas with the group", as: "lucas", groups: []string{"ai-agent"}, verb: "get", object: "old", wantMode: "conditional", wantCode: 200},
			{name: "create as lucas with the group", as: "lucas", groups: []string{"ai-agent"}, verb: "create", object: "new", wantMode: "conditional", wantCode: 201},
			{name: "lucas alone", as: "lucas", verb: "get", object: "old", wantCode: 403},
			{name: "lucas with another group", as: "lucas", groups: []string{"admins"}, verb: "get", object: "old", wantCode: 403},
			{name: "lucas with both", as: "lucas", groups: []string{"ai-agent", "admins"}, verb: "get", object: "old", wantCode: 403},
			{name: "what the group may not", as: "lucas", groups: []string{"ai-agent"}, verb: "delete", object: "old", wantMode: "conditional", wantCode: 403, wantText: "agents do not delete"},
			{name: "somebody else with the group", as: "carol", groups: []string{"ai-agent"}, verb: "get", object: "old", wantCode: 403},
			{name: "system:masters along with it", as: "lucas", groups: []string{"ai-agent", "system:masters"}, verb: "get", object: "old", wantCode: 403},
		}},
		{"read-only.yaml", []storyRow{
			{name: "read as alice", as: "alice", verb: "get", object: "old", wantMode: "conditional", wantCode: 200},
			{name: "list as alice", as: "alice", verb: "list", wantMode: "conditional", wantCode: 200},
			{name: "write as alice", as: "alice", verb: "update", object: "old", labels: label("true"), wantCode: 403},
			{name: "delete as alice", as: "alice", verb: "delete", object: "old", wantCode: 403},
			{name: "a console as alice, by GET", as: "alice", verb: "get", object: "old", subresource: "console", wantCode: 403},
			{name: "the status as alice", as: "alice", verb: "get", object: "old", subresource: "status", wantCode: 403},
			{name: "a console as bob, who may not himself", as: "bob", verb: "get", object: "old", subresource: "console", wantMode: "conditional", wantCode: 403, wantText: `User "bob" cannot get resource "virtualmachines/console"`},
			{name: "write as bob, who may not himself", as: "bob", verb: "update", object: "old", wantMode: "conditional", wantCode: 403, wantText: `User "bob" cannot update resource "virtualmachines"`},
			{name: "read as bob", as: "bob", verb: "get", object: "old", wantMode: "conditional", wantCode: 200},
		}},
		{"labelled.yaml", []storyRow{
			{name: "create with the label", as: "alice", verb: "create", object: "new", labels: label("true"), wantMode: "conditional", wantCode: 201, wantResidual: true},
			{name: "create without", as: "alice", verb: "create", object: "new2", wantMode: "conditional", wantCode: 403, wantText: "does not hold for the object", wantResidual: true},
			{name: "create with another value", as: "alice", verb: "create", object: "new2", labels: label("false"), wantMode: "conditional", wantCode: 403, wantText: "agent-leaves-a-label", wantResidual: true},
			{name: "update without", as: "alice", verb: "update", object: "old", labels: map[string]string{"x": "y"}, wantMode: "conditional", wantCode: 403, wantText: "does not hold for the object", wantResidual: true},
			{name: "update with the label", as: "alice", verb: "update", object: "old", labels: label("true"), wantMode: "conditional", wantCode: 200, wantResidual: true},
			{name: "patch that takes the label away", as: "alice", verb: "patch", object: "old", labels: map[string]string{"lucas-impersonated": ""}, wantMode: "conditional", wantCode: 403, wantResidual: true},
			{name: "patch that leaves it", as: "alice", verb: "patch", object: "old", labels: label("true"), wantMode: "conditional", wantCode: 200, wantResidual: true},
			{name: "delete", as: "alice", verb: "delete", object: "old", wantCode: 403},
			{name: "read, where there is nothing to label", as: "alice", verb: "get", object: "old", wantMode: "conditional", wantCode: 200},
			{name: "a console by POST", as: "alice", verb: "create", object: "old", subresource: "console", wantCode: 403},
			{name: "a console by GET", as: "alice", verb: "get", object: "old", subresource: "console", wantCode: 403},
			{name: "the status, which is a subresource", as: "alice", verb: "patch", object: "old", subresource: "status", labels: label("true"), wantCode: 403},
			{name: "create as carol", as: "carol", verb: "create", object: "new3", labels: label("true"), wantCode: 403},
			{name: "what the user may not, whatever the label", as: "alice", verb: "create", object: "new4", namespace: "elsewhere", labels: label("true"), wantMode: "conditional", wantCode: 403, wantText: `User "alice" cannot create resource "virtualmachines"`, wantResidual: true},
		}},
		{"testdata/impersonation-only-get.yaml", []storyRow{
			{name: "the machine", as: "carol", verb: "get", object: "old", wantMode: "conditional", wantCode: 200},
			{name: "a console by GET, which takes create", as: "carol", verb: "get", object: "old", subresource: "console", wantCode: 403},
			{name: "a console by POST", as: "carol", verb: "create", object: "old", subresource: "console", wantCode: 403},
			{name: "a console by GET, with both verbs", as: "lucas", verb: "get", object: "old", subresource: "console", wantMode: "conditional", wantCode: 200},
		}},
		{"deputy.yaml", []storyRow{
			{name: "a console", as: "carol", verb: "get", object: "old", subresource: "console", wantMode: "conditional", wantCode: 200},
			{name: "a console by POST", as: "carol", verb: "create", object: "old", subresource: "console", wantMode: "conditional", wantCode: 200},
			{name: "a console of somebody who may not", as: "bob", verb: "get", object: "old", subresource: "console", wantMode: "conditional", wantCode: 403, wantText: `User "bob" cannot get resource "virtualmachines/console"`},
			{name: "the machine", as: "carol", verb: "get", object: "old", wantCode: 403},
			{name: "its deletion", as: "carol", verb: "delete", object: "old", wantCode: 403},
			{name: "a console elsewhere", as: "carol", verb: "get", object: "old", subresource: "console", namespace: "elsewhere", wantCode: 403},
			{name: "a node", as: "system:node:n1", verb: "get", object: "old", subresource: "console", wantCode: 403},
		}},
		{"node-agent.yaml", []storyRow{
			{name: "its own node", as: "system:node:own", verb: "list", wantMode: "conditional", wantCode: 200},
			{name: "another node", as: "system:node:other", verb: "list", wantCode: 403},
			{name: "its own node, for something else", as: "system:node:own", verb: "delete", object: "old", wantCode: 403},
			{name: "somebody", as: "carol", verb: "list", wantCode: 403},
		}},
	}
}

var storyNames = regexp.MustCompile(`\b(agent|alice|bob|carol|lucas|demo|elsewhere|own|other)\b`)

// own gives the users, nodes and namespaces of a story names of their own, since other tests
// decide about theirs at the same time.
func (s story) own(text string) string {
	hide, reveal := strings.NewReplacer("demo.proviso.dev", "\x00", "lucas-impersonated", "\x01"), strings.NewReplacer("\x00", "demo.proviso.dev", "\x01", "lucas-impersonated")
	return reveal.Replace(storyNames.ReplaceAllString(hide.Replace(text), s.prefix()+"-$1"))
}

func (s story) prefix() string {
	return fmt.Sprintf("is%d", slices.IndexFunc(stories(), func(other story) bool { return other.file == s.file }))
}

func (s story) namespace(row storyRow) string {
	if row.namespace != "" {
		return s.own(row.namespace)
	}
	return s.own("demo")
}

// TestImpersonationStories makes the requests of each example to Proviso's port, with
// Impersonate- headers, and reviews them. What audit records, and what an evaluation of the
// conditions says beforehand, must be what happened.
func TestImpersonationStories(t *testing.T) {
	t.Parallel()
	url, log := auditedReplica(t, "--feature-gates=ConditionalImpersonation=true")
	for _, s := range stories() {
		t.Run(s.file, func(t *testing.T) {
			t.Parallel()
			run := &storyRun{story: s, url: url}
			run.prepare(t)
			for i, row := range s.rows {
				id := fmt.Sprintf("story-%s-%d", s.prefix(), i)
				review := run.review(t, row)
				code, body := run.do(t, row, id)
				if code != row.wantCode || !strings.Contains(body, s.own(row.wantText)) {
					t.Errorf("%s: got %d %s, want %d with %q", row.name, code, body, row.wantCode, s.own(row.wantText))
				}
				run.checkReview(t, row, review)
				run.checkAudit(t, row, storyEvent(t, log, id))
			}
		})
	}
}

// storyRun makes the requests of a story.
type storyRun struct {
	story
	url string
	// agent is who impersonates, and admin asks about it.
	agent, admin *rest.Config
	requester    authenticationv1.UserInfo
}

func (r *storyRun) config(c *rest.Config) *rest.Config {
	c.Host, c.CAFile, c.ServerName = r.url, stack.CAFile(), ""
	c.QPS = -1
	return c
}

// prepare applies the example, and waits until it is in force.
func (r *storyRun) prepare(t *testing.T) {
	t.Helper()
	r.admin = r.config(config(t, "admin-direct"))
	for _, namespace := range []string{"demo", "elsewhere"} {
		mustKubectl(t, "admin", "create", "namespace", r.own(namespace))
	}
	users, err := os.ReadFile(filepath.Join(stack.Repository, "artifacts", "dev", "users.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, document := range strings.Split(string(users), "\n---\n") {
		if strings.Contains(document, "kind: Role\n") {
			roles = append(roles, document)
		}
	}
	for i, text := range []string{r.read(t, "targets.yaml"), strings.Join(roles, "\n---\n"), r.read(t, r.file)} {
		file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(file, []byte(r.own(text)), 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "rbac.authorization.k8s.io") { // roles are kube-apiserver's
			mustKubectl(t, "admin", "apply", "-f", file)
			continue
		}
		kubectl := []string{"--server", r.url, "--certificate-authority", stack.CAFile(), "--tls-server-name", cluster.ServerName}
		mustKubectl(t, "admin-direct", append(kubectl, "apply", "-f", file)...)
		mustKubectl(t, "admin-direct", append(kubectl, "wait", "--for=condition=Ready", "--timeout=30s", "-f", file)...)
		t.Cleanup(func() { mustKubectl(t, "admin-direct", append(kubectl, "delete", "-f", file)...) })
	}
	admin, err := versioned.NewForConfig(r.admin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DemoV1alpha1().VirtualMachines(r.own("demo")).Create(t.Context(), r.machine(storyRow{object: "old"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.authenticate(t)
	r.await(t)
}

func (r *storyRun) read(t *testing.T, file string) string {
	t.Helper()
	path := filepath.Join(stack.Repository, "artifacts", "impersonation", file)
	if strings.HasPrefix(file, "testdata/") {
		path = file
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// authenticate makes the credentials of the agent: a certificate, or the token of a service
// account in a pod on a node.
func (r *storyRun) authenticate(t *testing.T) {
	t.Helper()
	if r.file != "node-agent.yaml" {
		certFile, keyFile, err := stack.NewUser(r.own("agent"))
		if err != nil {
			t.Fatal(err)
		}
		r.agent = r.config(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: certFile, KeyFile: keyFile}})
		r.requester = authenticationv1.UserInfo{Username: r.own("agent"), Groups: []string{"system:authenticated"}}
		return
	}
	kube, _ := clients(t, "admin")
	namespace, name := r.own("demo"), r.own("node-agent")
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.own("own")}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		ServiceAccountName: name, NodeName: r.own("own"), Containers: []corev1.Container{{Name: "agent", Image: "agent"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.agent = r.config(&rest.Config{BearerToken: answer.Status.Token})
	self := r.config(rest.CopyConfig(r.agent))
	self.Host = stack.KubeAPIServerURL()
	who, err := kubernetes.NewForConfig(self)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := who.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.requester = identity.Status.UserInfo
}

// await waits until the replica knows the policies: the first row is allowed by them.
func (r *storyRun) await(t *testing.T) {
	t.Helper()
	retry(t, func() error {
		if status := r.review(t, r.rows[0]); status.Denied {
			return fmt.Errorf("not yet: %+v", status)
		}
		return nil
	})
}

func (r *storyRun) machine(row storyRow) *demov1alpha1.VirtualMachine {
	return &demov1alpha1.VirtualMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: demov1alpha1.SchemeGroupVersion.String(), Kind: "VirtualMachine"},
		ObjectMeta: metav1.ObjectMeta{Name: row.object, Namespace: r.namespace(row), Labels: row.labels},
		Spec:       demov1alpha1.VirtualMachineSpec{Image: "debian"},
	}
}

func (r *storyRun) impersonated(row storyRow) authenticationv1.UserInfo {
	u := authenticationv1.UserInfo{Username: r.own(row.as)}
	for _, g := range row.groups {
		u.Groups = append(u.Groups, r.own(g))
	}
	return u
}

// do makes the request of a row.
func (r *storyRun) do(t *testing.T, row storyRow, auditID string) (code int, body string) {
	t.Helper()
	method := map[string]string{"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}[row.verb]
	if method == "" {
		method = "GET"
	}
	path := fmt.Sprintf("%s/apis/demo.proviso.dev/v1alpha1/namespaces/%s/virtualmachines", r.url, r.namespace(row))
	if row.verb != "list" && (row.verb != "create" || row.subresource != "") {
		path += "/" + row.object
	}
	if row.subresource != "" {
		path += "/" + row.subresource + "?command=date"
	}
	var content []byte
	contentType := "application/json"
	switch row.verb {
	case "create", "update":
		content, _ = json.Marshal(r.machine(row))
	case "patch":
		contentType = "application/merge-patch+json"
		content, _ = json.Marshal(map[string]any{"metadata": map[string]any{"labels": row.labels}})
	}
	if row.subresource != "" {
		content = nil
	}
	request, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Audit-ID", auditID)
	as := r.impersonated(row)
	request.Header.Set(authenticationv1.ImpersonateUserHeader, as.Username)
	request.Header[authenticationv1.ImpersonateGroupHeader] = as.Groups
	client, err := rest.HTTPClientFor(r.agent)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	// Quotes are escaped in the body of a failure.
	return response.StatusCode, strings.ReplaceAll(string(answer), `\"`, `"`)
}

// review asks about the request of a row.
func (r *storyRun) review(t *testing.T, row storyRow) authorizationv1alpha1.ImpersonationReviewStatus {
	t.Helper()
	admin, err := versioned.NewForConfig(r.admin)
	if err != nil {
		t.Fatal(err)
	}
	spec := authorizationv1alpha1.ImpersonationReviewSpec{
		User: r.requester.Username, UID: r.requester.UID, Groups: r.requester.Groups, Impersonate: r.impersonated(row),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: row.verb, Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Subresource: row.subresource, Namespace: r.namespace(row),
		},
		ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable},
	}
	if row.verb != "create" || row.subresource != "" {
		spec.ResourceAttributes.Name = row.object
	}
	for key, values := range r.requester.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := admin.AuthorizationV1alpha1().ImpersonationReviews().Create(t.Context(), &authorizationv1alpha1.ImpersonationReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status
}

// constraints are what audit records for a mode.
var constraints = map[string]string{"conditional": "constrainedimpersonate", "user-info": "impersonate:user-info"}

// checkReview compares a review with what the request came to.
func (r *storyRun) checkReview(t *testing.T, row storyRow, status authorizationv1alpha1.ImpersonationReviewStatus) {
	t.Helper()
	wantConstraint := constraints[row.wantMode]
	if string(status.Mode) != row.wantMode || status.Constraint != wantConstraint || status.Denied != (row.wantMode == "") || (len(status.ConditionsChain) > 0) != row.wantResidual || status.Allowed == (status.Denied || row.wantResidual) {
		t.Errorf("%s: the review says %+v, want mode %q, residual %v", row.name, status, row.wantMode, row.wantResidual)
		return
	}
	if row.wantMode == "" {
		return
	}
	allowed := status.Allowed && status.RequestDecision.Allowed
	if len(status.ConditionsChain) > 0 && !status.RequestDecision.Denied && (status.RequestDecision.Allowed || len(status.RequestDecision.ConditionsChain) > 0) {
		allowed = r.evaluate(t, row, status)
	}
	if allowed != (row.wantCode < 300) {
		t.Errorf("%s: the review and its conditions say allowed %v: %+v", row.name, allowed, status)
	}
}

// evaluate evaluates what a review says, for the object that the request wrote.
func (r *storyRun) evaluate(t *testing.T, row storyRow, status authorizationv1alpha1.ImpersonationReviewStatus) bool {
	t.Helper()
	admin, err := versioned.NewForConfig(r.admin)
	if err != nil {
		t.Fatal(err)
	}
	sets := slices.Concat(status.ConditionsChain, status.RequestDecision.ConditionsChain)
	if status.RequestDecision.Allowed {
		sets = append(sets, authorizationv1alpha1.SubjectAccessReviewConditionSet{AuthorizerName: "request", Allowed: true})
	}
	object := r.machine(row)
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	operation, old := authorizationv1alpha1.OperationUpdate, &runtime.RawExtension{Raw: raw}
	if row.verb == "create" {
		operation, old = authorizationv1alpha1.OperationCreate, nil
	}
	review, err := admin.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), &authorizationv1alpha1.AuthorizationConditionsReview{
		Request: &authorizationv1alpha1.AuthorizationConditionsRequest{
			ConditionSets: sets, Operation: operation, Kind: &metav1.GroupVersionKind{Group: "demo.proviso.dev", Version: "v1alpha1", Kind: "VirtualMachine"},
			Resource: &metav1.GroupVersionResource{Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines"},
			Name:     row.object, Namespace: r.namespace(row), UserInfo: status.ImpersonatedUser, Object: &runtime.RawExtension{Raw: raw}, OldObject: old,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Response.Allowed
}

// checkAudit compares what audit records with what was to happen.
func (r *storyRun) checkAudit(t *testing.T, row storyRow, event auditv1.Event) {
	t.Helper()
	if event.User.Username != r.requester.Username {
		t.Errorf("%s: audit has the requester %q", row.name, event.User.Username)
	}
	if row.wantMode == "" {
		if event.ImpersonatedUser != nil || event.AuthenticationMetadata != nil {
			t.Errorf("%s: audit says that %+v was impersonated by %+v", row.name, event.ImpersonatedUser, event.AuthenticationMetadata)
		}
		return
	}
	if event.ImpersonatedUser == nil || event.ImpersonatedUser.Username != r.own(row.as) {
		t.Errorf("%s: audit has the impersonated user %+v", row.name, event.ImpersonatedUser)
	}
	if event.AuthenticationMetadata == nil || event.AuthenticationMetadata.ImpersonationConstraint != constraints[row.wantMode] {
		t.Errorf("%s: audit has the constraint %+v", row.name, event.AuthenticationMetadata)
	}
}

// storyEvent waits for the event of a request.
func storyEvent(t *testing.T, file, id string) (found auditv1.Event) {
	t.Helper()
	retry(t, func() error {
		log, err := os.Open(file)
		if err != nil {
			return err
		}
		defer log.Close()
		lines := bufio.NewScanner(log)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var event auditv1.Event
			if json.Unmarshal(lines.Bytes(), &event) == nil && string(event.AuditID) == id && event.Stage == auditv1.StageResponseComplete {
				found = event
				return nil
			}
		}
		return errors.Join(lines.Err(), fmt.Errorf("there is no audit event %q", id))
	})
	return found
}
