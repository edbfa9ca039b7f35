/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// isStored reports whether the objects of an API group are stored. A field of theirs that
// the server does not know is refused unless the client asks otherwise: a policy with a
// misspelt restriction must not be accepted without it.
func isStored(group string) bool {
	return slices.ContainsFunc(StorageVersions, func(gv schema.GroupVersion) bool { return gv.Group == group })
}

// BuildHandlerChain is the generic handler chain, with strict field validation as the
// default on stored kinds. Reviews keep the default of Kubernetes, which is a warning.
func BuildHandlerChain(handler http.Handler, c *genericapiserver.Config) http.Handler {
	return genericapiserver.DefaultBuildHandlerChain(withStrictFieldValidation(handler), c)
}

func withStrictFieldValidation(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := genericapirequest.RequestInfoFrom(r.Context())
		if ok && isStored(info.APIGroup) && slices.Contains([]string{"create", "update", "patch"}, info.Verb) {
			r = withDefaultFieldValidation(r)
		}
		handler.ServeHTTP(w, r)
	})
}

func withDefaultFieldValidation(r *http.Request) *http.Request {
	query := r.URL.Query()
	if query.Has("fieldValidation") {
		return r
	}
	query.Set("fieldValidation", metav1.FieldValidationStrict)
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r
}
