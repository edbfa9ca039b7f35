/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package place

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// Server is this server, which authorizes again what kube-apiserver passes on to it.
type Server struct {
	described

	// Enforces reports whether this server, and no other, serves a request and evaluates conditions on it at admission.
	Enforces func(authorizer.Attributes) bool
	// Create reports whether a request needs the verb create in addition to its own, and is allowed only if this server decides that both are. For
	// attributes about all versions it reports about any version. If nil, no request does.
	Create func(authorizer.Attributes) bool
}

// NeedsCreate reports whether a request needs the verb create in addition to its own.
func (s *Server) NeedsCreate(r *Request) bool { return s.Create != nil && s.Create(r.Attributes) }

// Terms implements Place.
func (*Server) Terms() Terms {
	return Terms{
		At: policyv1alpha1.EnforcedAtServer, Evaluates: AllEffects, DecidesAgain: true, Reason: "allowed if the conditions hold, which Proviso evaluates at admission: ",
	}
}

// Takes implements Place.
func (s *Server) Takes(r *Request) bool { return s.Enforces(r.Attributes) }

// Obstacle implements Place.
func (*Server) Obstacle(context.Context, *Request, Asker) *Obstacle { return nil }

// Audit implements Place. A request that is refused before it reaches the server shows no object.
func (*Server) Audit(decision authorization.Decision) Audit {
	return Audit{Leaves: countedAgain(decision), Remainder: authorization.RemainderRefused}
}

// countedAgain are the effects that this server counts when it authorizes a request again.
func countedAgain(decision authorization.Decision) []authorization.Effect {
	switch {
	case decision.IsAllow():
		return []authorization.Effect{authorization.EffectDeny, authorization.EffectNoOpinion, authorization.EffectAllow}
	//guard:front-door-server-counts
	case !decision.IsDeny(): // another authorizer may allow the request
		return []authorization.Effect{authorization.EffectDeny}
	}
	return nil
}

// Unenforced are the requests that this server serves, and for which it evaluates no conditions.
type Unenforced struct {
	Nowhere
	// Serves reports whether this server, and no other, serves a request.
	Serves func(authorizer.Attributes) bool
}

// Takes implements Place.
func (u *Unenforced) Takes(r *Request) bool { return u.Serves(r.Attributes) }

// Audit implements Place.
func (u *Unenforced) Audit(decision authorization.Decision) Audit {
	return Audit{Leaves: countedAgain(decision), Remainder: authorization.RemainderFolded}
}

// AggregatedServer is another server behind kube-apiserver that evaluates conditions.
type AggregatedServer struct {
	described

	// Enforces reports whether such a server serves a request and evaluates conditions on it at admission.
	Enforces func(authorizer.Attributes) bool
	// Configuration returns the name of the EnforcementConfiguration that is about a request, whether or not it counts, or "".
	Configuration func(authorizer.Attributes) string
}

// Problem says that a configuration does not count.
func (s *AggregatedServer) Problem(r *Request) string {
	if name := s.Configuration(r.Attributes); name != "" {
		return fmt.Sprintf("EnforcementConfiguration %q does not count at the moment, as its status says", name)
	}
	return ""
}

// Terms implements Place.
func (*AggregatedServer) Terms() Terms {
	return Terms{
		At: policyv1alpha1.EnforcedAtAggregatedServer, Evaluates: AllEffects, Reason: "allowed if the conditions hold, which the server of the resource evaluates at admission: ",
	}
}

// Takes implements Place.
func (s *AggregatedServer) Takes(r *Request) bool { return s.Enforces(r.Attributes) }

// Obstacle implements Place.
func (*AggregatedServer) Obstacle(context.Context, *Request, Asker) *Obstacle { return nil }

// Audit implements Place.
func (*AggregatedServer) Audit(authorization.Decision) Audit {
	return Audit{Remainder: authorization.RemainderElsewhere}
}
