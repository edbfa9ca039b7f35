/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"net/http"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// NewHandlerChanging is NewHandler with attributes that a test changes, for example so that the
// evaluation of a condition blocks.
func NewHandlerChanging(door *Decider, clients *Clients, change func(authorizer.Attributes) authorizer.Attributes) http.Handler {
	return newHandler(door, clients, func(review *reviewSpec) authorizer.Attributes { return change(review.attributes()) })
}
