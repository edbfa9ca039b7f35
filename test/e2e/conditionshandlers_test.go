/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// standIn is a stand-in for a kube-apiserver that is probed: it authorizes a request with the front door, and answers 403.
type standIn struct {
	*httptest.Server

	// handles says that it sends options, as a kube-apiserver does that handles conditions.
	handles atomic.Bool
	// door asks the front door, once it is set.
	door atomic.Pointer[handling]
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	certFile, keyFile, err := stack.ServingCertificate("127.0.0.1")
	must(t, err)
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	must(t, err)
	s := &standIn{Server: httptest.NewUnstartedServer(nil)}
	s.Config.Handler, s.TLS = s, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.handles.Store(true)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reason := ""
	if door := s.door.Load(); door != nil {
		reason = s.reason(door, r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: "configmaps is forbidden: User cannot update resource: " + reason,
	})
}

// reason returns the reason for which the front door denies a request.
func (s *standIn) reason(door *handling, r *http.Request) string {
	extra := map[string]authorizationv1.ExtraValue{}
	for header, values := range r.Header {
		if key, ok := strings.CutPrefix(strings.ToLower(header), "impersonate-extra-"); ok {
			extra[strings.ReplaceAll(key, "%2f", "/")] = values
		}
	}
	path := strings.Split(r.URL.Path, "/") // /api/v1/namespaces/NAMESPACE/RESOURCE/NAME
	if len(path) != 7 || r.Method != http.MethodPut || r.URL.Query().Get("dryRun") != "All" {
		return "not a canary"
	}
	spec := map[string]any{
		"user": r.Header.Get("Impersonate-User"), "groups": []string{"system:authenticated"}, "extra": extra,
		"resourceAttributes": authorizationv1.ResourceAttributes{Verb: "update", Version: path[2], Resource: path[5], Namespace: path[4], Name: path[6]},
	}
	if s.handles.Load() {
		spec["authorizationOptions"] = map[string]any{"handledDecisionTypes": []string{"Allow", "Deny", "NoOpinion", "ConditionsMap", "Union"}}
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
	if err != nil {
		return err.Error()
	}
	response, err := door.client.Post(door.url+frontdoor.AuthorizePath, "application/json", strings.NewReader(string(body)))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil || !review.Status.Denied {
		return fmt.Sprintf("not denied: %v", err)
	}
	return review.Status.Reason
}

// TestStatusOfConditionsThatKubeAPIServerHandles probes two stand-ins for kube-apiservers. The status of policies says that kube-apiserver
// enforces conditions only while both are seen to send options.
func TestStatusOfConditionsThatKubeAPIServerHandles(t *testing.T) {
	t.Parallel()
	// Proviso may list the Leases of kube-apiservers, and impersonate the user of canaries.
	canary := filepath.Join(stack.Manifests, "inner-door", "canary.yaml")
	t.Cleanup(func() { mustKubectl(t, "admin", "delete", "--ignore-not-found", "-f", canary) })
	mustKubectl(t, "admin", "apply", "--server-side", "-f", canary)
	first, second := newStandIn(t), newStandIn(t)
	// It has a store of its own, because servers without a front door write the status of what they share.
	alone := startAlone(t, "--etcd-prefix=/conditions", "--feature-gates=UpstreamConditionalDecisions=true", "--kube-apiserver-servers="+first.URL+","+second.URL)
	door := &handling{client: withCA(t, stack.CAFile(), alone.CertFile, alone.KeyFile), url: alone.FrontDoorURL}
	first.door.Store(door)
	client := stack.ClientAt(t, "admin-direct", alone.URL)
	policies := client.PolicyV1alpha1().ClusterAuthorizationPolicies()
	const condition = `object.metadata.?labels.kept.hasValue()`
	storePolicies(t, client, map[string]policyv1alpha1.AuthorizationPolicySpec{
		"handled-allow": {Effect: policyv1alpha1.PolicyEffectAllow, Subjects: users("ann"), Condition: condition, Rules: rulesFor("create", "update")},
		"handled-deny":  {Effect: policyv1alpha1.PolicyEffectDeny, Subjects: users("ann"), Condition: condition, Rules: rulesFor("create", "update", "patch")},
	})
	status := func(name string) string {
		policy, err := policies.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		var entries []string
		for _, e := range policy.Status.Enforcement {
			entries = append(entries, fmt.Sprintf("%s %s", e.At, e.Result))
		}
		for _, c := range policy.Status.Conditions {
			if c.Type == policyv1alpha1.PolicyEffective {
				entries = append(entries, string(c.Status)+" "+c.Message)
			}
		}
		return strings.Join(entries, "; ")
	}
	shows := func(what, allow, deny string) {
		t.Helper()
		// A status changes because of such facts every 30 seconds at most.
		if !poll.Until(t.Context(), 90*time.Second, func() bool {
			return strings.Contains(status("handled-allow"), allow) && strings.Contains(status("handled-deny"), deny)
		}) {
			t.Fatalf("%s: %s; %s", what, status("handled-allow"), status("handled-deny"))
		}
	}
	// The status names exactly the servers that are not known to handle conditions.
	lacks := func(what string, server *standIn) {
		t.Helper()
		known := "not every kube-apiserver is known to handle conditions: " + server.URL + ", so that the policy "
		shows(what, known+"allows none of them", known+"denies all of them")
	}
	lacks("one of two handles conditions", second)
	second.door.Store(door)
	const enforced = "KubeAPIServer Enforced; True all requests that the rules describe are decided by the policy. kube-apiserver enforces its condition itself"
	shows("both handle conditions", enforced, enforced)
	first.handles.Store(false)
	lacks("one is downgraded", first)
	details, err := client.Discovery().RESTClient().Get().AbsPath("/readyz/conditions").DoRaw(t.Context())
	if want := first.URL + ": not known: the server sends reviews without the options for conditions"; err != nil || !slices.Contains(strings.Split(string(details), "\n"), want) {
		t.Errorf("%v %s", err, details)
	}
}

// TestConditionsOfRealKubeAPIServer probes a real kube-apiserver, which does not handle conditions yet. Its answer has the reason of the front
// door, so that Proviso knows that it asks without options.
func TestConditionsOfRealKubeAPIServer(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "proviso-conditions-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	own, err := cluster.New(cluster.Config{Dir: dir, Bin: stack.Bin, Manifests: stack.Manifests})
	must(t, err)
	own.Args = []string{"--feature-gates=UpstreamConditionalDecisions=true", "--kube-apiserver-servers=" + own.KubeAPIServerURL()}
	own.StopAfter(t)
	must(t, own.Up(t.Context()))
	if _, err := own.Kubectl(t.Context(), "", "apply", "--server-side", "-f", filepath.Join(own.Manifests, "inner-door", "canary.yaml")); err != nil {
		t.Fatal(err)
	}
	want := own.KubeAPIServerURL() + ": not known: the server sends reviews without the options for conditions"
	poll.Eventually(t, want, func() string {
		details, err := own.Kubectl(t.Context(), "", "--context", "admin-direct", "get", "--raw", "/readyz/conditions")
		if err == nil && slices.Contains(strings.Split(details, "\n"), want) {
			return ""
		}
		return fmt.Sprintf("%s: %v", details, err)
	})
}
