/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
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
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// withoutNodes are the excluded identities without nodes, so that the Node authorizer is among the others that kube-apiserver asks.
const withoutNodes = `
excludedIdentities:
  users: ["system:serviceaccount:proviso-system:proviso-apiserver", "system:apiserver"]
`

// pass is one way through the table: all requests by users with the same permissions, in a namespace of their own.
type pass struct {
	*rig
	name, csr string
	// user returns the user of a row. If sender is empty, the admin impersonates the user, with a group that may approve certificates.
	user   func(row int) string
	sender string
}

// newPass creates the objects that the rows need: of each resource "red" of team red, and "s" of team blue and "t" of team red, which the
// rows about collections leave alone.
func newPass(t *testing.T, r *rig, name, sender string, user func(int) string) *pass {
	t.Helper()
	p := &pass{rig: r, name: name, csr: certificateRequest(t), user: user, sender: sender}
	create := func(path, body string) {
		if code, answer := r.send(t, cluster.Admin, "POST", path, jsonType, p.fill(body)); code != http.StatusCreated {
			t.Fatalf("%s: got %d %s", path, code, answer)
		}
	}
	create("/api/v1/namespaces", `{"metadata": {"name": "{ns}", "labels": {"tier": "dev"}}}`)
	create("/api/v1/namespaces", `{"metadata": {"name": "{ns}-prod"}}`)
	for resource := range tablePaths {
		switch resource {
		case "resourcequotas", "endpoints", "hpas.v1", "widgets.v2", "gadgets.v1", "jobs": // created by rows, or another version
			continue
		}
		prefix := ""
		if !strings.Contains(tablePaths[resource], "{ns}") {
			prefix = "{p}-"
		}
		kept := func(object string) string { return strings.Replace(object, `"pass": "{p}"`, `"pass": "none"`, 1) }
		for _, body := range []string{object(resource, prefix+"red", red), kept(object(resource, prefix+"s", blue)), kept(object(resource, prefix+"t", red))} {
			create(p.path(resource), body)
		}
	}
	return p
}

// certificateRequest returns what a CertificateSigningRequest has.
func certificateRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "client"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// fill replaces what differs from pass to pass.
func (p *pass) fill(text string) string {
	return strings.NewReplacer("{ns}", "table-"+p.name, "{p}", p.name, "{csr}", p.csr).Replace(text)
}

// path returns the path of a target of the table.
func (p *pass) path(target string) string {
	end := strings.IndexAny(target, "/?@")
	if end < 0 {
		end = len(target)
	}
	path, rest := tablePaths[target[:end]], target[end:]
	if namespace, isOther := strings.CutPrefix(rest, "@"); isOther {
		return p.fill(strings.Replace(path, "{ns}", namespace, 1))
	}
	return p.fill(path + rest)
}

// request returns the request of a row, without a body.
func (p *pass) request(row *tableRow) (method, path, contentType string) {
	path = p.path(row.target)
	switch row.method {
	case merge, jsonPatch, strategic:
		return http.MethodPatch, path, row.method
	case apply:
		return http.MethodPatch, path + "?fieldManager=table&force=true", apply
	case get, remove:
		return row.method, path, ""
	}
	return row.method, path, jsonType
}

var storedVersion = regexp.MustCompile(`"resourceVersion":"(\d+)"`)

// try sends the request of a row.
func (p *pass) try(t *testing.T, i int, row *tableRow) (int, string) {
	t.Helper()
	method, path, contentType := p.request(row)
	body := p.fill(row.body)
	if strings.Contains(body, "{rv}") {
		object := path
		for _, subresource := range []string{"/approval", "/status"} {
			object = strings.TrimSuffix(object, subresource)
		}
		_, stored := p.send(t, cluster.Admin, "GET", object, "", "")
		version := storedVersion.FindStringSubmatch(stored)
		if version == nil {
			t.Fatalf("%s: %s has no resourceVersion: %s", row.target, object, stored)
		}
		body = strings.Replace(body, "{rv}", version[1], 1)
	}
	sender, headers := p.sender, map[string]string(nil)
	if sender == "" {
		sender, headers = cluster.Admin, map[string]string{"Impersonate-User": p.user(i), "Impersonate-Group": "table"}
	}
	code, answer, err := p.users[sender].sendWith(t.Context(), method, path, contentType, strings.NewReader(body), headers)
	if err != nil {
		t.Fatal(err)
	}
	return code, answer
}

// check is one authorization of a request.
type check struct{ verb, group, version, resource, subresource, namespace, name string }

func (c check) attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Verb: c.verb, Group: c.group, Version: c.version, Resource: c.resource, Subresource: c.subresource, Namespace: c.namespace, Name: c.name}
}

// checks returns the authorizations of the request of a row, as kube-apiserver makes them.
func (p *pass) checks(t *testing.T, row *tableRow) []check {
	t.Helper()
	method, path, _ := p.request(row)
	target, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	resolver := &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(&http.Request{Method: method, URL: target})
	if err != nil {
		t.Fatal(err)
	}
	c := check{verb: info.Verb, group: info.APIGroup, version: info.APIVersion, resource: info.Resource, subresource: info.Subresource, namespace: info.Namespace, name: info.Name}
	checks := []check{c}
	if (row.method == put || row.method == apply) && row.allowed == http.StatusCreated { // it creates
		c.verb = "create"
		checks = append(checks, c)
	}
	return checks
}

// TestTable sends each request of the table as ada, whom policies allow what she may do, as users whom RBAC allows everything, as users whom
// RBAC allows that request only, and as a user whom another webhook allows everything.
func TestTable(t *testing.T) {
	t.Parallel()
	others := newOtherAuthorizer(t)
	r := newRigWith(t, &cluster.InnerDoor{Configuration: tableResources + withoutNodes + "askOtherAuthorizers: true", KubeAPIServer: others.lines})
	prepareTable(t, r)

	r.users["ada"], r.users["node"] = newCaller(t, r.Cluster, "ada"), newCaller(t, r.Cluster, "system:node:node-1", "system:nodes")
	decided, calls := r.decided(t), 0
	t.Run("passes", func(t *testing.T) {
		for name, pass := range map[string]func(*testing.T){
			"policies":                  func(t *testing.T) { calls = testTableByPolicies(t, r) },
			"RBAC":                      func(t *testing.T) { newPass(t, r, "rob", "", is("rob")).testAllowed(t) },
			"RBAC for one request each": func(t *testing.T) { testTableExactly(t, r) },
			"another webhook":           func(t *testing.T) { newPass(t, r, "wanda", "", is("wanda")).testAllowed(t) },
			"Node":                      func(t *testing.T) { testNode(t, r) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				pass(t)
			})
		}
	})
	if got := r.decided(t) - decided; got != calls || calls < 200 {
		t.Errorf("the metric of the inner door says %d decisions, want the %d about ada", got, calls)
	}
}

func is(user string) func(int) string { return func(int) string { return user } }

// prepareTable applies what all passes need.
func prepareTable(t *testing.T, r *rig) {
	t.Helper()
	r.apply(t, widgets)
	r.apply(t, newConversion(t, r.Cluster).fill(tableCRDs))
	r.apply(t, tablePolicies)
	r.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: table}
rules: [{verbs: [create, update, patch, delete, deletecollection, get, list, watch], apiGroups: ["", apps, batch, networking.k8s.io, coordination.k8s.io, rbac.authorization.k8s.io, policy, autoscaling, certificates.k8s.io, example.com], resources: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: table}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: table}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: rob}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: approves}
rules: [{verbs: [approve], apiGroups: [certificates.k8s.io], resources: [signers]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: approves}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: approves}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: table}]
`)
	for _, args := range [][]string{
		{"wait", "--for=condition=Established", "crd", "--all"}, {"wait", "--for=condition=Ready", "clusterauthorizationpolicies", "--all"},
	} {
		if _, err := r.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/apis/example.com/v1/widgets", "/apis/example.com/v2/gadgets"} {
		eventually(t, path+" is served", func() bool { code, _ := r.send(t, cluster.Admin, "GET", path, "", ""); return code == http.StatusOK })
	}
}

// testTableByPolicies sends the requests as ada. Reviews about them, with what the inner door has been shown, agree. It returns how often the
// inner door was called.
func testTableByPolicies(t *testing.T, r *rig) (calls int) {
	p := newPass(t, r, "ada", "ada", is("ada"))
	eventually(t, "writes pass on conditions", func() bool {
		code, _ := p.try(t, 0, &tableRow{method: post, target: "gadgets.v2?dryRun=All", body: object("gadgets.v2", "z", blue)})
		return code == http.StatusCreated
	})
	calls = len(r.proxy.take("ada"))
	reviews := newReviewer(t, p)
	for i := range table {
		row := &table[i]
		what := fmt.Sprintf("row %d: %s %s %s", i, row.method, row.target, row.body)
		code, answer := p.try(t, i, row)
		shown := r.proxy.take("ada")
		calls += len(shown)
		if code != row.code || (len(shown) > 0) != row.called || !strings.Contains(answer, row.reason) {
			t.Errorf("%s\ngot %d after %d calls: %.700s\nwant %d, the inner door called: %t (%s)", what, code, len(shown), answer, row.code, row.called, row.reason)
		}
		want := row.review
		if want == "" && row.code < 400 {
			want = "allowed"
		} else if want == "" {
			want = "refused"
		}
		if got := reviews.result(t, row, shown); got != want {
			t.Errorf("%s\nreviews say %s, want %s", what, got, want)
		}
	}
	return calls
}

var decisions = regexp.MustCompile(`(?m)^proviso_webhook_admit_requests_total\{[^}]*\} (\d+)$`)

// decided returns how many reviews the inner door has decided, by its metric.
func (r *rig) decided(t *testing.T) (sum int) {
	t.Helper()
	_, metrics := r.direct(t, "/metrics")
	for _, line := range decisions.FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.Atoi(line[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// testAllowed sends the requests as users whom another authorizer than Proviso allows them: all pass, and none calls the inner door.
func (p *pass) testAllowed(t *testing.T) {
	t.Helper()
	for i := range table {
		row := &table[i]
		code, answer := p.try(t, i, row)
		if calls := p.proxy.take(p.user(i)); code != row.allowed || len(calls) != 0 {
			t.Errorf("row %d: %s %s %s\ngot %d after %d calls: %.500s\nwant %d, and no call", i, row.method, row.target, row.body, code, len(calls), answer, row.allowed)
		}
	}
}

// testTableExactly sends each request as another user, whom RBAC allows that request and nothing else.
func testTableExactly(t *testing.T, r *rig) {
	p := newPass(t, r, "exact", "", func(row int) string { return "row-" + strconv.Itoa(row) })
	p.grantEach(t)
	p.testAllowed(t)
}

// grantEach gives the user of each row a role that allows its request and nothing else: by name if it has one, and one of update and patch.
func (p *pass) grantEach(t *testing.T) {
	t.Helper()
	const path = "/apis/rbac.authorization.k8s.io/v1/"
	create := func(path string, object map[string]any) {
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if code, answer := p.send(t, cluster.Admin, "POST", path, jsonType, string(body)); code != http.StatusCreated {
			t.Fatalf("got %d %s", code, answer)
		}
	}
	for i := range table {
		name := "row-" + strconv.Itoa(i)
		var rules []map[string]any
		for _, c := range p.checks(t, &table[i]) {
			rule := map[string]any{"verbs": []string{c.verb}, "apiGroups": []string{c.group}, "resources": []string{c.resource}}
			if c.subresource != "" {
				rule["resources"] = []string{c.resource + "/" + c.subresource}
			}
			if c.name != "" {
				rule["resourceNames"] = []string{c.name}
			}
			rules = append(rules, rule)
		}
		create(path+"clusterroles", map[string]any{"metadata": map[string]any{"name": name}, "rules": rules})
		create(path+"clusterrolebindings", map[string]any{
			"metadata": map[string]any{"name": name}, "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}},
		})
	}
	last := p.checks(t, &table[len(table)-1])[0]
	review := fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "row-%d", "resourceAttributes": {"verb": %q, "group": %q, "resource": %q}}}`, len(table)-1, last.verb, last.group, last.resource)
	eventually(t, "the last role is known", func() bool {
		_, answer := p.send(t, cluster.Admin, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", jsonType, review)
		return strings.Contains(answer, `"allowed":true`)
	})
}

// testNode sends the writes of a kubelet, which the Node authorizer allows. No node is excluded from the doors.
func testNode(t *testing.T, r *rig) {
	const (
		leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
		pods   = "/api/v1/namespaces/default/pods"
		lease  = `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "node-1"}, "spec": {"holderIdentity": "node-1"}}`
		pod    = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mirror"}, "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}}`
	)
	for _, namespace := range []string{"kube-node-lease", "default"} {
		eventually(t, "the namespace is there", func() bool {
			code, _ := r.send(t, cluster.Admin, "GET", "/api/v1/namespaces/"+namespace, "", "")
			return code == http.StatusOK
		})
	}
	for _, row := range []request{
		{"", "node", "POST", leases, jsonType, lease, 201, false, ""},
		{"", "node", "PATCH", leases + "/node-1", mergeType, `{"spec": {"renewTime": null}}`, 200, false, ""},
		{"", "node", "PATCH", leases + "/node-2", mergeType, `{"spec": {"renewTime": null}}`, 403, false, "can only access node lease"},
		{"", "node", "POST", pods, jsonType, pod, 201, false, ""},
		{"", "node", "PATCH", pods + "/mirror/status", mergeType, `{"status": {"phase": "Running"}}`, 200, false, ""},
		{"", "node", "DELETE", pods + "/mirror?gracePeriodSeconds=0", "", "", 200, false, ""},
		{"", "node", "DELETE", leases + "/node-1", "", "", 200, false, ""},
	} {
		code, answer := r.send(t, row.user, row.method, row.path, row.contentType, row.body)
		if calls := r.proxy.take("system:node:node-1"); code != row.code || len(calls) != 0 || !strings.Contains(answer, row.message) {
			t.Errorf("%s %s: got %d after %d calls: %.500s\nwant %d (%s), and no call", row.method, row.path, code, len(calls), answer, row.code, row.message)
		}
	}
}

// reviewer asks Proviso's reviews about the requests of a pass, through kube-apiserver.
type reviewer struct {
	pass   *pass
	client versioned.Interface
}

func newReviewer(t *testing.T, p *pass) *reviewer {
	t.Helper()
	config, err := p.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &reviewer{pass: p, client: client}
}

// result asks about the authorizations of a request of ada, and evaluates conditions with what the inner door has been shown.
func (r *reviewer) result(t *testing.T, row *tableRow, shown []*admissionv1.AdmissionRequest) string {
	t.Helper()
	for _, c := range r.pass.checks(t, row) {
		review := &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: "ada", Groups: []string{"system:authenticated"},
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsMode(authorizationapi.ConditionsModeOptimized)},
			ResourceAttributes:       c.attributes(),
		}}
		answer, err := r.client.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		switch {
		case err != nil:
			t.Fatal(err)
		case answer.Status.Allowed:
			continue
		case len(answer.Status.ConditionsChain) == 0:
			return "refused"
		case len(shown) == 0:
			return "conditional"
		}
		for _, request := range shown {
			if !r.evaluate(t, answer.Status.ConditionsChain, request) {
				return "refused"
			}
		}
	}
	return "allowed"
}

func (r *reviewer) evaluate(t *testing.T, chain []authorizationv1alpha1.SubjectAccessReviewConditionSet, request *admissionv1.AdmissionRequest) bool {
	t.Helper()
	orNil := func(raw runtime.RawExtension) *runtime.RawExtension {
		if len(raw.Raw) == 0 {
			return nil
		}
		return &raw
	}
	review := &authorizationv1alpha1.AuthorizationConditionsReview{Request: &authorizationv1alpha1.AuthorizationConditionsRequest{
		ConditionSets: chain, Operation: authorizationv1alpha1.Operation(request.Operation), Kind: &request.Kind, Resource: &request.Resource, SubResource: request.SubResource,
		Name: request.Name, Namespace: request.Namespace, NamespaceObject: r.namespaceOf(t, request), UserInfo: &authenticationv1.UserInfo{Username: "ada", Groups: []string{"system:authenticated"}},
		Object: orNil(request.Object), OldObject: orNil(request.OldObject), Options: orNil(request.Options), DryRun: request.DryRun != nil && *request.DryRun,
	}}
	answer, err := r.client.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil || answer.Response == nil {
		t.Fatalf("%s %s: %v", request.Operation, request.Resource.Resource, err)
	}
	return answer.Response.Allowed
}

// namespaceOf returns the namespace of a request. A namespace has none.
func (r *reviewer) namespaceOf(t *testing.T, request *admissionv1.AdmissionRequest) *runtime.RawExtension {
	t.Helper()
	if request.Namespace == "" || request.Resource.Resource == "namespaces" {
		return nil
	}
	code, namespace := r.pass.send(t, cluster.Admin, "GET", "/api/v1/namespaces/"+request.Namespace, "", "")
	if code != http.StatusOK {
		t.Fatalf("got %d %s", code, namespace)
	}
	return &runtime.RawExtension{Raw: []byte(namespace)}
}
