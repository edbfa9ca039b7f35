/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/endpoints/filters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	authorizerwebhook "k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

var (
	hintCases = flag.Int("hints", 500, "the number of hints that TestLawOfHints follows")
	hintSeed  = flag.Uint64("hints-seed", 1, "the seed of TestLawOfHints")
)

// httpServer reads requests as a server does.
type httpServer struct {
	resolver genericapirequest.RequestInfoResolver
	// kubeAPIServer sends a review to its authorization webhook, which is the last in sent.
	kubeAPIServer authorizer.UnconditionalAuthorizer
	sent          authorizationv1.SubjectAccessReview
}

func newHTTPServer(t *testing.T) *httpServer {
	t.Helper()
	s := &httpServer{resolver: &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}}
	frontDoor := roundTripper(func(r *http.Request) (*http.Response, error) {
		s.sent = authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(&s.sent); err != nil {
			return nil, err
		}
		header := http.Header{"Content-Type": {"application/json"}}
		return &http.Response{StatusCode: http.StatusCreated, Header: header, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	})
	config := &rest.Config{Host: "https://front-door", ContentConfig: rest.ContentConfig{ContentType: "application/json"}, QPS: -1}
	client, err := authorizationv1client.NewForConfigAndClient(config, &http.Client{Transport: frontDoor})
	if err != nil {
		t.Fatal(err)
	}
	s.kubeAPIServer, err = authorizerwebhook.NewFromInterface(client, 0, 0, wait.Backoff{Duration: time.Millisecond, Steps: 1}, authorizer.DecisionDeny, metrics.NoopAuthorizerMetrics{}, authorizationcel.NewDefaultCompiler())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// read returns the attributes of a request of alice for the pods of a namespace, twice: as the server reads them itself, and as
// kube-apiserver sends them to its authorization webhook.
func (s *httpServer) read(t *testing.T, verb, byLabels, byFields string) []authorizer.Attributes {
	t.Helper()
	query := url.Values{"labelSelector": {byLabels}, "fieldSelector": {byFields}}
	method := http.MethodGet
	switch verb {
	case "watch":
		query.Set("watch", "true")
	case "deletecollection":
		method = http.MethodDelete
	}
	info, err := s.resolver.NewRequestInfo(httptest.NewRequestWithContext(t.Context(), method, "https://server/api/v1/namespaces/n/pods?"+query.Encode(), nil))
	if err != nil {
		t.Fatal(err)
	}
	direct, err := filters.GetAuthorizerAttributes(genericapirequest.WithUser(genericapirequest.WithRequestInfo(t.Context(), info), podsOf(verb).User))
	if err != nil || direct.GetVerb() != verb {
		t.Fatalf("got the verb %s and the error %v, want %s", direct.GetVerb(), err, verb)
	}
	if _, _, err := s.kubeAPIServer.Authorize(t.Context(), direct); err != nil {
		t.Fatal(err)
	}
	return []authorizer.Attributes{direct, authorization.AttributesOf(direct.GetUser(), s.sent.Spec.ResourceAttributes, nil)}
}

// hintWorld makes conditions on selectors and requests.
type hintWorld struct{ *rand.Rand }

func (w hintWorld) key(inFields bool) string {
	if inFields {
		return oneOf(w.Rand, "metadata.name", "spec.nodeName", "spec.b")
	}
	return oneOf(w.Rand, "team", "app", "zone/a")
}

func (w hintWorld) value() string {
	return oneOf(w.Rand, "a", "b", "c", "n", "alice", "", "B", "10", "9", "a/b", "a,b")
}

// list is a list of constants and fields of the request, often not sorted or with repetitions.
func (w hintWorld) list() string {
	var texts []string
	for range oneOf(w.Rand, 0, 1, 1, 2, 2, 3) {
		texts = append(texts, oneOf(w.Rand, fmt.Sprintf("%q", w.value()), fmt.Sprintf("%q", w.value()), "request.namespace", "request.userInfo.username"))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// requirement is a condition on the requirement r.
func (w hintWorld) requirement(inFields bool) string {
	var parts []string
	if w.IntN(10) > 0 {
		parts = append(parts, oneOf(w.Rand, fmt.Sprintf("r.key == %q", w.key(inFields)), fmt.Sprintf("r.key in [%q, %q]", w.key(inFields), w.key(inFields))))
	}
	if w.IntN(2) > 0 {
		parts = append(parts, fmt.Sprintf("r.operator == %q", oneOf(w.Rand, "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt")))
	}
	for range oneOf(w.Rand, 0, 1, 1, 2) {
		parts = append(parts, oneOf(w.Rand, "r.values == "+w.list(), w.list()+" == r.values", fmt.Sprintf("%q in r.values", w.value()),
			fmt.Sprintf("r.values[%d] == %q", w.IntN(2), w.value()), "r.values.all(v, v in "+w.list()+")", "r.values.exists(v, v in "+w.list()+")",
			fmt.Sprintf("r.values.size() == %d", w.IntN(3)), fmt.Sprintf("r.values.join(',') == %q", w.value()), "!(r.values == "+w.list()+")", "r.values == "+w.list()+" + "+w.list()))
	}
	if len(parts) == 0 {
		return "true"
	}
	return strings.Join(parts, " && ")
}

func (w hintWorld) atom() string {
	inFields := w.IntN(3) == 0
	requirements := map[bool]string{false: "request.labelSelector.requirements", true: "request.fieldSelector.requirements"}[inFields]
	macro := requirements + oneOf(w.Rand, ".exists(r, ", ".exists(r, ", ".exists(r, ", ".exists_one(r, ", ".all(r, ") + w.requirement(inFields) + ")"
	return oneOf(w.Rand, macro, macro, macro, macro, macro, fmt.Sprintf("%s.size() == %d", requirements, w.IntN(3)), fmt.Sprintf("%s[%d].key == %q", requirements, w.IntN(2), w.key(inFields)),
		fmt.Sprintf("%s[%d].values == %s", requirements, w.IntN(2), w.list()), fmt.Sprintf("request.name == %q", w.value()))
}

func (w hintWorld) condition() string {
	text := w.atom()
	for range oneOf(w.Rand, 0, 0, 0, 1, 1, 2) {
		text = oneOf(w.Rand, text+" && "+w.atom(), "("+text+") && "+w.atom(), text+" || "+w.atom(), "!("+w.atom()+") && ("+text+")")
	}
	return text
}

// selectors are the selectors of a request, without a name that the request does not have.
func (w hintWorld) selectors() (byLabels, byFields string) {
	var inLabels, inFields []string
	for range oneOf(w.Rand, 0, 0, 1, 2) {
		inLabels = append(inLabels, w.key(false)+oneOf(w.Rand, "=b", "!=b", " in (c,a)", " notin (b,a,a)", "", " in ()", ">7"))
	}
	for range oneOf(w.Rand, 0, 0, 0, 1) {
		inFields = append(inFields, w.key(true)+oneOf(w.Rand, "=b", "==n", "!=b", "="))
	}
	return strings.Join(inLabels, ","), strings.Join(inFields, ",")
}

// TestLawOfHints follows the hints of random conditions over HTTP: each names selectors with which the policy allows the request.
func TestLawOfHints(t *testing.T) {
	t.Parallel()
	w, server, compiler, source := hintWorld{rand.New(rand.NewPCG(*hintSeed, 7))}, newHTTPServer(t), newPolicyCompiler(t), &engine.Source{} //nolint:gosec // a test
	grants := partOf(source, true)
	found, tried, wrong := 0, 0, 0
	for c := cases.Of(100 * *hintCases); found < *hintCases && wrong < 20 && c.Next(); tried++ {
		condition, verb := w.condition(), oneOf(w.Rand, "list", "watch", "deletecollection")
		byLabels, byFields := w.selectors()
		policy := spec{Effect: allow, Condition: condition, Rules: anything}
		if w.IntN(8) == 0 {
			policy.Rules = []rule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{w.value()}}}
		}
		p, err := engine.New(keyOf("a"), &policy, compiler)
		if err != nil {
			t.Fatal(err)
		}
		source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{keyOf("a"): p}))
		for _, a := range server.read(t, verb, byLabels, byFields) {
			reason := grants.Decide(t.Context(), a).Fold().Reason()
			named := selectorIn.FindStringSubmatch(reason)
			if named == nil {
				continue
			}
			found++
			isNotAllowed := func(a authorizer.Attributes) bool { return !grants.Decide(t.Context(), a).IsAllow() }
			if slices.ContainsFunc(server.read(t, verb, named[1], named[2]), isNotAllowed) {
				wrong++
				t.Errorf("%s with the selectors %q and %q:\n%s\n%s", verb, byLabels, byFields, condition, reason)
			}
		}
	}
	t.Logf("%d hints for %d requests, %d wrong", found, tried, wrong)
	if found*20 < tried {
		t.Error("there were too few hints to tell")
	}
}
