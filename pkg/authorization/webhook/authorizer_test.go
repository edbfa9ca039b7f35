/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
)

// server answers reviews from a list; the last answer is repeated.
type server struct {
	answers []answer
	asked   []authorizationv1.SubjectAccessReviewSpec
}

type answer struct {
	status authorizationv1.SubjectAccessReviewStatus
	err    error
}

func (s *server) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	next := s.answers[min(len(s.asked), len(s.answers)-1)]
	s.asked = append(s.asked, review.Spec)
	if next.err != nil {
		return nil, next.err
	}
	result := review.DeepCopy()
	result.Status = next.status
	return result, nil
}

func newAuthorizer(t *testing.T, s *server, change func(*webhook.Config)) *webhook.Authorizer {
	t.Helper()
	config := webhook.Config{Client: s, Backoff: wait.Backoff{Steps: 3, Duration: time.Millisecond}}
	if change != nil {
		change(&config)
	}
	a, err := webhook.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func attributes(name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}, Verb: "get", Resource: "pods", APIVersion: "v1", ResourceRequest: true}
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	failure := errors.New("connection refused")
	status := func(s authorizationv1.SubjectAccessReviewStatus) []answer { return []answer{{status: s}} }
	retriable := answer{err: apierrors.NewTooManyRequests("slow down", 0)}
	for _, tc := range []struct {
		name       string
		answers    []answer
		want       authorizer.Decision
		wantReason string
		wantErr    bool
		wantAsked  int
	}{
		{"allowed", status(authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "r"}), authorizer.DecisionAllow, "r", false, 1},
		{"denied", status(authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "r"}), authorizer.DecisionDeny, "r", false, 1},
		{"no opinion", status(authorizationv1.SubjectAccessReviewStatus{Reason: "r"}), authorizer.DecisionNoOpinion, "r", false, 1},
		{"no opinion, for an error over there", status(authorizationv1.SubjectAccessReviewStatus{Reason: "r", EvaluationError: "role is missing"}),
			authorizer.DecisionNoOpinion, "r; role is missing", false, 1},
		{"both, which makes no sense", status(authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}), authorizer.DecisionDeny, "", true, 1},
		{"an error", []answer{{err: failure}}, authorizer.DecisionDeny, "", true, 1},
		{"a check that is not taken", []answer{{err: apierrors.NewBadRequest("no key")}}, authorizer.DecisionDeny, "kube-apiserver rejected the authorization check as invalid: no key", false, 1},
		{"an error in passing", []answer{retriable, {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}}, authorizer.DecisionAllow, "", false, 2},
		{"an error that stays", []answer{retriable}, authorizer.DecisionDeny, "", true, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &server{answers: tc.answers}
			got, reason, err := newAuthorizer(t, s, nil).Authorize(t.Context(), attributes("alice"))
			if got != tc.want || reason != tc.wantReason || (err != nil) != tc.wantErr || len(s.asked) != tc.wantAsked {
				t.Errorf("got %v, %q, %v after asking %d times, want %v, %q, error %v after asking %d times",
					got, reason, err, len(s.asked), tc.want, tc.wantReason, tc.wantErr, tc.wantAsked)
			}
			decision := newAuthorizer(t, &server{answers: tc.answers}, nil).Decide(t.Context(), attributes("alice"))
			if !decision.IsUnconditional() || decision.IsAllow() != (tc.want == authorizer.DecisionAllow) || decision.IsDeny() != (tc.want == authorizer.DecisionDeny) {
				t.Errorf("conditions-aware: got %+v, want %v", decision, tc.want)
			}
		})
	}
}

func TestEveryCheckIsMarked(t *testing.T) {
	t.Parallel()
	s := &server{answers: []answer{{}}}
	subject := &user.DefaultInfo{Name: "alice", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}, authorization.DelegationMarker: {"forged"}}}
	labelRequirements, err := labels.ParseToRequirements("b,a in (y,x)")
	if err != nil {
		t.Fatal(err)
	}
	selector, err := fields.ParseSelector("spec.nodeName=n,status.phase!=Failed,=x")
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthorizer(t, s, nil)
	for _, record := range []authorizer.AttributesRecord{
		{User: subject, Verb: "get", Path: "/metrics"},
		{User: subject, Verb: "list", APIGroup: "g", APIVersion: "v1", Resource: "r", Subresource: "s", Namespace: "ns", Name: "n", ResourceRequest: true,
			LabelSelectorRequirements: labelRequirements, FieldSelectorRequirements: selector.Requirements()},
	} {
		if _, _, err := a.Authorize(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	base := authorizationv1.SubjectAccessReviewSpec{User: "alice", UID: "1", Groups: []string{"g"},
		Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}, authorization.DelegationMarker: {"true"}}}
	path, resource := base, base
	path.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
	resource.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: "list", Group: "g", Version: "v1", Resource: "r", Subresource: "s", Namespace: "ns", Name: "n",
		LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
			{Key: "a", Operator: "In", Values: []string{"x", "y"}}, {Key: "b", Operator: "Exists"}}},
		FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
			{Key: "spec.nodeName", Operator: "In", Values: []string{"n"}}, {Key: "status.phase", Operator: "NotIn", Values: []string{"Failed"}}}}}
	if diff := cmp.Diff([]authorizationv1.SubjectAccessReviewSpec{path, resource}, s.asked); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	allowed := answer{status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "r"}}
	both := func(c *webhook.Config) { c.AllowCacheTTL, c.DenyCacheTTL = time.Hour, time.Hour }
	for _, tc := range []struct {
		name      string
		answers   []answer
		users     []string
		config    func(*webhook.Config)
		wantAsked int
	}{
		{"an Allow is reused", []answer{allowed}, []string{"alice", "alice", "alice"}, both, 1},
		{"a NoOpinion is reused", []answer{{}}, []string{"alice", "alice"}, both, 1},
		{"everybody has answers of their own", []answer{allowed}, []string{"alice", "bob", "alice", "bob"}, both, 2},
		{"also users whose names are not text", []answer{allowed}, []string{"a\xfe", "a\xff", "a\ufffd", "a\xfe"}, both, 3},
		{"an error is not reused", []answer{{err: errors.New("down")}, allowed}, []string{"alice", "alice", "alice"}, both, 2},
		{"a contradiction is not reused", []answer{{status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}}}, []string{"alice", "alice"}, both, 2},
		{"without lifetimes nothing is reused", []answer{allowed}, []string{"alice", "alice"}, nil, 2},
		{"only what allows is reused", []answer{{}}, []string{"alice", "alice"}, func(c *webhook.Config) { c.AllowCacheTTL = time.Hour }, 2},
		{"huge checks are not kept", []answer{allowed}, []string{strings.Repeat("x", 10001), strings.Repeat("x", 10001)}, both, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &server{answers: tc.answers}
			a := newAuthorizer(t, s, tc.config)
			for _, name := range tc.users {
				_, reason, err := a.Authorize(t.Context(), attributes(name))
				if last := tc.answers[len(tc.answers)-1]; err == nil && reason != last.status.Reason {
					t.Errorf("got reason %q, want %q also from the cache", reason, last.status.Reason)
				}
			}
			if len(s.asked) != tc.wantAsked {
				t.Errorf("asked %d times, want %d", len(s.asked), tc.wantAsked)
			}
		})
	}
}

func TestCacheExpires(t *testing.T) {
	t.Parallel()
	s := &server{answers: []answer{{status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, {}}}
	a := newAuthorizer(t, s, func(c *webhook.Config) { c.AllowCacheTTL = time.Nanosecond })
	first, _, _ := a.Authorize(t.Context(), attributes("alice"))
	time.Sleep(time.Millisecond)
	second, _, _ := a.Authorize(t.Context(), attributes("alice"))
	if first != authorizer.DecisionAllow || second != authorizer.DecisionNoOpinion {
		t.Errorf("got %v, then %v, want the answer to be asked for again", first, second)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if a, err := webhook.New(webhook.Config{Backoff: wait.Backoff{Steps: 1}}); err == nil {
		t.Errorf("without a client: got %v, want an error", a)
	}
	if a, err := webhook.New(webhook.Config{Client: &server{}}); err == nil {
		t.Errorf("without an attempt: got %v, want an error", a)
	}
}
