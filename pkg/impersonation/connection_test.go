/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// TestDenialOfEitherVerbIsFinal opens a connection, which needs the verb create as well, where a policy allows the
// impersonation for create only and an authorizer after it denies: the denial of the request's own verb stays, although
// it has no reason once the conditions are evaluated.
func TestDenialOfEitherVerbIsFinal(t *testing.T) {
	t.Parallel()
	exec := getPod
	exec.Subresource = "exec"
	for _, tc := range []struct {
		name, condition string
		last            authorizer.Decision
	}{
		{name: "create only, then Deny", condition: `impersonatedRequest.verb == "create"`, last: authorizer.DecisionDeny},
		{name: "create only on the object, then Deny", condition: `impersonatedRequest.verb == "create" && object.x == 1`, last: authorizer.DecisionDeny},
		{name: "create only, then no opinion", condition: `impersonatedRequest.verb == "create"`, last: authorizer.DecisionNoOpinion},
		{name: "get only, then Deny", condition: `impersonatedRequest.verb == "get"`, last: authorizer.DecisionDeny},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			source := &engine.Source{}
			publish(t, source, policies{allowIf(tc.condition, "users")})
			last := authorization.Member{Name: "webhook", Decider: authorization.DeciderOf(unconditional{func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetVerb() == "constrainedimpersonate" {
					return tc.last, "the last authorizer says so", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			}})}
			c := conditionalOver(t, source, func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				return authorizer.DecisionNoOpinion, "", nil
			}, last)
			c.NeedsCreate = func(authorizer.Attributes) bool { return true }
			filter := wrapped(t, impersonation.FilterConfig{
				Authorizer: c.Chain, Conditional: c, Serializer: scheme.Codecs,
				EnforceResidual: func(context.Context, ...authorization.Set) error { return nil },
			})
			if got := send(t.Context(), t, filter, exec, impersonation.HeadersOf(&user.DefaultInfo{Name: "bob"})); got.Code != http.StatusForbidden {
				t.Errorf("got %d as %v, want 403", got.Code, got.User)
			}
		})
	}
}
