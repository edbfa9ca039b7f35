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
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// record is what was decided about one set of attributes.
type record struct {
	attributes authorizer.Attributes
	// lazy is the decision. It is nil if conditions were not asked for; the answer was Allow.
	lazy *authorization.Lazy
	// decided is what was decided before the body was read.
	decided authorization.Decision
	// conditional says that the decision is to be evaluated; otherwise it is Allow.
	conditional bool
	// evaluated is set once it was.
	evaluated atomic.Bool
}

func (r *record) isConditional() bool { return r != nil && r.conditional }

// slot carries the decisions about one request from its authorization to its admission.
// Each is recorded once: what comes later cannot change what was decided.
type slot struct {
	enforcer *Enforcer

	mu sync.Mutex
	// request is the decision about the request itself.
	request *record
	// connect is the one about the create that a connection needs as well.
	connect *record
	// create is the one about the create that an update or patch has turned into.
	create *record

	// residual is what Narrow has added.
	residual []authorization.Set
	// carries says that another server enforces the residual, carried that it was given to
	// whoever passes the request on.
	carries, carried bool

	// outcome is how the conditions came out.
	outcome outcome
	// allowed is set while the conditions have allowed the present attempt.
	allowed bool
	// explanation is the refusal that the present attempt ended with after that, if any. It
	// may be shown.
	explanation *apierrors.StatusError
}

type slotKey struct{}

func slotFrom(ctx context.Context) *slot {
	s, _ := ctx.Value(slotKey{}).(*slot)
	return s
}

// withSlot gives each request an empty slot. It is the outermost handler, so that nothing
// runs without one.
func (e *Enforcer) withSlot(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), slotKey{}, &slot{enforcer: e})))
	})
}

// recordRequest records the decision about the request, and about the create that it needs
// as well, if any. It reports whether there was none yet.
func (s *slot) recordRequest(request, connect *record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.request != nil {
		return false
	}
	s.request, s.connect = request, connect
	return true
}

// recordCreate records the decision about the create that the request has turned into, and
// returns the one that counts: the first.
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

// covered reports whether the request was decided with conditions in mind.
func (s *slot) covered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.carries || s.request != nil && s.request.lazy != nil
}

// turnsInto reports whether a check is the one that a handler makes when an update or a
// patch turns into a create: for the same object and user.
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
