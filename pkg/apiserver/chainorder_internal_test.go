/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/order"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// hookAnswering is a webhook that answers each review with the same status, and counts the reviews.
func hookAnswering(t *testing.T, status string) (source *webhook.Source, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = fmt.Fprintf(w, `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": {%s}}`, status)
	}))
	t.Cleanup(server.Close)
	kubeconfig, dir := clientcmdapi.NewConfig(), t.TempDir()
	kubeconfig.Clusters["hook"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	kubeconfig.Contexts["hook"] = &clientcmdapi.Context{Cluster: "hook"}
	kubeconfig.CurrentContext = "hook"
	if err := clientcmd.WriteToFile(*kubeconfig, filepath.Join(dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(map[string]any{
		"apiVersion": "config.proviso.dev/v1alpha1", "kind": "AuthorizationConfiguration", "authorizers": []any{map[string]any{
			"type": "Webhook", "name": "hook.example.com", "webhook": map[string]any{
				"timeout": "10s", "failurePolicy": "Deny", "subjectAccessReviewVersion": "v1", "cacheAuthorizedRequests": false, "cacheUnauthorizedRequests": false,
				"connectionInfo": map[string]any{"type": "KubeConfigFile", "kubeConfigFile": filepath.Join(dir, "kubeconfig")},
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	source, err = webhook.NewSource(webhook.SourceConfig{File: file, Reserved: order.Reserved(), Backoff: wait.Backoff{Steps: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return source, asked
}

// opinion is what one authorizer says.
type opinion struct {
	name     string
	decision authorization.Decision
	status   string
	effects  []policyv1alpha1.PolicyEffect
}

var opinions = []opinion{
	{"none", authorization.NoOpinion("", nil), `"allowed": false`, nil},
	{"allow", authorization.Allow("", nil), `"allowed": true`, []policyv1alpha1.PolicyEffect{policyv1alpha1.PolicyEffectAllow}},
	{"deny", authorization.Deny("", nil), `"allowed": false, "denied": true`, []policyv1alpha1.PolicyEffect{policyv1alpha1.PolicyEffectDeny}},
}

// sumOf is the decision if a Deny of anyone beats an Allow of anyone.
func sumOf(all ...opinion) string {
	sum := "none"
	for _, o := range all {
		if o.name == "deny" || sum == "none" {
			sum = o.name
		}
	}
	return sum
}

func nameOf(d authorization.Decision) string {
	switch {
	case d.IsAllow():
		return "allow"
	case d.IsDeny():
		return "deny"
	case d.IsNoOpinion():
		return "none"
	}
	return "conditions"
}

// TestNoAllowHidesADeny has policies, a webhook and kube-apiserver answer in all combinations. In each chain of the server a Deny of any of them beats an
// Allow of any other, and kube-apiserver is asked at most once. The chain for reviews also answers the checks of the permissions of policy
// authors, and the chain for checks those that conditions make.
func TestNoAllowHidesADeny(t *testing.T) {
	t.Parallel()
	for _, hook := range opinions {
		webhooks, hookAsked := hookAnswering(t, hook.status)
		for _, policies := range opinions {
			source := policiesOf(t, policies.effects...)
			for _, kube := range opinions {
				kubeAPIServer := &answering{decision: kube.decision}
				chains, err := NewChains(AuthorizerConfig{Fresh: kubeAPIServer, Cached: kubeAPIServer, InnerDoor: kubeAPIServer, Policies: source, Webhooks: webhooks})
				if err != nil {
					t.Fatal(err)
				}
				attributes := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "create", APIVersion: "v1", Resource: "persistentvolumeclaims", Namespace: "demo", ResourceRequest: true}
				want := sumOf(hook, policies, kube)
				// kube-apiserver has asked the front door before its other authorizers, so that their Deny counts only for what Proviso leaves open.
				innerDoor := sumOf(hook, policies)
				if innerDoor == "none" {
					innerDoor = kube.name
				}
				for _, tc := range []struct {
					name  string
					chain *authorization.Chain
					want  string
				}{{"reviews", chains.Reviews, want}, {"requests", chains.Requests, want}, {"checks", chains.Checks, want}, {"inner door", chains.InnerDoor, innerDoor}} {
					t.Run(fmt.Sprintf("webhook %s, policies %s, kube-apiserver %s/%s", hook.name, policies.name, kube.name, tc.name), func(t *testing.T) {
						decide := map[string]func() authorization.Decision{
							"eager": func() authorization.Decision { return tc.chain.Decide(t.Context(), attributes) },
							"lazy": func() authorization.Decision {
								return tc.chain.Begin(t.Context(), attributes).Evaluate(t.Context(), nil)
							},
						}
						for name, decide := range decide {
							kubeAPIServer.asked = 0
							hookAsked.Store(0)
							if got := nameOf(decide()); got != tc.want || kubeAPIServer.asked > 1 || hookAsked.Load() > 1 {
								t.Errorf("%s: got %s after %d questions to kube-apiserver and %d to the webhook, want %s", name, got, kubeAPIServer.asked, hookAsked.Load(), tc.want)
							}
						}
					})
				}
			}
		}
	}
}

// TestWithoutWebhooksKubeAPIServerHasOnePlace asks that a server without webhooks decides as if there were none.
func TestWithoutWebhooksKubeAPIServerHasOnePlace(t *testing.T) {
	t.Parallel()
	kubeAPIServer := &answering{decision: authorization.Allow("", nil)}
	config := chainConfig{AuthorizerConfig: &AuthorizerConfig{Policies: policiesOf(t)}, asksKubeAPIServer: kubeAPIServer}
	if _, err := config.newChain(order.InRequests); err != nil || config.denials != nil || config.asksKubeAPIServer != authorization.Decider(kubeAPIServer) {
		t.Errorf("got %v and %v, %v, want one place", config.denials, config.asksKubeAPIServer, err)
	}
}
