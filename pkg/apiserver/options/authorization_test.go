/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/apiserver/options"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// calls are the paths at which a server was asked, in order.
type calls struct {
	mu    sync.Mutex
	paths []string
}

func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	paths := c.paths
	c.paths = nil
	return paths
}

// asked runs a server that is kube-apiserver, which has no opinion on anything, and a
// webhook, which allows everything. It returns their kubeconfig files.
func asked(t *testing.T) (kubeAPIServer, webhook string, c *calls) {
	t.Helper()
	c = &calls{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.paths = append(c.paths, r.URL.Path)
		c.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": map[string]any{"allowed": r.URL.Path == "/webhook"},
		})
	}))
	t.Cleanup(server.Close)
	kubeconfig := func(path string) string {
		return writeJSON(t, map[string]any{
			"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{
				"server": server.URL + path, "certificate-authority-data": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			}}},
			"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c"}}},
		})
	}
	return kubeconfig(""), kubeconfig("/webhook"), c
}

func writeJSON(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func configured(t *testing.T, name, kubeconfig string) string {
	t.Helper()
	return writeJSON(t, map[string]any{
		"apiVersion": "config.proviso.dev/v1alpha1", "kind": "AuthorizationConfiguration", "authorizers": []any{map[string]any{
			"type": "Webhook", "name": name, "webhook": map[string]any{
				"timeout": "10s", "failurePolicy": "Deny", "subjectAccessReviewVersion": "v1",
				"connectionInfo": map[string]any{"type": "KubeConfigFile", "kubeConfigFile": kubeconfig},
			},
		}},
	})
}

// TestWebhooksAreAsked asks both chains twice: kube-apiserver and the webhook are asked in
// this order, and again only for reviews.
func TestWebhooksAreAsked(t *testing.T) {
	t.Parallel()
	const review = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	o := options.NewAuthorizationOptions()
	kubeAPIServer, kubeconfig, c := asked(t)
	o.RemoteKubeConfigFile, o.ConfigFile = kubeAPIServer, configured(t, "w", kubeconfig)
	webhooks, err := o.Webhooks(false)
	if err != nil {
		t.Fatal(err)
	}
	policies := &engine.Source{}
	policies.Publish(engine.NewBuilder().Apply(nil))
	chains, err := o.Chains(apiserver.AuthorizerConfig{Policies: policies, Webhooks: webhooks, WebhooksAtFrontDoor: true}, false)
	if err != nil {
		t.Fatal(err)
	}
	attributes := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "get", Resource: "pods", APIVersion: "v1", ResourceRequest: true}
	for _, tc := range []struct {
		name  string
		chain authorizer.UnconditionalAuthorizer
		want  []string
	}{
		{"requests", chains.Requests, []string{review, "/webhook"}},
		{"reviews", chains.Reviews, []string{review, "/webhook", review, "/webhook"}},
		// The front door finds the answer in the cache that the chain for requests has filled.
		{"after policies", chains.AfterPolicies, nil},
	} {
		for range 2 {
			if decision, reason, err := tc.chain.Authorize(t.Context(), attributes); decision != authorizer.DecisionAllow || err != nil {
				t.Errorf("%s: got %v, %s, %v, want Allow of the webhook", tc.name, decision, reason, err)
			}
		}
		if diff := cmp.Diff(tc.want, c.take()); diff != "" {
			t.Errorf("%s: asked (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestBadWebhooks keeps the server from starting, with an error that names the flag.
func TestBadWebhooks(t *testing.T) {
	t.Parallel()
	kubeAPIServer, kubeconfig, _ := asked(t)
	for _, tc := range []struct{ name, file, want string }{
		{"missing", "/nowhere", "--authorization-config: /nowhere"},
		{"the name of a built-in authorizer", configured(t, "policy.proviso.dev", kubeconfig), "must not be the name of a built-in authorizer"},
		{"the name of kube-apiserver", configured(t, "kube-apiserver", kubeconfig), "must not be the name of a built-in authorizer"},
	} {
		o := options.NewAuthorizationOptions()
		o.RemoteKubeConfigFile, o.ConfigFile = kubeAPIServer, tc.file
		if _, err := o.Webhooks(false); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	if webhooks, err := options.NewAuthorizationOptions().Webhooks(false); webhooks != nil || err != nil {
		t.Errorf("without a file: got %v, %v, want none", webhooks, err)
	}
}
