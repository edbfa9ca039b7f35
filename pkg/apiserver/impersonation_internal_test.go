/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// TestPrivilegedImpersonate: what policies deny does not bind the privileged, not even for a
// user whom only the legacy mode impersonates. Here policies, not loaded yet, deny everything.
func TestPrivilegedImpersonate(t *testing.T) {
	t.Parallel()
	policies := &engine.Source{}
	denies := authorizerfactory.NewAlwaysDenyAuthorizer()
	chains, err := NewChains(AuthorizerConfig{Fresh: authorization.DeciderOf(denies), Cached: authorization.DeciderOf(denies), Policies: policies, AlwaysAllowGroups: []string{"wheel"}})
	if err != nil {
		t.Fatal(err)
	}
	compilers, err := NewCompilers()
	if err != nil {
		t.Fatal(err)
	}
	c := &completedConfig{extra: ExtraConfig{
		Chains: *chains, Policies: policies, ConditionalImpersonation: true, Compilers: compilers,
	}}
	if err := c.makeCompilers(); err != nil {
		t.Fatal(err)
	}
	if err := c.makeImpersonation(true); err != nil {
		t.Fatal(err)
	}
	wrap, err := c.impersonationFilter(true)
	if err != nil {
		t.Fatal(err)
	}
	filter := wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for group, want := range map[string]int{"wheel": http.StatusNoContent, "users": http.StatusForbidden} {
		requester := &user.DefaultInfo{Name: "root", Groups: []string{group}}
		ctx := genericapirequest.WithRequestInfo(genericapirequest.WithUser(t.Context(), requester), &genericapirequest.RequestInfo{Verb: "get", Path: "/x"})
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/x", nil)
		request.Header = http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {user.SystemPrivilegedGroup}}
		recorder := httptest.NewRecorder()
		filter.ServeHTTP(recorder, request)
		if recorder.Code != want {
			t.Errorf("requester in %s: got %d %s, want %d", group, recorder.Code, recorder.Body, want)
		}
		answer, err := c.impersonation.Review(t.Context(), authorizer.AttributesRecord{User: requester, Verb: "get", Path: "/x"},
			&user.DefaultInfo{Name: "bob", Groups: []string{user.SystemPrivilegedGroup}})
		if allowed := want == http.StatusNoContent; err != nil || (answer.User != nil) != allowed {
			t.Errorf("review of a requester in %s: got %+v, %v, want allowed %v", group, answer, err, allowed)
		}
	}
}
