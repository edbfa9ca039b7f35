/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"

	"github.com/proviso-authz/proviso/pkg/metricset"
)

var (
	metricSet metricset.Set

	certificateExpiration = metricSet.Gauge("proviso_serving_certificate_expiration_timestamp_seconds", "Time at which the serving certificate expires, in seconds since the epoch.")
	registerMetrics       = sync.OnceFunc(metricSet.Register)
)

// certificateListener sets certificateExpiration when the serving certificate has been replaced.
type certificateListener struct {
	dynamiccertificates.CertKeyContentProvider
}

// Enqueue implements dynamiccertificates.Listener.
func (l certificateListener) Enqueue() {
	content, _ := l.CurrentCertKeyContent()
	if chain, err := cert.ParseCertsPEM(content); err == nil {
		certificateExpiration.Set(float64(chain[0].NotAfter.Unix()))
	}
}
