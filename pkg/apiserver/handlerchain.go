/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	demoapi "github.com/proviso-authz/proviso/apis/demo"
)

// storedGroups are the API groups whose objects are stored. A field of theirs that the
// server does not know is refused unless the client asks otherwise: a policy with a
// misspelt restriction must not be accepted without it.
var storedGroups = []string{demoapi.GroupName}

// BuildHandlerChain is the generic handler chain, with strict field validation as the
// default on stored kinds. Reviews keep the default of Kubernetes, which is a warning.
func BuildHandlerChain(handler http.Handler, c *genericapiserver.Config) http.Handler {
	return genericapiserver.DefaultBuildHandlerChain(withStrictFieldValidation(handler), c)
}

func withStrictFieldValidation(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := genericapirequest.RequestInfoFrom(r.Context())
		if ok && slices.Contains(storedGroups, info.APIGroup) && slices.Contains([]string{"create", "update", "patch"}, info.Verb) {
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
