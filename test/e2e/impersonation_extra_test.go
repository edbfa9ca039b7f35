/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/apiserver/options"
	"github.com/proviso-authz/proviso/pkg/etcd"
	"github.com/proviso-authz/proviso/pkg/impersonation"
	"github.com/proviso-authz/proviso/test/library"
)

// residual is what remains of an impersonation: nothing but machines with a label.
const residual = `[{"authorizerName":"x","conditions":[{"id":"example.com/labelled","effect":"Deny","type":"k8s.io/authorization-cel",` +
	`"condition":"!(has(object.metadata.labels) && 'mark' in object.metadata.labels)","description":"only with the label mark"}]}]`

const extraNamespace = "e2e-extra"

// extraGrants let ie-bob write machines, and ie-deputy become anybody by the legacy verb.
const extraGrants = `
apiVersion: v1
kind: Namespace
metadata: {name: e2e-extra}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-extra-machines}
rules: [{apiGroups: [demo.proviso.dev], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-extra-machines}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-extra-machines}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ie-bob}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-extra-deputy}
rules:
- {apiGroups: [""], resources: [users, groups], verbs: [impersonate]}
- {apiGroups: [authentication.k8s.io], resources: ["*"], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-extra-deputy}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-extra-deputy}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ie-deputy}]
`

var extraOnce sync.Once

// grantExtra grants what two tests need.
func grantExtra(t *testing.T) {
	t.Helper()
	extraOnce.Do(func() {
		if _, errs, err := kubectlWithInput(t, "admin", extraGrants, "apply", "-f", "-"); err != nil {
			t.Errorf("%v: %s", err, errs)
		}
	})
}

// frontProxy is a transport with the certificate with which kube-apiserver passes requests on.
func frontProxy(t *testing.T) http.RoundTripper {
	t.Helper()
	certFile, keyFile, err := stack.FrontProxy("front-proxy-client")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return trusting(t, certificate)
}

func roots(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	bundle, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	return pool
}

func trusting(t *testing.T, certificates ...tls.Certificate) http.RoundTripper {
	t.Helper()
	transport := client(t, certificates...).Transport.(*http.Transport)
	transport.TLSClientConfig.RootCAs, transport.TLSClientConfig.ServerName = roots(t, stack.CAFile()), ""
	return transport
}

// extraRow is a request with headers of whoever makes it, and what comes of it.
type extraRow struct {
	name     string
	headers  http.Header
	verb     string
	labels   string
	want     int
	wantText string
}

func (r extraRow) do(t *testing.T, transport http.RoundTripper, server, object string) (int, string) {
	t.Helper()
	path := server + "/apis/demo.proviso.dev/v1alpha1/namespaces/" + extraNamespace + "/virtualmachines"
	method, body := http.MethodGet, ""
	if r.verb == "create" {
		method = http.MethodPost
		body = fmt.Sprintf(`{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":%q,"labels":{%s}},"spec":{"image":"debian"}}`, object, r.labels)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = r.headers.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("Content-Type", "application/json")
	return sent(t, &http.Client{Transport: transport}, request)
}

func (r extraRow) run(t *testing.T, transport http.RoundTripper, server, object string) {
	t.Helper()
	if code, body := r.do(t, transport, server, object); code != r.want || !strings.Contains(body, r.wantText) {
		t.Errorf("%s: got %d %s, want %d with %q", r.name, code, body, r.want, r.wantText)
	}
}

const marked = `"mark":"x"`

// TestImpersonationExtra sends the reserved extra, as a Proviso in front would, and as
// somebody would who should not.
func TestImpersonationExtra(t *testing.T) {
	t.Parallel()
	grantExtra(t)
	replica, stop, err := stack.Replica(t.Context(), "--feature-gates=ConditionalImpersonation=true")
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	off, stopOff, err := stack.Replica(t.Context(), "--feature-gates=ConditionalImpersonation=false")
	t.Cleanup(stopOff)
	if err != nil {
		t.Fatal(err)
	}
	const header = "X-Remote-Extra-Authorization.proviso.dev%2fimpersonation-Conditions"
	as := func(user string, groups []string, extra ...string) http.Header {
		h := http.Header{"X-Remote-User": {user}, "X-Remote-Group": groups}
		if len(extra) > 0 {
			h[header] = extra
		}
		return h
	}
	masters := func(h http.Header) http.Header {
		h.Set("Impersonate-User", "root")
		h.Set("Impersonate-Group", "system:masters")
		return h
	}
	const refused = "only with the label mark"
	malformed := map[string]string{
		"no JSON": "x", "nothing": "[]", "null": "null", "one that allows": strings.Replace(residual, `"Deny"`, `"Allow"`, 1),
		"one of no opinion": strings.Replace(residual, `"Deny"`, `"NoOpinion"`, 1), "another language": strings.Replace(residual, "k8s.io/authorization-cel", "example.com/x", 1),
		"an unknown field": strings.Replace(residual, `"id"`, `"inert":1,"id"`, 1), "what does not compile": strings.Replace(residual, "has(", "hat(", 1),
		"a failure that is no denial": strings.Replace(residual, `"authorizerName":"x"`, `"authorizerName":"x","failureMode":"NoOpinion"`, 1),
		"too much":                    `[` + strings.Repeat(" ", impersonation.MaxExtraBytes) + `]`,
		"a check":                     strings.Replace(residual, `"!(`, `"authorizer.path('/x').check('get').allowed() || !(`, 1),
	}
	rows := []extraRow{
		{"without", as("ie-bob", nil), "create", "", 201, ""},
		{"a label", as("ie-bob", nil, residual), "create", marked, 201, ""},
		{"no label", as("ie-bob", nil, residual), "create", "", 403, refused},
		{"no object", as("ie-bob", nil, residual), "list", "", 403, "its condition cannot be evaluated for this request"},
		{"two values, the first of which denies", as("ie-bob", nil, strings.Replace(residual, "'mark'", "'other'", 1), residual), "create", marked, 403, refused},
		{"two values, the second of which denies", as("ie-bob", nil, residual, strings.Replace(residual, "'mark'", "'other'", 1)), "create", marked, 403, refused},
		{"system:masters with a label", as("x", []string{"system:masters"}, residual), "create", marked, 201, ""},
		{"system:masters without", as("x", []string{"system:masters"}, residual), "create", "", 403, refused},
		{"system:masters without an object", as("x", []string{"system:masters"}, residual), "list", "", 403, "its condition cannot be evaluated for this request"},
		{"becoming system:masters", masters(as("ie-deputy", nil)), "create", "", 201, ""},
		{"becoming system:masters with a label", masters(as("ie-deputy", nil, residual)), "create", marked, 201, ""},
		{"becoming system:masters without", masters(as("ie-deputy", nil, residual)), "create", "", 403, refused},
		{"becoming system:masters without an object", masters(as("ie-deputy", nil, residual)), "list", "", 403, "its condition cannot be evaluated for this request"},
		{"who may not anyway", as("ie-carol", nil, residual), "create", marked, 403, "ie-carol"},
	}
	for name, value := range malformed {
		rows = append(rows, extraRow{name, as("ie-bob", nil, value), "create", marked, 403, "cannot be read"},
			extraRow{name + ", by system:masters", as("x", []string{"system:masters"}, value), "list", "", 403, "cannot be read"})
	}
	into := func(values ...string) http.Header {
		return http.Header{"X-Remote-User": {"ie-deputy"}, "Impersonate-User": {"ie-bob"}, "Impersonate-Extra-Authorization.proviso.dev%2fimpersonation-Conditions": values}
	}
	rows = append(rows,
		extraRow{"impersonating into it", into("[]"), "create", marked, 403, "is reserved"},
		extraRow{"impersonating into it, escaped otherwise", http.Header{"X-Remote-User": {"ie-deputy"}, "Impersonate-User": {"ie-bob"}, "Impersonate-Extra-%61uthorization.proviso.dev%2Fimpersonation-Conditions": {residual}}, "list", "", 403, "is reserved"},
	)
	proxy := frontProxy(t)
	for i, row := range rows {
		row.run(t, proxy, replica, fmt.Sprintf("on-%d", i))
	}
	// With the gate off nobody puts it there, but what has come is enforced, and nobody may
	// impersonate into it.
	for i, row := range rows {
		row.run(t, proxy, off, fmt.Sprintf("off-%d", i))
	}
	// A certificate of its own, instead of one that vouches for others.
	certFile, keyFile, err := stack.NewUser("ie-bob")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	direct := trusting(t, certificate)
	extraRow{"the headers of a front proxy without its certificate", as("ie-alice", nil, residual), "create", "", 201, ""}.run(t, direct, replica, "direct")
	throughKubeAPIServer(t)
}

// throughKubeAPIServer impersonates into the extra at kube-apiserver, which knows nothing of
// it and passes it on: that restricts the request, and may do nothing else.
func throughKubeAPIServer(t *testing.T) {
	t.Helper()
	c := config(t, "admin")
	c.Impersonate.UserName, c.Impersonate.Groups = "root", []string{"system:masters"}
	c.Impersonate.Extra = map[string][]string{impersonation.ExtraConditions: {residual}}
	admin, err := versioned.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	machines := admin.DemoV1alpha1().VirtualMachines(extraNamespace)
	s := story{file: "union.yaml"}
	run := &storyRun{story: s}
	vm := run.machine(storyRow{object: "through"})
	vm.Namespace = extraNamespace
	if _, err := machines.Create(t.Context(), vm, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "only with the label mark") {
		t.Errorf("through kube-apiserver, without the label: got %v", err)
	}
	vm.Labels = map[string]string{"mark": "x"}
	if _, err := machines.Create(t.Context(), vm, metav1.CreateOptions{}); err != nil {
		t.Errorf("through kube-apiserver, with the label: %v", err)
	}
}

// front runs a Proviso in this process that passes on what it does not serve to another.
func front(t *testing.T, behind string) (server string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fr") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	member, err := etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = member.Close() })
	endpoint, err := etcd.Endpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := options.NewOptions()
	o.DataDir, o.SecureServing.Listener = filepath.Join(dir, "data"), listener
	pair := &o.SecureServing.ServerCert.CertKey
	if pair.CertFile, pair.KeyFile, err = stack.ServingCertificate("front"); err != nil {
		t.Fatal(err)
	}
	o.CoreAPI.CoreAPIKubeconfigPath = filepath.Join(stack.Dir, "proviso.kubeconfig")
	o.Etcd.StorageConfig.Transport.ServerList = []string{endpoint}
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	config, err := completed.Config()
	if err != nil {
		t.Fatal(err)
	}
	config.ExtraConfig.ConditionalImpersonation = true
	target, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	handler := library.PassOn(config.ExtraConfig.Enforcer, "demo.proviso.dev", target, frontProxy(t))
	c, err := config.Complete()
	if err != nil {
		t.Fatal(err)
	}
	proviso, err := c.New()
	if err != nil {
		t.Fatal(err)
	}
	proviso.GenericAPIServer.Handler.NonGoRestfulMux.HandlePrefix("/apis/demo.proviso.dev/", handler)
	stopped := make(chan error, 1)
	go func() { stopped <- proviso.GenericAPIServer.PrepareRun().RunWithContext(t.Context()) }()
	t.Cleanup(func() {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return "https://" + listener.Addr().String()
}

// TestImpersonationBetweenServers impersonates at a Proviso that passes the request on to
// another one, which stores the object, and so knows it.
func TestImpersonationBetweenServers(t *testing.T) {
	t.Parallel()
	grantExtra(t)
	behind, stop, err := stack.Replica(t.Context(), "--feature-gates=ConditionalImpersonation=false")
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	server := front(t, behind)
	c := config(t, "admin-direct")
	c.Host, c.CAFile, c.ServerName = server, stack.CAFile(), ""
	admin, err := versioned.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	rule := func(effect policyv1alpha1.PolicyEffect, requester, condition string) policyv1alpha1.AuthorizationPolicySpec {
		return policyv1alpha1.AuthorizationPolicySpec{
			Effect: effect, Condition: condition, Description: "only with the label mark", Subjects: []rbacv1.Subject{{Kind: "User", Name: requester}},
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"constrainedimpersonate"}, APIGroups: []string{"authentication.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"users"}}},
		}
	}
	const isMarked = `has(object.metadata.labels) && "mark" in object.metadata.labels`
	for name, spec := range map[string]policyv1alpha1.AuthorizationPolicySpec{
		"allow": rule(policyv1alpha1.PolicyEffectAllow, "ie-agent", isMarked),
		"deny":  rule(policyv1alpha1.PolicyEffectDeny, "ie-deputy", "!("+isMarked+")"),
	} {
		retry(t, func() error { // it has just been started
			_, err := admin.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), &policyv1alpha1.ClusterAuthorizationPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
			}, metav1.CreateOptions{})
			return err
		})
	}
	as := func(user string, groups ...string) http.Header {
		return http.Header{authenticationv1.ImpersonateUserHeader: {user}, authenticationv1.ImpersonateGroupHeader: groups}
	}
	transports := map[string]http.RoundTripper{}
	for _, user := range []string{"ie-agent", "ie-deputy", "ie-bob"} {
		certFile, keyFile, err := stack.NewUser(user)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		transports[user] = trusting(t, certificate)
	}
	ready := extraRow{"", as("ie-bob"), "create", marked, 201, ""}
	retry(t, func() error {
		if code, body := ready.do(t, transports["ie-agent"], server, "ready"); code != 201 {
			return fmt.Errorf("not yet: %d %s", code, body)
		}
		return nil
	})
	const refused = "only with the label mark"
	for i, tc := range []struct {
		user string
		extraRow
	}{
		{"ie-bob", extraRow{"nobody is impersonated", nil, "create", "", 201, ""}},
		{"ie-agent", extraRow{"with the label", as("ie-bob"), "create", marked, 201, ""}},
		{"ie-agent", extraRow{"without", as("ie-bob"), "create", "", 403, refused}},
		{"ie-agent", extraRow{"without an object", as("ie-bob"), "list", "", 403, "its condition cannot be evaluated for this request"}},
		{"ie-agent", extraRow{"into system:masters", as("root", "system:masters"), "create", marked, 403, "cannot"}},
		{"ie-deputy", extraRow{"by the legacy verb, with the label", as("ie-bob"), "create", marked, 201, ""}},
		{"ie-deputy", extraRow{"by the legacy verb, without", as("ie-bob"), "create", "", 403, refused}},
		{"ie-deputy", extraRow{"by the legacy verb into system:masters, with the label", as("root", "system:masters"), "create", marked, 201, ""}},
		{"ie-deputy", extraRow{"by the legacy verb into system:masters, without", as("root", "system:masters"), "create", "", 403, refused}},
		{"ie-deputy", extraRow{"by the legacy verb into system:masters, without an object", as("root", "system:masters"), "list", "", 403, "its condition cannot be evaluated for this request"}},
	} {
		tc.run(t, transports[tc.user], server, fmt.Sprintf("between-%d", i))
	}
	var list struct{ Items []json.RawMessage }
	_, body := extraRow{verb: "list"}.do(t, transports["ie-bob"], server, "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) == 0 {
		t.Errorf("what was passed on is not there: %s", body)
	}
}
