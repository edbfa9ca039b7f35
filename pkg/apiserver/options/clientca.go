/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
)

// The ConfigMap in which kube-apiserver publishes the authentication configuration.
const (
	authenticationNamespace = metav1.NamespaceSystem
	authenticationConfigMap = "extension-apiserver-authentication"
)

var authenticationKeys = []string{"client-ca-file", "requestheader-client-ca-file"}

const headersKey = "requestheader-username-headers"

// lookupTimeout bounds one check of readiness, and one read of a namespace that the cache does not have. Probes have their own
// timeout, usually ten seconds.
const lookupTimeout = 5 * time.Second

// clientCACheck is not ready until the server uses the CAs that kube-apiserver publishes. Until
// then the server does not request client certificates, and a client that connects is anonymous as
// long as its connection lasts.
type clientCACheck struct {
	client kubernetes.Interface
	bundle dynamiccertificates.CAContentProvider
	// headers are the headers in which kube-apiserver sends the user name of its clients. It may
	// be nil.
	headers headerrequest.StringSliceProvider
	known   atomic.Bool
}

var _ healthz.HealthChecker = &clientCACheck{}

// Name returns the name of the check in /readyz.
func (c *clientCACheck) Name() string { return "client-ca" }

var (
	errNoCAs     = errors.New("the CAs that kube-apiserver publishes for client certificates are not loaded yet")
	errNoHeaders = errors.New("the names of the front proxy's headers, which kube-apiserver publishes, are not loaded yet")
)

// Check returns an error until the server uses all CAs that kube-apiserver publishes, and knows the
// headers of the front proxy. Once it has succeeded, it always succeeds: the server follows later
// changes without the check.
func (c *clientCACheck) Check(r *http.Request) error {
	if c.known.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookupTimeout)
	defer cancel()
	published, err := c.client.CoreV1().ConfigMaps(authenticationNamespace).Get(ctx, authenticationConfigMap, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", authenticationNamespace, authenticationConfigMap, err)
	}
	used := c.bundle.CurrentCABundleContent()
	for _, key := range authenticationKeys {
		if ca := bytes.TrimSpace([]byte(published.Data[key])); !bytes.Contains(used, ca) {
			return errNoCAs
		}
	}
	if published.Data[headersKey] != "" && c.headers != nil && len(c.headers.Value()) == 0 {
		return errNoHeaders
	}
	c.known.Store(true)
	return nil
}

// clientCAReadiness returns the check, or nil if the server does not use the CA for client certificates
// that kube-apiserver publishes: the CA is in a file, which is read before the server starts, or the
// lookup in the cluster is disabled.
func (o CompletedOptions) clientCAReadiness(bundle dynamiccertificates.CAContentProvider, proxy *authenticatorfactory.RequestHeaderConfig) (healthz.HealthChecker, error) {
	if o.Authentication.SkipInClusterLookup || o.Authentication.ClientCert.ClientCA != "" || bundle == nil {
		return nil, nil
	}
	config, err := loadClientConfig(o.Authentication.RemoteKubeConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--authentication-kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--authentication-kubeconfig: %w", err)
	}
	check := &clientCACheck{client: client, bundle: bundle}
	if proxy != nil {
		check.headers = proxy.UsernameHeaders
	}
	return check, nil
}
