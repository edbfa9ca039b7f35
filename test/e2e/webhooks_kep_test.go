/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/proviso-authz/proviso/test/testutil/kepwebhook"
)

// The groups by which users of TestWebhookOfTheKEP choose the webhooks that decide.
const (
	// groupLater is a group that a second webhook allows everything. It is called after the webhook of the KEP.
	groupLater = "later"
	// groupWithout are the users about whom a webhook of the KEP is asked without an endpoint for conditions.
	groupWithout = "without"
)

// TestWebhookOfTheKEP has a webhook decide that was written from the text of KEP-5681 alone, by an author who had not seen Proviso. The rows
// are the author's, too.
func TestWebhookOfTheKEP(t *testing.T) {
	t.Parallel()
	var evaluations atomic.Int64
	s := newSeparate(t, "kep", "--enable-demo-api", "--feature-gates=UpstreamConditionalDecisions=true", "--authorization-config="+kepConfiguration(t, &evaluations))
	send := func(t *testing.T, user, group, method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", anyJSON)
		if user != "" {
			r.Header.Set("Impersonate-User", user)
		}
		if group != "" {
			r.Header.Set("Impersonate-Group", group)
		}
		return sent(t, s.http, r)
	}
	machine := func(name, class, image, label string) string {
		labels := map[string]string{}
		if label != "" {
			labels[label] = "yes"
		}
		spec := map[string]string{"image": image}
		if class != "" {
			spec["storageClassName"] = class
		}
		content, err := json.Marshal(map[string]any{"apiVersion": "demo.proviso.dev/v1alpha1", "kind": "VirtualMachine",
			"metadata": map[string]any{"name": name, "namespace": "demo", "labels": labels}, "spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for _, stored := range []string{machine("stored", "prod", "a", ""), machine("kept", "dev", "a", "kept")} {
		if code, body := send(t, "", "", http.MethodPost, vmPath, stored); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
	}
	const dryRun = "?dryRun=All"
	for _, row := range []struct {
		name, user, group, method, object, body string
		want                                    int
		// evaluates is set if the webhook must evaluate the condition itself.
		evaluates bool
	}{
		{name: "a1", user: "kep-plain", method: http.MethodGet, object: "/stored", want: 200},
		{name: "a2", user: "kep-plain", method: http.MethodGet, want: 200},
		{name: "a3", user: "kep-plain", method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 403},
		{name: "b1", user: "kep-dev", method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 201},
		{name: "b2", user: "kep-dev", method: http.MethodPost, body: machine("m", "prod", "a", ""), want: 403},
		{name: "b3", user: "kep-dev", method: http.MethodPut, object: "/kept", body: machine("kept", "dev", "a", ""), want: 403},
		{name: "b4", user: "kep-dev", method: http.MethodPost, body: machine("m", "", "a", ""), want: 403},
		{name: "c1", user: "kep-update", method: http.MethodPut, object: "/stored", body: machine("stored", "dev", "a", ""), want: 200},
		{name: "c2", user: "kep-update", method: http.MethodPut, object: "/stored", body: machine("stored", "dev", "b", ""), want: 403},
		{name: "c3", user: "kep-update", method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 403},
		{name: "d1", user: "kep-guarded", method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 201},
		{name: "d2", user: "kep-guarded", method: http.MethodPost, body: machine("m", "dev", "a", "frozen"), want: 403},
		{name: "d2, a later authorizer allows", user: "kep-guarded", group: groupLater, method: http.MethodPost, body: machine("m", "dev", "a", "frozen"), want: 403},
		{name: "d3", user: "kep-guarded", method: http.MethodPut, object: "/stored", body: machine("stored", "prod", "a", ""), want: 403},
		{name: "d3, a later authorizer allows", user: "kep-guarded", group: groupLater, method: http.MethodPut, object: "/stored", body: machine("stored", "prod", "a", ""), want: 200},
		{name: "e1", user: "kep-noopinion", method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 201},
		{name: "e2", user: "kep-noopinion", method: http.MethodPost, body: machine("x-m", "dev", "a", ""), want: 403},
		{name: "e2, a later authorizer allows", user: "kep-noopinion", group: groupLater, method: http.MethodPost, body: machine("x-m", "dev", "a", ""), want: 201},
		{name: "e3", user: "kep-noopinion", method: http.MethodPost, body: machine("m", "prod", "a", ""), want: 403},
		{name: "f1", user: "kep-delete", method: http.MethodDelete, object: "/stored", want: 200},
		{name: "f2", user: "kep-delete", method: http.MethodDelete, object: "/kept", want: 403},
		{name: "f3", user: "kep-delete", method: http.MethodDelete, want: 403},
		{name: "g1", user: "kep-denied", method: http.MethodGet, object: "/stored", want: 403},
		{name: "g1, a later authorizer allows", user: "kep-denied", group: groupLater, method: http.MethodGet, object: "/stored", want: 403},
		{name: "g2", user: "kep-denied", method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 403},
		{name: "g3", user: "kep-denied", method: http.MethodDelete, object: "/stored", want: 403},
		{name: "h1", user: "kep-opaque", method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 201, evaluates: true},
		{name: "h2", user: "kep-opaque", method: http.MethodPost, body: machine("m", "prod", "a", ""), want: 403, evaluates: true},
		{name: "h3", user: "kep-opaque", method: http.MethodDelete, object: "/stored", want: 403},
		{name: "i1", user: "kep-unknown", method: http.MethodGet, object: "/stored", want: 403},
		{name: "i1, a later authorizer allows", user: "kep-unknown", group: groupLater, method: http.MethodGet, object: "/stored", want: 200},
		{name: "i2", user: "kep-unknown", method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 403},
		{name: "i3", user: "kep-unknown", method: http.MethodDelete, object: "/stored", want: 403},
		{name: "n1, dev", user: "kep-dev", group: groupWithout, method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 403},
		{name: "n1, opaque", user: "kep-opaque", group: groupWithout, method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 403},
		{name: "n2", user: "kep-guarded", group: groupWithout, method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 403},
		{name: "n3", user: "kep-noopinion", group: groupWithout, method: http.MethodPost, body: machine("m", "dev", "a", ""), want: 403},
		{name: "n4, update", user: "kep-update", group: groupWithout, method: http.MethodPut, object: "/stored", body: machine("stored", "dev", "a", ""), want: 403},
		{name: "n4, delete", user: "kep-delete", group: groupWithout, method: http.MethodDelete, object: "/stored", want: 403},
		{name: "n5, plain", user: "kep-plain", group: groupWithout, method: http.MethodGet, object: "/stored", want: 200},
		{name: "n5, denied", user: "kep-denied", group: groupWithout, method: http.MethodGet, object: "/stored", want: 403},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := evaluations.Load()
			code, body := send(t, row.user, row.group, row.method, vmPath+row.object+dryRun, row.body)
			if code != row.want {
				t.Errorf("got %d %s, want %d", code, body, row.want)
			}
			if got := evaluations.Load() > before; got != row.evaluates {
				t.Errorf("the webhook has evaluated: %t, want %t", got, row.evaluates)
			}
		})
	}
}

// kepConfiguration serves webhooks, and returns a configuration with them.
func kepConfiguration(t *testing.T, evaluations *atomic.Int64) (file string) {
	t.Helper()
	handler := kepwebhook.NewHandler()
	mux := http.NewServeMux()
	mux.Handle("POST /authorize", handler)
	mux.HandleFunc("POST /conditions", func(w http.ResponseWriter, r *http.Request) {
		evaluations.Add(1)
		handler.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /later", func(w http.ResponseWriter, r *http.Request) {
		review := authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	dir := t.TempDir()
	authorizers := &strings.Builder{}
	for _, webhook := range []struct{ name, path, match, conditions string }{
		{"kep.example.com", "/authorize", fmt.Sprintf("!(%q in request.groups)", groupWithout), "conditionsEndpointKubeConfigContext: conditions\n    authorizationConditionsReviewVersion: v1alpha1"},
		{"without.example.com", "/authorize", fmt.Sprintf("%q in request.groups", groupWithout), ""},
		{"later.example.com", "/later", fmt.Sprintf("%q in request.groups", groupLater), ""},
	} {
		kubeconfig := clientcmdapi.NewConfig()
		for name, path := range map[string]string{"reviews": webhook.path, "conditions": "/conditions"} {
			kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: server.URL + path, CertificateAuthorityData: ca}
			kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name}
		}
		kubeconfig.CurrentContext = "reviews"
		path := filepath.Join(dir, webhook.name)
		if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(authorizers, `- type: Webhook
  name: %s
  webhook:
    timeout: 10s
    subjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditionSubjectAccessReviewVersion: v1
    matchConditions: [{expression: %q}]
    %s
`, webhook.name, path, webhook.match, webhook.conditions)
	}
	file = filepath.Join(dir, "config.yaml")
	content := "apiVersion: config.proviso.dev/v1alpha1\nkind: AuthorizationConfiguration\nauthorizers:\n" + authorizers.String()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
