/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/etcd"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// routes are the ways to Proviso, and the contexts of a user on them.
var routes = []struct{ name, suffix string }{
	{"direct", "-direct"},
	{"kube", ""}, // through kube-apiserver and its front door
}

// must ends a test that cannot go on after an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startEtcd starts an etcd, which ends with the test, and returns its URL and a directory for its client, whose path is short enough for a socket.
func startEtcd(t *testing.T) (endpoint, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	member, err := etcd.Start(t.Context(), dir)
	must(t, err)
	t.Cleanup(func() { _ = member.Close() })
	endpoint, err = etcd.Endpoint(dir)
	must(t, err)
	return endpoint, dir
}

// readYAML reads an object. A field that it does not have is an error.
func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(readText(t, file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// readRequests reads a table of requests in testdata.
func readRequests(t *testing.T, name string, marks ...string) *requests.Table {
	t.Helper()
	return requests.ReadFile(t, filepath.Join("testdata", name), nil, marks...)
}

// readText returns the content of a file.
func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

// apply applies a manifest, waits until its objects are ready, and deletes them after the test.
func apply(t *testing.T, manifest string) {
	t.Helper()
	t.Cleanup(func() {
		if err := stack.Delete(context.WithoutCancel(t.Context()), manifest); err != nil {
			t.Error(err)
		}
	})
	if err := stack.Apply(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
}

// storePolicies creates policies for the cluster, by name, by a server that does not share the store of kube-apiserver's. It deletes them after the test.
func storePolicies(t *testing.T, client versioned.Interface, specs map[string]policyv1alpha1.AuthorizationPolicySpec) {
	t.Helper()
	policies := client.PolicyV1alpha1().ClusterAuthorizationPolicies()
	for name, spec := range specs {
		if _, err := policies.Create(t.Context(), &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = policies.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
}

// users returns subjects.
func users(names ...string) (subjects []rbacv1.Subject) {
	for _, name := range names {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.UserKind, Name: name})
	}
	return subjects
}

// certificates returns the client certificate of a user of the cluster, or of a new one.
func certificates(name string, groups ...string) (certFile, keyFile string, err error) {
	if _, isThere := cluster.Users[name]; isThere {
		certFile, keyFile = stack.UserCertificate(name)
		return certFile, keyFile, nil
	}
	return stack.NewUser(name, groups...)
}

// newSender returns a sender to the server of a context of admin's: admin or admin-direct.
func newSender(t *testing.T, context string) *requests.Sender {
	t.Helper()
	return requests.NewSender(config(t, context), certificates)
}

// newSenderTo returns a sender to another server with a certificate of the cluster's CA.
func newSenderTo(t *testing.T, url string) *requests.Sender {
	t.Helper()
	c := config(t, "admin-direct")
	c.Host, c.CAFile = url, stack.CAFile()
	return requests.NewSender(c, certificates)
}

// awaitRows sends each row until its outcome is as it is wanted, because what it depends on takes effect some time after it is stored.
func awaitRows(t *testing.T, runner *requests.Runner, rows []*requests.Row) {
	t.Helper()
	for _, row := range rows {
		runner.Await(t, row)
	}
}

// kubectlOf runs kubectl in the context of a user. The error has what it has printed.
func kubectlOf(t *testing.T, user, input string, args ...string) (string, error) {
	t.Helper()
	out, errs, err := kubectlWithInput(t, user, input, args...)
	if err != nil {
		err = fmt.Errorf("%w: %s%s", err, out, errs)
	}
	return out, err
}

// runOnRoutes runs rows on each route, with kubectl for users of the cluster who have a certificate, once the first of each user that passes, and the first that each policy refuses, are as wanted.
func runOnRoutes(t *testing.T, rows []*requests.Row) {
	t.Helper()
	for _, route := range routes {
		t.Run(route.name, func(t *testing.T) {
			t.Parallel()
			runner := &requests.Runner{Sender: newSender(t, "admin"+route.suffix), Kubectl: func(_ context.Context, row *requests.Row, args ...string) (string, error) {
				return kubectlOf(t, row.User.Name+route.suffix, row.Input, args...)
			}}
			runner.AwaitEach(t, rows)
			runner.Run(t, rows)
		})
	}
}

// startReplica starts an additional server, which ends with the test, and returns its URL.
func startReplica(t *testing.T, args ...string) (url string) {
	t.Helper()
	url, stop, err := stack.Replica(t.Context(), args...)
	t.Cleanup(stop)
	must(t, err)
	return url
}

// startAlone starts an additional server with its own front door, which ends with the test.
func startAlone(t *testing.T, args ...string) *cluster.Alone {
	t.Helper()
	alone, err := stack.Alone(t.Context(), args...)
	t.Cleanup(alone.Stop)
	must(t, err)
	return alone
}

// writeFile writes a file for a test, and returns its path.
func writeFile(t *testing.T, name, content string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
