/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"crypto/sha256"
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation/field"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	configapi "github.com/proviso-authz/proviso/apis/config"
	"github.com/proviso-authz/proviso/apis/config/load"
	"github.com/proviso-authz/proviso/apis/config/validation"
)

// compiler compiles match conditions.
var compiler = sync.OnceValue(authorizationcel.NewDefaultCompiler)

// digest identifies the content of a file, or the error of reading it.
type digest [sha256.Size]byte

// loader creates webhooks from files, and records the digests of the files.
type loader struct {
	config SourceConfig
	read   map[string]digest
}

// digestOf returns the digest of a file's content, or of the error of reading it.
func digestOf(content []byte, err error) digest {
	if err != nil {
		return sha256.Sum256([]byte("error: " + err.Error()))
	}
	return sha256.Sum256(append([]byte("content: "), content...))
}

func (l *loader) readFile(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	l.read[path] = digestOf(content, err)
	return content, err
}

// changed reports whether a file has changed since it was read.
func (l *loader) changed() bool {
	for path, was := range l.read {
		if digestOf(os.ReadFile(path)) != was {
			return true
		}
	}
	return false
}

// load creates the webhooks of the configuration file, in order.
func (l *loader) load() ([]*Webhook, error) {
	content, err := l.readFile(l.config.File)
	if err != nil {
		return nil, err
	}
	configuration, err := load.Decode[*configapi.AuthorizationConfiguration](content)
	if err != nil {
		return nil, err
	}
	errs := validation.ValidateAuthorizationConfiguration(configuration, l.reserved())
	if l.config.Restricting {
		errs = append(errs, failuresDeny(configuration)...)
	}
	errs = append(errs, l.checkForms(configuration)...)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	var webhooks []*Webhook
	for i := range configuration.Authorizers {
		webhook, invalid := l.webhook(&configuration.Authorizers[i], field.NewPath("authorizers").Index(i).Child("webhook"))
		errs, webhooks = append(errs, invalid...), append(webhooks, webhook)
	}
	return webhooks, errs.ToAggregate()
}

func (l *loader) reserved() []string {
	if l.config.Restricting {
		return slices.Concat(l.config.Reserved, chainNames)
	}
	return l.config.Reserved
}

// checkForms returns an error for each webhook whose configuration needs the feature gate, which is off. With the gate, it logs
// configurations that have the names of KEP-5681.
func (l *loader) checkForms(configuration *configapi.AuthorizationConfiguration) field.ErrorList {
	var errs field.ErrorList
	for i := range configuration.Authorizers {
		w, at := configuration.Authorizers[i].Webhook, field.NewPath("authorizers").Index(i).Child("webhook")
		switch {
		case w == nil:
		//guard:webhook-upstreams-names-without-gate
		case !l.config.Upstream && w.ConditionsReview != nil:
			errs = append(errs, field.Forbidden(at.Child("conditionsReview"), "needs the feature gate UpstreamConditionalDecisions"))
		//guard:webhook-conditions-v1-without-gate
		case !l.config.Upstream && w.ConditionsEndpointKubeConfigContext != "" && w.SubjectAccessReviewVersion == versionV1:
			errs = append(errs, field.Forbidden(at.Child("conditionsEndpointKubeConfigContext"), "needs subjectAccessReviewVersion v1alpha1, or the feature gate UpstreamConditionalDecisions"))
		case l.config.Upstream && w.ConditionsEndpointKubeConfigContext != "":
			klog.Background().Info("Deprecated: conditionsEndpointKubeConfigContext and authorizationConditionsReviewVersion are the names of KEP-5681; a webhook that knows the form that is proposed for Kubernetes needs conditionsReview", "name", configuration.Authorizers[i].Name)
		}
	}
	return errs
}

// failuresDeny returns an error for each webhook whose failure policy is NoOpinion.
func failuresDeny(configuration *configapi.AuthorizationConfiguration) field.ErrorList {
	var errs field.ErrorList
	for i := range configuration.Authorizers {
		if w := configuration.Authorizers[i].Webhook; w != nil && w.FailurePolicy == configapi.FailurePolicyNoOpinion {
			at := field.NewPath("authorizers").Index(i).Child("webhook", "failurePolicy")
			errs = append(errs, field.Invalid(at, w.FailurePolicy, "must be Deny: kube-apiserver is called after the webhook, and could allow a request that the failed webhook would have denied"))
		}
	}
	return errs
}

// webhook creates one webhook of a valid configuration.
func (l *loader) webhook(a *configapi.AuthorizerConfiguration, path *field.Path) (*Webhook, field.ErrorList) {
	c := a.Webhook
	w := &Webhook{
		name: a.Name, group: officialGroup, version: c.SubjectAccessReviewVersion, failOpen: c.FailurePolicy == configapi.FailurePolicyNoOpinion,
		form: formKEP, relaxed: l.config.Upstream,
		answers: &answers{decisions: cache.NewLRUExpireCache(cacheSize)},
	}
	if c.CacheAuthorizedRequests {
		w.answers.authorized = c.AuthorizedTTL.Duration
	}
	if c.CacheUnauthorizedRequests {
		w.answers.unauthorized = c.UnauthorizedTTL.Duration
	}
	var errs field.ErrorList
	w.matcher, errs = compileMatchConditions(a, path.Child("matchConditions"))
	at := path.Child("connectionInfo", "kubeConfigFile")
	kubeconfig, err := l.kubeconfig(*c.ConnectionInfo.KubeConfigFile)
	if err != nil {
		return nil, append(errs, field.Invalid(at, *c.ConnectionInfo.KubeConfigFile, err.Error()))
	}
	w.reviews, err = l.endpoint(a, kubeconfig, kubeconfig.CurrentContext, roundTrips{total: evaluations, duration: durations})
	if err != nil {
		errs = append(errs, field.Invalid(at, *c.ConnectionInfo.KubeConfigFile, err.Error()))
	}
	if context, name := conditionsContext(c, kubeconfig); context != "" {
		if c.ConditionsReview != nil {
			w.form = formUpstream
		}
		w.conditions, err = l.endpoint(a, kubeconfig, context, roundTrips{total: conditionsEvaluations, duration: conditionsDurations})
		if err == nil {
			w.conditions.confidential = true
			err = l.notKubeAPIServer(kubeconfig, context)
		}
		if err != nil {
			errs = append(errs, field.Invalid(path.Child(name[0], name[1:]...), context, err.Error()))
		}
	}
	return w, errs
}

// conditionsContext returns the context of the endpoint that evaluates conditions, and the path of the field that names it. The
// context is empty if the webhook evaluates none.
func conditionsContext(c *configapi.WebhookConfiguration, kubeconfig *clientcmdapi.Config) (context string, name []string) {
	switch {
	case c.ConditionsReview == nil:
		return c.ConditionsEndpointKubeConfigContext, []string{"conditionsEndpointKubeConfigContext"}
	case c.ConditionsReview.KubeConfigContextName == "":
		return kubeconfig.CurrentContext, []string{"connectionInfo", "kubeConfigFile"}
	}
	return c.ConditionsReview.KubeConfigContextName, []string{"conditionsReview", "kubeConfigContextName"}
}

// kubeconfig reads a kubeconfig file. Relative paths in it are relative to the file.
func (l *loader) kubeconfig(path string) (*clientcmdapi.Config, error) {
	content, err := l.readFile(path)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, err
	}
	for _, cluster := range config.Clusters {
		cluster.LocationOfOrigin = path
	}
	for _, info := range config.AuthInfos {
		info.LocationOfOrigin = path
	}
	return config, clientcmd.ResolveLocalPaths(config)
}

var (
	errNoContext = errors.New("the kubeconfig has no current-context: set it to the context of the webhook")
	errNotSecure = errors.New("the server URL must begin with https: and its certificate must be verified")
)

func (l *loader) endpoint(a *configapi.AuthorizerConfiguration, kubeconfig *clientcmdapi.Config, context string, metrics roundTrips) (*endpoint, error) {
	config, err := clientConfig(kubeconfig, context)
	if err != nil {
		return nil, err
	}
	client, err := newClient(config, a.Webhook.Timeout.Duration)
	if err != nil {
		return nil, err
	}
	return &endpoint{name: a.Name, client: client, backoff: l.config.Backoff, metrics: metrics}, nil
}

func clientConfig(kubeconfig *clientcmdapi.Config, context string) (*rest.Config, error) {
	if context == "" {
		// client-go would fall back to the cluster in which the pod runs.
		return nil, errNoContext
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*kubeconfig, context, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	if server, err := url.Parse(config.Host); err != nil || server.Scheme != "https" || config.Insecure {
		return nil, errNotSecure
	}
	return config, nil
}

var errKubeAPIServer = errors.New("the server must not be kube-apiserver: it would proxy authorization.k8s.io/v1alpha1, and with it the conditions, back to this server")

// notKubeAPIServer returns an error if a context of the kubeconfig has the host and port of
// kube-apiserver. It returns nil if the URL of kube-apiserver is unknown.
func (l *loader) notKubeAPIServer(kubeconfig *clientcmdapi.Config, context string) error {
	config, err := clientConfig(kubeconfig, context)
	if err != nil {
		return err
	}
	if l.config.KubeAPIServer != "" && hostPort(config.Host) == hostPort(l.config.KubeAPIServer) {
		return errKubeAPIServer
	}
	return nil
}

// hostPort returns the host and the port of a URL. It is the same for all ways to write a host name: in other letters, or
// with a dot behind it.
func hostPort(server string) string {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Hostname() == "" {
		return server
	}
	port := parsed.Port()
	if port == "" {
		port = "443"
	}
	//guard:webhook-kube-apiserver-other-letters
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(parsed.Hostname(), ".")), port)
}

func compileMatchConditions(a *configapi.AuthorizerConfiguration, path *field.Path) (*authorizationcel.CELMatcher, field.ErrorList) {
	if len(a.Webhook.MatchConditions) == 0 {
		return nil, nil
	}
	matcher := &authorizationcel.CELMatcher{AuthorizerType: string(a.Type), AuthorizerName: a.Name, Metrics: authorizationcel.NewMatcherMetrics()}
	var errs field.ErrorList
	for i, condition := range a.Webhook.MatchConditions {
		compiled, err := compiler().CompileCELExpression(&authorizationcel.SubjectAccessReviewMatchCondition{Expression: condition.Expression})
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("expression"), condition.Expression, err.Error()))
			continue
		}
		matcher.CompilationResults = append(matcher.CompilationResults, compiled)
		matcher.UsesFieldSelector = matcher.UsesFieldSelector || compiled.UsesFieldSelector
		matcher.UsesLabelSelector = matcher.UsesLabelSelector || compiled.UsesLabelSelector
	}
	return matcher, errs
}
