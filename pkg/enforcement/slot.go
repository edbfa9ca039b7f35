/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// record is a decision about one set of attributes that is Allow or can become Allow.
type record struct {
	attributes authorizer.Attributes
	// lazy evaluates the decision at admission. It is nil if this server does not enforce conditions
	// on the attributes: then the decision was folded, and is Allow.
	lazy *authorization.Lazy
	// decided is the decision as it was before the body was read.
	decided authorization.Decision
	// conditional is true if the decision has to be evaluated. If it is false, the decision is Allow.
	conditional bool
	// evaluated is true once the decision has been evaluated.
	evaluated atomic.Bool
}

func (r *record) isConditional() bool { return r != nil && r.conditional }

// slot carries the decisions about one request from authorization to admission. Each decision is
// recorded once and not replaced.
type slot struct {
	enforcer *Enforcer
	// audit has the policies with the enforcement Audit that match the request.
	audit authorization.Audit

	mu sync.Mutex
	// request is the decision about the request itself.
	request *record
	// connect is the decision about the create check that a connection also needs.
	connect *record
	// create is the decision about the create that an update or patch has turned into.
	create *record

	// residual is the sets of conditions that EnforceResidual has added.
	residual []authorization.Set
	// forwarded is true if another server enforces the residual, and fetched is true once the
	// component that passes the request on has fetched the residual by ResidualToForward.
	forwarded, fetched bool

	// outcome is the result of the conditions.
	outcome outcome
	// allowed is true if the conditions have allowed the current attempt.
	allowed bool
	// sent is the object of a create before it was mutated, or nil if recordSent kept none.
	sent runtime.Object
	// explanation is the refusal with which the current attempt ended after its conditions allowed
	// it, if any. It may be shown to the user.
	explanation *apierrors.StatusError
}

type slotKey struct{}

func slotFrom(ctx context.Context) *slot {
	s, _ := ctx.Value(slotKey{}).(*slot)
	return s
}

// WithSlot gives each request an empty slot. It must be the outermost handler, so that every other
// handler finds a slot.
func (e *Enforcer) WithSlot(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &slot{enforcer: e}
		defer s.audit.Finish(authorization.RemainderNone) // of a request that was not authorized
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), slotKey{}, s)))
	})
}

// recordRequest records the decision about the request, and about the create check that a
// connection also needs, if any. It returns false if a decision was recorded before.
func (s *slot) recordRequest(request, connect *record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.request != nil {
		return false
	}
	s.request, s.connect = request, connect
	return true
}

// recordCreate records the decision about the create that the request has turned into, unless
// there is one, and returns the recorded decision.
func (s *slot) recordCreate(create *record) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.create == nil {
		s.create = create
	}
	return s.create
}

func (s *slot) records() (request, connect, create *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.request, s.connect, s.create
}

// covered reports whether the request may depend on conditions: this server enforces conditions on
// it, or another server enforces its residual.
func (s *slot) covered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forwarded || s.request != nil && s.request.lazy != nil
}

// turnsInto reports whether r is about an update or patch, and a is the check that a handler makes
// when that request turns into a create: the verb create for the same object and user. It returns
// false if r is nil.
func (r *record) turnsInto(a authorizer.Attributes) bool {
	if r == nil {
		return false
	}
	was := r.attributes
	return (was.GetVerb() == "update" || was.GetVerb() == "patch") && a.GetVerb() == "create" && sameObject(was, a)
}

// sameObject reports whether two sets of attributes are about the same object of a resource
// and the same user.
func sameObject(a, b authorizer.Attributes) bool {
	return a.IsResourceRequest() && b.IsResourceRequest() &&
		a.GetAPIGroup() == b.GetAPIGroup() && a.GetAPIVersion() == b.GetAPIVersion() &&
		a.GetResource() == b.GetResource() && a.GetSubresource() == b.GetSubresource() &&
		a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName() && sameUser(a.GetUser(), b.GetUser())
}

func sameUser(a, b user.Info) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if a.GetName() != b.GetName() || a.GetUID() != b.GetUID() || !slices.Equal(a.GetGroups(), b.GetGroups()) || len(a.GetExtra()) != len(b.GetExtra()) {
		return false
	}
	for key, values := range a.GetExtra() {
		if other, ok := b.GetExtra()[key]; !ok || !slices.Equal(values, other) {
			return false
		}
	}
	return true
}
