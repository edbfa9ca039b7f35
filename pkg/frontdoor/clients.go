/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/component-base/tracing"

	"github.com/proviso-authz/proviso/pkg/place"
)

// Clients authenticates the clients of the listener: they need a client certificate that a CA has
// signed, with one of the configured common names.
type Clients struct {
	// TracerProvider traces the calls of the clients, below their own spans. If nil, the calls are not traced.
	TracerProvider trace.TracerProvider

	authenticator *x509.Authenticator
	names         []string
}

// NewClients returns Clients. verifyOptions is called for every request, so that a rotated CA
// takes effect immediately. If names is empty, any common name is accepted. It returns an error if
// verifyOptions is nil.
func NewClients(verifyOptions x509.VerifyOptionFunc, names []string) (*Clients, error) {
	if verifyOptions == nil {
		return nil, errors.New("the front door needs a CA for client certificates: without one, it would answer any client")
	}
	return &Clients{authenticator: x509.NewDynamic(verifyOptions, x509.CommonNameUserConversion), names: slices.Clone(names)}, nil
}

// only passes requests of the clients to next. It answers 401 to a request without a valid
// certificate, and 403 if only the common name is not accepted.
func (c *Clients) only(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The error describes the certificate, and is not shown to a client without a valid one.
		client, ok, err := c.authenticator.AuthenticateRequest(r)
		if err != nil || !ok {
			refuse(w, apierrors.NewUnauthorized("a client certificate signed by the CA of the front door is required"))
			return
		}
		if name := client.User.GetName(); len(c.names) > 0 && !slices.Contains(c.names, name) {
			refuse(w, statusError(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%q is not a client name that the front door accepts", name)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// traced returns a handler with a span for each call, which has the name of the handler's pattern. It must be behind only: a client chooses whether
// its calls are recorded.
func (c *Clients) traced(handler http.Handler) http.Handler {
	if c.TracerProvider == nil {
		return handler
	}
	return tracing.WithTracing(handler, c.TracerProvider, "")
}

func fingerprintOf(certificate []byte) string {
	//guard:frontdoor-inner-door-certificates
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:])
}

// clientOf returns the client of a request that Clients have passed, or the zero value for a request without a certificate.
func clientOf(r *http.Request) *place.Client {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return &place.Client{}
	}
	certificate := r.TLS.PeerCertificates[0]
	return &place.Client{Name: certificate.Subject.CommonName, Certificate: fingerprintOf(certificate.Raw)}
}
