/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package library

import (
	"net/http"
	"net/http/httputil"
	"net/url"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/transport"

	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// PassOn returns a handler that forwards the requests for an API group to a Proviso, which
// accepts the certificate of frontProxy as a front proxy. Residual impersonation conditions
// accompany a request and are enforced there.
func PassOn(enforcer *enforcement.Enforcer, group string, server *url.URL, frontProxy http.RoundTripper) http.Handler {
	enforcer.SetForwards(func(a authorizer.Attributes) bool { return a.GetAPIGroup() == group })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok := genericapirequest.UserFrom(r.Context())
		if !ok {
			http.Error(w, "no user", http.StatusInternalServerError)
			return
		}
		u, err := impersonation.WithExtra(u, enforcement.ResidualToForward(r.Context()))
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		proxy := httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(server) },
			Transport: transport.NewAuthProxyRoundTripper(u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(), frontProxy),
		}
		proxy.ServeHTTP(w, r)
	})
}
