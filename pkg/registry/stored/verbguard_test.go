/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
	"github.com/proviso-authz/proviso/test/testutil/store"
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
		Spec: func(obj runtime.Object) any { return imageOf(obj) },
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
			if (err == nil) != (tc.want == "") || store.MessageOf(err) != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
	if err := guarded["create"](t.Context(), newVerbGuard(&authors{decision: authorizer.DecisionAllow}, false)); !apierrors.IsForbidden(err) {
		t.Errorf("a context without a user: got %v, want 403", err)
	}
}

// computed is the computation of the changed object by a patch.
type computed func(old *demo.VirtualMachine) (runtime.Object, error)

// info returns the computation as the patch handler passes it on.
func (c computed) info() rest.UpdatedObjectInfo {
	return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		return c(old.DeepCopyObject().(*demo.VirtualMachine))
	})
}

func failing(err error) computed {
	return func(*demo.VirtualMachine) (runtime.Object, error) { return nil, err }
}

// TestErrorsOfPatches checks what clients get if a patch cannot be applied: a Status, in which only texts about the client's own
// request and the messages of Statuses are shown. It is the same for objects and for their status.
func TestErrorsOfPatches(t *testing.T) {
	t.Parallel()
	const secret = "secret"
	const notApplied = "Internal error occurred: the change cannot be applied: the change or the stored object does not fit the schema of the kind"
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.image"}}, "conflict with image "+secret)
	for _, tc := range []struct {
		name        string
		patch       computed
		wantCode    int32
		wantMessage string
	}{
		{"a Status", failing(conflict), http.StatusConflict, "conflict with image secret"},
		{"a wrapped Status", failing(fmt.Errorf("patching %s: %w", secret, conflict)), http.StatusConflict, "conflict with image secret"},
		{"another error", failing(errors.New("the object is " + secret)), http.StatusInternalServerError, notApplied},
		{"another error that wraps one", failing(fmt.Errorf("%s: %w", secret, context.DeadlineExceeded)), http.StatusInternalServerError, notApplied},
		{
			"a field that the schema does not have", failing(errors.New("failed to create typed patch object (n/one): .spec.imge: field not declared in schema")),
			http.StatusInternalServerError, "Internal error occurred: failed to create typed patch object (n/one): .spec.imge: field not declared in schema",
		},
		{"a stored object that the schema does not have", failing(errors.New("cannot convert: failed to create typed patch object: " + secret)), http.StatusInternalServerError, notApplied},
		{"a panic", func(vm *demo.VirtualMachine) (runtime.Object, error) { panic(vm.Spec.Image + secret) }, http.StatusInternalServerError, notApplied},
		{"a panic of the runtime", func(vm *demo.VirtualMachine) (runtime.Object, error) {
			vm.Spec.Tags = vm.Spec.Tags[:len(vm.Spec.Image)]
			return vm, nil
		}, http.StatusInternalServerError, notApplied},
		{"a resource version that is no number", func(vm *demo.VirtualMachine) (runtime.Object, error) {
			vm.ResourceVersion = secret
			return vm, nil
		}, http.StatusBadRequest, "metadata.resourceVersion must be a number"},
		{"a negative resource version", func(vm *demo.VirtualMachine) (runtime.Object, error) {
			vm.ResourceVersion = "-1"
			return vm, nil
		}, http.StatusBadRequest, "metadata.resourceVersion must be a number"},
		{"an object without metadata", func(*demo.VirtualMachine) (runtime.Object, error) { return &metav1.Status{Message: secret}, nil }, http.StatusBadRequest, "metadata.resourceVersion must be a number"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.mustCreate(t, machine("one", "old"))
			before := dump(t)
			for name, by := range map[string]store.Updater{"object": f.REST, "status": f.status} {
				_, _, err := by.Update(f.ctx(t), "one", tc.patch.info(), nil, nil, false, &metav1.UpdateOptions{})
				status, ok := err.(apierrors.APIStatus) // the handler does not look into a wrapped one
				if !ok {
					t.Fatalf("%s: got %#v, want a Status", name, err)
				}
				if got := status.Status(); got.Code != tc.wantCode || got.Message != tc.wantMessage {
					t.Errorf("%s: got %d %q, want %d %q", name, got.Code, got.Message, tc.wantCode, tc.wantMessage)
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s: the text %q would be logged", name, err)
				}
				if after := dump(t); after != before {
					t.Errorf("%s: changed from\n%s\nto\n%s", name, before, after)
				}
			}
			if diff := cmp.Diff([]string{"begin", "end"}, f.made); diff != "" {
				t.Errorf("other calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAbortedRequests checks that a panic with which net/http ends a request on purpose goes on, and that the write ends.
func TestAbortedRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.mustCreate(t, machine("one", "old"))
	abort := computed(func(*demo.VirtualMachine) (runtime.Object, error) { panic(http.ErrAbortHandler) })
	for name, by := range map[string]store.Updater{"object": f.REST, "status": f.status} {
		func() {
			defer func() {
				if reason := recover(); reason != http.ErrAbortHandler { //nolint:errorlint // as net/http does
					t.Errorf("%s: got the panic %v, want the same one", name, reason)
				}
			}()
			_, _, err := by.Update(f.ctx(t), "one", abort.info(), nil, nil, false, &metav1.UpdateOptions{})
			t.Errorf("%s: got %v, want a panic", name, err)
		}()
	}
	if diff := cmp.Diff([]string{"begin", "end"}, f.made); diff != "" {
		t.Errorf("other calls (-want +got):\n%s", diff)
	}
}
