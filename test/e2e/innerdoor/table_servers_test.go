/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// serve serves a handler on this machine until the test ends, and returns its URL. Clients need a certificate that fits auth. serve has read the
// files when it returns.
func serve(t *testing.T, certFile, keyFile string, auth tls.ClientAuthType, handler http.Handler) string {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: auth, MinVersion: tls.VersionTLS12}}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return "https://" + listener.Addr().String()
}

// fill sets the URL of a webhook, and its CA, in a manifest.
func (r *rig) fill(t *testing.T, manifest, url string) string {
	t.Helper()
	ca, err := os.ReadFile(r.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("{url}", url, "{ca}", base64.StdEncoding.EncodeToString(ca)).Replace(manifest)
}

// serveWebhook serves a webhook that kube-apiserver calls, and returns its URL.
func (r *rig) serveWebhook(t *testing.T, name string, handler http.HandlerFunc) string {
	t.Helper()
	certFile, keyFile, err := r.ServingCertificate(name)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, certFile, keyFile, tls.NoClientCert, handler)
}

// writeAuthorizers writes authorizers.yaml, with the authorization webhook at a URL. fields are further fields of it.
func writeAuthorizers(t *testing.T, dir, url, caFile, fields string) {
	t.Helper()
	kubeconfig := filepath.Join(dir, "hook.kubeconfig")
	mustBeNil(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: hook
users: [{name: proviso}]
clusters: [{name: hook, cluster: {server: %q, certificate-authority: %q}}]
contexts: [{name: hook, context: {cluster: hook, user: proviso}}]
`, url, caFile), 0o600))
	mustBeNil(t, os.WriteFile(filepath.Join(dir, "authorizers.yaml"), fmt.Appendf(nil, `apiVersion: config.proviso.dev/v1alpha1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: hook.example.com
  webhook:
    timeout: 1s
    subjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %q}
    matchConditionSubjectAccessReviewVersion: v1
    %s
`, kubeconfig, fields), 0o600))
}

// convert answers a ConversionReview of gadgets: spec.text of v1 is spec.size of v2.
func convert(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, object := range review.Request.Objects {
		object["apiVersion"] = review.Request.DesiredAPIVersion
		spec, _ := object["spec"].(map[string]any)
		if text, ok := spec["text"].(string); ok && strings.HasSuffix(review.Request.DesiredAPIVersion, "/v2") {
			delete(spec, "text")
			if size, err := strconv.ParseFloat(text, 64); err == nil {
				spec["size"] = size
			}
		}
		if size, ok := spec["size"].(float64); ok && strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
			delete(spec, "size")
			spec["text"] = strconv.FormatFloat(size, 'g', -1, 64)
		}
	}
	w.Header().Set("Content-Type", jsonType)
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": map[string]any{
		"uid": review.Request.UID, "convertedObjects": review.Request.Objects, "result": map[string]any{"status": "Success"},
	}})
}

// newOtherAuthorizer runs a webhook that kube-apiserver asks after the front door, and returns the lines of the InnerDoorConfiguration about it.
func newOtherAuthorizer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.New(dir, "ca", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	files, err := ca.Server("authorizer", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	url, kubeconfig := serve(t, files.Cert, files.Key, tls.NoClientCert, http.HandlerFunc(authorize)), filepath.Join(dir, "kubeconfig")
	fill := strings.NewReplacer("{url}", url, "{ca}", ca.Files().Cert, "{kubeconfig}", kubeconfig)
	if err := os.WriteFile(kubeconfig, []byte(fill.Replace(plane.TestData(t, "authorizer-kubeconfig.yaml"))), 0o600); err != nil {
		t.Fatal(err)
	}
	return fill.Replace(plane.TestData(t, "authorizers.yaml"))
}

// authorize allows wanda everything but to escalate, and denies mallory ConfigMaps in a concrete version only, so that it is not as
// strict on the version "*".
func authorize(w http.ResponseWriter, r *http.Request) {
	review := &authorizationv1.SubjectAccessReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	attributes := review.Spec.ResourceAttributes
	switch {
	case attributes == nil:
	case review.Spec.User == "wanda":
		review.Status.Allowed = attributes.Verb != "escalate"
	case review.Spec.User == "mallory" && attributes.Resource == "configmaps" && attributes.Version != "*":
		review.Status.Denied, review.Status.Reason = true, "the other webhook denies it"
	}
	w.Header().Set("Content-Type", jsonType)
	_ = json.NewEncoder(w).Encode(review)
}
