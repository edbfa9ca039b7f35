/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"crypto/x509"
	"fmt"

	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
)

const tolerateUsage = "If true, what cannot be looked up at the start is never looked up again, which can result in authentication that treats all requests as anonymous. If false, it is looked up until it is there, and the server is not ready before."

// The generic server sends 200 TokenReviews a second with bursts of 400. Answers are cached, and
// clients that come through kube-apiserver need none. Authentication comes before priority and
// fairness, so that without a limit a flood of invalid tokens would be passed on as it is.
const (
	authenticationQPS   = 200
	authenticationBurst = 400
)

// applyAuthentication does what the generic options do, but for one thing: the server starts
// while kube-apiserver is down, and looks up how to authenticate those who come through
// kube-apiserver once it is there. kube-apiserver may be down because the front door is:
// the front door needs the policies, and those need the rest of the server.
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

// clientCAFrom returns the CA of clients: from a file, or else what kube-apiserver publishes.
func clientCAFrom(options genericoptions.ClientCertAuthenticationOptions, client kubernetes.Interface) (dynamiccertificates.CAContentProvider, error) {
	if options != (genericoptions.ClientCertAuthenticationOptions{}) {
		return options.GetClientCAContentProvider()
	}
	return dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", authenticationNamespace, authenticationConfigMap, "client-ca-file", client)
}

// frontProxy knows how kube-apiserver authenticates itself and passes on who its clients
// are. Nothing is known until it has been looked up.
type frontProxy struct {
	*genericoptions.DynamicRequestHeaderController
}

func newFrontProxy(client kubernetes.Interface) (*frontProxy, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", authenticationNamespace, authenticationConfigMap, "requestheader-client-ca-file", client)
	if err != nil {
		return nil, err
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(authenticationConfigMap, authenticationNamespace, client,
		headersKey, "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	return &frontProxy{&genericoptions.DynamicRequestHeaderController{ConfigMapCAController: ca, RequestHeaderAuthRequestController: headers}}, nil
}

// VerifyOptions says by which CA the front proxy is known, once it is known which names it
// may have: they are looked up apart, and no names would mean any name.
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
