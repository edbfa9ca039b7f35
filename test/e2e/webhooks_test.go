/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestWebhook has a second Proviso, with a store of its own, ask the first: a policy there
// lets a request pass here on conditions, which are enforced here.
func TestWebhook(t *testing.T) {
	t.Parallel()
	_, admin := clients(t, "admin-direct")
	policies := admin.PolicyV1alpha1().ClusterAuthorizationPolicies()
	policy := &policyv1alpha1.ClusterAuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "webhook"},
		Spec: policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectAllow, Description: "carol makes machines of class dev",
			Subjects:  []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "carol"}},
			Rules:     []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"demo.proviso.dev"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"virtualmachines"}}},
			Condition: "object.spec.storageClassName == 'dev'",
		},
	}
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = policies.Delete(context.Background(), policy.Name, metav1.DeleteOptions{}) })

	url, stop, err := stack.Replica(t.Context(), "--authorization-config="+webhookConfig(t))
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	client := stack.ClientAt(t, "carol-direct", url)
	create := func(name, class string) error {
		vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian-12", StorageClassName: class}}
		_, err := client.DemoV1alpha1().VirtualMachines("demo").Create(t.Context(), vm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	// The policy becomes effective in the first server in its own time.
	poll.Holds(t, "carol may create a machine of class dev", func() bool { return create("good", "dev") == nil })
	if err := create("bad", "prod"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "carol makes machines of class dev") {
		t.Errorf("got %v, want 403 that says what carol may do", err)
	}
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
		if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
			t.Fatal(err)
		}
		content += fmt.Sprintf("- type: Webhook\n  name: %s\n  webhook:\n    timeout: 10s\n    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}%s\n", w.name, path, w.settings)
	}
	return writeFile(t, "config.yaml", content)
}
