/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// TestReservedExtrasAmongMany has kube-apiserver's filter impersonate users, for a requester to whom RBAC allows everything. For four
// values of extra the filter first asks about all of them at once, as "*", and an Allow would be final.
func TestReservedExtrasAmongMany(t *testing.T) {
	t.Parallel()
	door := newDoor(t, publish(t, nil), enforcesMachines)
	for name, decide := range map[string]func(context.Context, authorizer.Attributes) (authorization.Decision, error){
		"front door": door.Decide,
		"Proviso": func(ctx context.Context, a authorizer.Attributes) (authorization.Decision, error) {
			return frontdoor.ReservedExtras{}.Decide(ctx, a), nil
		},
	} {
		allowsTheRest := authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if decision, err := decide(ctx, a); err != nil || decision.IsDeny() {
				return authorizer.DecisionDeny, "", err
			}
			return authorizer.DecisionAllow, "", nil
		})
		for _, tc := range []struct {
			extra  string
			others int
			want   int
		}{
			{authorization.DelegationMarker, 0, http.StatusForbidden},
			{authorization.DelegationMarker, 3, http.StatusForbidden},
			{innerdoor.CanaryExtra, 3, http.StatusForbidden},
			{"example.com/key", 3, http.StatusOK},
		} {
			passed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
			filter := impersonation.WithConstrainedImpersonation(passed, allowsTheRest, scheme.Codecs)
			ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}})
			ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "get", APIVersion: "v1", Resource: "secrets", Namespace: "demo", Name: "x"})
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/namespaces/demo/secrets/x", nil)
			r.Header.Set("Impersonate-User", "alice")
			r.Header.Add("Impersonate-Extra-"+url.PathEscape(tc.extra), "proviso")
			for range tc.others {
				r.Header.Add("Impersonate-Extra-example.com%2Fother", "x")
			}
			w := httptest.NewRecorder()
			filter.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("%s: %s beside %d values: got %d, want %d", name, tc.extra, tc.others, w.Code, tc.want)
			}
		}
	}
}
