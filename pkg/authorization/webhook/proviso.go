/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

const (
	// provisoName is the name of the member that asks Proviso.
	provisoName = "proviso"
	// provisoTTL is how long answers of Proviso and of kube-apiserver are reused: as long as kube-apiserver's are in most
	// aggregated servers, and short enough for a new Deny policy.
	provisoTTL = 10 * time.Second
	// provisoTimeout bounds one question.
	provisoTimeout = 10 * time.Second
	// provisoPath is the path of the group of Proviso's own: no version of kube-apiserver answers its reviews itself,
	// without the policies.
	provisoPath = "/apis/" + ownGroup + versionV1alpha1 + "/"
)

var (
	errNoConfig      = errors.New("the client configuration is nil")
	errNotSecureHost = errors.New("the host must begin with https: and its certificate must be verified")
)

// ForProviso returns the chain of an aggregated server whose users write policies for its resources. config is a client configuration for
// kube-apiserver, behind which Proviso is registered, such as rest.InClusterConfig; the identity in it needs the ClusterRoles
// system:auth-delegator and proviso:reviewer. The chain has the order of NewChain, with Proviso as the only webhook: Proviso, and so
// its Deny policies, is asked before an Allow of kube-apiserver counts. While Proviso is down, the chain denies all requests that need
// permission and whose answer is not cached. Answers of Proviso and of kube-apiserver are reused for ten seconds.
//
// Functions in with change the configuration of the chain, for example to add the options for groups and paths that need no
// permission. They must not replace KubeAPIServer or Webhooks.
func ForProviso(config *rest.Config, with ...func(*ChainConfig)) (*authorization.Chain, error) {
	source, err := newProvisoSource(config)
	if err != nil {
		return nil, fmt.Errorf("authorization by Proviso: %w", err)
	}
	client := rest.CopyConfig(config)
	client.QPS, client.RateLimiter, client.Timeout = -1, nil, provisoTimeout // New bounds the checks
	clients, err := kubernetes.NewForConfig(client)
	if err != nil {
		return nil, fmt.Errorf("authorization by kube-apiserver: %w", err)
	}
	kubeAPIServer, err := New(Config{
		Client: clients.AuthorizationV1().SubjectAccessReviews(), AllowCacheTTL: provisoTTL, DenyCacheTTL: provisoTTL,
		Backoff: *genericoptions.DefaultAuthWebhookRetryBackoff(),
	})
	if err != nil {
		return nil, err
	}
	chain := ChainConfig{KubeAPIServer: kubeAPIServer, Webhooks: source}
	for _, change := range with {
		change(&chain)
	}
	// A chain whose webhooks are others would not ask Proviso.
	//guard:webhook-chain-without-proviso
	if chain.Webhooks != source || chain.KubeAPIServer != kubeAPIServer {
		return nil, errors.New("authorization by Proviso: KubeAPIServer and Webhooks must not be replaced: use NewChain")
	}
	for _, m := range append(append([]authorization.Member{}, chain.Restrictions...), chain.Last...) {
		if m.Name == provisoName {
			return nil, fmt.Errorf("authorization by Proviso: the name %q of an authorizer is taken", m.Name)
		}
		source.config.Reserved = append(source.config.Reserved, m.Name)
	}
	return NewChain(chain)
}

// newProvisoSource returns a source with one webhook, which does not change.
func newProvisoSource(config *rest.Config) (*Source, error) {
	if config == nil {
		return nil, errNoConfig
	}
	//guard:webhook-proviso-without-verification
	if server, err := url.Parse(config.Host); err != nil || server.Scheme != "https" || server.Host == "" || config.Insecure {
		return nil, errNotSecureHost
	}
	RegisterMetrics()
	//guard:webhook-reviews-kube-apiserver
	w := &Webhook{
		name: provisoName, group: ownGroup, version: versionV1alpha1, form: formKEP,
		answers: &answers{decisions: cache.NewLRUExpireCache(cacheSize), authorized: provisoTTL, unauthorized: provisoTTL},
	}
	var errs [2]error
	w.reviews, errs[0] = provisoEndpoint(config, "subjectaccessreviews", roundTrips{total: evaluations, duration: durations})
	w.conditions, errs[1] = provisoEndpoint(config, "authorizationconditionsreviews", roundTrips{total: conditionsEvaluations, duration: conditionsDurations})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	w.conditions.confidential = true
	s := &Source{config: SourceConfig{Restricting: true}, loader: &loader{}}
	g, err := generationOf([]*Webhook{w})
	s.current.Store(g)
	return s, err
}

// provisoEndpoint returns the endpoint of one resource of Proviso.
func provisoEndpoint(config *rest.Config, resource string, metrics roundTrips) (*endpoint, error) {
	to := rest.CopyConfig(config)
	server, err := url.Parse(to.Host)
	if err != nil {
		return nil, err
	}
	to.Host, to.APIPath = server.JoinPath(provisoPath, resource).String(), ""
	client, err := newClient(to, provisoTimeout)
	if err != nil {
		return nil, err
	}
	return &endpoint{name: provisoName, client: client, backoff: *genericoptions.DefaultAuthWebhookRetryBackoff(), metrics: metrics}, nil
}
