/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

// rules decides by verb, and by user for reviews about others.
var rules = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch {
	case a.GetUser().GetName() == "nobody":
		return authorizer.DecisionNoOpinion, "", nil
	case a.GetUser().GetName() == "limited" && a.GetResource() == "subjectaccessreviews":
		return authorizer.DecisionNoOpinion, "", nil
	case a.GetVerb() == "deny":
		return authorizer.DecisionDeny, "denied by the test", nil
	case a.GetVerb() == "ignore":
		return authorizer.DecisionNoOpinion, "ignored by the test", nil
	}
	return authorizer.DecisionAllow, "allowed by the test", nil
})

const group = "/apis/authorization.k8s.io/v1alpha1/"

// otherGroup is the other group of the same reviews.
const otherGroup = "/apis/authorization.proviso.dev/v1alpha1/"

// post sends a body to the handler of the server, as a user. A review is sent in both groups of reviews. If the answers differ
// in more than the group, the result is an answer with the code 0 and the difference.
func post(s *server.Server, name, path, contentType, body string) *httptest.ResponseRecorder {
	recorder := postOnce(s, name, path, contentType, body)
	resource, isReview := strings.CutPrefix(path, group)
	if !isReview {
		return recorder
	}
	other := postOnce(s, name, otherGroup+resource, contentType, strings.ReplaceAll(body, "authorization.k8s.io/v1alpha1", "authorization.proviso.dev/v1alpha1"))
	// Some errors quote the beginning of the body.
	official := strings.NewReplacer("authorization.proviso.dev", "authorization.k8s.io", "authorization.p ...", "authorization.k ...")
	answer := func(r *httptest.ResponseRecorder) string {
		return withoutTimes(official.Replace(fmt.Sprintf("%d %q %q %s", r.Code, r.Header()["Warning"], r.Header()["Content-Type"], r.Body)))
	}
	if diff := gocmp.Diff(answer(recorder), answer(other)); diff != "" {
		return &httptest.ResponseRecorder{Body: bytes.NewBufferString("the groups have different answers (-official +own): " + diff)}
	}
	return recorder
}

// times are the times in managedFields. The two requests of a comparison may be in different seconds.
var times = regexp.MustCompile(`time"?: ?"[0-9TZ:-]+"`)

func withoutTimes(answer string) string { return times.ReplaceAllString(answer, "time") }

func postOnce(s *server.Server, name, path, contentType, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set(server.UserHeader, name)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	recorder := httptest.NewRecorder()
	s.Handler.ServeHTTP(recorder, request)
	return recorder
}

func acr(sets, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{"conditionSets":%s%s}}`, sets, rest)
}

func oneSet(conditions string) string {
	return `[{"authorizerName":"a","conditions":[` + conditions + `]}]`
}

func celCondition(id, effect, text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"id":"example.com/%s","effect":%q,"type":"k8s.io/authorization-cel","condition":%s}`, id, effect, quoted)
}

const create = `,"operation":"CREATE","object":{"spec":{"storageClassName":"dev","size":1.5}}`

// TestBadInput sends everything that can be wrong with a review. Each has an answer of
// its own.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	check := func(t *testing.T, resource, body string, wantCode int, want string) {
		t.Helper()
		got := post(s, "alice", group+resource, "application/json", body)
		if got.Code != wantCode || !strings.Contains(got.Body.String(), want) {
			t.Errorf("got %d %.600s\nwant %d with %q", got.Code, got.Body, wantCode, want)
		}
	}
	type row struct {
		Resource string
		Body     any
		Text     string
		Code     int
		Want     string
	}
	rows.Run(t, "testdata/badreviews.yaml", func(t *testing.T, tc row) {
		if tc.Body != nil {
			tc.Text = jsonOf(t, tc.Body)
		}
		check(t, cmp.Or(tc.Resource, "subjectaccessreviews"), tc.Text, tc.Code, tc.Want)
	})
	var many []string
	for i := range 129 {
		many = append(many, celCondition(fmt.Sprintf("c%d", i), "Allow", "true"))
	}
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	subject := func(user string) string {
		return `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","spec":{"user":` + user + `}}`
	}
	for _, tc := range []struct {
		name, resource, body string
		wantCode             int
		want                 string
	}{
		{"deeply nested JSON", "subjectaccessreviews", subject(deep), 400, "exceeded max depth"},
		{"a body of 3 MiB", "subjectaccessreviews", subject(`"` + strings.Repeat("x", 3<<20) + `"`), 413, "limit is 3145728"},
		{"129 conditions", "authorizationconditionsreviews", acr(oneSet(strings.Join(many, ",")), create), 422, "must have at most 128 items"},
		{"a condition over 10240 bytes", "authorizationconditionsreviews", acr(oneSet(celCondition("a", "Allow", strings.Repeat("x", 10241))), create), 422, "conditions[0].condition: Too long"},
		{"deeply nested sets", "authorizationconditionsreviews", acr(strings.Repeat(`[{"authorizerName":"a","conditionsChain":`, 50)+`[]`+strings.Repeat(`}]`, 50), create), 422, "nested at most 8 deep"},
		{"a deeply nested object", "authorizationconditionsreviews", acr(oneSet(celCondition("a", "Allow", "true")), `,"operation":"CREATE","object":{"a":`+deep+`}`), 400, "exceeded max depth"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			check(t, tc.resource, tc.body, tc.wantCode, tc.want)
		})
	}
}

// jsonOf returns a value of a row as JSON.
func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMalformedYAML(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	for _, body := range []string{"spec: [", "\tspec: 1", "spec: *nobody", "a: 1\na: 2"} {
		if got := post(s, "alice", group+"subjectaccessreviews", "application/yaml", body); got.Code < 400 || got.Code >= 500 {
			t.Errorf("%q: got %d %s, want a refusal", body, got.Code, got.Body)
		}
	}
}

func TestUnknownFields(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	const body = `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","spec":{"user":"u","resourceAttributes":{"verb":"get","resorce":"pods"}}}`

	got := post(s, "alice", group+"subjectaccessreviews", "application/json", body)
	if warning := got.Header().Get("Warning"); got.Code != http.StatusCreated || !strings.Contains(warning, `unknown field \"spec.resourceAttributes.resorce\"`) {
		t.Errorf("a review with an unknown field: got %d with warning %q, want an answer and a warning", got.Code, warning)
	}
	got = post(s, "alice", group+"subjectaccessreviews?fieldValidation=Strict", "application/json", body)
	if got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), "spec.resourceAttributes.resorce") {
		t.Errorf("the same with strict validation: got %d %s, want 400", got.Code, got.Body)
	}
}

type conditionsReview struct {
	Response struct {
		Allowed, Denied         bool
		Reason, EvaluationError string
		ConditionSets           []json.RawMessage
	}
}

func evaluate(t *testing.T, s *server.Server, name, body string) conditionsReview {
	t.Helper()
	recorder := post(s, name, group+"authorizationconditionsreviews", "application/json", body)
	if recorder.Code != http.StatusCreated {
		t.Fatalf("got %d %s", recorder.Code, recorder.Body)
	}
	var review conditionsReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil {
		t.Fatal(err)
	}
	return review
}

func TestConditionsReview(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	type row struct {
		User            string
		Request         map[string]any
		Allowed, Denied bool
		Reason, Error   string
		Remaining       int
	}
	rows.Run(t, "testdata/conditionsreviews.yaml", func(t *testing.T, tc row) {
		if tc.Request["impersonation"] == nil {
			tc.Request["operation"], tc.Request["object"] = "CREATE", map[string]any{"spec": map[string]any{"storageClassName": "dev", "size": 1.5}}
		}
		body := jsonOf(t, map[string]any{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "AuthorizationConditionsReview", "request": tc.Request})
		got := evaluate(t, s, cmp.Or(tc.User, "alice"), body).Response
		if got.Allowed != tc.Allowed || got.Denied != tc.Denied || !strings.Contains(got.Reason, tc.Reason) ||
			!strings.Contains(got.EvaluationError, tc.Error) || (tc.Error == "") != (got.EvaluationError == "") || len(got.ConditionSets) != tc.Remaining {
			t.Errorf("got %+v\nwant %+v", got, tc)
		}
	})
}

// TestConditionsReviewInTwoStages evaluates what the first stage of impersonation left,
// as a client would: by sending it back with the object.
func TestConditionsReviewInTwoStages(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	sets := oneSet(celCondition("a", "Allow", `impersonatedRequest.verb == "create"`) + "," + celCondition("b", "Deny", `object.spec.storageClassName == "prod"`))
	first := evaluate(t, s, "alice", acr(sets, `,"impersonation":{"request":{"verb":"create"},"user":{"username":"bob"}}`))
	remaining, err := json.Marshal(first.Response.ConditionSets)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(remaining), "impersonatedRequest") {
		t.Errorf("the first stage left a condition on what it knew: %s", remaining)
	}
	for class, want := range map[string]bool{"dev": true, "prod": false} {
		second := evaluate(t, s, "alice", acr(string(remaining), `,"operation":"CREATE","object":{"spec":{"storageClassName":"`+class+`"}}`))
		if second.Response.Allowed != want || second.Response.Denied == want {
			t.Errorf("class %s: got %+v, want allowed %v", class, second.Response, want)
		}
	}
}

// TestConditionsReviewSubstitutesWhatIsKnown: what the first stage knew must not be
// needed in the second, where it may not be there.
func TestConditionsReviewSubstitutesWhatIsKnown(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	sets := `[{"authorizerName":"a","failureMode":"NoOpinion","conditions":[` + celCondition("c", "Deny", `impersonatedRequest.verb == "create" && object.x == 1`) + `]},{"authorizerName":"b","allowed":true}]`
	first := evaluate(t, s, "alice", acr(sets, `,"impersonation":{"request":{"verb":"create"},"user":{"username":"bob"}}`))
	remaining, err := json.Marshal(first.Response.ConditionSets)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(remaining), `"condition":"object.x == 1"`) {
		t.Errorf("got %s, want a residual on the object alone", remaining)
	}
	second := evaluate(t, s, "alice", acr(string(remaining), `,"operation":"CREATE","object":{"x":1}`))
	if !second.Response.Denied {
		t.Errorf("got %+v, want denied, as at once", second.Response)
	}
	other := evaluate(t, s, "alice", acr(sets, `,"impersonation":{"request":{"verb":"get"},"user":{"username":"bob"}}`))
	if !other.Response.Allowed || len(other.Response.ConditionSets) > 0 {
		t.Errorf("got %+v, want what can never hold to be gone", other.Response)
	}
}

func TestReviewsNeedAuthorization(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	for _, resource := range []string{"subjectaccessreviews", "selfsubjectaccessreviews", "authorizationconditionsreviews", "namespaces/n/localsubjectaccessreviews"} {
		if got := post(s, "nobody", group+resource, "application/json", `{}`); got.Code != http.StatusForbidden {
			t.Errorf("%s: got %d %s, want 403", resource, got.Code, got.Body)
		}
	}
}

func TestAccessReviews(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	review := func(kind, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":%q,"spec":%s}`, kind, spec)
	}
	for _, tc := range []struct {
		name, resource, body string
		want                 string
	}{
		{"allowed", "subjectaccessreviews", review("SubjectAccessReview", `{"user":"u","resourceAttributes":{"verb":"get"}}`), `"status":{"allowed":true,"reason":"allowed by the test"}`},
		{"denied", "subjectaccessreviews", review("SubjectAccessReview", `{"user":"u","resourceAttributes":{"verb":"deny"}}`), `"status":{"allowed":false,"denied":true,"reason":"denied by the test"}`},
		{"no opinion", "subjectaccessreviews", review("SubjectAccessReview", `{"user":"u","nonResourceAttributes":{"verb":"ignore","path":"/x"}}`), `"status":{"allowed":false,"reason":"ignored by the test"}`},
		{"about somebody else", "subjectaccessreviews", review("SubjectAccessReview", `{"user":"nobody","resourceAttributes":{"verb":"get"}}`), `"status":{"allowed":false}`},
		{"about oneself", "selfsubjectaccessreviews", review("SelfSubjectAccessReview", `{"resourceAttributes":{"verb":"get"}}`), `"allowed":true`},
		{"in a namespace", "namespaces/n/localsubjectaccessreviews", review("LocalSubjectAccessReview", `{"user":"u","resourceAttributes":{"verb":"get","namespace":"n"}}`), `"allowed":true`},
		{"a status that the client made up", "subjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","spec":{"user":"u","resourceAttributes":{"verb":"deny"}},"status":{"allowed":true,"conditionsChain":[{"authorizerName":"a","allowed":true}]}}`,
			`"status":{"allowed":false,"denied":true,"reason":"denied by the test"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(s, "alice", group+tc.resource, "application/json", tc.body)
			if got.Code != http.StatusCreated || !strings.Contains(got.Body.String(), tc.want) {
				t.Errorf("got %d %s\nwant %s", got.Code, got.Body, tc.want)
			}
		})
	}
}

func TestReviewsAreCreateOnly(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		request := httptest.NewRequest(method, group+"subjectaccessreviews", nil)
		request.Header.Set(server.UserHeader, "alice")
		recorder := httptest.NewRecorder()
		s.Handler.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: got %d, want 405", method, recorder.Code)
		}
	}
}

// FuzzConditionsReview sends arbitrary bytes to the endpoint that evaluates what others
// wrote. Nothing may be the server's fault.
func FuzzConditionsReview(f *testing.F) {
	s := server.New(f, server.Config{Authorizer: rules})
	contentTypes := []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor", "text/plain"}
	for i := range contentTypes {
		f.Add(byte(i), acr(oneSet(celCondition("a", "Allow", `object.spec.x == 1`)), create))
	}
	f.Add(byte(0), acr(oneSet(celCondition("a", "Deny", `[?object.x].size() == 1`)), create))
	f.Add(byte(0), acr(oneSet(celCondition("a", "Deny", `authorizer.path("/").check("get").allowed()`)), create))
	f.Add(byte(0), acr(`[{"authorizerName":"a","conditionsChain":[{"authorizerName":"b","denied":true}]}]`, `,"operation":"DELETE","oldObject":{"a":1e999}`))
	f.Add(byte(1), "apiVersion: authorization.k8s.io/v1alpha1\nkind: AuthorizationConditionsReview\nrequest: {operation: CONNECT, conditionSets: [{authorizerName: a}]}")
	f.Fuzz(func(t *testing.T, contentType byte, body string) {
		got := post(s, "alice", group+"authorizationconditionsreviews", contentTypes[int(contentType)%len(contentTypes)], body)
		if got.Code >= 500 {
			t.Fatalf("%d for %q: %s", got.Code, body, got.Body)
		}
	})
}

// TestDuplicateFieldsOfDecisions sends reviews in the form that is proposed for Kubernetes, some with a Deny that a later field of the same name
// replaces. Without fieldValidation=Strict the server notices only duplicates within a decision or an admissionRequest that is JSON: it warns
// of the others, as for every kind.
func TestDuplicateFieldsOfDecisions(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules, Extra: func(e *apiserver.ExtraConfig) { e.UpstreamDecisions = true }})
	const (
		allow   = `{"type":"ConditionsMap","conditionsMap":{"allowConditions":[{"id":"example.com/c","type":"authorizer.kubernetes.io/cel","condition":"true"}]}}`
		deny    = `{"type":"ConditionsMap","conditionsMap":{"denyConditions":[{"id":"example.com/d","type":"authorizer.kubernetes.io/cel","condition":"true"}]}}`
		request = `{"uid":"7","operation":"CREATE","object":{}}`
	)
	inJSON := func(members string) string {
		return `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{` + members + `}}`
	}
	inYAML := func(lists string) string {
		return "apiVersion: authorization.k8s.io/v1alpha1\nkind: AuthorizationConditionsReview\nrequest:\n  admissionRequest: " + request +
			"\n  decision:\n    type: ConditionsMap\n    conditionsMap:\n" + lists +
			"      allowConditions: [{id: example.com/c, type: authorizer.kubernetes.io/cel, condition: \"true\"}]\n"
	}
	const yamlDeny = "      denyConditions: [{id: example.com/d, type: authorizer.kubernetes.io/cel, condition: \"true\"}]\n"
	for _, tc := range []struct {
		name, mediaType, body string
		want, wantStrict      int
		warns                 bool
	}{
		{name: "JSON, no field twice", mediaType: "application/json", body: inJSON(`"decision":` + allow + `,"admissionRequest":` + request), want: 201, wantStrict: 201},
		{name: "JSON, the decision twice", mediaType: "application/json", body: inJSON(`"decision":` + deny + `,"decision":` + allow + `,"admissionRequest":` + request), want: 201, wantStrict: 400, warns: true},
		{name: "JSON, a field of the decision twice", mediaType: "application/json", body: inJSON(`"decision":` + strings.Replace(allow, `{"allow`, `{"denyConditions":[],"denyConditions":[],"allow`, 1) + `,"admissionRequest":` + request), want: 400, wantStrict: 400},
		{name: "JSON, a field of the admissionRequest twice", mediaType: "application/json", body: inJSON(`"decision":` + allow + `,"admissionRequest":` + strings.Replace(request, `{`, `{"uid":"6",`, 1)), want: 400, wantStrict: 400},
		{name: "YAML, no field twice", mediaType: "application/yaml", body: inYAML(""), want: 201, wantStrict: 201},
		{name: "YAML, a field of the decision twice", mediaType: "application/yaml", body: inYAML(yamlDeny + "      denyConditions: []\n"), want: 201, wantStrict: 400, warns: true},
		{name: "YAML, a field of the decision that is not known", mediaType: "application/yaml", body: inYAML("      requireConditions: []\n"), want: 400, wantStrict: 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := postOnce(s, "alice", group+"authorizationconditionsreviews", tc.mediaType, tc.body)
			if got.Code != tc.want {
				t.Errorf("got %d, want %d: %.300s", got.Code, tc.want, got.Body)
			}
			if warning := got.Header().Get("Warning"); (warning != "") != tc.warns {
				t.Errorf("got the warning %q", warning)
			}
			if strict := postOnce(s, "alice", group+"authorizationconditionsreviews?fieldValidation=Strict", tc.mediaType, tc.body); strict.Code != tc.wantStrict {
				t.Errorf("with fieldValidation=Strict: got %d, want %d: %.300s", strict.Code, tc.wantStrict, strict.Body)
			}
		})
	}
}
