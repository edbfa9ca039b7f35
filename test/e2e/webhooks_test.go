/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestWebhook has a second Proviso, with a store of its own, ask the first: a policy there
// lets a request pass here on conditions, which are enforced here.
func TestWebhook(t *testing.T) {
	t.Parallel()
	table := readRequests(t, "webhook.yaml")
	apply(t, table.Manifest())
	runner := &requests.Runner{Sender: newSenderTo(t, startReplica(t, "--authorization-config="+webhookConfig(t))), DryRun: true}
	runner.Await(t, table.Rows["all"][0]) // the policy becomes effective in the first server in its own time
	runner.Run(t, table.Rows["all"])
}

// webhookConfig makes the stack's Proviso an authorizer of others, and returns the file that
// says so.
func webhookConfig(t *testing.T) string {
	t.Helper()
	return webhookConfigOf(t, clientcmdapi.Cluster{Server: stack.ProvisoURL(), CertificateAuthority: stack.ProvisoCAFile(), TLSServerName: cluster.ServerName},
		"conditionsEndpointKubeConfigContext: conditions\n    authorizationConditionsReviewVersion: v1alpha1")
}

// webhookConfigOf makes a Proviso an authorizer of others, with a configuration of the endpoint for conditions.
func webhookConfigOf(t *testing.T, proviso clientcmdapi.Cluster, conditions string) string {
	t.Helper()
	certFile, keyFile := stack.UserCertificate("admin")
	clusters := map[string]*clientcmdapi.Cluster{}
	for name, resource := range map[string]string{"reviews": "subjectaccessreviews", "conditions": "authorizationconditionsreviews"} {
		to := proviso
		to.Server += "/apis/authorization.k8s.io/v1alpha1/" + resource
		clusters[name] = &to
	}
	return writeAuthorizationConfig(t, webhookAuthorizer{
		name: "first.example.com", user: clientcmdapi.AuthInfo{ClientCertificate: certFile, ClientKey: keyFile}, clusters: clusters, settings: `
    subjectAccessReviewVersion: v1alpha1
    failurePolicy: Deny
    cacheUnauthorizedRequests: false
    ` + conditions,
	})
}

// webhookAuthorizer is an entry of an authorization configuration. Its clusters are reviews and conditions.
type webhookAuthorizer struct {
	name     string
	user     clientcmdapi.AuthInfo
	clusters map[string]*clientcmdapi.Cluster
	settings string
}

// webhooksOf returns the clusters of a webhook with the paths of a server.
func webhooksOf(server *httptest.Server, reviews, conditions string) map[string]*clientcmdapi.Cluster {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return map[string]*clientcmdapi.Cluster{
		"reviews": {Server: server.URL + reviews, CertificateAuthorityData: ca}, "conditions": {Server: server.URL + conditions, CertificateAuthorityData: ca},
	}
}

// writeAuthorizationConfig writes a configuration with webhooks in their order, and returns the file.
func writeAuthorizationConfig(t *testing.T, webhooks ...webhookAuthorizer) (file string) {
	t.Helper()
	content := "apiVersion: config.proviso.dev/v1alpha1\nkind: AuthorizationConfiguration\nauthorizers:\n"
	for _, w := range webhooks {
		kubeconfig := clientcmdapi.NewConfig()
		kubeconfig.AuthInfos["user"], kubeconfig.Clusters, kubeconfig.CurrentContext = &w.user, w.clusters, "reviews"
		for name := range w.clusters {
			kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: "user"}
		}
		path := filepath.Join(t.TempDir(), "kubeconfig")
		must(t, clientcmd.WriteToFile(*kubeconfig, path))
		content += fmt.Sprintf("- type: Webhook\n  name: %s\n  webhook:\n    timeout: 10s\n    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}%s\n", w.name, path, w.settings)
	}
	return writeFile(t, "config.yaml", content)
}
