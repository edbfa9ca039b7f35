/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import "k8s.io/apiserver/pkg/authentication/user"

// HeadersOf returns the headers that ask to impersonate a user.
var HeadersOf = headersOf

// RefuseReserved returns the refusal to impersonate a user who has the reserved extra.
func RefuseReserved(u user.Info) error { return refuseReserved(&user.DefaultInfo{}, u) }
