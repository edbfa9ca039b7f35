/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package webhooks_test has kube-apiserver decide by webhooks of Proviso: kube-apiserver asks the front door, which asks them.
package webhooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

const namespace = "hooked"

// rig is a control plane whose Proviso asks a real HTTPS webhook. Its answer depends on the user.
type rig struct {
	*plane.Own
	hook *httptest.Server
	// kube is a client of kube-apiserver as admin, with which the webhook asks back, and other is the URL of a second Proviso, whose webhook is the first.
	kube  kubernetes.Interface
	other string
	// rows are the tables of requests.
	rows map[string][]*requests.Row

	mu sync.Mutex
	// asked has the resources of each user about which the webhook was asked.
	asked map[string][]string
}

func (r *rig) calls(user string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[user]
}

// serve answers a review by the name of its user.
func (r *rig) serve(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	if request.URL.Path == hangs {
		select {
		case <-request.Context().Done():
		case <-time.After(5 * time.Second):
		}
		return
	}
	var review authorizationv1alpha1.SubjectAccessReview
	if err := json.Unmarshal(body, &review); err == nil && review.Kind == "AuthorizationConditionsReview" {
		r.evaluate(w, body)
		return
	} else if err != nil || review.Spec.ResourceAttributes == nil {
		_, _ = io.WriteString(w, `{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "SubjectAccessReview", "status": {"allowed": false}}`)
		return
	}
	_, name, _ := strings.Cut(review.Spec.User, "-")
	resource := review.Spec.ResourceAttributes.Resource
	r.mu.Lock()
	r.asked[review.Spec.User] = append(r.asked[review.Spec.User], resource)
	r.mu.Unlock()
	status := `"allowed": false`
	switch name {
	case "allowed", "restricted":
		status = fmt.Sprintf(`"allowed": %t, "reason": "by the webhook"`, resource == "pods")
	case "nomaps", "nomachines":
		if resource == map[string]string{"nomaps": "configmaps", "nomachines": "virtualmachines"}[name] {
			status = `"allowed": false, "denied": true, "reason": "by the webhook"`
		}
	case "denied":
		status = `"allowed": false, "denied": true, "reason": "by the webhook"`
	case "slow":
		select {
		case <-request.Context().Done():
		case <-time.After(5 * time.Second):
		}
		status = `"allowed": true`
	case "asks", "forgets":
		status = r.askBack(request.Context(), &review.Spec, name == "asks")
	case "writes":
		status = `"allowed": true`
	case "conditions", "polite", "opaque":
		if name == "conditions" || review.Spec.ConditionalAuthorization != nil {
			status = conditionsOf(name, resource)
		}
	case "loop":
		r.forward(w, request, body)
		return
	}
	_, _ = io.WriteString(w, `{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "SubjectAccessReview", "status": {`+status+`}}`)
}

// conditionsOf returns a status that allows small ConfigMaps, or machines of one image.
func conditionsOf(name, resource string) string {
	conditionType, condition := "k8s.io/authorization-cel", "object.spec.image == 'debian-12'"
	switch {
	case name == "opaque":
		conditionType, condition = "example.com/opaque", "small"
	case resource == "configmaps":
		condition = "object.data.size == 'small'"
	}
	return fmt.Sprintf(`"allowed": false, "conditionsChain": [{"authorizerName": "x", "conditions": [{"id": "example.com/small", "effect": "Allow", "type": %q, "condition": %q}]}]`, conditionType, condition)
}

// evaluate evaluates opaque conditions: the object must be a small ConfigMap.
func (r *rig) evaluate(w http.ResponseWriter, body []byte) {
	var review struct {
		Request struct {
			Object struct {
				Data map[string]string `json:"data"`
			} `json:"object"`
		} `json:"request"`
	}
	err := json.Unmarshal(body, &review)
	_, _ = fmt.Fprintf(w, `{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "AuthorizationConditionsReview", "response": {"allowed": %t}}`, err == nil && review.Request.Object.Data["size"] == "small")
}

// askBack answers as kube-apiserver answers the same question, with the extra of the user or without.
func (r *rig) askBack(ctx context.Context, spec *authorizationv1alpha1.SubjectAccessReviewSpec, keepsExtra bool) string {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: spec.User, Groups: spec.Groups, ResourceAttributes: spec.ResourceAttributes}}
	if keepsExtra {
		review.Spec.Extra = spec.Extra
	}
	answer, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return fmt.Sprintf(`"allowed": %t`, err == nil && answer.Status.Allowed)
}

// forward sends a review on to the other Proviso.
func (r *rig) forward(w http.ResponseWriter, request *http.Request, body []byte) {
	client, err := rest.HTTPClientFor(r.admin(r.other))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	onward, _ := http.NewRequestWithContext(request.Context(), http.MethodPost, r.other+reviews, bytes.NewReader(body))
	onward.Header.Set("Content-Type", "application/json")
	response, err := client.Do(onward)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}

const reviews = "/apis/authorization.k8s.io/v1alpha1/subjectaccessreviews"

// admin returns the client configuration of admin for a server.
func (r *rig) admin(url string) *rest.Config {
	certFile, keyFile := r.UserCertificate(cluster.Admin)
	return &rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAFile: r.CAFile(), CertFile: certFile, KeyFile: keyFile}}
}

// hangs is the path of a webhook that does not answer.
const hangs = "/hangs"

// member is an authorizer of a configuration. It is asked about the users whose names begin with its name, or with its first word.
type member struct {
	name, server, failurePolicy string
}

// configuration writes an AuthorizationConfiguration. All webhooks have the certificate of one CA, and the client certificate of admin.
func (r *rig) configuration(t *testing.T, ca []byte, members ...member) string {
	t.Helper()
	dir := t.TempDir()
	var list []string
	for _, m := range members {
		kubeconfig := clientcmdapi.NewConfig()
		certFile, keyFile := r.UserCertificate(cluster.Admin)
		kubeconfig.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificate: certFile, ClientKey: keyFile}
		kubeconfig.Clusters["hook"] = &clientcmdapi.Cluster{Server: m.server, CertificateAuthorityData: ca}
		kubeconfig.Contexts["hook"] = &clientcmdapi.Context{Cluster: "hook", AuthInfo: "admin"}
		kubeconfig.CurrentContext = "hook"
		file := filepath.Join(dir, m.name+".kubeconfig")
		if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
			t.Fatal(err)
		}
		fill := strings.NewReplacer("NAME", m.name, "POLICY", m.failurePolicy, "KUBECONFIG", file, "PREFIX", strings.Split(m.name, "-")[0])
		list = append(list, fill.Replace(plane.TestData(t, "authorizer.yaml")))
	}
	file := filepath.Join(dir, "config.yaml")
	content := "apiVersion: config.proviso.dev/v1alpha1\nkind: AuthorizationConfiguration\nauthorizers:\n" + strings.Join(list, "")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// closedPort returns an address on which no server listens.
func closedPort(t *testing.T) string {
	t.Helper()
	port, err := cluster.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("https://127.0.0.1:%d", port)
}

// newRig starts a control plane, with the inner door or without.
func newRig(t *testing.T, innerDoor *cluster.InnerDoor) *rig {
	t.Helper()
	r := &rig{Own: plane.Prepare(t, cluster.Config{InnerDoor: innerDoor}), asked: map[string][]string{}}
	r.hook = httptest.NewTLSServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.hook.Close)
	if _, _, err := r.NewUser(cluster.Admin, cluster.Users[cluster.Admin]...); err != nil {
		t.Fatal(err)
	}
	ca, down := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.hook.Certificate().Raw}), closedPort(t)
	r.Args = []string{"--authorization-config=" + r.configuration(t, ca,
		member{"open", r.hook.URL, "NoOpinion"}, member{"closed", r.hook.URL, "Deny"}, member{"opendown", down, "NoOpinion"}, member{"closeddown", down, "Deny"},
		member{"pair", r.hook.URL + hangs, "NoOpinion"}, member{"pair-next", r.hook.URL, "NoOpinion"})}
	r.Start(t, r.Up)
	admin, err := r.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	r.kube = kubernetes.NewForConfigOrDie(admin)
	r.rows = requests.ReadFile(t, filepath.Join("testdata", "webhooks.yaml"), nil, isAsked, isSlow, isForeign).Rows
	r.MustApply(t, plane.TestData(t, "setup.yaml"))
	return r
}

// TestWebhooksThroughKubeAPIServer sends requests to a real kube-apiserver, whose front door asks webhooks: one that answers, one that is down, one that is
// slow, and some that ask back.
func TestWebhooksThroughKubeAPIServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	t.Run("lists", func(t *testing.T) { testLists(t, r) })
	t.Run("conditions", func(t *testing.T) { (&requests.Runner{Sender: r.Sender}).Run(t, r.rows["conditions"]) })
	t.Run("boundary", func(t *testing.T) { testBoundary(t, r) })
	t.Run("two Provisos", func(t *testing.T) { testTwoProvisos(t, r) })
}

// The marks of rows.
const (
	isAsked   = "asked"
	isSlow    = "slow"
	isForeign = "foreign"
)

// The time of kube-apiserver for the front door is three seconds, after which RBAC alone would decide.
const soon, late = 1500 * time.Millisecond, 2800 * time.Millisecond

// testLists has users whom RBAC lets list ConfigMaps, and not pods. They list both.
func testLists(t *testing.T, r *rig) {
	runner := &requests.Runner{Sender: r.Sender}
	for _, row := range r.rows["lists"] {
		before, started := len(r.calls(row.User.Name)), time.Now()
		if problem := runner.Try(t, row); problem != "" {
			t.Errorf("%s: %s", row, problem)
		}
		if took := time.Since(started); row.Is(isSlow) && (took < soon || took > late) || !row.Is(isSlow) && took > soon {
			t.Errorf("%s: it took %s", row, took)
		}
		if asked := r.calls(row.User.Name)[before:]; (len(asked) == 1) != row.Is(isAsked) || len(asked) > 1 {
			t.Errorf("%s: asked about %q", row, asked)
		}
	}
	t.Run("a webhook that asks back without the marker", func(t *testing.T) {
		if code, took := r.listPods(t, "closed-forgets"); code != http.StatusForbidden || took > late {
			t.Errorf("got %d after %s, want a refusal in time", code, took)
		}
	})
	t.Run("a check of Proviso", func(t *testing.T) {
		answer, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "closed-marked", Extra: map[string]authorizationv1.ExtraValue{authorization.DelegationMarker: {"true"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Version: "v1", Resource: "pods", Namespace: namespace},
		}}, metav1.CreateOptions{})
		if err != nil || answer.Status.Allowed || answer.Status.Denied || len(r.calls("closed-marked")) > 0 {
			t.Errorf("got %+v, %v, after %q", answer.Status, err, r.calls("closed-marked"))
		}
	})
}

// listPods lists pods as a user, and returns the code of the answer and the time that it took.
func (r *rig) listPods(t *testing.T, user string) (code int, took time.Duration) {
	t.Helper()
	started := time.Now()
	code, _ = r.Sender.Send(t, &requests.User{Name: user, Groups: []string{"hooked"}, Certificate: true}, http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods", "", "")
	return code, time.Since(started)
}

// testTwoProvisos has two Provisos ask each other's reviews about a user whom none of them allows.
func testTwoProvisos(t *testing.T, r *rig) {
	ca, err := os.ReadFile(r.ProvisoCAFile())
	if err != nil {
		t.Fatal(err)
	}
	url, stop, err := r.Replica(t.Context(), "--authorization-config="+r.configuration(t, ca, member{"closed", r.ProvisoURL() + reviews, "Deny"}))
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	r.other = url
	code, took := r.listPods(t, "closed-loop")
	if asked := r.calls("closed-loop"); code != http.StatusForbidden || took > late || len(asked) == 0 || len(asked) > 8 {
		t.Errorf("got %d after %s and %d questions, want a refusal in time", code, took, len(asked))
	}
}
