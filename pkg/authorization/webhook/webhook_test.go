/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
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

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// remote is a webhook: a TLS server that answers reviews at /reviews and evaluates
// conditions at /conditions.
type remote struct {
	*httptest.Server

	mu         sync.Mutex
	answer     http.HandlerFunc
	evaluation http.HandlerFunc
	reviews    []string // the bodies that came
	conditions []string
}

// says answers with a body.
func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// fails answers with a status.
func fails(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "the body is not shown", code) }
}

// hangs answers when the client has gone.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func newRemote(t testing.TB, answer, evaluation http.HandlerFunc) *remote {
	t.Helper()
	r := &remote{answer: answer, evaluation: evaluation}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *remote) serve(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	handler := http.NotFound
	switch request.URL.Path {
	case "/reviews":
		r.reviews, handler = append(r.reviews, string(body)), r.answer
	case "/conditions":
		r.conditions = append(r.conditions, string(body))
		if r.evaluation != nil {
			handler = r.evaluation
		}
	}
	r.mu.Unlock()
	handler(w, request)
}

// calls returns how often it was asked, and how often it evaluated conditions, since the
// last time.
func (r *remote) calls() (reviews, conditions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reviews, conditions = len(r.reviews), len(r.conditions)
	r.reviews, r.conditions = nil, nil
	return reviews, conditions
}

func (r *remote) kubeconfig(t testing.TB) string {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	return kubeconfigOf(t, place{r.URL, ca}, place{r.URL, ca})
}

// place is a server with the CA that its certificate must have.
type place struct {
	url string
	ca  []byte
}

// kubeconfigOf writes a kubeconfig with the server for reviews and the one for conditions.
func kubeconfigOf(t testing.TB, reviews, conditions place) string {
	t.Helper()
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "reviews",
		"clusters": []any{
			map[string]any{"name": "reviews", "cluster": map[string]any{"server": reviews.url + "/reviews", "certificate-authority-data": reviews.ca}},
			map[string]any{"name": "conditions", "cluster": map[string]any{"server": conditions.url + "/conditions", "certificate-authority-data": conditions.ca}},
		},
		"contexts": []any{
			map[string]any{"name": "reviews", "context": map[string]any{"cluster": "reviews"}},
			map[string]any{"name": "conditions", "context": map[string]any{"cluster": "conditions"}},
		},
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "kubeconfig"), string(encoded))
}

func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// entry is an authorizer in a configuration file.
type entry map[string]any

// conditional is one that is asked for conditions.
func conditional(t testing.TB, name string, r *remote) entry {
	t.Helper()
	e := unconditional(t, name, r)
	e["conditionsEndpointKubeConfigContext"], e["authorizationConditionsReviewVersion"] = "conditions", "v1alpha1"
	return e
}

func unconditional(t testing.TB, name string, r *remote) entry {
	t.Helper()
	return entry{
		"name": name, "timeout": "30s", "subjectAccessReviewVersion": "v1alpha1", "failurePolicy": "Deny",
		"connectionInfo": map[string]any{"type": "KubeConfigFile", "kubeConfigFile": r.kubeconfig(t)},
	}
}

// with changes fields.
func (e entry) with(fields entry) entry {
	for k, v := range fields {
		e[k] = v
	}
	return e
}

func configuration(t testing.TB, entries ...entry) string {
	t.Helper()
	var authorizers []any
	for _, e := range entries {
		a := map[string]any{"type": "Webhook", "name": e["name"]}
		fields := map[string]any{}
		for k, v := range e {
			if k != "name" {
				fields[k] = v
			}
		}
		a["webhook"] = fields
		authorizers = append(authorizers, a)
	}
	encoded, err := json.Marshal(map[string]any{"apiVersion": "config.proviso.dev/v1alpha1", "kind": "AuthorizationConfiguration", "authorizers": authorizers})
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

func newSource(t testing.TB, entries ...entry) *webhook.Source {
	t.Helper()
	return newSourceWith(t, false, entries...)
}

// newSourceWith is newSource with or without the gate UpstreamConditionalDecisions.
func newSourceWith(t testing.TB, upstream bool, entries ...entry) *webhook.Source {
	t.Helper()
	source, err := webhook.NewSource(webhook.SourceConfig{
		File: write(t, filepath.Join(t.TempDir(), "config"), configuration(t, entries...)), Backoff: wait.Backoff{Steps: 2, Duration: time.Millisecond},
		Upstream: upstream,
	})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func newChain(t testing.TB, members ...authorization.Member) *authorization.Chain {
	t.Helper()
	chain, err := authorization.NewChain(members...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// chainOf is a chain of the webhooks alone.
func chainOf(t testing.TB, source *webhook.Source) *authorization.Chain {
	t.Helper()
	return newChain(t, authorization.Member{Name: "webhooks", Decider: &webhook.Dynamic{Source: source}})
}

// asking is a request of alice, who creates a pod, with the wish for conditions, after changes.
func asking(changes ...func(*authorizer.AttributesRecord)) authorization.Request {
	record := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "alice", Groups: []string{"g"}}, Verb: "create", Resource: "pods", APIVersion: "v1", Namespace: "n", ResourceRequest: true,
	}
	for _, change := range changes {
		change(&record)
	}
	return authorization.Request{Mode: authorizationapi.ConditionsModeHumanReadable, Attributes: record}
}

// data is the data of a request.
type data struct{}

func (data) GetName() string      { return "name" }
func (data) GetNamespace() string { return "n" }
func (data) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}
func (data) GetSubresource() string                      { return "" }
func (data) GetOperation() authorizer.AdmissionOperation { return "CREATE" }
func (data) GetOperationOptions() runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{"kind": "CreateOptions"}}
}
func (data) IsDryRun() bool { return true }
func (data) GetObject() runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{"spec": "x"}}
}
func (data) GetOldObject() runtime.Object { return nil }
func (data) GetKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
}
func (data) GetUserInfo() user.Info {
	return &user.DefaultInfo{Name: "alice", UID: "1", Groups: []string{"g"}}
}
func (data) GetNamespaceObject() (map[string]any, error) {
	return map[string]any{"metadata": map[string]any{"name": "n"}}, nil
}

// evaluate evaluates as the enforcer does.
func evaluate(t testing.TB, lazy *authorization.Lazy) authorization.Decision {
	t.Helper()
	compiler, err := compilers()
	if err != nil {
		t.Fatal(err)
	}
	var reader cel.ObjectReader
	values, err := celeval.ValuesOf(data{}, &reader)
	if err != nil {
		t.Fatal(err)
	}
	return lazy.Evaluate(t.Context(), authorization.EvaluatorFor(data{}, &celeval.Evaluator{Compiler: compiler, Values: values}))
}

var compilers = sync.OnceValues(cel.NewCompiler)

func kindOf(d authorization.Decision) string {
	switch {
	case d.IsAllow():
		return "Allow"
	case d.IsDeny():
		return "Deny"
	case d.IsNoOpinion():
		return "NoOpinion"
	default:
		return "conditional"
	}
}

// status is an answer with a status.
func status(fields string) string { return `{"status":{` + fields + `}}` }

func response(fields string) string { return `{"response":{` + fields + `}}` }

const (
	known   = "k8s.io/authorization-cel"
	unknown = "example.com/opaque"
)

// allowIf is a chain of one set with an Allow condition.
func allowIf(conditionType, text string) string {
	return fmt.Sprintf(`[{"authorizerName":"a","conditions":[{"id":"example.com/c","effect":"Allow","type":%q,"condition":%q}]}]`, conditionType, text)
}

// TestCalls is the table of KEP-5681, "Supporting webhooks through the
// AuthorizationConditionsReview API": which calls a request makes.
func TestCalls(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                        string
		conditionType               string
		cached                      bool
		wantReviews, wantConditions int
	}{
		{"not supported, not cached", unknown, false, 1, 1},
		{"not supported, cached", unknown, true, 0, 1},
		{"supported, not cached", known, false, 1, 0},
		{"supported, cached", known, true, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, says(status(`"conditionsChain":`+allowIf(tc.conditionType, "object.spec == 'x'"))), says(response(`"allowed":true`)))
			chain := chainOf(t, newSource(t, conditional(t, "w", r)))
			if tc.cached {
				chain.Begin(t.Context(), asking())
				r.calls()
			}
			if got := kindOf(evaluate(t, chain.Begin(t.Context(), asking()))); got != "Allow" {
				t.Errorf("got %s, want Allow", got)
			}
			if reviews, conditions := r.calls(); reviews != tc.wantReviews || conditions != tc.wantConditions {
				t.Errorf("asked %d times and had conditions evaluated %d times, want %d and %d", reviews, conditions, tc.wantReviews, tc.wantConditions)
			}
		})
	}
}

// TestWhatWebhooksSayAndFail tries answers under both failure policies, for callers who
// want conditions and for those who do not.
func TestWhatWebhooksSayAndFail(t *testing.T) {
	t.Parallel()
	const policy = "(policy)" // whatever the failure policy says
	conditions := allowIf(known, "true")
	for _, tc := range []struct {
		name          string
		answer        http.HandlerFunc
		want          string
		wantUnasked   string // the same if empty
		wantConcluded string // once evaluated; the same if empty
	}{
		{"allowed", says(status(`"allowed":true,"reason":"r"`)), "Allow", "", ""},
		{"denied", says(status(`"denied":true`)), "Deny", "", ""},
		{"no opinion", says(status(``)), "NoOpinion", "", ""},
		{"with its kind", says(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","status":{"allowed":true}}`), "Allow", "", ""},
		{"fields that nobody knows", says(`{"x":1,"status":{"allowed":true,"y":[{}]}}`), "Allow", "", ""},
		{"an error there", says(status(`"evaluationError":"e"`)), "NoOpinion", "", ""},
		{"both", says(status(`"allowed":true,"denied":true`)), policy, "", ""},
		{"allowed twice", says(status(`"allowed":false,"allowed":true`)), policy, "", ""},
		{"in other letters", says(status(`"Allowed":true`)), "NoOpinion", "", ""},
		{"a string", says(status(`"allowed":"true"`)), policy, "", ""},
		{"a number", says(status(`"allowed":1`)), policy, "", ""},
		{"no status", says(`{}`), policy, "", ""},
		{"null", says(`null`), policy, "", ""},
		{"a list", says(`[]`), policy, "", ""},
		{"nothing", says(``), policy, "", ""},
		{"half of it", says(`{"status":{"allowed":true}`), policy, "", ""},
		{"more of it", says(status(`"allowed":true`) + status(`"denied":true`)), policy, "", ""},
		{"another kind", says(`{"kind":"Pod","status":{"allowed":true}}`), policy, "", ""},
		{"another version", says(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`), policy, "", ""},
		{"a review of itself", says(`{"kind":"SelfSubjectAccessReview","status":{"allowed":true}}`), policy, "", ""},
		{"500", fails(500), policy, "", ""},
		{"403", fails(403), policy, "", ""},
		{"429", fails(429), policy, "", ""},
		{"a redirect to nowhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/nowhere", http.StatusTemporaryRedirect)
		}, policy, "", ""},
		{"too much", says(status(`"allowed":true,"reason":"` + strings.Repeat("x", 12<<20) + `"`)), policy, "", ""},

		{"conditions", says(status(`"conditionsChain":` + conditions)), "conditional", "Deny", "Allow"},
		{"in the newer spelling", says(status(`"conditionSetChain":` + conditions)), "conditional", "Deny", "Allow"},
		{"with one type for all", says(status(`"conditionSetChain":[{"authorizerName":"a","conditionsType":"k8s.io/authorization-cel","conditions":[{"id":"example.com/c","effect":"Allow","condition":"true"}]}]`)),
			"conditional", "Deny", "Allow"},
		{"with two types", says(status(`"conditionsChain":[{"authorizerName":"a","conditionsType":"example.com/x","conditions":[{"id":"example.com/c","effect":"Allow","type":"k8s.io/authorization-cel","condition":"true"}]}]`)), policy, "Deny", ""},
		{"as a tree", says(status(`"conditionalDecision":{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"k8s.io/authorization-cel","condition":"true"}],"denyConditions":[],"noOpinionConditions":null}}`)),
			"conditional", "Deny", "Allow"},
		{"as a deeper tree", says(status(`"conditionalDecision":{"type":"Union","union":[{"authorizerName":"a","decision":{"type":"ConditionsMap","conditionsMap":{"denyConditions":[{"id":"example.com/c","type":"k8s.io/authorization-cel","condition":"object.spec == 'x'"}]}}},{"authorizerName":"b","decision":{"type":"Allow","allow":{}}}]}`)),
			"conditional", "Deny", "Deny"},
		{"a tree of the wrong member", says(status(`"conditionalDecision":{"type":"Allow","deny":{}}`)), policy, "Deny", ""},
		{"a tree of two members", says(status(`"conditionalDecision":{"type":"Deny","allow":{},"deny":{}}`)), policy, "Deny", ""},
		{"a tree of two members below", says(status(`"conditionalDecision":{"type":"Union","union":[{"authorizerName":"a","decision":{"type":"ConditionsMap","deny":{},"conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"k8s.io/authorization-cel","condition":"true"}]}}}]}`)), policy, "Deny", ""},
		{"a tree whose member is missing", says(status(`"conditionalDecision":{"type":"ConditionsMap"}`)), policy, "Deny", ""},
		{"a tree that is an Allow", says(status(`"conditionalDecision":{"type":"Allow","allow":{}}`)), policy, "Deny", ""},
		{"a tree that is nothing", says(status(`"conditionalDecision":{}`)), policy, "Deny", ""},
		{"a tree without leaves", says(status(`"conditionalDecision":{"type":"Union","union":[]}`)), policy, "Deny", ""},
		{"in two spellings", says(status(`"conditionsChain":` + conditions + `,"conditionSetChain":` + conditions)), policy, "Deny", ""},
		{"and allowed", says(status(`"allowed":true,"conditionsChain":` + conditions)), policy, "Deny", ""},
		{"and denied", says(status(`"denied":true,"conditionsChain":` + conditions)), policy, "Deny", ""},
		{"none, and allowed", says(status(`"allowed":true,"conditionsChain":[]`)), policy, "Deny", ""},
		{"none", says(status(`"conditionsChain":[]`)), policy, "Deny", ""},
		{"null is not there", says(status(`"allowed":true,"conditionsChain":null,"conditionalDecision":null`)), "Allow", "", ""},
		{"that allow whatever happens", says(status(`"conditionsChain":[{"authorizerName":"a","allowed":true}]`)), policy, "Deny", ""},
		{"that allow in the end whatever happens", says(status(`"conditionsChain":[{"authorizerName":"b","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/x"}]},{"authorizerName":"a","allowed":true}]`)), policy, "Deny", ""},
		{"that deny whatever happens", says(status(`"conditionsChain":[{"authorizerName":"a","denied":true}]`)), "Deny", "", ""},
		{"a set that says two things", says(status(`"conditionsChain":[{"authorizerName":"a","denied":true,"conditions":[]}]`)), policy, "Deny", ""},
		{"an ID without a domain", says(status(`"conditionsChain":[{"authorizerName":"a","conditions":[{"id":"c","effect":"Allow","type":"example.com/x"}]}]`)), policy, "Deny", ""},
		{"another effect", says(status(`"conditionsChain":[{"authorizerName":"a","conditions":[{"id":"example.com/c","effect":"allow","type":"example.com/x"}]}]`)), policy, "Deny", ""},
		{"no author", says(status(`"conditionsChain":[{"conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/x"}]}]`)), policy, "Deny", ""},
		{"too deep", says(status(`"conditionsChain":` + strings.Repeat(`[{"authorizerName":"a","conditionsChain":`, 9) + conditions + strings.Repeat(`}]`, 9))), policy, "Deny", ""},
	} {
		for _, failurePolicy := range []string{"Deny", "NoOpinion"} {
			t.Run(tc.name+"/"+failurePolicy, func(t *testing.T) {
				t.Parallel()
				r := newRemote(t, tc.answer, nil)
				chain := chainOf(t, newSource(t, conditional(t, "w", r).with(entry{"failurePolicy": failurePolicy})))
				resolve := func(want, otherwise string) string {
					if want == "" {
						want = otherwise
					}
					if want == policy {
						return failurePolicy
					}
					return want
				}
				check := func(what string, got authorization.Decision, want string) {
					t.Helper()
					if kindOf(got) != want {
						t.Errorf("%s: got %s (%s, %v), want %s", what, kindOf(got), got.Reason(), got.Err(), want)
					}
					if err := got.Err(); err != nil && strings.Contains(err.Error(), "xxxx") {
						t.Errorf("%s: the error repeats the answer", what)
					}
				}
				lazy := chain.Begin(t.Context(), asking())
				check("asked for conditions", lazy.Decision(), resolve(tc.want, ""))
				check("evaluated", evaluate(t, lazy), resolve(tc.wantConcluded, tc.want))
				plain := asking()
				plain.Mode = ""
				check("not asked", chain.Begin(t.Context(), plain).Decision(), resolve(tc.wantUnasked, tc.want))
				many := asking(func(a *authorizer.AttributesRecord) { a.Resource = "*" })
				check("asked about everything", chain.Begin(t.Context(), many).Decision(), resolve(tc.wantUnasked, tc.want))
				folded, _, _ := chain.Authorize(t.Context(), plain)
				check("of those who know no conditions", chain.Begin(t.Context(), plain).Decision(), map[authorizer.Decision]string{
					authorizer.DecisionAllow: "Allow", authorizer.DecisionDeny: "Deny", authorizer.DecisionNoOpinion: "NoOpinion",
				}[folded])
			})
		}
	}
}

func TestSlowWebhooks(t *testing.T) {
	t.Parallel()
	for _, failurePolicy := range []string{"Deny", "NoOpinion"} {
		r := newRemote(t, hangs, hangs)
		entries := conditional(t, "w", r).with(entry{"failurePolicy": failurePolicy, "timeout": "100ms"})
		decision := chainOf(t, newSource(t, entries)).Begin(t.Context(), asking()).Decision()
		if got := kindOf(decision); got != failurePolicy || decision.Err() == nil {
			t.Errorf("timeout: got %s, %v, want %s with an error", got, decision.Err(), failurePolicy)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r = newRemote(t, hangs, hangs)
		decision = chainOf(t, newSource(t, conditional(t, "w", r).with(entry{"failurePolicy": failurePolicy}))).Begin(ctx, asking()).Decision()
		// The webhook was not called, so that it has not failed.
		if got := kindOf(decision); got != "Deny" || decision.Err() == nil {
			t.Errorf("cancelled: got %s, %v, want Deny with an error", got, decision.Err())
		}
	}
}

// TestEvaluation tries what can become of conditions that only their author understands,
// under both failure modes of their set.
func TestEvaluation(t *testing.T) {
	t.Parallel()
	const mode = "(mode)"
	for _, tc := range []struct {
		name       string
		evaluation http.HandlerFunc
		want       string
	}{
		{"allowed", says(response(`"allowed":true`)), "Allow"},
		{"denied", says(response(`"denied":true,"evaluationError":"e"`)), "Deny"},
		{"no opinion", says(response(`"allowed":false`)), "NoOpinion"},
		{"both", says(response(`"allowed":true,"denied":true`)), mode},
		{"allowed, but something remains", says(response(`"allowed":true,"conditionSets":[]`)), mode},
		{"allowed, but something remains in the other spelling", says(response(`"allowed":true,"conditionSetChain":[]`)), mode},
		{"no response", says(`{"request":{}}`), mode},
		{"an answer to another review", says(status(`"allowed":true`)), mode},
		{"another kind", says(`{"kind":"SubjectAccessReview","response":{"allowed":true}}`), mode},
		{"a string", says(response(`"allowed":"true"`)), mode},
		{"missing", nil, mode},
		{"500", fails(500), mode},
		{"422", fails(422), mode},
		{"slow", hangs, mode},
	} {
		for _, failureMode := range []string{"Deny", "NoOpinion"} {
			t.Run(tc.name+"/"+failureMode, func(t *testing.T) {
				t.Parallel()
				chain := strings.Replace(allowIf(unknown, "?"), `"authorizerName"`, fmt.Sprintf(`"failureMode":%q,"authorizerName"`, failureMode), 1)
				r := newRemote(t, says(status(`"conditionsChain":`+chain)), tc.evaluation)
				e := conditional(t, "w", r)
				if tc.name == "slow" {
					e = e.with(entry{"timeout": "2s"})
				}
				lazy := chainOf(t, newSource(t, e)).Begin(t.Context(), asking())
				if !lazy.Decision().CanBecomeAllowed() {
					t.Fatalf("got %s, want something that can become allowed: %v", kindOf(lazy.Decision()), lazy.Decision().Err())
				}
				want := tc.want
				if want == mode {
					want = failureMode
				}
				decision := evaluate(t, lazy)
				if got := kindOf(decision); got != want || (tc.want == mode) != (decision.Err() != nil) {
					t.Errorf("got %s, %v, want %s, with an error if that is the failure mode", got, decision.Err(), want)
				}
				if err := decision.Err(); err != nil && strings.Contains(err.Error(), "not shown") {
					t.Errorf("the error repeats the answer: %v", err)
				}
			})
		}
	}
}

// TestWhatIsSent compares what goes over the wire.
func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	chain := `[{"authorizerName":"b","conditionsChain":[{"failureMode":"NoOpinion","authorizerName":"a","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/opaque","condition":"?","description":"d"}]}]}]`
	attributes := `"resourceAttributes":{"namespace":"n","verb":"create","version":"v1","resource":"pods"},"user":"alice","groups":["g"],"extra":{"authorization.proviso.dev/delegated":["true"]}`
	for _, tc := range []struct {
		name           string
		change         entry
		answer         string
		wantReview     string
		wantConditions string
	}{
		{"v1alpha1 with conditions", entry{}, status(`"conditionsChain":` + chain),
			`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","spec":{` + attributes + `,"conditionalAuthorization":{"mode":"HumanReadable"}}}`,
			`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{"conditionSets":` + chain + `,
				"operation":"CREATE","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},
				"name":"name","namespace":"n","namespaceObject":{"metadata":{"name":"n"}},
				"userInfo":{"username":"alice","uid":"1","groups":["g"],"extra":{"authorization.proviso.dev/delegated":["true"]}},
				"object":{"spec":"x"},"options":{"kind":"CreateOptions"},"dryRun":true}}`},
		{"v1alpha1 without", entry{"conditionsEndpointKubeConfigContext": "", "authorizationConditionsReviewVersion": ""}, status(`"allowed":true`),
			`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","spec":{` + attributes + `}}`, ""},
		{"v1", entry{"subjectAccessReviewVersion": "v1", "conditionsEndpointKubeConfigContext": "", "authorizationConditionsReviewVersion": ""}, status(`"allowed":true`),
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{` + attributes + `}}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, says(tc.answer), says(response(`"allowed":true`)))
			got := evaluate(t, chainOf(t, newSource(t, conditional(t, "w", r).with(tc.change))).Begin(t.Context(), asking()))
			if !got.IsAllow() {
				t.Errorf("got %s, %v, want Allow", kindOf(got), got.Err())
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			compare(t, "review", r.reviews, tc.wantReview)
			compare(t, "conditions", r.conditions, tc.wantConditions)
		})
	}
}

// compare compares bodies as JSON, without what is empty.
func compare(t *testing.T, what string, got []string, want string) {
	t.Helper()
	var values [2][]any
	for i, bodies := range [][]string{{want}, got} {
		for _, body := range bodies {
			if body == "" {
				continue
			}
			var value map[string]any
			if err := json.Unmarshal([]byte(body), &value); err != nil {
				t.Fatal(err)
			}
			delete(value, "metadata")
			delete(value, "status")
			values[i] = append(values[i], value)
		}
	}
	if diff := cmp.Diff(values[0], values[1]); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestCircle has a review of a webhook come back to it.
func TestCircle(t *testing.T) {
	t.Parallel()
	var chain *authorization.Chain
	r := newRemote(t, nil, nil)
	r.answer = func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		var review struct {
			Spec struct{ Extra map[string][]string }
		}
		_ = json.Unmarshal([]byte(r.reviews[len(r.reviews)-1]), &review)
		r.mu.Unlock()
		again := asking(func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "alice", Extra: review.Spec.Extra}
		})
		decision, _, _ := chain.Authorize(request.Context(), again)
		says(status(fmt.Sprintf(`"allowed":%v,"denied":%v`, decision == authorizer.DecisionAllow, decision == authorizer.DecisionDeny)))(w, request)
	}
	chain = chainOf(t, newSource(t, conditional(t, "w", r).with(entry{"failurePolicy": "NoOpinion"})))
	decision := chain.Begin(t.Context(), asking()).Decision()
	if reviews, _ := r.calls(); !decision.IsDeny() || reviews != 8 {
		t.Errorf("got %s after %d calls, want Deny after 8", kindOf(decision), reviews)
	}
}

// BenchmarkDecide measures what a webhook adds to a request: a conditional answer that is
// reused, or not, and its evaluation in process.
func BenchmarkDecide(b *testing.B) {
	for _, cached := range []bool{true, false} {
		b.Run(fmt.Sprintf("cached=%v", cached), func(b *testing.B) {
			r := newRemote(b, says(status(`"conditionsChain":`+allowIf(known, "object.spec == 'x'"))), nil)
			chain := chainOf(b, newSource(b, conditional(b, "w", r).with(entry{"cacheAuthorizedRequests": cached})))
			b.ReportAllocs()
			for b.Loop() {
				if !evaluate(b, chain.Begin(b.Context(), asking())).IsAllow() {
					b.Fatal("not allowed")
				}
			}
		})
	}
}
