/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/util/cert"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

// peers lets the servers ask each other.
var peers = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == "peer" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})

// withPolicies are the two places that policies have in a chain.
func withPolicies(name string, policies *engine.Source) []authorization.Member {
	return []authorization.Member{
		{Name: "deny." + name, Decider: &engine.Authorizer{Source: policies, Part: engine.Restricting}},
		{Name: name, Decider: &engine.Authorizer{Source: policies, Part: engine.Granting}},
	}
}

// serverOf runs a server with members.
func serverOf(t *testing.T, members ...authorization.Member) *server.Server {
	t.Helper()
	chain, err := authorization.NewChain(append([]authorization.Member{{Name: "peers", Decider: authorization.DeciderOf(peers)}}, members...)...)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "wh") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return server.New(t, server.Config{Authorizer: chain, EtcdDir: dir})
}

// asWebhook makes a server a member of others. They ask it over TLS.
func asWebhook(t *testing.T, name string, handler http.Handler) authorization.Member {
	t.Helper()
	listening := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(server.UserHeader, "peer")
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(listening.Close)
	at := placeOf(listening)
	return memberAt(t, name, "30s", at, at)
}

// place is a server with the CA that its certificate must have.
type place struct {
	url string
	ca  []byte
}

func placeOf(s *httptest.Server) place {
	return place{url: s.URL, ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
}

// memberAt is a webhook that decides at one server, and has its conditions evaluated at another one.
func memberAt(t *testing.T, name, timeout string, reviews, conditions place) authorization.Member {
	t.Helper()
	var clusters, contexts []any
	for resource, at := range map[string]place{"subjectaccessreviews": reviews, "authorizationconditionsreviews": conditions} {
		clusters = append(clusters, map[string]any{"name": resource, "cluster": map[string]any{"server": at.url + group + resource, "certificate-authority-data": at.ca}})
		contexts = append(contexts, map[string]any{"name": resource, "context": map[string]any{"cluster": resource}})
	}
	dir := t.TempDir()
	files := map[string]any{
		"kubeconfig": map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "subjectaccessreviews", "clusters": clusters, "contexts": contexts},
		"config": map[string]any{"apiVersion": "config.proviso.dev/v1alpha1", "kind": "AuthorizationConfiguration", "authorizers": []any{map[string]any{
			"type": "Webhook", "name": name, "webhook": map[string]any{
				"timeout": timeout, "failurePolicy": "Deny", "subjectAccessReviewVersion": "v1alpha1", "cacheAuthorizedRequests": false, "cacheUnauthorizedRequests": false,
				"connectionInfo":                      map[string]any{"type": "KubeConfigFile", "kubeConfigFile": filepath.Join(dir, "kubeconfig")},
				"conditionsEndpointKubeConfigContext": "authorizationconditionsreviews", "authorizationConditionsReviewVersion": "v1alpha1",
			},
		}}},
	}
	for file, content := range files {
		encoded, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), encoded, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source, err := webhook.NewSource(webhook.SourceConfig{File: filepath.Join(dir, "config"), Backoff: wait.Backoff{Steps: 2, Duration: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	return authorization.Member{Name: "webhooks", Decider: &webhook.Dynamic{Source: source}}
}

// randomPolicies publishes up to three policies about virtual machines.
func randomPolicies(t *testing.T, r *rand.Rand, compiler *partial.Compiler, source *engine.Source) {
	t.Helper()
	conditions := []string{
		"", "object.spec.storageClassName == 'dev'", "object.spec.nodeName == 'n'", "object.spec.image.startsWith('debian') && request.userInfo.username == 'alice'",
		"object.spec.missing == 'x'", "operation == 'CREATE' && !has(object.spec.nodeName)", "object.spec.disks.all(d, d.sizeGiB < 2.0)", "request.userInfo.username == 'bob'",
	}
	policies := map[engine.Key]*engine.Policy{}
	for i := range r.IntN(4) {
		spec := &policyv1alpha1.AuthorizationPolicySpec{
			Subjects:  []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}, {Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "bob"}},
			Effect:    []policyv1alpha1.PolicyEffect{"Allow", "Allow", "Allow", "Deny", "NoOpinion"}[r.IntN(5)],
			Rules:     []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"demo.proviso.dev"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"virtualmachines"}}},
			Condition: conditions[r.IntN(len(conditions))],
		}
		key := engine.Key{Name: fmt.Sprintf("p%d", i)}
		var err error
		if policies[key], err = engine.New(key, spec, compiler); err != nil {
			t.Fatal(err)
		}
	}
	source.Publish(engine.NewBuilder().Apply(policies))
}

const virtualMachines = "/apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines"

// TestThreeServersAreOne compares a server that asks a server that asks a third with one
// that has all policies itself, in the same order: for requests, and for reviews whose
// conditions an AuthorizationConditionsReview evaluates.
func TestThreeServersAreOne(t *testing.T) {
	t.Parallel()
	compiler := compilers.Policies(t)
	var (
		sources [3]*engine.Source
		all     []authorization.Member
	)
	for i := range sources {
		sources[i] = &engine.Source{}
		all = append(all, withPolicies(string(rune('a'+i)), sources[i])...)
	}
	one := serverOf(t, all...)
	third := serverOf(t, withPolicies("c", sources[2])...)
	second := serverOf(t, append(withPolicies("b", sources[1]), asWebhook(t, "third", third.Handler))...)
	first := serverOf(t, append(withPolicies("a", sources[0]), asWebhook(t, "second", second.Handler))...)

	objects := []string{
		`{"image":"debian-12","storageClassName":"dev"}`, `{"image":"x","nodeName":"n"}`,
		`{"image":"x","storageClassName":"prod","disks":[{"name":"a","sizeGiB":1.5}]}`, `{"image":"debian-11","nodeName":"m","disks":[{"name":"a","sizeGiB":2.5}]}`,
	}
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 40 {
		for _, source := range sources {
			randomPolicies(t, r, compiler, source)
		}
		for _, user := range []string{"alice", "bob"} {
			review := reviewOf(user)
			wantStatus, gotStatus := statusOf(t, one, review), statusOf(t, first, review)
			if wantStatus.Allowed != gotStatus.Allowed || wantStatus.Denied != gotStatus.Denied || (wantStatus.ConditionsChain == nil) != (gotStatus.ConditionsChain == nil) {
				t.Fatalf("review for %s: three say %+v, one says %+v", user, gotStatus, wantStatus)
			}
			for _, spec := range objects {
				object := fmt.Sprintf(`{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"m"},"spec":%s}`, spec)
				want := send(one, user, http.MethodPost, virtualMachines+"?dryRun=All", "application/json", object)
				got := send(first, user, http.MethodPost, virtualMachines+"?dryRun=All", "application/json", object)
				if want.Code != got.Code {
					t.Fatalf("%s creates %s: three answer %d %s, one answers %d %s", user, spec, got.Code, got.Body, want.Code, want.Body)
				}
				seen[fmt.Sprint(want.Code)]++
				if wantStatus.ConditionsChain == nil {
					continue
				}
				wantOutcome, gotOutcome := outcomeOf(t, one, wantStatus, object), outcomeOf(t, first, gotStatus, object)
				if wantOutcome != gotOutcome {
					t.Fatalf("conditions for %s on %s: three evaluate to %s, one to %s", user, spec, gotOutcome, wantOutcome)
				}
				seen[wantOutcome]++
			}
		}
	}
	t.Logf("outcomes: %v", seen)
	for _, outcome := range []string{"201", "403", "Allow", "Deny", "NoOpinion"} {
		if seen[outcome] < 5 {
			t.Errorf("%s came out %d times, so the test proves little: %v", outcome, seen[outcome], seen)
		}
	}
}

type sarStatus struct {
	Allowed         bool            `json:"allowed"`
	Denied          bool            `json:"denied"`
	ConditionsChain json.RawMessage `json:"conditionsChain"`
}

func reviewOf(user string) string {
	return fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","spec":{"user":%q,
		"resourceAttributes":{"verb":"create","group":"demo.proviso.dev","version":"v1alpha1","resource":"virtualmachines","namespace":"n"},
		"conditionalAuthorization":{"mode":"HumanReadable"}}}`, user)
}

func statusOf(t *testing.T, s *server.Server, review string) sarStatus {
	t.Helper()
	response := post(s, "peer", group+"subjectaccessreviews", "application/json", review)
	var decoded struct{ Status sarStatus }
	if err := json.Unmarshal(response.Body.Bytes(), &decoded); err != nil || response.Code != http.StatusCreated {
		t.Fatalf("got %d %s", response.Code, response.Body)
	}
	return decoded.Status
}

// outcomeOf has a server evaluate what it answered.
func outcomeOf(t *testing.T, s *server.Server, status sarStatus, object string) string {
	t.Helper()
	response := post(s, "peer", group+"authorizationconditionsreviews", "application/json", acr(string(status.ConditionsChain), `,"operation":"CREATE","object":`+object))
	var decoded struct{ Response sarStatus }
	if err := json.Unmarshal(response.Body.Bytes(), &decoded); err != nil || response.Code != http.StatusCreated {
		t.Fatalf("got %d %s", response.Code, response.Body)
	}
	switch {
	case decoded.Response.Allowed:
		return "Allow"
	case decoded.Response.Denied:
		return "Deny"
	default:
		return "NoOpinion"
	}
}

// TestOpaqueConditionsFindTheirAuthor has a server ask one that asks an authorizer whose
// conditions nobody else understands.
func TestOpaqueConditionsFindTheirAuthor(t *testing.T) {
	t.Parallel()
	var evaluated atomic.Int32
	opaque := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") {
			_, _ = w.Write([]byte(`{"status":{"conditionsChain":[{"authorizerName":"inner","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/opaque"}]}]}}`))
			return
		}
		evaluated.Add(1)
		var review struct {
			Request struct {
				ConditionSets []struct{ AuthorizerName string }
				Object        struct{ Spec struct{ Image string } }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		sets := review.Request.ConditionSets
		_, _ = fmt.Fprintf(w, `{"response":{"allowed":%v}}`, len(sets) == 1 && sets[0].AuthorizerName == "inner" && review.Request.Object.Spec.Image == "debian-12")
	})
	second := serverOf(t, asWebhook(t, "opaque", opaque))
	first := serverOf(t, asWebhook(t, "second", second.Handler))
	for image, want := range map[string]int{"debian-12": http.StatusCreated, "debian-11": http.StatusForbidden} {
		object := fmt.Sprintf(`{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"m"},"spec":{"image":%q}}`, image)
		before := evaluated.Load()
		response := send(first, "alice", http.MethodPost, virtualMachines+"?dryRun=All", "application/json", object)
		if response.Code != want || evaluated.Load() != before+1 {
			t.Errorf("%s: got %d %s after %d evaluations, want %d after 1", image, response.Code, response.Body, evaluated.Load()-before, want)
		}
		wantOutcome := map[int]string{http.StatusCreated: "Allow", http.StatusForbidden: "NoOpinion"}[want]
		if got := outcomeOf(t, first, statusOf(t, first, reviewOf("alice")), object); got != wantOutcome {
			t.Errorf("%s: the review evaluates to %s, want %s", image, got, wantOutcome)
		}
	}
}

// reviewers lets all users create reviews, and one create SubjectAccessReviews.
var reviewers = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if strings.HasSuffix(a.GetResource(), "reviews") && (a.GetResource() != "subjectaccessreviews" || a.GetUser().GetName() == "reviewer") {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})

// TestFailuresOfWebhooksShowNoServer has every answer about a webhook that fails: it names the webhook or says that conditions have no value, and has neither
// the address of the webhook nor what the webhook answered.
func TestFailuresOfWebhooksShowNoServer(t *testing.T) {
	t.Parallel()
	body := func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "failed at https://"+r.Host+r.URL.Path, http.StatusInternalServerError)
	}
	stops := func(t *testing.T, s *httptest.Server) place {
		t.Helper()
		s.Close()
		return placeOf(s)
	}
	otherCA := func(t *testing.T, s *httptest.Server) place {
		t.Helper()
		ca, _, err := cert.GenerateSelfSignedCertKey("other.example.com", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return place{s.URL, ca}
	}
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		at     func(*testing.T, *httptest.Server) place
		want   string
	}{
		{name: "a closed port", answer: body, at: stops, want: "it cannot be reached"},
		{name: "500 with a body", answer: body, want: "it answered 500 Internal Server Error"},
		{name: "a certificate of another CA", answer: body, at: otherCA, want: "a TLS connection with it cannot be made"},
		{name: "a timeout", answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: "it did not answer in time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // the server notices only then that the client has gone
				tc.answer(w, r)
			}))
			t.Cleanup(s.Close)
			opaque := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"status":{"conditionsChain":[{"authorizerName":"opaque","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/opaque"}]}]}}`)
			}))
			t.Cleanup(opaque.Close)
			at := placeOf(s)
			if tc.at != nil {
				at = tc.at(t, s)
			}
			allows := authorization.Member{Name: "reviewers", Decider: authorization.DeciderOf(reviewers)}
			decides := serverOf(t, allows, memberAt(t, "broken", "500ms", at, at))
			evaluates := serverOf(t, allows, memberAt(t, "broken", "500ms", placeOf(opaque), at))
			const request = `"resourceAttributes":{"verb":"create","group":"demo.proviso.dev","version":"v1alpha1","resource":"virtualmachines","namespace":"n"}`
			const machine = `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"m"},"spec":{"image":"debian-12"}}`
			const sets = `[{"authorizerName":"broken","failureMode":"Deny","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/opaque"}]}]`
			review := func(kind, spec string) string {
				return fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":%q,"spec":{%s}}`, kind, spec)
			}
			named := `webhook "broken": ` + tc.want
			for what, got := range map[string]struct {
				answer *httptest.ResponseRecorder
				want   string
			}{
				"a review of one's own": {post(decides, "alice", group+"selfsubjectaccessreviews", "application/json", review("SelfSubjectAccessReview", request)), named},
				"a review with conditions": {post(decides, "alice", group+"selfsubjectaccessreviews", "application/json",
					review("SelfSubjectAccessReview", request+`,"conditionalAuthorization":{"mode":"HumanReadable"}`)), named},
				"a review of a namespace": {post(decides, "alice", group+"namespaces/n/localsubjectaccessreviews", "application/json",
					fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"LocalSubjectAccessReview","metadata":{"namespace":"n"},"spec":{"user":"bob",%s}}`, request)), named},
				"an impersonation": {post(decides, "alice", group+"impersonationreviews", "application/json", impersonation(`"impersonate":{"username":"bob"},`+request)), named},
				"a read":           {send(decides, "alice", http.MethodGet, virtualMachines, "application/json", ""), named},
				"a path":           {send(decides, "alice", http.MethodGet, "/metrics", "application/json", ""), named},
				"a write":          {send(decides, "alice", http.MethodPost, virtualMachines+"?dryRun=All", "application/json", machine), named},
				"an evaluation": {post(evaluates, "reviewer", group+"authorizationconditionsreviews", "application/json",
					acr(sets, `,"operation":"CREATE","userInfo":{"username":"alice"},"object":`+machine)), named},
				"a write on conditions": {send(evaluates, "alice", http.MethodPost, virtualMachines+"?dryRun=All", "application/json", machine), "its condition could not be evaluated"},
			} {
				text := fmt.Sprint(got.answer.Header(), strings.ReplaceAll(got.answer.Body.String(), `\"`, `"`))
				if !strings.Contains(text, got.want) {
					t.Errorf("%s: got %d %s, want %s", what, got.answer.Code, text, got.want)
				}
				for _, secret := range []string{"127.0.0.1", "https:", strings.TrimPrefix(s.URL, "https://"), "dial tcp", "x509", "failed at"} {
					if strings.Contains(text, secret) {
						t.Errorf("%s: the answer has %q: %s", what, secret, text)
					}
				}
			}
		})
	}
}
