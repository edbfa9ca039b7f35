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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// withoutNodes are the excluded identities without nodes, so that the Node authorizer is among the others that kube-apiserver asks.
const withoutNodes = `
excludedIdentities:
  users: ["system:serviceaccount:proviso-system:proviso-apiserver", "system:apiserver"]
`

// newPass returns a runner for the table in a namespace of its own, with the objects that the rows need. The administrator impersonates the user of a row, with
// a group that may approve certificates. Without user, the rows are sent as the table says.
func newPass(t *testing.T, r *rig, name string, rows []*requests.Row, user func(*requests.Row) string) *requests.Runner {
	t.Helper()
	p := r.runner()
	p.Values = map[string]string{"ns": "table-" + name, "p": name, "csr": certificateRequest(t)}
	p.Run(t, rows)
	if user != nil {
		p.As = func(row *requests.Row) *requests.User {
			return &requests.User{Name: user(row), Groups: []string{"table"}}
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

// TestTable sends each request of the table as ada, whom policies allow what she may do, as users whom RBAC allows everything, as users whom
// RBAC allows that request only, and as a user whom another webhook allows everything.
func TestTable(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(c *cluster.Config) {
		c.InnerDoor = &cluster.InnerDoor{Configuration: plane.TestData(t, "inner-door-table.yaml") + withoutNodes + "askOtherAuthorizers: true", KubeAPIServer: newOtherAuthorizer(t)}
	})
	prepareTable(t, r)

	rows := table(t, "table.yaml").Rows
	decided, calls := r.decided(t), 0
	t.Run("passes", func(t *testing.T) {
		for name, pass := range map[string]func(*testing.T){
			"policies":                  func(t *testing.T) { calls = testTableByPolicies(t, r, rows) },
			"RBAC":                      func(t *testing.T) { testAllowed(t, newPass(t, r, "rob", rows["before"], is("rob")), rows["table"]) },
			"RBAC for one request each": func(t *testing.T) { testTableExactly(t, r, rows) },
			"another webhook":           func(t *testing.T) { testAllowed(t, newPass(t, r, "wanda", rows["before"], is("wanda")), rows["table"]) },
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

func is(user string) func(*requests.Row) string { return func(*requests.Row) string { return user } }

// prepareTable applies what all passes need.
func prepareTable(t *testing.T, r *rig) {
	t.Helper()
	r.MustApply(t, plane.TestData(t, "widgets.yaml"))
	r.MustApply(t, r.fill(t, table(t, "table.yaml").Manifest(), r.serveWebhook(t, "conversion", convert)))
	for _, path := range []string{"/apis/example.com/v1/widgets", "/apis/example.com/v2/gadgets"} {
		poll.Holds(t, path+" is served", func() bool { code, _ := r.send(t, cluster.Admin, "GET", path, "", ""); return code == http.StatusOK })
	}
}

// testTableByPolicies sends the requests as ada. Reviews about them, with what the inner door has been shown, agree. It returns how often the
// inner door was called.
func testTableByPolicies(t *testing.T, r *rig, rows map[string][]*requests.Row) (calls int) {
	p := newPass(t, r, "ada", rows["before"], nil)
	poll.Holds(t, "writes pass on conditions", func() bool {
		const gadget = `{"apiVersion": "example.com/v2", "kind": "Gadget", "metadata": {"name": "z", "labels": {"team": "blue"}}, "spec": {"size": 2.5}}`
		code, _ := r.send(t, "ada", "POST", "/apis/example.com/v2/namespaces/table-ada/gadgets?dryRun=All", jsonType, gadget)
		return code == http.StatusCreated
	})
	calls = len(r.proxy.take("ada"))
	admin, err := r.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	if p.Reviewer, err = requests.NewReviewer(admin); err != nil {
		t.Fatal(err)
	}
	p.After = func(_ *requests.Row, _ *requests.Answer, shown []*admissionv1.AdmissionRequest) { calls += len(shown) }
	p.Run(t, rows["table"])
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
func testAllowed(t *testing.T, p *requests.Runner, rows []*requests.Row) {
	t.Helper()
	p.Want = func(row *requests.Row) *requests.Outcome {
		return &requests.Outcome{Code: row.Allowed, Called: ptr.To(false)}
	}
	p.Run(t, rows)
}

// testTableExactly sends each request as another user, whom RBAC allows that request and nothing else.
func testTableExactly(t *testing.T, r *rig, rows map[string][]*requests.Row) {
	user := func(row *requests.Row) string { return "row-" + strconv.Itoa(slices.Index(rows["table"], row)) }
	p := newPass(t, r, "exact", rows["before"], user)
	grantEach(t, r, p, rows["table"], user)
	testAllowed(t, p, rows["table"])
}

// grantEach gives the user of each row a role that allows its request and nothing else: by name if it has one, and one of update and patch.
func grantEach(t *testing.T, r *rig, p *requests.Runner, rows []*requests.Row, user func(*requests.Row) string) {
	t.Helper()
	const path = "/apis/rbac.authorization.k8s.io/v1/"
	create := func(path string, object map[string]any) {
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if code, answer := r.send(t, cluster.Admin, "POST", path, jsonType, string(body)); code != http.StatusCreated {
			t.Fatalf("got %d %s", code, answer)
		}
	}
	for _, row := range rows {
		name := user(row)
		var rules []rbacv1.PolicyRule
		for _, c := range p.Checks(t, row) {
			rule := rbacv1.PolicyRule{Verbs: []string{c.Verb}, APIGroups: []string{c.Group}, Resources: []string{c.Resource}}
			if c.Subresource != "" {
				rule.Resources = []string{c.Resource + "/" + c.Subresource}
			}
			if c.Name != "" {
				rule.ResourceNames = []string{c.Name}
			}
			rules = append(rules, rule)
		}
		create(path+"clusterroles", map[string]any{"metadata": map[string]any{"name": name}, "rules": rules})
		create(path+"clusterrolebindings", map[string]any{
			"metadata": map[string]any{"name": name}, "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}},
		})
	}
	last := rows[len(rows)-1]
	c := p.Checks(t, last)[0]
	review := fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": %q, "resourceAttributes": {"verb": %q, "group": %q, "resource": %q}}}`, user(last), c.Verb, c.Group, c.Resource)
	poll.Holds(t, "the last role is known", func() bool {
		_, answer := r.send(t, cluster.Admin, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", jsonType, review)
		return strings.Contains(answer, `"allowed":true`)
	})
}

// testNode sends the writes of a kubelet, which the Node authorizer allows. No node is excluded from the doors.
func testNode(t *testing.T, r *rig) {
	rows := table(t, "node.yaml").Rows
	for _, row := range rows["wait"] {
		r.runner().Await(t, row)
	}
	r.runner().Run(t, rows["node"])
}
