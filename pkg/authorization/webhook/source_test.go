/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics/legacyregistry"
	metricstestutil "k8s.io/component-base/metrics/testutil"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// TestMatchConditions counts calls: a request that does not match makes none.
func TestMatchConditions(t *testing.T) {
	t.Parallel()
	const policy = "(policy)"
	for _, tc := range []struct {
		name        string
		expressions []string
		want        string
		wantCalls   int
	}{
		{"true", []string{"request.user == 'alice'", "'g' in request.groups"}, "Allow", 1},
		{"false", []string{"request.user == 'bob'"}, "NoOpinion", 0},
		{"one false", []string{"request.user == 'alice'", "has(request.nonResourceAttributes)"}, "NoOpinion", 0},
		{"an error", []string{"request.nonResourceAttributes.path == '/'"}, policy, 0},
		{"an error and true", []string{"request.extra['x'][0] == 'y'", "true"}, policy, 0},
		{"an error and false", []string{"request.extra['x'][0] == 'y'", "false"}, "NoOpinion", 0},
		{"what others have passed on", []string{"'authorization.proviso.dev/delegated' in request.extra"}, "NoOpinion", 0},
	} {
		for _, failurePolicy := range []string{"Deny", "NoOpinion"} {
			t.Run(tc.name+"/"+failurePolicy, func(t *testing.T) {
				t.Parallel()
				var conditions []any
				for _, e := range tc.expressions {
					conditions = append(conditions, map[string]any{"expression": e})
				}
				r := newRemote(t, says(status(`"allowed":true`)), nil)
				source := newSource(t, conditional(t, "w", r).with(entry{
					"failurePolicy": failurePolicy, "matchConditionSubjectAccessReviewVersion": "v1", "matchConditions": conditions,
				}))
				want := tc.want
				if want == policy {
					want = failurePolicy
				}
				decision := chainOf(t, source).Begin(t.Context(), asking()).Decision()
				if calls, _ := r.calls(); kindOf(decision) != want || calls != tc.wantCalls || (tc.want == policy) != (decision.Err() != nil) {
					t.Errorf("got %s, %v after %d calls, want %s after %d", kindOf(decision), decision.Err(), calls, want, tc.wantCalls)
				}
			})
		}
	}
}

// TestVersionSkew is the table of KEP-5681, "Feature availability and version skew". An old
// webhook does not know conditions; an old server does not ask for them.
func TestVersionSkew(t *testing.T) {
	t.Parallel()
	oldWebhook := says(status(`"allowed":false`))
	newWebhook := func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Spec struct {
				ConditionalAuthorization struct{ Mode string }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		if review.Spec.ConditionalAuthorization.Mode == "" {
			oldWebhook(w, r)
			return
		}
		says(status(`"conditionsChain":`+allowIf(known, "true")))(w, r)
	}
	v1 := entry{"subjectAccessReviewVersion": "v1", "conditionsEndpointKubeConfigContext": "", "authorizationConditionsReviewVersion": ""}
	for _, tc := range []struct {
		name    string
		webhook http.HandlerFunc
		server  entry
		mode    authorization.Mode
		want    string
	}{
		{"old webhook, old server", oldWebhook, v1, "HumanReadable", "NoOpinion"},
		{"old webhook, new server", oldWebhook, entry{}, "HumanReadable", "NoOpinion"},
		{"new webhook, old server", newWebhook, v1, "HumanReadable", "NoOpinion"},
		{"new webhook, new server", newWebhook, entry{}, "HumanReadable", "conditional"},
		{"new webhook, new server, in the other mode", newWebhook, entry{}, "Optimized", "conditional"},
		{"new webhook, new server whose caller does not know", newWebhook, entry{}, "", "NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, tc.webhook, nil)
			// The body has been read when the handler gets it, so the handler reads what was kept.
			r.answer = func(w http.ResponseWriter, request *http.Request) {
				r.mu.Lock()
				body := r.reviews[len(r.reviews)-1]
				r.mu.Unlock()
				request.Body = http.MaxBytesReader(w, readCloser{strings.NewReader(body)}, 1<<20)
				tc.webhook(w, request)
			}
			attributes := asking()
			attributes.Mode = tc.mode
			decision := chainOf(t, newSource(t, conditional(t, "w", r).with(tc.server))).Begin(t.Context(), attributes).Decision()
			if got := kindOf(decision); got != tc.want {
				t.Errorf("got %s, %v, want %s", got, decision.Err(), tc.want)
			}
		})
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// TestWhatIsReused counts calls, by what is configured to be reused.
func TestWhatIsReused(t *testing.T) {
	t.Parallel()
	allowed, denied, conditions := status(`"allowed":true`), status(`"denied":true`), status(`"conditionsChain":`+allowIf(known, "true"))
	only := func(authorized, unauthorized bool) entry {
		return entry{"cacheAuthorizedRequests": authorized, "cacheUnauthorizedRequests": unauthorized}
	}
	long := strings.Repeat("x", 10001)
	for _, tc := range []struct {
		name    string
		answer  string
		change  entry
		user    string
		another string // who asks second
		fresh   bool
		want    int
	}{
		{"an Allow", allowed, entry{}, "alice", "alice", false, 1},
		{"a Deny", denied, entry{}, "alice", "alice", false, 1},
		{"a NoOpinion", status(``), entry{}, "alice", "alice", false, 1},
		{"conditions", conditions, entry{}, "alice", "alice", false, 1},
		{"everybody has answers of their own", conditions, entry{}, "alice", "bob", false, 2},
		{"an Allow, if only denials are", allowed, only(false, true), "alice", "alice", false, 2},
		{"an Allow, if only those are", allowed, only(true, false), "alice", "alice", false, 1},
		{"a Deny, if only Allows are", denied, only(true, false), "alice", "alice", false, 2},
		{"a Deny, if only those are", denied, only(false, true), "alice", "alice", false, 1},
		{"conditions, if only Allows are", conditions, only(true, false), "alice", "alice", false, 2},
		{"conditions, if only denials are", conditions, only(false, true), "alice", "alice", false, 2},
		{"nonsense", `{}`, entry{}, "alice", "alice", false, 2},
		{"a contradiction", status(`"allowed":true,"denied":true`), entry{}, "alice", "alice", false, 2},
		{"a long review", allowed, entry{}, long, long, false, 2},
		{"a long answer", status(`"allowed":true,"reason":"` + strings.Repeat("x", 16<<10) + `"`), entry{}, "alice", "alice", false, 2},
		{"reviews are answered afresh", allowed, entry{}, "alice", "alice", true, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, says(tc.answer), nil)
			chain := newChain(t, authorization.Member{Name: "webhooks", Decider: &webhook.Dynamic{
				Source: newSource(t, conditional(t, "w", r).with(tc.change)), Fresh: tc.fresh,
			}})
			var decisions [2]string
			for i, name := range []string{tc.user, tc.another} {
				attributes := asking(func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: name} })
				decisions[i] = kindOf(evaluate(t, chain.Begin(t.Context(), attributes)))
			}
			if calls, _ := r.calls(); calls != tc.want || decisions[0] != decisions[1] {
				t.Errorf("asked %d times, and decided %v, want %d times and the same", calls, decisions, tc.want)
			}
		})
	}
}

// TestFreshConditions asks through the front door's member and through another one, which share cached answers, but not conditional ones.
func TestFreshConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, answer string
		fresh        []bool // whether each of the callers wants fresh conditions
		want         int
	}{
		{"an Allow", status(`"allowed":true`), []bool{true, true, false}, 1},
		{"a Deny", status(`"denied":true`), []bool{false, true, true}, 1},
		{"conditions", status(`"conditionsChain":` + allowIf(known, "true")), []bool{true, true}, 2},
		{"conditions that another one has cached", status(`"conditionsChain":` + allowIf(known, "true")), []bool{false, true, false}, 2},
		{"conditions that are not cached", status(`"conditionsChain":` + allowIf(known, "true")), []bool{true, false, false}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, says(tc.answer), nil)
			source := newSource(t, conditional(t, "w", r))
			for _, fresh := range tc.fresh {
				chain := newChain(t, authorization.Member{Name: "webhooks", Decider: &webhook.Dynamic{Source: source, FreshConditions: fresh}})
				chain.Decide(t.Context(), asking())
			}
			if calls, _ := r.calls(); calls != tc.want {
				t.Errorf("asked %d times, want %d times", calls, tc.want)
			}
		})
	}
}

// TestWebhookBounds bounds the work of webhooks: each question needs a turn to prepare it, only a call needs another one, and without one of them the webhook denies.
func TestWebhookBounds(t *testing.T) {
	t.Parallel()
	open := entry{"failurePolicy": "NoOpinion"}
	for _, tc := range []struct {
		name   string
		change entry
		times  int // how often it is asked
		err    error
		// early says that there is no turn to prepare the question.
		early bool
		want  string
		turns int
	}{
		{name: "a call", times: 1, want: "Allow", turns: 1},
		{name: "a cached answer", times: 3, want: "Allow", turns: 1},
		{name: "a request that does not match", change: entry{"matchConditionSubjectAccessReviewVersion": "v1", "matchConditions": []any{entry{"expression": "request.user == 'bob'"}}}, times: 2, want: "NoOpinion"},
		{name: "no turn", times: 2, err: errors.New("busy"), want: "Deny", turns: 2},
		{name: "no turn, and the failure policy NoOpinion", change: open, times: 2, err: errors.New("busy"), want: "Deny", turns: 2},
		{name: "no turn to prepare", times: 2, err: errors.New("busy"), early: true, want: "Deny"},
		{name: "no turn to prepare, and the failure policy NoOpinion", change: open, times: 2, err: errors.New("busy"), early: true, want: "Deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, says(status(`"allowed":true`)), nil)
			chain := chainOf(t, newSource(t, conditional(t, "w", r).with(tc.change)))
			turns, released, prepared, done := 0, 0, 0, 0
			ctx := webhook.WithBounds(t.Context(), webhook.Bounds{
				Preparation: func(context.Context) (func(), error) {
					prepared++
					if tc.early {
						return nil, tc.err
					}
					return func() { done++ }, nil
				},
				Call: func(_ context.Context, name string) (func(), error) {
					if turns++; name != "w" {
						t.Errorf("a call of %q", name)
					}
					return func() { released++ }, tc.err
				},
			})
			for range tc.times {
				if got := kindOf(chain.Decide(ctx, asking())); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
			}
			wantCalls := 0
			if tc.err == nil {
				wantCalls = tc.turns
			}
			if calls, _ := r.calls(); turns != tc.turns || calls != wantCalls || released != wantCalls {
				t.Errorf("%d turns, %d given back, and %d calls, want %d and %d", turns, released, calls, tc.turns, wantCalls)
			}
			if prepared != tc.times || !tc.early && done != prepared {
				t.Errorf("%d turns to prepare, %d given back, want %d", prepared, done, tc.times)
			}
		})
	}
}

// TestPausesHoldNoTurn has a webhook fail at once, so that it is called again: each attempt has a turn of its own, and the pauses between them have none.
func TestPausesHoldNoTurn(t *testing.T) {
	t.Parallel()
	r := newRemote(t, fails(http.StatusInternalServerError), nil)
	source, err := webhook.NewSource(webhook.SourceConfig{
		File:    write(t, filepath.Join(t.TempDir(), "config"), configuration(t, unconditional(t, "w", r))),
		Backoff: wait.Backoff{Duration: 300 * time.Millisecond, Steps: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	var held time.Duration
	turns := 0
	ctx := webhook.WithBounds(t.Context(), webhook.Bounds{
		Preparation: func(context.Context) (func(), error) { return func() {}, nil },
		Call: func(context.Context, string) (func(), error) {
			turns++
			from := time.Now()
			return func() { held += time.Since(from) }, nil
		},
	})
	from := time.Now()
	got := kindOf(chainOf(t, source).Decide(ctx, asking()))
	// The two pauses between the attempts take 600 ms together, and longer on a loaded machine.
	if calls, _ := r.calls(); got != "Deny" || calls != 3 || turns != 3 || held > time.Since(from)-500*time.Millisecond {
		t.Errorf("got %s after %d calls and %d turns, which were held for %s of %s", got, calls, turns, held, time.Since(from))
	}
}

// TestModesAreAskedForSeparately makes sure that the cache never gives conditions to a
// caller who does not know them.
func TestModesAreAskedForSeparately(t *testing.T) {
	t.Parallel()
	r := newRemote(t, says(status(`"conditionsChain":`+allowIf(known, "true"))), nil)
	chain := chainOf(t, newSource(t, conditional(t, "w", r)))
	if got := kindOf(chain.Begin(t.Context(), asking()).Decision()); got != "conditional" {
		t.Errorf("got %s, want conditions", got)
	}
	plain := asking()
	plain.Mode = ""
	r.mu.Lock()
	r.answer = says(status(``))
	r.mu.Unlock()
	if got := kindOf(chain.Begin(t.Context(), plain).Decision()); got != "NoOpinion" {
		t.Errorf("got %s, want what was answered to a caller who knows no conditions", got)
	}
}

// TestWebhooksAreAskedLazily counts calls of webhooks behind each other.
func TestWebhooksAreAskedLazily(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                 string
		first                string
		wantBefore, wantBack int // calls of the second
		want                 string
	}{
		{"behind a condition that holds", allowIf(known, "object.spec == 'x'"), 0, 0, "Allow"},
		{"behind one that does not", allowIf(known, "object.spec == 'y'"), 0, 1, "Deny"},
		{"behind one that only restricts", strings.Replace(allowIf(known, "object.spec == 'y'"), "Allow", "Deny", 1), 1, 0, "Deny"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			first, second := newRemote(t, says(status(`"conditionsChain":`+tc.first)), nil), newRemote(t, says(status(`"denied":true`)), nil)
			lazy := chainOf(t, newSource(t, conditional(t, "first", first), conditional(t, "second", second))).Begin(t.Context(), asking())
			if calls, _ := second.calls(); calls != tc.wantBefore {
				t.Errorf("before: the second was asked %d times, want %d", calls, tc.wantBefore)
			}
			if got := kindOf(evaluate(t, lazy)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if calls, _ := second.calls(); calls != tc.wantBack {
				t.Errorf("behind: the second was asked %d times, want %d", calls, tc.wantBack)
			}
		})
	}
}

// files are a configuration and its kubeconfig.
type files struct {
	t                  *testing.T
	config, kubeconfig string
	source             *webhook.Source
}

func newFiles(t *testing.T, r *remote) *files {
	t.Helper()
	dir := t.TempDir()
	f := &files{t: t, config: filepath.Join(dir, "config"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	content, err := os.ReadFile(r.kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.kubeconfig, string(content))
	write(t, f.config, configuration(t, f.entry("w")))
	f.source, err = webhook.NewSource(webhook.SourceConfig{File: f.config, Reserved: []string{"kube-apiserver"}, Backoff: wait.Backoff{Steps: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *files) entry(name string) entry {
	return entry{
		"name": name, "timeout": "30s", "subjectAccessReviewVersion": "v1alpha1", "failurePolicy": "Deny",
		"connectionInfo":                      map[string]any{"type": "KubeConfigFile", "kubeConfigFile": f.kubeconfig},
		"conditionsEndpointKubeConfigContext": "conditions", "authorizationConditionsReviewVersion": "v1alpha1",
		"cacheAuthorizedRequests": false, "cacheUnauthorizedRequests": false,
	}
}

// names are those of the webhooks that are in force.
func (f *files) names() string {
	dynamic := &webhook.Dynamic{Source: f.source}
	var names []string
	for _, m := range dynamic.Members(f.t.Context()) {
		names = append(names, m.Name)
	}
	return strings.Join(names, " ")
}

func reloads(status string) float64 {
	values, err := metricstestutil.GetCounterValuesFromGatherer(legacyregistry.DefaultGatherer,
		"proviso_authorization_config_controller_automatic_reloads_total", nil, "status")
	if err != nil {
		return 0 // it is not there before the first reload
	}
	return values[status]
}

// TestReload changes files, for good and for bad.
// It is not parallel: it reads metrics of the process.
func TestReload(t *testing.T) {
	r := newRemote(t, says(status(`"allowed":true`)), nil)
	f := newFiles(t, r)
	goodBefore, badBefore := reloads("success"), reloads("failure")
	content, err := os.ReadFile(f.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name              string
		change            func()
		want              string
		wantGood, wantBad float64
	}{
		{"nothing", func() {}, "w", 0, 0},
		{"another", func() { write(t, f.config, configuration(t, f.entry("w"), f.entry("v"))) }, "w v", 1, 0},
		{"not YAML", func() { write(t, f.config, "{") }, "w v", 1, 1},
		{"and still not", func() {}, "w v", 1, 2},
		{"half written", func() {
			write(t, f.config, `{"apiVersion":"config.proviso.dev/v1alpha1","kind":"AuthorizationConfiguration"}`)
		}, "w v", 1, 3},
		{"a name that is taken", func() { write(t, f.config, configuration(t, f.entry("kube-apiserver"))) }, "w v", 1, 4},
		{"gone", func() { _ = os.Remove(f.config) }, "w v", 1, 5},
		{"good again", func() { write(t, f.config, configuration(t, f.entry("u"))) }, "u", 2, 5},
		{"the kubeconfig is bad", func() { write(t, f.kubeconfig, "kind: Config") }, "u", 2, 6},
		{"the kubeconfig is good", func() { write(t, f.kubeconfig, string(content)+"\n") }, "u", 3, 6},
		{"nothing in the end", func() {}, "u", 3, 6},
	} {
		step.change()
		f.source.Reload(t.Context())
		good, bad := reloads("success")-goodBefore, reloads("failure")-badBefore
		if got := f.names(); got != step.want || good != step.wantGood || bad != step.wantBad {
			t.Errorf("%s: got %q after %v good and %v bad reloads, want %q after %v and %v",
				step.name, got, good, bad, step.want, step.wantGood, step.wantBad)
		}
	}
	if got := kindOf(chainOf(t, f.source).Begin(t.Context(), asking()).Decision()); got != "Allow" {
		t.Errorf("got %s of the last webhook, want Allow", got)
	}
}

// TestRunReloads lets a minute pass.
// It is not parallel: time is its own.
func TestRunReloads(t *testing.T) {
	r := newRemote(t, nil, nil)
	f := newFiles(t, r)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go f.source.Run(ctx)
		synctest.Wait()
		write(t, f.config, configuration(t, f.entry("v")))
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if got := f.names(); got != "v" {
			t.Errorf("got %q, want what the file says", got)
		}
		cancel()
		synctest.Wait()
	})
}

// TestRemovalInFlight removes a webhook between authorization and admission: its
// conditions are still evaluated by it, and those that come after it are still asked.
func TestRemovalInFlight(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		evaluation string
		want       string
		wantSecond int
	}{
		{`"allowed":true`, "Allow", 0},
		{`"denied":true`, "Deny", 0},
		{`"allowed":false`, "Allow", 1},
	} {
		first := newRemote(t, says(status(`"conditionsChain":`+allowIf(unknown, "?"))), says(response(tc.evaluation)))
		second := newRemote(t, says(status(`"allowed":true`)), nil)
		third := newRemote(t, says(status(`"denied":true`)), nil)
		f := newFiles(t, first)
		write(t, f.config, configuration(t, f.entry("first"), conditional(t, "second", second)))
		f.source.Reload(t.Context())
		chain := chainOf(t, f.source)
		lazy := chain.Begin(t.Context(), asking())

		write(t, f.config, configuration(t, conditional(t, "third", third)))
		f.source.Reload(t.Context())
		if got := f.names(); got != "third" {
			t.Fatalf("got %q, want the third alone", got)
		}
		got := kindOf(evaluate(t, lazy))
		_, evaluated := first.calls()
		asked, _ := second.calls()
		if calls, _ := third.calls(); got != tc.want || evaluated != 1 || asked != tc.wantSecond || calls != 0 {
			t.Errorf("%s: got %s after %d evaluations by the first and %d and %d calls of the others, want %s after 1, %d and 0",
				tc.evaluation, got, evaluated, asked, calls, tc.want, tc.wantSecond)
		}
		if got := kindOf(chain.Begin(t.Context(), asking()).Decision()); got != "Deny" {
			t.Errorf("afterwards: got %s, want Deny of the third", got)
		}
	}
}

// TestOneRequestOneConfiguration asks about two things that belong to one request.
func TestOneRequestOneConfiguration(t *testing.T) {
	t.Parallel()
	r := newRemote(t, says(status(`"allowed":true`)), nil)
	f := newFiles(t, r)
	lazy := chainOf(t, f.source).Begin(t.Context(), asking())
	denying := newRemote(t, says(status(`"denied":true`)), nil)
	write(t, f.config, configuration(t, conditional(t, "denying", denying)))
	f.source.Reload(t.Context())
	if got := kindOf(lazy.ForAttributes(t.Context(), asking()).Decision()); got != "Allow" {
		t.Errorf("got %s, want Allow of the webhook that was there when the request began", got)
	}
	dynamic := &webhook.Dynamic{Source: f.source}
	pinned := dynamic.Pin(t.Context())
	write(t, f.config, configuration(t, f.entry("w")))
	f.source.Reload(t.Context())
	if members := dynamic.Members(dynamic.Pin(pinned)); len(members) != 1 || members[0].Name != "denying" {
		t.Errorf("pinned twice: got %v, want what was pinned first", members)
	}
}

// TestNestedChains keeps the structure of what a server that has authorizers of its own
// answers, and sends conditions back so that it knows whose they are.
func TestNestedChains(t *testing.T) {
	t.Parallel()
	set := func(id string) string {
		return `"conditions":[{"id":"example.com/` + id + `","effect":"Allow","type":"example.com/opaque"}]`
	}
	r := newRemote(t, says(status(`"conditionsChain":[{"authorizerName":"a",`+set("a")+`},{"authorizerName":"b","conditionsChain":[{"authorizerName":"c",`+set("c")+`}]}]`)), says(response(``)))
	chain := chainOf(t, newSource(t, conditional(t, "w", r)))
	wire, err := authorization.SetsToWire(chain.Decide(t.Context(), asking()).Chain())
	if err != nil {
		t.Fatal(err)
	}
	if len(wire) != 1 || wire[0].AuthorizerName != "w" || len(wire[0].ConditionsChain) != 2 || wire[0].ConditionsChain[1].ConditionsChain[0].AuthorizerName != "c" {
		t.Errorf("got %+v, want a and b with c in it, within w", wire)
	}
	if got := kindOf(evaluate(t, chain.Begin(t.Context(), asking()))); got != "NoOpinion" {
		t.Errorf("got %s, want NoOpinion", got)
	}
	var got []string
	for _, body := range r.conditions {
		var review struct {
			Request struct{ ConditionSets json.RawMessage }
		}
		if err := json.Unmarshal([]byte(body), &review); err != nil {
			t.Fatal(err)
		}
		got = append(got, string(review.Request.ConditionSets))
	}
	want := []string{
		`[{"authorizerName":"a","conditions":[{"id":"example.com/a","effect":"Allow","type":"example.com/opaque"}]}]`,
		`[{"authorizerName":"b","conditionsChain":[{"authorizerName":"c","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/opaque"}]}]}]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent back (-want +got):\n%s", diff)
	}
}

func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	r := newRemote(t, nil, nil)
	kubeconfig := func(change func(string) string) string {
		content, err := os.ReadFile(r.kubeconfig(t))
		if err != nil {
			t.Fatal(err)
		}
		return write(t, filepath.Join(t.TempDir(), "kubeconfig"), change(string(content)))
	}
	connection := func(path string) entry {
		return entry{"connectionInfo": map[string]any{"type": "KubeConfigFile", "kubeConfigFile": path}}
	}
	replace := func(old, replacement string) string {
		return kubeconfig(func(s string) string { return strings.ReplaceAll(s, old, replacement) })
	}
	of := func(e entry) string { return configuration(t, e) }
	good := func() entry { return conditional(t, "w", r) }
	for _, tc := range []struct {
		name, content string
		want          []string
	}{
		{"nothing", "", []string{"one YAML document"}},
		{"two documents", of(good()) + "\n---\n" + of(good()), []string{"one YAML document"}},
		{"not YAML", "{", []string{"couldn't get version/kind"}},
		{"no kind", "authorizers: []", []string{"'Kind' is missing"}},
		{"Kubernetes' own", `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration"}`, []string{"apiserver.config.k8s.io/v1"}},
		{"a field that nobody knows", strings.Replace(of(good()), `"timeout"`, `"timeOut"`, 1), []string{`unknown field "authorizers[0].webhook.timeOut"`}},
		{"a field twice", strings.Replace(of(good()), `"timeout"`, `"timeout":"1s","timeout"`, 1), []string{"timeout"}},
		{"what validation finds", of(good().with(entry{"failurePolicy": "Allow"})), []string{`authorizers[0].webhook.failurePolicy: Unsupported value: "Allow"`}},
		{"a taken name", of(good().with(entry{"name": "kube-apiserver"})), []string{"authorizers[0].name"}},
		{"a kubeconfig that is missing", of(good().with(connection("/nowhere"))), []string{"authorizers[0].webhook.connectionInfo.kubeConfigFile", "no such file"}},
		{"a kubeconfig that is none", of(good().with(connection(kubeconfig(func(string) string { return "}" })))), []string{"kubeConfigFile"}},
		{"an empty kubeconfig", of(good().with(connection(kubeconfig(func(string) string { return "" })))), []string{"kubeConfigFile", "no current-context"}},
		{"a current context that is missing", of(good().with(connection(replace(`"current-context":"reviews"`, `"current-context":"x"`)))), []string{"kubeConfigFile", "context was not found for specified context: x"}},
		{"a context that is missing", of(good().with(entry{"conditionsEndpointKubeConfigContext": "x"})),
			[]string{"authorizers[0].webhook.conditionsEndpointKubeConfigContext", "context was not found for specified context: x"}},
		{"no TLS", of(good().with(connection(replace("https:", "http:")))), []string{"kubeConfigFile", "must begin with https:", "conditionsEndpointKubeConfigContext"}},
		{"TLS that is not verified", of(good().with(connection(kubeconfig(func(s string) string {
			return strings.ReplaceAll(strings.ReplaceAll(s, "certificate-authority-data", "x"), `"server"`, `"insecure-skip-tls-verify":true,"server"`)
		})))), []string{"must be verified"}},
		{"conditions for kube-apiserver", of(good()), []string{"conditionsEndpointKubeConfigContext", "must not be kube-apiserver"}},
		{"a match condition that does not compile", of(good().with(entry{
			"matchConditionSubjectAccessReviewVersion": "v1", "matchConditions": []any{map[string]any{"expression": "true"}, map[string]any{"expression": "request.x"}},
		})), []string{"authorizers[0].webhook.matchConditions[1].expression", "undefined field 'x'"}},
		{"a match condition that is no condition", of(good().with(entry{
			"matchConditionSubjectAccessReviewVersion": "v1", "matchConditions": []any{map[string]any{"expression": "request.user"}},
		})), []string{"must evaluate to bool"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			config := webhook.SourceConfig{
				File: write(t, filepath.Join(t.TempDir(), "config"), tc.content), Reserved: []string{"kube-apiserver"}, Backoff: wait.Backoff{Steps: 1},
			}
			if tc.name == "conditions for kube-apiserver" {
				config.KubeAPIServer = r.URL
			}
			_, err := webhook.NewSource(config)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range append(tc.want, config.File) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
		})
	}
	if _, err := webhook.NewSource(webhook.SourceConfig{}); err == nil {
		t.Error("got no error without attempts")
	}
}

// runs counts the runs of TestMetrics, each of which has a name of its own.
var runs atomic.Int32

// TestMetrics counts by the name of the webhook.
func TestMetrics(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("metrics%d.example.com", runs.Add(1))
	r := newRemote(t, says(status(`"conditionsChain":`+allowIf(unknown, "?"))), says(response(`"allowed":true`)))
	chain := chainOf(t, newSource(t, conditional(t, name, r).with(entry{"failurePolicy": "NoOpinion"})))
	for range 3 {
		evaluate(t, chain.Begin(t.Context(), asking()))
	}
	r.mu.Lock()
	r.answer = says(`{}`)
	r.mu.Unlock()
	attributes := asking(func(a *authorizer.AttributesRecord) { a.Name = "another" })
	chain.Begin(t.Context(), attributes)
	// Two calls are not answered: the deadline of the first caller passes, and the second caller gives up.
	r.mu.Lock()
	r.answer = hangs
	r.mu.Unlock()
	late, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	chain.Begin(late, attributes)
	gone, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	chain.Begin(gone, attributes)
	for metric, want := range map[string]map[string]float64{
		"webhook_evaluations_total":            {"success": 1, "error": 1, "timeout": 1, "canceled": 1},
		"webhook_evaluations_fail_open_total":  {"error": 1, "timeout": 1},
		"webhook_conditions_evaluations_total": {"success": 3},
		"webhook_cache_hits_total":             {"": 2},
	} {
		group := "result"
		if metric == "webhook_cache_hits_total" {
			group = "name"
			want = map[string]float64{name: 2}
		}
		got, err := metricstestutil.GetCounterValuesFromGatherer(legacyregistry.DefaultGatherer, "proviso_authorization_"+metric, map[string]string{"name": name}, group)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", metric, diff)
		}
	}
	for metric, want := range map[string]uint64{"webhook_duration_seconds": 4, "webhook_conditions_duration_seconds": 3} {
		histogram, err := metricstestutil.GetHistogramVecFromGatherer(legacyregistry.DefaultGatherer, "proviso_authorization_"+metric, map[string]string{"name": name})
		if err != nil {
			t.Fatal(err)
		}
		if got := histogram.GetAggregatedSampleCount(); got != want {
			t.Errorf("%s: got %d, want %d", metric, got, want)
		}
	}
}

// TestDynamicIsAnAuthorizer uses it outside of a chain.
func TestDynamicIsAnAuthorizer(t *testing.T) {
	t.Parallel()
	r := newRemote(t, says(status(`"conditionsChain":`+allowIf(unknown, "?"))), says(response(`"allowed":true`)))
	dynamic := &webhook.Dynamic{Source: newSource(t, conditional(t, "w", r))}
	upstream := authorization.AuthorizerOf(dynamic)
	decision := upstream.ConditionsAwareAuthorize(t.Context(), asking())
	if decision.IsUnconditional() {
		t.Fatalf("got %v, want conditions", decision)
	}
	if got, _, err := upstream.EvaluateConditions(t.Context(), decision, data{}); got != authorizer.DecisionAllow {
		t.Errorf("got %v, %v, want Allow of who made them", got, err)
	}
	if got, _, err := upstream.EvaluateConditions(t.Context(), decision, nil); got != authorizer.DecisionDeny || err == nil {
		t.Errorf("without data: got %v, %v, want Deny and an error", got, err)
	}
	plain := asking()
	plain.Mode = ""
	if got, _, _ := upstream.Authorize(t.Context(), plain); got != authorizer.DecisionDeny {
		t.Errorf("got %v, want Deny of conditions that were not asked for", got)
	}
}

// TestExample loads the files in artifacts.
func TestExample(t *testing.T) {
	t.Parallel()
	const artifacts, installed = "../../../artifacts/webhooks", "/etc/proviso/webhooks"
	dir := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"ca.crt": certificate, "tls.crt": certificate, "tls.key": key} {
		write(t, filepath.Join(dir, name), string(content))
	}
	entries, err := os.ReadDir(artifacts)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(artifacts, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, e.Name()), strings.ReplaceAll(string(content), installed, dir))
	}
	source, err := webhook.NewSource(webhook.SourceConfig{File: filepath.Join(dir, "authorization-config.yaml"), Backoff: wait.Backoff{Steps: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if members := (&webhook.Dynamic{Source: source}).Members(t.Context()); len(members) != 2 {
		t.Errorf("got %d webhooks, want 2", len(members))
	}
}
