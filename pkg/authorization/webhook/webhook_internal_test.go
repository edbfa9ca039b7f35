/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestWhatIsRemembered has answers at the bounds of what is cached. A conditional answer may become any other, and is kept for the shorter time.
func TestWhatIsRemembered(t *testing.T) {
	t.Parallel()
	allow, deny, none := authorization.Allow("", nil), authorization.Deny("", nil), authorization.NoOpinion("", nil)
	conditional := authorization.Conditions(authorization.Condition{ID: "example.com/c", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: "true"})
	const long, short = time.Minute, time.Second
	for _, tc := range []struct {
		name                     string
		decision                 authorization.Decision
		key                      int // bytes, 1 if it is 0
		size                     int
		authorized, unauthorized time.Duration
		want                     time.Duration
	}{
		{name: "an Allow", decision: allow, authorized: long, unauthorized: short, want: long},
		{name: "a Deny", decision: deny, authorized: long, unauthorized: short, want: short},
		{name: "no opinion", decision: none, authorized: short, unauthorized: long, want: long},
		{name: "conditions", decision: conditional, authorized: long, unauthorized: short, want: short},
		{name: "conditions, the other way", decision: conditional, authorized: short, unauthorized: long, want: short},
		{name: "an Allow that is not cached", decision: allow, unauthorized: long},
		{name: "a Deny that is not cached", decision: deny, authorized: long},
		{name: "conditions, if only Allow is cached", decision: conditional, authorized: long},
		{name: "conditions, if only Deny is cached", decision: conditional, unauthorized: long},
		{name: "the largest answer", decision: allow, size: 16 << 10, authorized: long, want: long},
		{name: "a larger answer", decision: allow, size: 16<<10 + 1, authorized: long},
		{name: "the longest review", decision: allow, key: 10_000, authorized: long, want: long},
		{name: "a longer review", decision: allow, key: 10_001, authorized: long},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			clock := &steppingClock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
			a := &answers{decisions: cache.NewLRUExpireCacheWithClock(cacheSize, clock), authorized: tc.authorized, unauthorized: tc.unauthorized}
			key := strings.Repeat("k", max(1, tc.key))
			a.remember(key, tc.decision, tc.size)
			if _, ok := a.get(key); ok != (tc.want > 0) {
				t.Fatalf("remembered: %v, want %v", ok, tc.want > 0)
			}
			if _, ok := a.get(key + "x"); ok {
				t.Error("another review has the answer, too")
			}
			clock.now = clock.now.Add(tc.want - time.Nanosecond)
			if got, ok := a.get(key); tc.want > 0 && (!ok || got.IsAllow() != tc.decision.IsAllow() || got.IsUnconditional() != tc.decision.IsUnconditional()) {
				t.Errorf("before its time: got %v, remembered: %v", got, ok)
			}
			clock.now = clock.now.Add(2 * time.Nanosecond)
			if _, ok := a.get(key); ok {
				t.Error("it is used beyond its time")
			}
		})
	}
	var none2 *answers // of a webhook that must not use cached answers
	none2.remember("k", allow, 1)
	if _, ok := none2.get("k"); ok {
		t.Error("no cache has an answer")
	}
}

type steppingClock struct{ now time.Time }

func (c *steppingClock) Now() time.Time { return c.now }

// TestFailurePolicies has each kind of failure under both policies. Conditions that were not requested, a circle, and a call that is not made deny under both.
func TestFailurePolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		err          error
		wantFailOpen string
	}{
		{name: "a call that failed", err: errors.New("connection refused"), wantFailOpen: "NoOpinion"},
		{name: "a malformed answer", err: fmt.Errorf("%w: x", errMalformed), wantFailOpen: "NoOpinion"},
		{name: "a contradictory answer", err: errContradictory, wantFailOpen: "NoOpinion"},
		{name: "the end of the request", err: context.Canceled, wantFailOpen: "NoOpinion"},
		{name: "conditions that were not requested", err: fmt.Errorf("x: %w", errUnasked), wantFailOpen: "Deny"},
		{name: "a circle", err: fmt.Errorf("x: %w", errCircle), wantFailOpen: "Deny"},
		{name: "no call", err: fmt.Errorf("%w: busy", errNotCalled), wantFailOpen: "Deny"},
		{name: "both a failed call and a circle", err: errors.Join(errors.New("connection refused"), errCircle), wantFailOpen: "Deny"},
	} {
		for failOpen, want := range map[bool]string{false: "Deny", true: tc.wantFailOpen} {
			w := &Webhook{name: "w", failOpen: failOpen}
			decision := w.failed(t.Context(), tc.err)
			if got := describe(decision); got != want || !errors.Is(decision.Err(), tc.err) || !strings.Contains(decision.Err().Error(), `webhook "w"`) {
				t.Errorf("%s, fail open %v: got %s, %v, want %s", tc.name, failOpen, got, decision.Err(), want)
			}
		}
	}
}

// TestSameServer recognizes kube-apiserver, to which conditions must not be sent, however its URL is written.
func TestSameServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		one, other string
		want       bool
	}{
		{one: "https://kube.example.com", other: "https://kube.example.com", want: true},
		{one: "https://kube.example.com", other: "https://kube.example.com:443/", want: true},
		{one: "https://kube.example.com/a/path", other: "https://kube.example.com/another", want: true},
		{one: "https://kube.example.com", other: "https://Kube.Example.COM", want: true},
		{one: "https://kube.example.com", other: "https://kube.example.com.", want: true},
		{one: "https://kube.example.com", other: "https://user@kube.example.com?x", want: true},
		{one: "https://[::1]:6443", other: "https://[::1]:6443/x", want: true},
		{one: "https://[FE80::A]", other: "https://[fe80::a]:443", want: true},
		{one: "https://kube.example.com", other: "https://kube.example.com:6443"},
		{one: "https://kube.example.com", other: "https://other.example.com"},
		{one: "https://kube.example.com", other: "https://example.com"},
		{one: "https://10.0.0.1", other: "https://10.0.0.10"},
	} {
		if got := hostPort(tc.one) == hostPort(tc.other); got != tc.want {
			t.Errorf("%s and %s: the same: %v, want %v", tc.one, tc.other, got, tc.want)
		}
	}
}

// TestObjectsOfConditions encodes objects as conditions read them in process.
func TestObjectsOfConditions(t *testing.T) {
	t.Parallel()
	var noPod *corev1.Pod
	for _, tc := range []struct {
		name   string
		object runtime.Object
		want   string
	}{
		{name: "none", object: nil},
		{name: "a nil pointer", object: noPod},
		{name: "a typed object", object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}, want: `{"data":{"k":"v"},"metadata":{"name":"a"}}`},
		{name: "an object of any kind", object: &unstructured.Unstructured{Object: map[string]any{"b": int64(1), "a": nil}}, want: `{"a":null,"b":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			raw, err := rawOf(tc.object)
			got := ""
			if raw != nil {
				got = string(raw.Raw)
			}
			if err != nil || got != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

// TestUsersOfConditions passes the user on with a marker for each server, up to the longest line of servers.
func TestUsersOfConditions(t *testing.T) {
	t.Parallel()
	line := func(n int) map[string][]string {
		return map[string][]string{authorization.DelegationMarker: make([]string, n), "k": {"v"}}
	}
	for _, tc := range []struct {
		name    string
		subject user.Info
		want    int // values of the marker
		wantErr error
	}{
		{name: "no user", want: 1},
		{name: "a user", subject: &user.DefaultInfo{Name: "alice", UID: "u", Groups: []string{"g"}}, want: 1},
		{name: "of another server", subject: &user.DefaultInfo{Name: "alice", Extra: line(1)}, want: 2},
		{name: "at the end of the longest line", subject: &user.DefaultInfo{Name: "alice", Extra: line(maxHops - 1)}, want: maxHops},
		{name: "in a circle", subject: &user.DefaultInfo{Name: "alice", Extra: line(maxHops)}, wantErr: errCircle},
		{name: "in a circle for long", subject: &user.DefaultInfo{Name: "alice", Extra: line(1000)}, wantErr: errCircle},
	} {
		got, err := userInfoOf(tc.subject)
		if !errors.Is(err, tc.wantErr) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.wantErr)
		}
		if tc.wantErr != nil {
			if got != nil {
				t.Errorf("%s: got %v beside the error", tc.name, got)
			}
			continue
		}
		if len(got.Extra[authorization.DelegationMarker]) != tc.want {
			t.Errorf("%s: got %d values of the marker, want %d", tc.name, len(got.Extra[authorization.DelegationMarker]), tc.want)
		}
		if tc.subject != nil {
			if diff := cmp.Diff([]any{tc.subject.GetName(), tc.subject.GetUID(), tc.subject.GetGroups()}, []any{got.Username, got.UID, got.Groups}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.name, diff)
			}
		}
	}
}
