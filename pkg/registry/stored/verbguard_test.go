/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// authors is the authorizer of a VerbGuard. It records what it is asked.
type authors struct {
	asked    []authorizer.AttributesRecord
	decision authorizer.Decision
	reason   string
	err      error
}

func (a *authors) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	a.asked = append(a.asked, attributes.(authorizer.AttributesRecord))
	return a.decision, a.reason, a.err
}

// newVerbGuard returns the guard of things, whose specification is the image.
func newVerbGuard(a *authors, freeDeletes bool) *stored.VerbGuard {
	return &stored.VerbGuard{
		Authors: a, Verb: "restrict", Resource: schema.GroupResource{Group: "example.com", Resource: "things"}, Version: "v1",
		Writes: "change a thing, which matters", FreeDeletes: freeDeletes,
		SameSpec: func(a, b runtime.Object) bool { return imageOf(a) == imageOf(b) },
	}
}

// guarded are the calls of a guard about the object "one", or about all objects.
var guarded = map[string]func(context.Context, stored.Guard) error{
	"create": func(ctx context.Context, g stored.Guard) error { return g.MayCreate(ctx, machine("one", "a")) },
	"update": func(ctx context.Context, g stored.Guard) error {
		return g.MayUpdate(ctx, machine("one", "b"), machine("one", "a"))
	},
	"label": func(ctx context.Context, g stored.Guard) error {
		return g.MayUpdate(ctx, machine("one", "a"), machine("one", "a"))
	},
	"delete":                      func(ctx context.Context, g stored.Guard) error { return g.MayDelete(ctx, machine("one", "a")) },
	"delete unread":               func(ctx context.Context, g stored.Guard) error { return g.MayDeleteUnread(ctx, "one") },
	"delete all of them unread":   func(ctx context.Context, g stored.Guard) error { return g.MayDeleteUnread(ctx, "") },
	"create what is no object":    func(ctx context.Context, g stored.Guard) error { return g.MayCreate(ctx, &metav1.Status{}) },
	"delete what is no object":    func(ctx context.Context, g stored.Guard) error { return g.MayDelete(ctx, &metav1.Status{}) },
	"create what has no metadata": func(ctx context.Context, g stored.Guard) error { return g.MayCreate(ctx, &runtime.Unknown{}) },
}

// TestVerbGuardAsks checks which calls need the verb, and what the authorizers are asked.
func TestVerbGuardAsks(t *testing.T) {
	t.Parallel()
	alice := &user.DefaultInfo{Name: "alice", UID: "u", Groups: []string{"devs", "ops"}, Extra: map[string][]string{"k": {"v"}}}
	ctx := genericapirequest.WithUser(t.Context(), alice)
	one := authorizer.AttributesRecord{User: alice, Verb: "restrict", Name: "one", APIGroup: "example.com", APIVersion: "v1", Resource: "things", ResourceRequest: true}
	all := one
	all.Name = ""
	for _, tc := range []struct {
		call       string
		free       bool
		want       []authorizer.AttributesRecord
		wantReason metav1.StatusReason // if the verb is missing; none if it is not needed
	}{
		{"create", false, []authorizer.AttributesRecord{one}, metav1.StatusReasonForbidden},
		{"create", true, []authorizer.AttributesRecord{one}, metav1.StatusReasonForbidden},
		{"update", false, []authorizer.AttributesRecord{one}, metav1.StatusReasonForbidden},
		{"update", true, []authorizer.AttributesRecord{one}, metav1.StatusReasonForbidden},
		{"label", false, nil, ""},
		{"label", true, nil, ""},
		{"delete", false, []authorizer.AttributesRecord{one}, metav1.StatusReasonForbidden},
		{"delete", true, nil, ""},
		{"delete unread", false, []authorizer.AttributesRecord{one}, metav1.StatusReasonForbidden},
		{"delete unread", true, nil, ""},
		{"delete all of them unread", false, []authorizer.AttributesRecord{all}, metav1.StatusReasonForbidden},
		{"delete all of them unread", true, nil, ""},
	} {
		name := tc.call
		if tc.free {
			name += ", deletions are free"
		}
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for _, decision := range []authorizer.Decision{authorizer.DecisionAllow, authorizer.DecisionNoOpinion, authorizer.DecisionDeny} {
				a := &authors{decision: decision}
				err := guarded[tc.call](ctx, newVerbGuard(a, tc.free))
				want := tc.wantReason
				if decision == authorizer.DecisionAllow {
					want = ""
				}
				if got := apierrors.ReasonForError(err); (err == nil) != (want == "") || err != nil && got != want {
					t.Errorf("decision %v: got %v, want %q", decision, err, want)
				}
				if diff := cmp.Diff(tc.want, a.asked); diff != "" {
					t.Errorf("decision %v: asked (-want +got):\n%s", decision, diff)
				}
			}
		})
	}
}

// TestVerbGuardRefusals checks the messages, on which authors act: they name the user, the write and the verb, and no error of
// the authorizers.
func TestVerbGuardRefusals(t *testing.T) {
	t.Parallel()
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"devs", "ops"}}
	const byAlice = `things.example.com "one" is forbidden: user "alice" (groups=["devs" "ops"]) is attempting to change a thing, which matters; that needs the verb restrict on things.example.com: `
	secret := errors.New("10.0.0.1 refused the connection")
	for _, tc := range []struct {
		name    string
		call    string
		user    user.Info
		authors authors
		want    string
	}{
		{"allowed", "create", alice, authors{decision: authorizer.DecisionAllow, reason: "RBAC"}, ""},
		{"no opinion", "create", alice, authors{decision: authorizer.DecisionNoOpinion, reason: "no role"}, byAlice + "no role"},
		{"denied", "update", alice, authors{decision: authorizer.DecisionDeny, reason: "policy x"}, byAlice + "policy x"},
		{"no reason", "delete", alice, authors{}, byAlice},
		{"a decision that does not exist", "delete", alice, authors{decision: 17, reason: "?"}, byAlice + "?"},
		{"no groups", "create", &user.DefaultInfo{Name: "bob\n"}, authors{}, strings.NewReplacer(`"alice"`, `"bob\n"`, `["devs" "ops"]`, "[]").Replace(byAlice)},
		{"an error", "create", alice, authors{err: secret}, `things.example.com "one" is forbidden: the authorizers failed to answer`},
		{"allowed with an error", "create", alice, authors{decision: authorizer.DecisionAllow, err: secret}, `things.example.com "one" is forbidden: the authorizers failed to answer`},
		{"an error about all of them", "delete all of them unread", alice, authors{err: secret}, `things.example.com is forbidden: the authorizers failed to answer`},
		{"no user", "create", nil, authors{decision: authorizer.DecisionAllow}, `things.example.com "one" is forbidden: the request has no user`},
		{"no user, unread", "delete unread", nil, authors{decision: authorizer.DecisionAllow}, `things.example.com "one" is forbidden: the request has no user`},
		{"no object", "create what is no object", alice, authors{decision: authorizer.DecisionAllow}, "Internal error occurred: object does not implement the Object interfaces"},
		{"no object to delete", "delete what is no object", alice, authors{decision: authorizer.DecisionAllow}, "Internal error occurred: object does not implement the Object interfaces"},
		{"no metadata", "create what has no metadata", alice, authors{decision: authorizer.DecisionAllow}, "Internal error occurred: object does not implement the Object interfaces"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			ctx := genericapirequest.WithUser(t.Context(), tc.user)
			err := guarded[tc.call](ctx, newVerbGuard(&tc.authors, false))
			if (err == nil) != (tc.want == "") || messageOf(err) != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
	if err := guarded["create"](t.Context(), newVerbGuard(&authors{decision: authorizer.DecisionAllow}, false)); !apierrors.IsForbidden(err) {
		t.Errorf("a context without a user: got %v, want 403", err)
	}
}
