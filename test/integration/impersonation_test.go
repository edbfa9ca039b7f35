/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

// impersonators: deputy may impersonate bob to get pods, and legacy may impersonate
// anybody. Only reviewer may create reviews about others, and bob may get pods.
var impersonators = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	user := a.GetUser().GetName()
	switch {
	case strings.HasPrefix(a.GetResource(), "impersonation") || a.GetSubresource() == "impersonation",
		user == "reviewer" && a.GetResource() == "subjectaccessreviews",
		user == "bob" && a.GetVerb() == "get" && a.GetResource() == "pods",
		user == "deputy" && a.GetVerb() == "impersonate-on:user-info:get" && a.GetResource() == "pods",
		user == "deputy" && a.GetVerb() == "impersonate:user-info" && a.GetName() == "bob",
		user == "legacy" && a.GetVerb() == "impersonate":
		return authorizer.DecisionAllow, "allowed by the test", nil
	case user == "refused" && strings.HasPrefix(a.GetVerb(), "impersonate"):
		return authorizer.DecisionDeny, "refused by the test", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})

const (
	impersonations = group + "impersonationreviews"
	ofUser         = group + "authorizationconditionsreviews/%s/impersonation"
	pods           = `"resourceAttributes":{"verb":"get","version":"v1","resource":"pods","namespace":"ns"}`
)

func impersonation(spec string) string {
	return `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"ImpersonationReview","spec":{` + spec + `}}`
}

// impersonationRow is a review in a table.
type impersonationRow struct {
	User   string
	InPath string // the name of the impersonated user in the path
	Spec   map[string]any
}

func (r impersonationRow) path() string {
	if r.InPath == "" {
		return impersonations
	}
	return fmt.Sprintf(ofUser, r.InPath)
}

func (r impersonationRow) body(t *testing.T) string {
	t.Helper()
	return jsonOf(t, map[string]any{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "ImpersonationReview", "spec": r.Spec})
}

func TestImpersonationReview(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: impersonators})
	type row struct {
		impersonationRow
		Mode, Constraint string
		Impersonated     *authenticationv1.UserInfo
		Reason           string
		Request          string // allowed, or nothing
		Checks           int
	}
	rows.Run(t, "testdata/impersonationreviews.yaml", func(t *testing.T, tc row) {
		status := askImpersonation(t, s, tc.User, tc.path(), tc.body(t)).Status
		allowed := tc.Impersonated != nil
		if status.Allowed != allowed || status.Denied == allowed || string(status.Mode) != tc.Mode || status.Constraint != tc.Constraint ||
			!strings.Contains(status.Reason, tc.Reason) || (tc.Reason == "") != (status.Reason == "") || len(status.Checks) != tc.Checks || status.EvaluationError != "" {
			t.Errorf("got %+v", status)
		}
		if diff := cmp.Diff(tc.Impersonated, status.ImpersonatedUser); diff != "" {
			t.Errorf("user (-want +got):\n%s", diff)
		}
		if got := requestOf(status); got != tc.Request {
			t.Errorf("the request is %q, want %q", got, tc.Request)
		}
		last := status.Checks[len(status.Checks)-1]
		if last.Allowed != allowed || last.Denied != (tc.User == "refused") {
			t.Errorf("the last check is %+v", last)
		}
	})
}

func requestOf(status authorizationv1alpha1.ImpersonationReviewStatus) string {
	switch d := status.RequestDecision; {
	case d == nil:
		return ""
	case d.Allowed:
		return "allowed"
	case d.Denied:
		return "denied"
	case len(d.ConditionsChain) > 0:
		return "conditional"
	default:
		return "no opinion"
	}
}

func askImpersonation(t *testing.T, s *server.Server, user, path, body string) authorizationv1alpha1.ImpersonationReview {
	t.Helper()
	recorder := post(s, user, path, "application/json", body)
	var review authorizationv1alpha1.ImpersonationReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || recorder.Code != http.StatusCreated {
		t.Fatalf("got %d %s", recorder.Code, recorder.Body)
	}
	return review
}

// TestImpersonationReviewShowsAttributes: each check is shown as it was made, and the
// one about the request as the request was described.
func TestImpersonationReviewShowsAttributes(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: impersonators})
	got := post(s, "legacy", impersonations, "application/json", impersonation(`"impersonate":{"username":"bob","groups":["g"],"extra":{"example.com/k":["v"]}},
		"resourceAttributes":{"verb":"list","group":"apps","version":"v1","resource":"deployments","subresource":"scale","namespace":"ns","name":"d","labelSelector":{"rawSelector":"a=b"}}`))
	for _, want := range []string{
		`{"mode":"user-info","resourceAttributes":{"namespace":"ns","verb":"impersonate-on:user-info:list","group":"apps","version":"v1","resource":"deployments","subresource":"scale","name":"d","labelSelector":{"rawSelector":"a=b"}},"allowed":false}`,
		`{"mode":"legacy","resourceAttributes":{"verb":"impersonate","version":"v1","resource":"users","name":"bob"},"allowed":true,"reason":"allowed by the test"}`,
		`{"mode":"legacy","resourceAttributes":{"verb":"impersonate","group":"authentication.k8s.io","version":"v1","resource":"userextras","subresource":"example.com/k","name":"v"},"allowed":true,"reason":"allowed by the test"}`,
	} {
		if !strings.Contains(got.Body.String(), want) {
			t.Errorf("got %d %s\nwant %s", got.Code, got.Body, want)
		}
	}
}

// TestImpersonationReviewSelectorErrors: a selector that cannot be read is left out, and
// the review says so.
func TestImpersonationReviewSelectorErrors(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: impersonators})
	status := askImpersonation(t, s, "deputy", impersonations, impersonation(`"impersonate":{"username":"bob"},
		"resourceAttributes":{"verb":"get","version":"v1","resource":"pods","fieldSelector":{"rawSelector":"a"}}`)).Status
	if !strings.Contains(status.EvaluationError, "fieldSelector ignored due to parse error") || !status.Allowed {
		t.Errorf("got %+v", status)
	}
}

// TestImpersonationReviewFoldsConditions: a conditional answer to a check does not pass
// it, and the request's own conditions are shown to whom asks for them.
func TestImpersonationReviewFoldsConditions(t *testing.T) {
	t.Parallel()
	conditional := conditionally{func(a authorizer.Attributes) bool {
		return a.GetResource() == "pods" && a.GetUser().GetName() != "deputy" || a.GetName() == "carol"
	}}
	s := server.New(t, server.Config{Authorizer: conditional})
	const mode = `,"conditionalAuthorization":{"mode":"HumanReadable"}`
	for _, tc := range []struct {
		name, spec, wantRequest string
		wantAllowed             bool
	}{
		{"the request", `"impersonate":{"username":"bob"},` + pods + mode, "conditional", true},
		{"the request, for a caller who wants no conditions", `"impersonate":{"username":"bob"},` + pods, "no opinion", true},
		{"a check", `"impersonate":{"username":"carol"},` + pods + mode, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			status := askImpersonation(t, s, "deputy", impersonations, impersonation(tc.spec)).Status
			if got := requestOf(status); got != tc.wantRequest || status.Allowed != tc.wantAllowed {
				t.Errorf("the request is %q, want %q: %+v", got, tc.wantRequest, status)
			}
		})
	}
}

// conditionally answers with a condition where it says so, and Allow elsewhere.
type conditionally struct {
	when func(authorizer.Attributes) bool
}

func (c conditionally) ConditionsAwareAuthorize(_ context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if !c.when(a) {
		return authorizer.ConditionsAwareDecisionAllow("", nil)
	}
	return authorization.ToUpstream(authorization.Conditions(authorization.Condition{
		ID: "example.com/c", Effect: authorization.EffectAllow, Type: "k8s.io/authorization-cel", Text: "object.x == 1",
	}))
}

func (c conditionally) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "not to be asked", nil
}

func (c conditionally) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", nil
}

// TestImpersonationReviewBadInput sends everything that can be wrong with a review. Each
// has an answer that names the field.
func TestImpersonationReviewBadInput(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: impersonators})
	type row struct {
		impersonationRow
		Text        string // the body, if it is no specification
		ContentType string
		Strict      bool
		Code        int
		Want        string
	}
	check := func(t *testing.T, tc row) {
		t.Helper()
		path := tc.path()
		if tc.Strict {
			path += "?fieldValidation=Strict"
		}
		if tc.Spec != nil {
			tc.Text = tc.body(t)
		}
		user, contentType := "reviewer", "application/json"
		if tc.User != "" {
			user = tc.User
		}
		if tc.ContentType != "" {
			contentType = tc.ContentType
		}
		got := post(s, user, path, contentType, tc.Text)
		if got.Code != tc.Code || !strings.Contains(got.Body.String(), tc.Want) {
			t.Errorf("got %d %.600s\nwant %d with %q", got.Code, got.Body, tc.Code, tc.Want)
		}
	}
	rows.Run(t, "testdata/badimpersonations.yaml", check)
	long := map[string]any{"user": strings.Repeat("x", 3<<20)}
	check(t, row{impersonationRow: impersonationRow{Spec: long}, Code: 413, Want: "limit is 3145728"})
	many := map[string]any{"impersonate": map[string]any{"username": "bob", "groups": slices.Repeat([]string{"g"}, 1000)}, "nonResourceAttributes": map[string]any{"verb": "get", "path": "/"}}
	check(t, row{impersonationRow: impersonationRow{Spec: many}, Code: 422, Want: "spec.impersonate.groups: Too many: 1000"})
}

// TestImpersonationReviewWarnsOfUnknownFields: a field that does not exist is not
// silently ignored.
func TestImpersonationReviewWarnsOfUnknownFields(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: impersonators})
	for _, path := range []string{impersonations, fmt.Sprintf(ofUser, "bob")} {
		got := post(s, "deputy", path, "application/json", impersonation(`"impersonate":{"username":"bob","group":["g"]},`+pods))
		if warning := got.Header().Get("Warning"); got.Code != http.StatusCreated || !strings.Contains(warning, `unknown field \"spec.impersonate.group\"`) {
			t.Errorf("%s: got %d with warning %q", path, got.Code, warning)
		}
	}
}

// TestImpersonationReviewIgnoresStatus: the status is the server's.
func TestImpersonationReviewIgnoresStatus(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: impersonators})
	body := strings.TrimSuffix(impersonation(`"impersonate":{"username":"bob"},`+pods), "}") + `,"status":{"allowed":true,"mode":"legacy","impersonatedUser":{"username":"root"}}}`
	status := askImpersonation(t, s, "nobody", impersonations, body).Status
	if status.Allowed || status.Mode != "" || status.ImpersonatedUser != nil {
		t.Errorf("got %+v", status)
	}
}

// FuzzImpersonationReview sends arbitrary bytes to the endpoints. Nothing may be the
// server's fault.
func FuzzImpersonationReview(f *testing.F) {
	s := server.New(f, server.Config{Authorizer: impersonators})
	paths := []string{impersonations, fmt.Sprintf(ofUser, "bob"), fmt.Sprintf(ofUser, "-")}
	contentTypes := []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"}
	for i := range len(paths) * len(contentTypes) {
		f.Add(byte(i), impersonation(`"impersonate":{"username":"bob","groups":["g"],"extra":{"example.com/k":["v"]}},`+pods))
	}
	f.Add(byte(0), impersonation(`"impersonate":{"username":"b","extra":{"":["\u0000"]}},"resourceAttributes":{"verb":"list","resource":"*","labelSelector":{"rawSelector":"a in ("}}`))
	f.Add(byte(0), impersonation(`"user":"deputy","impersonate":{"username":"system:node:n"},"nonResourceAttributes":{"verb":"get","path":"//"}`))
	f.Fuzz(func(t *testing.T, kind byte, body string) {
		path, contentType := paths[int(kind)%len(paths)], contentTypes[int(kind)/len(paths)%len(contentTypes)]
		for _, user := range []string{"reviewer", "legacy"} {
			if got := post(s, user, path, contentType, body); got.Code >= 500 {
				t.Fatalf("%d for %q: %s", got.Code, body, got.Body)
			}
		}
	})
}

// TestImpersonationReviewOnTheObject: what remains of an impersonation is shown to whoever asks
// for conditions, with a warning where a request would be refused since nobody enforces them.
func TestImpersonationReviewOnTheObject(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: onTheObject{impersonators}, Extra: func(c *apiserver.ExtraConfig) { c.ConditionalImpersonation = true }})
	const conditions = `"conditionalAuthorization":{"mode":"HumanReadable"},`
	for _, tc := range []struct {
		name, spec, verb string
		wantShown        bool
		wantWarning      string
	}{
		{"enforced", conditions, "create", true, ""},
		{"not enforced", conditions, "list", true, `this server does not enforce conditions on list subjectaccessreviews.authorization.k8s.io: it refuses the request with this impersonation`},
		{"not asked for", "", "create", false, ""},
		{"not asked for, not enforced", "", "list", false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(s, "labeller", impersonations, "application/json", impersonation(tc.spec+`"impersonate":{"username":"bob"},
				"resourceAttributes":{"verb":"`+tc.verb+`","group":"authorization.k8s.io","version":"v1alpha1","resource":"subjectaccessreviews"}`))
			if warning := got.Header().Get("Warning"); got.Code != http.StatusCreated || (warning != "") != (tc.wantWarning != "") || !strings.Contains(warning, tc.wantWarning) {
				t.Errorf("got %d with warning %q, want %q", got.Code, warning, tc.wantWarning)
			}
			var review authorizationv1alpha1.ImpersonationReview
			if err := json.Unmarshal(got.Body.Bytes(), &review); err != nil {
				t.Fatal(err)
			}
			if shown := len(review.Status.ConditionsChain) == 1; shown != tc.wantShown || review.Status.Denied == tc.wantShown || review.Status.Allowed {
				t.Errorf("got %+v", review.Status)
			}
		})
	}
}

// onTheObject lets labeller become anybody, as far as what it writes has a label.
type onTheObject struct{ authorizer.AuthorizerFunc }

func (a onTheObject) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if attributes.GetUser().GetName() == "labeller" && attributes.GetVerb() == "constrainedimpersonate" {
		return authorization.ToUpstream(authorization.Conditions(authorization.Condition{
			ID: "example.com/label", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: `"k" in object.metadata.labels`,
		}))
	}
	decision, reason, err := a.Authorize(ctx, attributes)
	switch decision {
	case authorizer.DecisionAllow:
		return authorizer.ConditionsAwareDecisionAllow(reason, err)
	case authorizer.DecisionNoOpinion:
		return authorizer.ConditionsAwareDecisionNoOpinion(reason, err)
	default:
		return authorizer.ConditionsAwareDecisionDeny(reason, err)
	}
}

func (onTheObject) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", nil
}
