/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package playground

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	answers "github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/explain"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

const testHost = "127.0.0.1:8090"

func newTestHandler(t *testing.T) http.Handler {
	t.Helper()
	handler, _, err := newHandler(testHost, nil)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// send sends a request to the handler.
func send(ctx context.Context, handler http.Handler, method, path, body string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Host = testHost
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// ask asks for a decision.
func ask(t *testing.T, handler http.Handler, q question) (a answer, status int) {
	t.Helper()
	body, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	w := send(t.Context(), handler, http.MethodPost, "/api/v1/decide", string(body), nil)
	decodeAnswer(t, w, &a)
	return a, w.Code
}

func decodeAnswer(t *testing.T, w *httptest.ResponseRecorder, a *answer) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), a); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
}

const (
	testPolicy = `# A policy.
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dev}
spec:
  effect: Allow
  subjects: [{kind: User, name: alice}]
  rules: [{verbs: [create, update, delete], apiGroups: [""], apiVersions: [v1], resources: [things, secrets]}]
  condition: object.spec.class == "dev"
`
	testDenial = `apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: no-prod}
spec:
  effect: Deny
  rules: [{verbs: [create, update, patch, get], apiGroups: [""], apiVersions: [v1], resources: [things]}]
  condition: object.spec.class == "prod"
`
	testObject = `{apiVersion: v1, kind: Thing, metadata: {name: a}, spec: {class: gold}}`
)

func testRequest(verb string) string {
	return fmt.Sprintf("apiVersion: authorization.k8s.io/v1alpha1\nkind: SubjectAccessReview\nspec:\n  user: alice\n  resourceAttributes: {verb: %s, version: v1, resource: things, namespace: ns, name: a}\n", verb)
}

// TestPlaygroundDecide decides a request, and looks at all parts of the answer.
func TestPlaygroundDecide(t *testing.T) {
	t.Parallel()
	handler := newTestHandler(t)
	a, status := ask(t, handler, question{Policies: testPolicy + "---\n" + testDenial, Request: testRequest("create"), Object: testObject})
	if status != http.StatusOK || a.Decision != answers.No || a.AtAuthorization != answers.YesIf || a.WithObject != answers.No {
		t.Fatalf("got %d %+v", status, a)
	}
	if a.NearMiss != `set spec.class to "dev" (now "gold")` {
		t.Errorf("got the near miss %q", a.NearMiss)
	}
	if a.Tree == nil || !strings.HasPrefix(a.Tree.Text, "no: alice, create things") || len(a.Tree.Entries) != 6 {
		t.Errorf("got the tree %+v", a.Tree)
	}
	if len(a.Conditions) != 2 || a.Conditions[0].Effect != "Deny" || a.Conditions[0].Policy != "no-prod" || a.Conditions[1].Condition != "spec.class is dev" || a.Conditions[1].Expression != `object.spec.class == "dev"` {
		t.Errorf("got the conditions %+v", a.Conditions)
	}
	if len(a.Barriers) != 2 || a.Barriers[0].Reason == "" || a.Barriers[0].Manifests != "" || !strings.Contains(a.Barriers[1].Manifests, "kind: ValidatingAdmissionPolicy\n") {
		t.Errorf("got the barriers %+v", a.Barriers)
	}
	if rules := a.Barriers[1].Rules; len(rules) != 2 || rules[0].Translated || !rules[1].Translated {
		t.Errorf("got the rules %+v: reads have no barrier", rules)
	}
	withRBAC, _ := ask(t, handler, question{Policies: testPolicy, Request: testRequest("create"), Object: testObject, RBACAllows: true})
	if withRBAC.Decision != answers.Yes || withRBAC.NearMiss != "" {
		t.Errorf("with RBAC: got %+v", withRBAC)
	}
	without, _ := ask(t, handler, question{Policies: testPolicy, Request: testRequest("create")})
	if without.Decision != answers.YesIf || without.WithObject != "" {
		t.Errorf("without an object: got %+v", without)
	}
}

// TestNamedConditions shows long conditions with the variables of their policy.
func TestNamedConditions(t *testing.T) {
	t.Parallel()
	policy := strings.Replace(testPolicy, `condition: object.spec.class == "dev"`, `variables: [{name: classes, expression: "object.spec.pools.map(p, p.class)"}]
  condition: variables.classes.all(c, c == "dev") && size(variables.classes) < 4`, 1)
	a, status := ask(t, newTestHandler(t), question{Policies: policy, Request: testRequest("create")})
	const want = "variables.classes.all(c, c == \"dev\") && size(variables.classes) < 4\n  variables.classes = object.spec.pools.map(p, p.class)"
	if status != http.StatusOK || len(a.Conditions) != 1 || a.Conditions[0].Condition != want || a.Conditions[0].Expression != want {
		t.Errorf("got %d %+v", status, a.Conditions)
	}
}

// TestNothingAllows tells a request that nothing allows from one that is denied.
func TestNothingAllows(t *testing.T) {
	t.Parallel()
	handler := newTestHandler(t)
	gold := strings.Replace(testObject, "gold", "prod", 1)
	for _, tc := range []struct {
		object     string
		rbacAllows bool
		want       bool
	}{{object: testObject, want: true}, {object: testObject, rbacAllows: true}, {object: gold, rbacAllows: true}, {object: gold}} {
		a, status := ask(t, handler, question{Policies: testDenial, Request: testRequest("create"), Object: tc.object, RBACAllows: tc.rbacAllows})
		if status != http.StatusOK || a.NothingAllows != tc.want {
			t.Errorf("%+v: got %d, %t: %s", tc, status, a.NothingAllows, a.Decision)
		}
	}
}

// TestObjects decides for objects in the forms that the editor accepts.
func TestObjects(t *testing.T) {
	t.Parallel()
	handler := newTestHandler(t)
	dev := strings.Replace(testObject, "gold", "dev", 1)
	policy := strings.Replace(testPolicy, `condition: object.spec.class == "dev"`, `condition: >-
    (operation == "DELETE" ? oldObject : object).spec.class == "dev"`, 1)
	for _, tc := range []struct {
		name, verb, object string
		want               answers.Verdict
		mistake            string
	}{
		{name: "a create", verb: "create", object: dev, want: answers.Yes},
		{name: "an update", verb: "update", object: dev + "\n---\n" + testObject, want: answers.Yes},
		{name: "an update in the other order", verb: "update", object: testObject + "\n---\n" + dev, want: answers.No},
		{name: "a deletion", verb: "delete", object: dev, want: answers.Yes},
		{name: "a review", verb: "create", object: "apiVersion: authorization.k8s.io/v1alpha1\nkind: AuthorizationConditionsReview\nrequest: {operation: CREATE, object: " + dev + "}", want: answers.Yes},
		{name: "an update without the stored object", verb: "update", object: dev, mistake: "object:0: write one AuthorizationConditionsReview, or the object"},
		{name: "two objects of a create", verb: "create", object: dev + "\n---\n" + dev, mistake: "object:0: write one AuthorizationConditionsReview, or the object"},
		{name: "an object of a read", verb: "get", object: dev, mistake: "object:0: an object is read for create, update, patch and delete"},
		{name: "an object without a kind", verb: "create", object: "\n\nspec: {}", mistake: "object:3: write one AuthorizationConditionsReview"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, _ := ask(t, handler, question{Policies: policy, Request: testRequest(tc.verb), Object: tc.object})
			if a.Decision != tc.want {
				t.Errorf("got %+v", a)
			}
			if tc.mistake != "" && (len(a.Errors) != 1 || !strings.HasPrefix(textOf(a.Errors[0]), tc.mistake)) {
				t.Errorf("got %+v, want %s", a.Errors, tc.mistake)
			}
		})
	}
}

func textOf(m mistake) string { return fmt.Sprintf("%s:%d: %s", m.Editor, m.Line, m.Message) }

// TestMistakes sends bad input. Each mistake names its editor and its line, and nothing but the mistake.
func TestMistakes(t *testing.T) {
	t.Parallel()
	handler := newTestHandler(t)
	good := question{Policies: testPolicy, Request: testRequest("create"), Object: testObject}
	for _, tc := range []struct {
		name   string
		change func(q *question)
		want   []string // beginnings of mistakes
	}{
		{name: "nothing", change: func(q *question) { *q = question{} }, want: []string{"policies:0: write a policy", "request:0: write one SubjectAccessReview"}},
		{name: "no YAML", change: func(q *question) { q.Policies = "a: b\nc: [" }, want: []string{"policies:2: did not find expected node content"}},
		{name: "no YAML in the second document", change: func(q *question) { q.Policies += "---\n\na: b\n  c: d" }, want: []string{"policies:13: "}},
		{name: "a condition that does not compile", change: func(q *question) { q.Policies = strings.Replace(q.Policies, `== "dev"`, `=== "dev"`, 1) }, want: []string{`policies:9: spec.condition: Syntax error: token recognition error at: '= '`}},
		{name: "a condition of folded lines", change: func(q *question) {
			q.Policies = strings.Replace(q.Policies, `condition: object.spec.class == "dev"`, "condition: >-\n    object.spec.class\n    == \"dev\" &&\n\n    objekt.a", 1)
		}, want: []string{`policies:13: spec.condition: undeclared reference to 'objekt', did you mean 'object'?`}},
		{name: "a condition of kept lines", change: func(q *question) {
			q.Policies = strings.Replace(q.Policies, `condition: object.spec.class == "dev"`, "condition: |\n    object.spec.class == \"dev\" && // ü\n      objekt.a\n  # the end", 1)
		}, want: []string{`policies:11: spec.condition: undeclared reference to 'objekt'`}},
		{name: "a condition that ends too early", change: func(q *question) {
			q.Policies = strings.Replace(q.Policies, `condition: object.spec.class == "dev"`, "condition: >-\n    object.spec.class\n    ==\n# the end", 1)
		}, want: []string{`policies:11: spec.condition: Syntax error: mismatched input '<EOF>' (the expression ends too early)`}},
		{name: "a condition in quotes", change: func(q *question) {
			q.Policies = strings.Replace(q.Policies, `condition: object.spec.class == "dev"`, "condition: \"object.spec.class\n    == objekt.a\"", 1)
		}, want: []string{`policies:10: spec.condition: undeclared reference to 'objekt'`}},
		{name: "a condition of the second policy", change: func(q *question) {
			q.Policies += "---\n" + strings.Replace(testDenial, "object.spec", "objekt.spec", 1)
		}, want: []string{`policies:17: spec.condition: undeclared reference to 'objekt'`}},
		{name: "an unknown field", change: func(q *question) { q.Policies = strings.Replace(q.Policies, "effect:", "efect:", 1) }, want: []string{`policies:6: strict decoding error: unknown field "spec.efect"`}},
		{name: "a field in a list", change: func(q *question) {
			q.Policies = strings.Replace(q.Policies, "rules: [{verbs: [create, update, delete]", "rules:\n  - {verbs: []", 1)
			q.Policies = strings.Replace(q.Policies, "secrets]}]", "secrets]}", 1)
		}, want: []string{`policies:9: ClusterAuthorizationPolicy "dev": spec.rules[0].verbs: Required value`}},
		{name: "the same policy twice", change: func(q *question) { q.Policies += "---\n" + q.Policies }, want: []string{`policies:12: ClusterAuthorizationPolicy "dev": the same policy is in policies, document 1, too`}},
		{name: "another kind", change: func(q *question) { q.Policies = testObject }, want: []string{`policies:1: kind "Thing" of apiVersion "v1" is not a policy`}},
		{name: "a request among the policies", change: func(q *question) { q.Policies += "---\n" + testRequest("create") }, want: []string{"policies:11: only policies can be here"}},
		{name: "a suite, which names files", change: func(q *question) {
			q.Policies = "apiVersion: test.proviso.dev/v1alpha1\nkind: PolicyTest\npolicies: [/etc/passwd]"
		}, want: []string{"policies:1: a PolicyTest names files, which are not read"}},
		{name: "two requests", change: func(q *question) { q.Request += "---\n" + q.Request }, want: []string{"request:0: write one SubjectAccessReview"}},
		{name: "a policy as a request", change: func(q *question) { q.Request = q.Policies; q.Object = "" }, want: []string{"request:2: write one SubjectAccessReview"}},
		{name: "a request with an unknown field", change: func(q *question) { q.Request = strings.Replace(q.Request, "user:", "usr:", 1) }, want: []string{`request:4: unknown field "spec.usr"`}},
		{name: "a request without a user", change: func(q *question) { q.Request = strings.Replace(q.Request, "  user: alice\n", "", 1) }, want: []string{":0: request: a user or a group is required"}},
		{name: "a key twice", change: func(q *question) { q.Object = "apiVersion: v1\nkind: Thing\nkind: hunter2\n" }, want: []string{"object:3: "}},
		{name: "control characters", change: func(q *question) { q.Policies = strings.Replace(q.Policies, "effect: Allow", `effect: "\e[2J"`, 1) }, want: []string{`policies:6: ClusterAuthorizationPolicy "dev": spec.effect: Unsupported value`}},
		{name: "no UTF-8", change: func(q *question) { q.Object = "a: \xff" }, want: []string{"object:"}},
		{name: "an alias that grows", change: func(q *question) {
			q.Object = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]"
		}, want: []string{"object:"}},
		{name: "a deep object", change: func(q *question) { q.Object = strings.Repeat("[", 100000) }, want: []string{"object:"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			q := good
			tc.change(&q)
			a, status := ask(t, handler, q)
			var got []string
			for _, m := range a.Errors {
				got = append(got, textOf(m))
			}
			if status != http.StatusUnprocessableEntity || len(got) != len(tc.want) || a.Decision != "" {
				t.Fatalf("got %d %q, want %q", status, got, tc.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) || strings.Contains(got[i], "goroutine") || strings.ContainsRune(got[i], '\x1b') || strings.Contains(got[i], "hunter2") {
					t.Errorf("got %q, want %q", got[i], tc.want[i])
				}
			}
		})
	}
	var many strings.Builder
	for i := range 50 {
		fmt.Fprintf(&many, "---\n{apiVersion: v1, kind: Thing%d}\n", i)
	}
	if a, _ := ask(t, handler, question{Policies: many.String(), Request: testRequest("create")}); len(a.Errors) != maxMistakes {
		t.Errorf("got %d mistakes", len(a.Errors))
	}
}

// TestSecretsAreNotShown looks for the values of a Secret in all of an answer.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	handler := newTestHandler(t)
	for _, condition := range []string{`object.data.password == "x"`, `int(object.data.password) == 1`, `object.data.exists(k, v, v == "x")`} {
		q := question{
			Policies: strings.Replace(testPolicy, `object.spec.class == "dev"`, condition, 1), Request: strings.Replace(testRequest("create"), "things", "secrets", 1),
			Object: "apiVersion: v1\nkind: Secret\ndata: {password: hunter2}",
		}
		body, _ := json.Marshal(q)
		w := send(t.Context(), handler, http.MethodPost, "/api/v1/decide", string(body), nil)
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%s: got %d %s", condition, w.Code, w.Body)
		}
	}
}

// TestPlaygroundRefusals sends requests that no page of the server sends.
func TestPlaygroundRefusals(t *testing.T) {
	t.Parallel()
	handler := newTestHandler(t)
	body, _ := json.Marshal(question{Policies: testPolicy, Request: testRequest("create"), Object: testObject})
	const decidePath = "/api/v1/decide"
	for _, tc := range []struct {
		name, method, path, body string
		headers                  map[string]string
		want                     int
	}{
		{name: "the page", method: "GET", path: "/", want: 200},
		{name: "the page, by a link elsewhere", method: "GET", path: "/", headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, want: 200},
		{name: "the script", method: "GET", path: "/playground.js", want: 200},
		{name: "the style", method: "GET", path: "/playground.css", want: 200},
		{name: "the icon", method: "GET", path: "/icon.svg", want: 200},
		{name: "the examples", method: "GET", path: "/api/v1/examples", want: 200},
		{name: "a decision", method: "POST", path: decidePath, body: string(body), want: 200},
		{name: "a decision for the page", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Origin": "http://" + testHost, "Sec-Fetch-Site": "same-origin"}, want: 200},
		{name: "the files of a playground without files", method: "GET", path: "/api/v1/files", headers: map[string]string{"Authorization": "Bearer "}, want: 403},
		{name: "another name for this machine", method: "GET", path: "/", headers: map[string]string{"Host": "localhost:8090"}, want: 421},
		{name: "a name of an attacker", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Host": "evil.example:8090"}, want: 421},
		{name: "a name of an attacker for the page", method: "GET", path: "/", headers: map[string]string{"Host": "evil.example:8090"}, want: 421},
		{name: "another port", method: "GET", path: "/api/v1/examples", headers: map[string]string{"Host": "127.0.0.1"}, want: 421},
		{name: "another origin", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Origin": "http://evil.example"}, want: 403},
		{name: "another port of this machine", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Origin": "http://127.0.0.1:8091"}, want: 403},
		{name: "another scheme", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Origin": "https://" + testHost}, want: 403},
		{name: "no origin", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Origin": "null"}, want: 403},
		{name: "a read of another origin", method: "GET", path: "/api/v1/examples", headers: map[string]string{"Origin": "http://evil.example"}, want: 403},
		{name: "another site without an origin", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Sec-Fetch-Site": "cross-site"}, want: 403},
		{name: "the same site without an origin", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Sec-Fetch-Site": "same-site"}, want: 403},
		{name: "a form", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Content-Type": "text/plain"}, want: 415},
		{name: "no content type", method: "POST", path: decidePath, body: string(body), headers: map[string]string{"Content-Type": ""}, want: 415},
		{name: "another method", method: "GET", path: decidePath, want: 405},
		{name: "another path", method: "GET", path: "/assets/", want: 404},
		{name: "a path out of the assets", method: "GET", path: "/%2e%2e/server.go", want: 404},
		{name: "no JSON", method: "POST", path: decidePath, body: "policies", want: 400},
		{name: "an empty body", method: "POST", path: decidePath, want: 400},
		{name: "a list", method: "POST", path: decidePath, body: "[]", want: 400},
		{name: "two objects", method: "POST", path: decidePath, body: "{} {}", want: 400},
		{name: "an unknown field", method: "POST", path: decidePath, body: `{"policy": ""}`, want: 400},
		{name: "a field twice", method: "POST", path: decidePath, body: `{"object": "", "object": ""}`, want: 400},
		{name: "a large body", method: "POST", path: decidePath, body: `{"policies": "` + strings.Repeat("x", maxBodyBytes) + `"}`, want: 413},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := send(t.Context(), handler, tc.method, tc.path, tc.body, tc.headers)
			if w.Code != tc.want {
				t.Errorf("got %d %.300s, want %d", w.Code, w.Body, tc.want)
			}
			if tc.want >= 400 && strings.Contains(w.Body.String(), "tree") {
				t.Errorf("got %s", w.Body)
			}
			h := w.Header()
			if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none';") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Set-Cookie") != "" || h.Get("Access-Control-Allow-Origin") != "" ||
				h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("got the headers %v", h)
			}
		})
	}
}

// newSlowServer returns a server whose decisions call decide.
func newSlowServer(t *testing.T, decide func(context.Context) *answer) (*server, http.Handler) {
	t.Helper()
	s := &server{
		host: testHost, running: make(chan struct{}, 1), timeout: 50 * time.Millisecond, wait: 50 * time.Millisecond,
		decide: func(ctx context.Context, _ *simulation.Compilers, _ *question) *answer { return decide(ctx) },
	}
	handler, err := s.handler()
	if err != nil {
		t.Fatal(err)
	}
	return s, handler
}

// TestLimits makes decisions that end neither with their time nor at all.
func TestLimits(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s, handler := newSlowServer(t, func(context.Context) *answer {
		<-release
		return &answer{Report: explain.Report{Decision: answers.Yes}}
	})
	decided := func(want int, message string) {
		t.Helper()
		a := answer{}
		patience, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		w := send(patience, handler, http.MethodPost, "/api/v1/decide", "{}", nil)
		decodeAnswer(t, w, &a)
		if patience.Err() != nil {
			t.Error("the answer did not come in time")
		}
		if w.Code != want || message != "" && (len(a.Errors) != 1 || a.Errors[0].Message != message) {
			t.Errorf("got %d %s, want %d", w.Code, w.Body, want)
		}
	}
	decided(http.StatusServiceUnavailable, errTimeout.Error())
	decided(http.StatusServiceUnavailable, errBusy.Error()) // the first decision is still being made, and counts
	close(release)
	s.running <- struct{}{} // waits until it is done
	<-s.running
	decided(http.StatusOK, "")
}

// TestPanics makes a decision that panics. The answer has no stack, and the next decision is made.
func TestPanics(t *testing.T) {
	t.Parallel()
	_, handler := newSlowServer(t, func(context.Context) *answer { panic("hunter2") })
	for range 3 {
		w := send(t.Context(), handler, http.MethodPost, "/api/v1/decide", "{}", nil)
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), errInternal.Error()) || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
}

// TestConcurrentDecisions makes many decisions at once. Each answer is about its own question.
func TestConcurrentDecisions(t *testing.T) {
	t.Parallel()
	handler := newTestHandler(t)
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			class := "dev"
			if i%2 == 1 {
				class = "gold"
			}
			body, _ := json.Marshal(question{Policies: testPolicy, Request: testRequest("create"), Object: strings.Replace(testObject, "gold", class, 1)})
			w := send(t.Context(), handler, http.MethodPost, "/api/v1/decide", string(body), nil)
			want := map[string]string{"dev": `"decision":"yes"`, "gold": `"decision":"no"`}[class]
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: got %d %s", class, w.Code, w.Body)
			}
		})
	}
	group.Wait()
}

// TestExamples decides all examples, as their tests expect.
func TestExamples(t *testing.T) {
	t.Parallel()
	handler := newTestHandler(t)
	w := send(t.Context(), handler, http.MethodGet, "/api/v1/examples", "", nil)
	var found []example
	if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil {
		t.Fatal(err)
	}
	requests, verdicts := 0, map[answers.Verdict]int{}
	var seen []string
	for _, e := range found {
		for _, r := range e.Requests {
			requests++
			a, status := ask(t, handler, question{Policies: e.Policies, Request: r.Request, Object: r.Object, RBACAllows: r.RBACAllows})
			if status != http.StatusOK || e.Title == "" || r.Title == "" {
				t.Errorf("%s: %s: got %d %+v", e.Name, r.Title, status, a.Errors)
			}
			verdicts[a.Decision]++
			if slices.Contains(seen, e.Title+r.Title) {
				t.Errorf("%s: %s occurs twice", e.Title, r.Title)
			}
			seen = append(seen, e.Title+r.Title)
		}
	}
	if len(found) < 19 || requests < 50 || verdicts[answers.Yes] < 19 || verdicts[answers.No] < 19 {
		t.Errorf("%d examples with %d requests have the decisions %v", len(found), requests, verdicts)
	}
	if !slices.ContainsFunc(found, func(e example) bool { return e.Name == "storage-class" }) {
		t.Error("the example that the page shows first is missing")
	}
}

// TestAssets checks that the page refers to nothing outside of it, and has no script or style in its text.
func TestAssets(t *testing.T) {
	t.Parallel()
	handler := newTestHandler(t)
	for _, path := range []string{"/", "/playground.js", "/playground.css"} {
		w := send(t.Context(), handler, http.MethodGet, path, "", nil)
		text, _ := io.ReadAll(w.Body)
		for _, bad := range []string{"http://", "https://", "//cdn", "@import", "innerHTML", "eval(", "document.cookie", "localStorage", " style=", "<style", "onclick="} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
}
