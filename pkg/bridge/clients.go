/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bridge

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/request/x509"
)

// Clients are those who may ask: they have a certificate for clients of a CA, and one of
// certain names.
type Clients struct {
	authenticator *x509.Authenticator
	names         []string
}

// NewClients makes Clients. certificates says by which CA a certificate must be signed, and
// is asked for every request, so that a CA that is replaced counts no more at once. Without
// names, any common name will do.
func NewClients(certificates x509.VerifyOptionFunc, names []string) (*Clients, error) {
	if certificates == nil {
		return nil, errors.New("without a CA of clients, anybody would be answered")
	}
	return &Clients{authenticator: x509.NewDynamic(certificates, x509.CommonNameUserConversion), names: slices.Clone(names)}, nil
}

// only answers everybody else with 401, or with 403 if only the name is not one of theirs.
func (c *Clients) only(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An error says what is wrong with a certificate, which is nobody's business.
		client, ok, err := c.authenticator.AuthenticateRequest(r)
		if err != nil || !ok {
			refuse(w, apierrors.NewUnauthorized("a client certificate is needed"))
			return
		}
		if name := client.User.GetName(); len(c.names) > 0 && !slices.Contains(c.names, name) {
			refuse(w, statusError(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%q may not ask", name)))
			return
		}
		next.ServeHTTP(w, r)
	})
}
