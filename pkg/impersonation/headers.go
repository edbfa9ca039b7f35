/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"net/http"
	"net/url"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// hasImpersonation reports whether at least one header is an impersonation header.
func hasImpersonation(headers http.Header) bool {
	for name := range headers {
		if isImpersonation(name) {
			return true
		}
	}
	return false
}

// isImpersonation reports whether a header is an impersonation header.
func isImpersonation(name string) bool {
	switch name {
	case authenticationv1.ImpersonateUserHeader, authenticationv1.ImpersonateUIDHeader, authenticationv1.ImpersonateGroupHeader:
		return true
	}
	return strings.HasPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
}

// TakeHeaders removes the impersonation headers from the headers of a request, and
// returns them. It returns nil if there are none.
func TakeHeaders(headers http.Header) http.Header {
	var taken http.Header
	for name, values := range headers {
		if !isImpersonation(name) {
			continue
		}
		if taken == nil {
			taken = http.Header{}
		}
		taken[name] = values
		delete(headers, name)
	}
	return taken
}

// wantedFrom returns the user in the impersonation headers, which it parses as upstream's filter does.
// It returns nil if there is no user name: upstream's filter refuses such headers.
func wantedFrom(headers http.Header) *user.DefaultInfo {
	wanted := &user.DefaultInfo{
		Name: headers.Get(authenticationv1.ImpersonateUserHeader), UID: headers.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: headers[authenticationv1.ImpersonateGroupHeader],
	}
	if wanted.Name == "" {
		return nil
	}
	for name, values := range headers {
		encoded, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok || len(values) == 0 {
			continue
		}
		key := strings.ToLower(encoded)
		if decoded, err := url.PathUnescape(key); err == nil {
			key = decoded
		}
		if wanted.Extra == nil {
			wanted.Extra = map[string][]string{}
		}
		wanted.Extra[key] = append(wanted.Extra[key], values...)
	}
	return wanted
}
