/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"net/http"

	"k8s.io/apiserver/pkg/audit"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/proviso-authz/proviso/pkg/granular"
)

type buildFunc = func(http.Handler, *genericapiserver.Config) http.Handler

// auditingFields wraps a handler chain, so that audit events show which fields of a request were
// checked.
func auditingFields(build buildFunc) buildFunc {
	return func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return build(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, trail := granular.WithTrail(r.Context())
			defer func() { audit.AddAuditAnnotations(ctx, trail.Annotations()...) }()
			handler.ServeHTTP(w, r.WithContext(ctx))
		}), c)
	}
}
