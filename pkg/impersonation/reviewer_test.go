/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	upstream "k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// describe writes attributes in one line.
func describe(a authorizer.Attributes) string {
	if !a.IsResourceRequest() {
		return fmt.Sprintf("%s %s", a.GetVerb(), a.GetPath())
	}
	resource := a.GetResource()
	for _, part := range []struct{ separator, value string }{{"/", a.GetSubresource()}, {".", a.GetAPIGroup()}, {"@", a.GetNamespace()}, {" ", a.GetName()}} {
		if part.value != "" {
			resource += part.separator + part.value
		}
	}
	return a.GetVerb() + " " + resource
}

// allowing allows what is listed, in the form of describe, and has no opinion on the rest.
func allowing(granted ...string) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if slices.Contains(granted, describe(a)) {
			return authorizer.DecisionAllow, "granted", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}

func newReviewer(t *testing.T, a authorizer.UnconditionalAuthorizer) *impersonation.Reviewer {
	t.Helper()
	reviewer, err := impersonation.NewReviewer(a, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	return reviewer
}

var getPod = authorizer.AttributesRecord{
	User: &user.DefaultInfo{Name: "agent", Groups: []string{"agents"}}, Verb: "get", APIVersion: "v1", Namespace: "ns", Resource: "pods", Name: "p", ResourceRequest: true,
}

// as returns the request of another user.
func as(a authorizer.AttributesRecord, u *user.DefaultInfo) authorizer.AttributesRecord {
	a.User = u
	return a
}

// onNode is a service account that runs on the node n1.
var onNode = &user.DefaultInfo{
	Name: "system:serviceaccount:ns:agent", Groups: []string{"system:serviceaccounts"},
	Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}},
}

func checksOf(answer impersonation.Answer) []string {
	var checks []string
	for _, c := range answer.Checks {
		text := fmt.Sprintf("%s: %s", c.Mode, describe(c.Attributes))
		if c.Decision == authorizer.DecisionAllow {
			text += ": yes"
		}
		checks = append(checks, text)
	}
	return checks
}

func TestReview(t *testing.T) {
	t.Parallel()
	path := authorizer.AttributesRecord{User: getPod.User, Verb: "get", Path: "/metrics"}
	const onUserInfo = "impersonate-on:user-info:get pods@ns p"
	for _, tc := range []struct {
		name       string
		request    authorizer.AttributesRecord
		wanted     user.DefaultInfo
		granted    []string
		wantUser   *user.DefaultInfo
		wantMode   string
		constraint string
		wantReason string
		wantChecks []string
	}{
		{
			name: "a user", request: getPod, wanted: user.DefaultInfo{Name: "bob"},
			granted:  []string{onUserInfo, "impersonate:user-info users.authentication.k8s.io bob"},
			wantUser: &user.DefaultInfo{Name: "bob", Groups: []string{"system:authenticated"}}, wantMode: "user-info", constraint: "impersonate:user-info",
			wantChecks: []string{"user-info: " + onUserInfo + ": yes", "user-info: impersonate:user-info users.authentication.k8s.io bob: yes"},
		},
		{
			name: "a user for another request", request: getPod, wanted: user.DefaultInfo{Name: "bob"},
			granted:    []string{"impersonate-on:user-info:list pods@ns p", "impersonate:user-info users.authentication.k8s.io bob"},
			wantReason: `pods "p" is forbidden: User "agent" cannot impersonate-on:user-info:get resource "pods" in API group "" in the namespace "ns"`,
			wantChecks: []string{"user-info: " + onUserInfo, "legacy: impersonate users bob"},
		},
		{
			name: "a user in the legacy mode", request: getPod, wanted: user.DefaultInfo{Name: "bob"}, granted: []string{"impersonate users bob"},
			wantUser: &user.DefaultInfo{Name: "bob", Groups: []string{"system:authenticated"}}, wantMode: "legacy",
			wantChecks: []string{"user-info: " + onUserInfo, "legacy: impersonate users bob: yes"},
		},
		{
			name: "everything of a user", request: getPod, wanted: user.DefaultInfo{Name: "bob", UID: "7", Groups: []string{"h", "g"}, Extra: map[string][]string{"example.com/b": {"2", "1"}, "example.com/a": {"0"}}},
			granted: []string{
				onUserInfo, "impersonate:user-info users.authentication.k8s.io bob", "impersonate:user-info uids.authentication.k8s.io 7",
				"impersonate:user-info groups.authentication.k8s.io g", "impersonate:user-info groups.authentication.k8s.io h",
				"impersonate:user-info userextras/example.com/a.authentication.k8s.io 0", "impersonate:user-info userextras/example.com/b.authentication.k8s.io 1", "impersonate:user-info userextras/example.com/b.authentication.k8s.io 2",
			},
			wantUser: &user.DefaultInfo{Name: "bob", UID: "7", Groups: []string{"h", "g", "system:authenticated"}, Extra: map[string][]string{"example.com/b": {"2", "1"}, "example.com/a": {"0"}}},
			wantMode: "user-info", constraint: "impersonate:user-info",
			wantChecks: []string{
				"user-info: " + onUserInfo + ": yes", "user-info: impersonate:user-info users.authentication.k8s.io bob: yes", "user-info: impersonate:user-info uids.authentication.k8s.io 7: yes",
				"user-info: impersonate:user-info groups.authentication.k8s.io h: yes", "user-info: impersonate:user-info groups.authentication.k8s.io g: yes",
				"user-info: impersonate:user-info userextras/example.com/a.authentication.k8s.io 0: yes",
				"user-info: impersonate:user-info userextras/example.com/b.authentication.k8s.io 2: yes", "user-info: impersonate:user-info userextras/example.com/b.authentication.k8s.io 1: yes",
			},
		},
		{
			name: "extra is refused by the first key, whatever the filter asks first", request: getPod,
			wanted:     user.DefaultInfo{Name: "bob", Extra: map[string][]string{"example.com/a": {"0"}, "example.com/b": {"1"}, "example.com/c": {"2"}}},
			granted:    []string{onUserInfo, "impersonate:user-info users.authentication.k8s.io bob", "impersonate:user-info userextras/example.com/a.authentication.k8s.io 0"},
			wantReason: `userextras.authentication.k8s.io "1" is forbidden: User "agent" cannot impersonate:user-info resource "userextras/example.com/b" in API group "authentication.k8s.io" at the cluster scope`,
			wantChecks: []string{
				"user-info: " + onUserInfo + ": yes", "user-info: impersonate:user-info users.authentication.k8s.io bob: yes",
				"user-info: impersonate:user-info userextras/example.com/a.authentication.k8s.io 0: yes", "user-info: impersonate:user-info userextras/example.com/b.authentication.k8s.io 1",
				"legacy: impersonate users bob",
			},
		},
		{
			name: "many values of extra at once", request: getPod, wanted: user.DefaultInfo{Name: "bob", Extra: map[string][]string{"example.com/a": {"0", "1"}, "example.com/b": {"2", "3"}}},
			granted:  []string{onUserInfo, "impersonate:user-info users.authentication.k8s.io bob", "impersonate:user-info userextras/*.authentication.k8s.io *"},
			wantUser: &user.DefaultInfo{Name: "bob", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"example.com/a": {"0", "1"}, "example.com/b": {"2", "3"}}},
			wantMode: "user-info", constraint: "impersonate:user-info",
			wantChecks: []string{"user-info: " + onUserInfo + ": yes", "user-info: impersonate:user-info users.authentication.k8s.io bob: yes", "user-info: impersonate:user-info userextras/*.authentication.k8s.io *: yes"},
		},
		{
			name: "a wildcard is a key as any other in the legacy mode", request: getPod, wanted: user.DefaultInfo{Name: "bob", Extra: map[string][]string{"*": {"*"}, "a": {"1"}}},
			granted:    []string{"impersonate users bob", "impersonate userextras/*.authentication.k8s.io *"},
			wantReason: "impersonate-on:user-info:get",
			wantChecks: []string{"user-info: " + onUserInfo, "legacy: impersonate users bob: yes", "legacy: impersonate userextras/*.authentication.k8s.io *: yes", "legacy: impersonate userextras/a.authentication.k8s.io 1"},
		},
		{
			name: "a service account", request: getPod, wanted: user.DefaultInfo{Name: "system:serviceaccount:a:b"},
			granted:  []string{"impersonate-on:serviceaccount:get pods@ns p", "impersonate:serviceaccount serviceaccounts.authentication.k8s.io@a b"},
			wantUser: &user.DefaultInfo{Name: "system:serviceaccount:a:b", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"}},
			wantMode: "serviceaccount", constraint: "impersonate:serviceaccount",
			wantChecks: []string{"serviceaccount: impersonate-on:serviceaccount:get pods@ns p: yes", "serviceaccount: impersonate:serviceaccount serviceaccounts.authentication.k8s.io@a b: yes"},
		},
		{
			name: "another node", request: as(getPod, onNode), wanted: user.DefaultInfo{Name: "system:node:n2"},
			granted:  []string{"impersonate-on:arbitrary-node:get pods@ns p", "impersonate:arbitrary-node nodes.authentication.k8s.io n2"},
			wantUser: &user.DefaultInfo{Name: "system:node:n2", Groups: []string{"system:nodes", "system:authenticated"}}, wantMode: "arbitrary-node", constraint: "impersonate:arbitrary-node",
			wantChecks: []string{"arbitrary-node: impersonate-on:arbitrary-node:get pods@ns p: yes", "arbitrary-node: impersonate:arbitrary-node nodes.authentication.k8s.io n2: yes"},
		},
		{
			name: "the node that one runs on", request: as(getPod, onNode), wanted: user.DefaultInfo{Name: "system:node:n1"},
			granted:  []string{"impersonate-on:associated-node:get pods@ns p", "impersonate:associated-node nodes.authentication.k8s.io *"},
			wantUser: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}, wantMode: "associated-node", constraint: "impersonate:associated-node",
			wantChecks: []string{"associated-node: impersonate-on:associated-node:get pods@ns p: yes", "associated-node: impersonate:associated-node nodes.authentication.k8s.io *: yes"},
		},
		{
			name: "every mode for nodes in vain", request: as(getPod, onNode), wanted: user.DefaultInfo{Name: "system:node:n1"},
			wantReason: "impersonate-on:associated-node:get",
			wantChecks: []string{"associated-node: impersonate-on:associated-node:get pods@ns p", "arbitrary-node: impersonate-on:arbitrary-node:get pods@ns p", "legacy: impersonate users system:node:n1"},
		},
		{
			name: "a path", request: path, wanted: user.DefaultInfo{Name: "bob"},
			granted:  []string{"impersonate-on:user-info:get /metrics", "impersonate:user-info users.authentication.k8s.io bob"},
			wantUser: &user.DefaultInfo{Name: "bob", Groups: []string{"system:authenticated"}}, wantMode: "user-info", constraint: "impersonate:user-info",
			wantChecks: []string{"user-info: impersonate-on:user-info:get /metrics: yes", "user-info: impersonate:user-info users.authentication.k8s.io bob: yes"},
		},
		{
			name: "system:masters is refused without a check", request: getPod, wanted: user.DefaultInfo{Name: "bob", Groups: []string{"system:masters"}},
			granted:    []string{onUserInfo, "impersonate:user-info users.authentication.k8s.io bob", "impersonate:user-info groups.authentication.k8s.io system:masters"},
			wantReason: "impersonating the system:masters group is not allowed",
			wantChecks: []string{"user-info: " + onUserInfo + ": yes", "user-info: impersonate:user-info users.authentication.k8s.io bob: yes", "legacy: impersonate users bob"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reviewer := newReviewer(t, allowing(tc.granted...))
			for range 20 { // the same every time, and nothing is remembered
				got, err := reviewer.Review(t.Context(), tc.request, copyOf(&tc.wanted))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.wantChecks, checksOf(got)); diff != "" {
					t.Fatalf("checks (-want +got):\n%s", diff)
				}
				if string(got.Mode) != tc.wantMode || got.Constraint != tc.constraint || !strings.Contains(got.Reason, tc.wantReason) || (got.Reason == "") != (tc.wantReason == "") {
					t.Fatalf("got mode %q, constraint %q, reason %q\nwant %q, %q, %q", got.Mode, got.Constraint, got.Reason, tc.wantMode, tc.constraint, tc.wantReason)
				}
				if diff := cmp.Diff(tc.wantUser, copyOf(got.User)); diff != "" {
					t.Fatalf("user (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func copyOf(u user.Info) *user.DefaultInfo {
	if u == nil {
		return nil
	}
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
}

// TestReviewReportsAnswers: whatever an authorizer answers beside Allow refuses, and is
// in the check.
func TestReviewReportsAnswers(t *testing.T) {
	t.Parallel()
	failure := errors.New("out of order")
	for _, tc := range []struct {
		name       string
		decision   authorizer.Decision
		reason     string
		err        error
		wantReason string
	}{
		{"an error", authorizer.DecisionNoOpinion, "", failure, ": out of order"},
		{"a denial", authorizer.DecisionDeny, "never", nil, ": never"},
		{"a denial with an error", authorizer.DecisionDeny, "never", failure, ": out of order: never"},
	} {
		for _, wanted := range []*user.DefaultInfo{{Name: "bob"}, {Name: "bob", Extra: map[string][]string{"a": {"1"}, "b": {"2"}}}} {
			t.Run(fmt.Sprintf("%s with %d extras", tc.name, len(wanted.Extra)), func(t *testing.T) {
				t.Parallel()
				a := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
					if a.GetResource() == "users" && len(wanted.Extra) > 0 {
						return authorizer.DecisionAllow, "", nil
					}
					return tc.decision, tc.reason, tc.err
				})
				got, err := newReviewer(t, a).Review(t.Context(), getPod, wanted)
				if err != nil || got.User != nil || got.Mode != "" || got.Constraint != "" || !strings.HasSuffix(got.Reason, tc.wantReason) {
					t.Errorf("got %+v, %v\nwant a refusal that ends in %q", got, err, tc.wantReason)
				}
				last := got.Checks[len(got.Checks)-1]
				if last.Decision != tc.decision || last.Reason != tc.reason || !errors.Is(last.Err, tc.err) {
					t.Errorf("the last check is %+v", last)
				}
			})
		}
	}
}

// TestReviewAllowsDespiteErrors: RBAC may fail in part and still allow.
func TestReviewAllowsDespiteErrors(t *testing.T) {
	t.Parallel()
	a := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", errors.New("in part")
	})
	got, err := newReviewer(t, a).Review(t.Context(), getPod, &user.DefaultInfo{Name: "bob", Extra: map[string][]string{"example.com/a": {"1"}}})
	if err != nil || got.User == nil || got.Checks[2].Err == nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestReviewForgets: an answer that changes is seen at once.
func TestReviewForgets(t *testing.T) {
	t.Parallel()
	var decision authorizer.Decision
	reviewer := newReviewer(t, authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return decision, "", nil
	}))
	for _, decision = range []authorizer.Decision{authorizer.DecisionAllow, authorizer.DecisionDeny, authorizer.DecisionAllow} {
		got, err := reviewer.Review(t.Context(), getPod, &user.DefaultInfo{Name: "bob"})
		if err != nil || (got.User != nil) != (decision == authorizer.DecisionAllow) || len(got.Checks) != 2 {
			t.Errorf("decision %v: got %+v, %v", decision, got, err)
		}
	}
}

// TestReviewLeavesNoTrace reviews in the context of a request whose audit event and
// metrics are watched. The filter itself is run first, to see that it does leave traces.
func TestReviewLeavesNoTrace(t *testing.T) {
	everything := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	audited := func() (context.Context, *audit.AuditContext) {
		ctx := audit.WithAuditContext(t.Context())
		ac := audit.AuditContextFrom(ctx)
		if err := ac.Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
			t.Fatal(err)
		}
		return ctx, ac
	}

	ctx, event := audited()
	ctx = genericapirequest.WithUser(genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{Verb: "get"}), getPod.User)
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	request.Header.Set(authenticationv1.ImpersonateUserHeader, "bob")
	upstream.WithConstrainedImpersonation(http.NotFoundHandler(), everything, scheme.Codecs).ServeHTTP(httptest.NewRecorder(), request)
	before := impersonationMetrics(t)
	if len(before) == 0 || event.GetEventImpersonatedUser() == nil {
		t.Fatal("the filter leaves no trace, so the test proves nothing")
	}

	for _, a := range []authorizer.UnconditionalAuthorizer{everything, allowing()} {
		ctx, event := audited()
		if _, err := newReviewer(t, a).Review(ctx, getPod, &user.DefaultInfo{Name: "bob"}); err != nil {
			t.Fatal(err)
		}
		if event.GetEventImpersonatedUser() != nil || len(event.GetEventAnnotations()) > 0 {
			t.Errorf("the audit event says %+v, %v", event.GetEventImpersonatedUser(), event.GetEventAnnotations())
		}
		if diff := cmp.Diff(before, impersonationMetrics(t)); diff != "" {
			t.Errorf("the metrics changed:\n%s", diff)
		}
	}
}

func impersonationMetrics(t *testing.T) []string {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "apiserver_impersonation_") {
			found = append(found, family.String())
		}
	}
	return found
}

func TestReviewNeedsRequester(t *testing.T) {
	t.Parallel()
	if got, err := newReviewer(t, allButLegacy).Review(t.Context(), authorizer.AttributesRecord{Verb: "get", Path: "/x"}, &user.DefaultInfo{Name: "bob"}); err == nil || got.User != nil {
		t.Errorf("got %+v, %v, want an error", got, err)
	}
}

type contextKey struct{}

// TestReviewAsksInItsContext: the authorizer finds what it pinned, and the end of the
// request reaches it.
func TestReviewAsksInItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "pinned"))
	cancel()
	asked := 0
	a := authorizer.AuthorizerFunc(func(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
		asked++
		if ctx.Value(contextKey{}) != "pinned" || ctx.Err() == nil {
			t.Errorf("asked in another context: %v", ctx)
		}
		return authorizer.DecisionNoOpinion, "", ctx.Err()
	})
	if got, err := newReviewer(t, a).Review(ctx, getPod, &user.DefaultInfo{Name: "bob"}); err != nil || got.User != nil || asked == 0 {
		t.Errorf("got %+v, %v, asked %d times", got, err, asked)
	}
}

// TestReviewKeepsSelectors: what the check of the request sees is what was asked about.
func TestReviewKeepsSelectors(t *testing.T) {
	t.Parallel()
	request := getPod
	request.Verb, request.Name = "list", ""
	request.FieldSelectorRequirements = fields.Requirements{
		{Field: "metadata.name", Operator: selection.NotEquals, Value: "x"}, {Field: "spec.nodeName", Operator: selection.Equals, Value: `a,b=c\d`},
	}
	selector, err := labels.Parse("a in (x,y),b,!c,d!=e,n>7")
	if err != nil {
		t.Fatal(err)
	}
	request.LabelSelectorRequirements, _ = selector.Requirements()
	got, err := newReviewer(t, allowing()).Review(t.Context(), request, &user.DefaultInfo{Name: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	checked := got.Checks[0].Attributes
	gotLabels := labels.NewSelector().Add(checked.LabelSelectorRequirements...).String()
	if diff := cmp.Diff(request.FieldSelectorRequirements, checked.FieldSelectorRequirements); diff != "" || gotLabels != selector.String() {
		t.Errorf("got %s and fields (-want +got):\n%s", gotLabels, diff)
	}
}

// FuzzWantedUser: whoever is wanted, the filter gets exactly that, however hostile the
// keys and values are.
func FuzzWantedUser(f *testing.F) {
	f.Add("bob", "7", "g", "example.com/key", "value")
	f.Add("b ø", "", "", "Upper%2fCase%zz", "a,b")
	f.Add("system:serviceaccount:a:b", "", "system:masters", "", "\t")
	f.Add("x", "", "", "Impersonate-User: root\r\n", "é")
	f.Fuzz(func(t *testing.T, name, uid, group, key, value string) {
		if name == "" {
			return // validation refuses it
		}
		wanted := &user.DefaultInfo{Name: name, UID: uid, Groups: []string{group}, Extra: map[string][]string{key: {value}, "another": {"one", value}}}
		if key == "another" {
			wanted.Extra = map[string][]string{key: {value}}
		}
		legacy := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() != "impersonate" {
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		})
		got, err := newReviewer(t, legacy).Review(t.Context(), getPod, wanted)
		if err != nil || got.User == nil {
			t.Fatalf("got %+v, %v", got, err)
		}
		if got.User.GetName() != name || got.User.GetUID() != uid || got.User.GetGroups()[0] != group || !cmp.Equal(got.User.GetExtra(), wanted.Extra) {
			t.Errorf("got %+v\nwant %+v", got.User, wanted)
		}
	})
}
