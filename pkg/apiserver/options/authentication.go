/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

const tolerateUsage = "If true, a failure to read the authentication configuration from the cluster at start is ignored and not retried, and the server may treat all requests as anonymous. If false, the server retries, and is not ready until the configuration has been read."

// The generic server's limit is 200 TokenReviews per second with bursts of 400. Answers are
// cached, and clients that connect through kube-apiserver need no TokenReview. Authentication
// comes before priority and fairness, so that without a limit a flood of invalid tokens would
// reach kube-apiserver.
const (
	authenticationQPS   = 200
	authenticationBurst = 400
)

// applyAuthentication does the same as the generic options, except that the server starts while
// kube-apiserver is down, and retries until it has read how to authenticate clients that connect
// through kube-apiserver. kube-apiserver may be down because the front door is down: the front
// door needs policies, and loading policies needs the rest of the server.
func (o CompletedOptions) applyAuthentication(generic *genericapiserver.Config) error {
	options := o.Authentication
	if options.SkipInClusterLookup || options.TolerateInClusterLookupFailure || options.RequestHeader.ClientCAFile != "" {
		return options.ApplyTo(&generic.Authentication, generic.SecureServing, generic.OpenAPIConfig)
	}
	config, err := loadClientConfig(options.RemoteKubeConfigFile)
	if err != nil {
		return fmt.Errorf("--authentication-kubeconfig: %w", err)
	}
	config.QPS, config.Burst = authenticationQPS, authenticationBurst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client for authentication: %w", err)
	}
	clientCA, err := clientCAFrom(options.ClientCert, client)
	if err != nil {
		return fmt.Errorf("CA of clients: %w", err)
	}
	proxy, err := newFrontProxy(client)
	if err != nil {
		return fmt.Errorf("CA of the front proxy: %w", err)
	}
	for _, ca := range []dynamiccertificates.CAContentProvider{clientCA, proxy} {
		if err := generic.Authentication.ApplyClientCert(ca, generic.SecureServing); err != nil {
			return err
		}
	}
	generic.Authentication.RequestHeaderConfig = proxy.config()
	authenticator, securityDefinitions, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous: &apiserverapi.AnonymousAuthConfig{Enabled: true}, CacheTTL: options.CacheTTL,
		WebhookRetryBackoff: options.WebhookRetryBackoff, TokenAccessReviewTimeout: options.TokenRequestTimeout,
		TokenAccessReviewClient: client.AuthenticationV1(), ClientCertificateCAContentProvider: clientCA,
		RequestHeaderConfig: generic.Authentication.RequestHeaderConfig,
	}.New()
	if err != nil {
		return err
	}
	generic.Authentication.Authenticator, generic.OpenAPIConfig.SecurityDefinitions = authenticator, securityDefinitions
	return nil
}

// clientCAFrom returns the CA for client certificates: from a file if one is configured, otherwise
// from the ConfigMap that kube-apiserver publishes.
func clientCAFrom(options genericoptions.ClientCertAuthenticationOptions, client kubernetes.Interface) (dynamiccertificates.CAContentProvider, error) {
	if options != (genericoptions.ClientCertAuthenticationOptions{}) {
		return options.GetClientCAContentProvider()
	}
	return dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", authenticationNamespace, authenticationConfigMap, clientCAKey, client)
}

// frontProxy has the published configuration of kube-apiserver as a front proxy: the CA and names
// of its certificate, and the headers with its clients. It is empty until the ConfigMap has been
// read.
type frontProxy struct {
	*genericoptions.DynamicRequestHeaderController
}

func newFrontProxy(client kubernetes.Interface) (*frontProxy, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", authenticationNamespace, authenticationConfigMap, proxyCAKey, client)
	if err != nil {
		return nil, err
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(authenticationConfigMap, authenticationNamespace, client,
		headersKey, "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	return &frontProxy{&genericoptions.DynamicRequestHeaderController{ConfigMapCAController: ca, RequestHeaderAuthRequestController: headers}}, nil
}

// VerifyOptions returns the front proxy's CA only after the allowed names are known: both are
// looked up separately, and an empty list of names would allow any.
func (p *frontProxy) VerifyOptions() (x509.VerifyOptions, bool) {
	if len(p.UsernameHeaders()) == 0 {
		return x509.VerifyOptions{}, false
	}
	return p.DynamicRequestHeaderController.VerifyOptions()
}

func (p *frontProxy) config() *authenticatorfactory.RequestHeaderConfig {
	provide := func(f func() []string) headerrequest.StringSliceProvider {
		return headerrequest.StringSliceProviderFunc(f)
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider: p, UsernameHeaders: provide(p.UsernameHeaders), UIDHeaders: provide(p.UIDHeaders),
		GroupHeaders: provide(p.GroupHeaders), ExtraHeaderPrefixes: provide(p.ExtraHeaderPrefixes), AllowedClientNames: provide(p.AllowedClientNames),
	}
}

// The ConfigMap in which kube-apiserver publishes the authentication configuration.
const (
	authenticationNamespace = metav1.NamespaceSystem
	authenticationConfigMap = "extension-apiserver-authentication"
)

const (
	clientCAKey = "client-ca-file"
	proxyCAKey  = "requestheader-client-ca-file"
	headersKey  = "requestheader-username-headers"
)

// lookupTimeout bounds one check of readiness, and one read of a namespace that the cache does not have. Probes have their own
// timeout, usually ten seconds.
const lookupTimeout = 5 * time.Second

// clientCACheck is not ready until the server uses the CAs that kube-apiserver publishes. Until
// then the server cannot verify client certificates, and answers 503 to clients that may have one.
type clientCACheck struct {
	client kubernetes.Interface
	bundle dynamiccertificates.CAContentProvider
	// keys name the CAs that the server looks up.
	keys []string
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
	return c.look(r.Context())
}

// looks is the schedule of looks after the start.
var looks = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Steps: math.MaxInt32, Cap: 5 * time.Second}

// logAfter is the time between two messages that say why the CAs are not used yet.
const logAfter = 10 * time.Second

// run looks until the server uses the CAs.
func (c *clientCACheck) run(ctx context.Context) {
	logged := time.Now()
	_ = looks.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := c.look(ctx)
		if err != nil && time.Since(logged) > logAfter {
			klog.FromContext(ctx).Error(err, "Clients without a token get 503: their certificates cannot be verified yet")
			logged = time.Now()
		}
		return err == nil, nil
	})
}

// whenKnown has the CAs that a handshake names: none until all are known. A client that is told none sends its certificate. One that is told other CAs than the issuer of its
// certificate sends none, and would be anonymous as long as its connection lasts.
type whenKnown struct {
	dynamiccertificates.CAContentProvider

	check *clientCACheck
}

var _ dynamiccertificates.ControllerRunner = whenKnown{}

// CurrentCABundleContent returns the CAs.
func (w whenKnown) CurrentCABundleContent() []byte {
	//guard:handshakes-before-the-cas
	if !w.check.known.Load() {
		return nil
	}
	return w.CAContentProvider.CurrentCABundleContent()
}

// RunOnce reads the CAs.
func (w whenKnown) RunOnce(ctx context.Context) error {
	if runner, ok := w.CAContentProvider.(dynamiccertificates.ControllerRunner); ok {
		return runner.RunOnce(ctx)
	}
	return nil
}

// Run keeps the CAs up to date.
func (w whenKnown) Run(ctx context.Context, workers int) {
	if runner, ok := w.CAContentProvider.(dynamiccertificates.ControllerRunner); ok {
		runner.Run(ctx, workers)
	}
}

func (c *clientCACheck) look(ctx context.Context) error {
	if c.known.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	published, err := c.client.CoreV1().ConfigMaps(authenticationNamespace).Get(ctx, authenticationConfigMap, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", authenticationNamespace, authenticationConfigMap, err)
	}
	used := c.bundle.CurrentCABundleContent()
	for _, key := range c.keys {
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

// clientCAReadiness returns the check, or nil if the server uses no CA that kube-apiserver publishes: all are
// in files, which are read before the server starts, or the lookup in the cluster is disabled.
func (o CompletedOptions) clientCAReadiness(bundle dynamiccertificates.CAContentProvider, proxy *authenticatorfactory.RequestHeaderConfig) (*clientCACheck, error) {
	var keys []string
	if o.Authentication.ClientCert.ClientCA == "" {
		keys = append(keys, clientCAKey)
	}
	if o.Authentication.RequestHeader.ClientCAFile == "" && proxy != nil {
		keys = append(keys, proxyCAKey)
	} else {
		proxy = nil
	}
	if o.Authentication.SkipInClusterLookup || len(keys) == 0 || bundle == nil {
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
	check := &clientCACheck{client: client, bundle: bundle, keys: keys}
	if proxy != nil {
		check.headers = proxy.UsernameHeaders
	}
	return check, nil
}
