/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package options turns flags into a running server: Options are completed, validated, turned into
// a configuration, and run. The types enforce this order: only completed options can be validated
// and run.
package options

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/proviso-authz/proviso/apis/demo"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/node"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/etcd"
	"github.com/proviso-authz/proviso/pkg/features"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/version"
)

// etcdPrefix is the prefix of all keys in etcd. It differs from kube-apiserver's, so that both can
// use one etcd cluster.
const etcdPrefix = "/registry/proviso"

// http2Streams is the maximum number of concurrent requests per connection. kube-apiserver proxies
// the requests of all its clients over few connections.
const http2Streams = 1000

// Options are the options of proviso-apiserver.
type Options struct {
	Generic        *genericoptions.ServerRunOptions
	SecureServing  *genericoptions.SecureServingOptionsWithLoopback
	FrontDoor      *FrontDoorOptions
	Barriers       *BarrierOptions
	Etcd           *genericoptions.EtcdOptions
	Authentication *genericoptions.DelegatingAuthenticationOptions
	Authorization  *AuthorizationOptions
	CoreAPI        *genericoptions.CoreAPIOptions
	Audit          *genericoptions.AuditOptions
	Features       *genericoptions.FeatureOptions
	Admission      *genericoptions.AdmissionOptions
	EgressSelector *genericoptions.EgressSelectorOptions
	Traces         *genericoptions.TracingOptions
	Logs           *logs.Options

	// DataDir is the directory of the embedded etcd and of self-made certificates.
	DataDir string
	// SelfMadeCertHosts are the DNS names and IP addresses of the certificate that the server
	// generates if none is configured.
	SelfMadeCertHosts []string
	// EnableDemoAPI enables the API group demo.proviso.dev.
	EnableDemoAPI bool
	// PolicyStalenessBound is how long the store of policies may be unreachable before Allow
	// policies grant nothing. It must be at least a second.
	PolicyStalenessBound time.Duration
	// IgnoreFieldExclusions allows the server to start while the feature gate
	// FineGrainedAuthorization is off although fields are excluded. The exclusions are then not
	// enforced.
	IgnoreFieldExclusions bool
}

// minStalenessBound is the lowest bound at which a slow store does not count as unreachable.
const minStalenessBound = time.Second

// NewOptions returns the defaults.
func NewOptions() *Options {
	codec := apiserver.Codecs.LegacyCodec(apiserver.StorageVersions...)
	serving := genericoptions.NewSecureServingOptions()
	serving.HTTP2MaxStreamsPerConnection = http2Streams
	serving.ServerCert.CertDirectory = ""

	o := &Options{
		Generic:        genericoptions.NewServerRunOptionsForComponent(basecompatibility.DefaultKubeComponent, compatibility.DefaultComponentGlobalsRegistry),
		SecureServing:  serving.WithLoopback(),
		FrontDoor:      NewFrontDoorOptions(),
		Barriers:       NewBarrierOptions(),
		Etcd:           genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig(etcdPrefix, codec)),
		Authentication: genericoptions.NewDelegatingAuthenticationOptions(),
		Authorization:  NewAuthorizationOptions(),
		CoreAPI:        genericoptions.NewCoreAPIOptions(),
		Audit:          genericoptions.NewAuditOptions(),
		Features:       genericoptions.NewFeatureOptions(),
		Admission:      genericoptions.NewAdmissionOptions(),
		EgressSelector: genericoptions.NewEgressSelectorOptions(),
		Traces:         genericoptions.NewTracingOptions(),
		Logs:           logs.NewOptions(),

		DataDir:           defaultDataDir,
		SelfMadeCertHosts: []string{"localhost", "127.0.0.1", "::1"},

		PolicyStalenessBound: time.Minute,
	}
	o.Etcd.StorageConfig.EncodeVersioner = apiserver.StorageVersions
	authorizationconditionsenforcer.AddTo(o.Admission)
	o.Admission.Decorators = append(o.Admission.Decorators, admission.DecoratorFunc(withoutNamespaces))
	return o
}

// Flags returns the flags of the options, in sections.
func (o *Options) Flags() cliflag.NamedFlagSets {
	fss := cliflag.NamedFlagSets{}
	proviso := fss.FlagSet("proviso")
	proviso.StringVar(&o.DataDir, "data-dir", o.DataDir,
		"Directory for the embedded etcd, which runs when --etcd-servers is not set, and for a self-made serving certificate. It must survive restarts and belong to one replica.")
	proviso.BoolVar(&o.EnableDemoAPI, "enable-demo-api", o.EnableDemoAPI,
		"Serve demo.proviso.dev/v1alpha1 virtualmachines, an imaginary resource for trying policies. Also adds an example authorizer that lets nodes write the virtual machines placed on them, and decides reviews about pods in the same way.")

	proviso.DurationVar(&o.PolicyStalenessBound, "policy-staleness-bound", o.PolicyStalenessBound,
		"How long the store of policies may be unreachable. After that, the server is not ready and Allow policies grant nothing, but Deny policies still deny. Must be at least 1s.")

	proviso.BoolVar(&o.IgnoreFieldExclusions, "ignore-field-exclusions", o.IgnoreFieldExclusions,
		"Start with the feature gate FineGrainedAuthorization off although FieldPermissionMappings or schemas exclude fields from permission on the object. Proviso then does not enforce the exclusions. Without this flag, the server does not start in that case.")

	o.Generic.AddUniversalFlags(fss.FlagSet("generic"))
	serving := fss.FlagSet("secure serving")
	o.SecureServing.AddFlags(serving)
	serving.Lookup("cert-dir").Usage = "Directory for a self-made serving certificate (tls.crt, tls.key, and ca.crt for the caBundle of the APIService), which the server generates if --tls-cert-file and --tls-private-key-file are not set. Defaults to the directory certificates in --data-dir."
	serving.StringSliceVar(&o.SelfMadeCertHosts, "self-made-cert-hosts", o.SelfMadeCertHosts,
		"DNS names and IP addresses of the self-made serving certificate.")
	o.FrontDoor.AddFlags(fss.FlagSet("front door"))
	o.Barriers.AddFlags(fss.FlagSet("barriers"))
	o.Etcd.AddFlags(fss.FlagSet("etcd"))
	authentication := fss.FlagSet("authentication")
	o.Authentication.AddFlags(authentication)
	authentication.Lookup("authentication-tolerate-lookup-failure").Usage = tolerateUsage
	o.Authorization.AddFlags(fss.FlagSet("authorization"))
	core := fss.FlagSet("core API")
	o.CoreAPI.AddFlags(core)
	core.Lookup("kubeconfig").Usage = "kubeconfig file for kube-apiserver. Also the default for --authentication-kubeconfig and --authorization-kubeconfig. If not set, the ServiceAccount of the pod is used."
	o.Audit.AddFlags(fss.FlagSet("auditing"))
	o.Features.AddFlags(fss.FlagSet("features"))
	o.Admission.AddFlags(fss.FlagSet("admission"))
	o.EgressSelector.AddFlags(fss.FlagSet("egress selector"))
	o.Traces.AddFlags(fss.FlagSet("traces"))
	logsapi.AddFlags(o.Logs, fss.FlagSet("logs"))
	return fss
}

// completedOptions are Options in which Complete has filled in the defaults.
type completedOptions struct {
	Options
	embeddedEtcd bool
}

// CompletedOptions are the result of Complete. Other packages cannot create them.
type CompletedOptions struct {
	*completedOptions
}

// Complete fills in defaults that depend on other options. It has no other effect.
func (o *Options) Complete() (CompletedOptions, error) {
	c := &completedOptions{Options: *o}
	if kubeconfig := c.CoreAPI.CoreAPIKubeconfigPath; kubeconfig != "" {
		if c.Authentication.RemoteKubeConfigFile == "" {
			c.Authentication.RemoteKubeConfigFile = kubeconfig
		}
		if c.Authorization.RemoteKubeConfigFile == "" {
			c.Authorization.RemoteKubeConfigFile = kubeconfig
		}
	}
	if c.SecureServing.ServerCert.CertDirectory == "" {
		c.SecureServing.ServerCert.CertDirectory = filepath.Join(c.DataDir, "certificates")
	}
	if len(c.Etcd.StorageConfig.Transport.ServerList) == 0 {
		endpoint, err := etcd.Endpoint(c.DataDir)
		if err != nil {
			return CompletedOptions{}, fmt.Errorf("--data-dir: %w", err)
		}
		c.embeddedEtcd = true
		c.Etcd.StorageConfig.Transport.ServerList = []string{endpoint}
	}
	if err := c.Generic.Complete(); err != nil {
		return CompletedOptions{}, err
	}
	return CompletedOptions{c}, nil
}

// Validate returns all errors in the options. It changes nothing.
func (o CompletedOptions) Validate() []error {
	var errs []error
	if o.SecureServing.BindPort == 0 && o.SecureServing.Listener == nil {
		errs = append(errs, errors.New("--secure-port must not be 0: the server has no other port"))
	}
	if len(o.SelfMadeCertHosts) == 0 && !o.hasCertificate() {
		errs = append(errs, errors.New("--self-made-cert-hosts must not be empty unless --tls-cert-file and --tls-private-key-file are set"))
	}
	if o.PolicyStalenessBound < minStalenessBound {
		errs = append(errs, fmt.Errorf("--policy-staleness-bound must be at least %s", minStalenessBound))
	}
	if len(o.FrontDoor.KubeAPIServers) > 0 && o.FrontDoor.InnerDoorConfig == "" && !o.Barriers.Enabled && !o.leavesConditions() {
		errs = append(errs, errors.New("--kube-apiserver-servers needs --inner-door-config, --barriers or --feature-gates=UpstreamConditionalDecisions=true"))
	}
	if slices.Contains(o.Authorization.AlwaysAllowGroups, "") {
		errs = append(errs, errors.New("the groups that are always allowed must not include an empty name"))
	}
	for _, validate := range []func() []error{
		o.Generic.Validate, o.SecureServing.Validate, o.FrontDoor.Validate, o.Barriers.Validate, o.Etcd.Validate, o.Authentication.Validate,
		o.Authorization.Validate, o.CoreAPI.Validate, o.Audit.Validate, o.Features.Validate,
		o.Admission.Validate, o.EgressSelector.Validate, o.Traces.Validate, o.validateEnforcement,
	} {
		errs = append(errs, validate()...)
	}
	return errs
}

func (o CompletedOptions) hasCertificate() bool {
	pair := o.SecureServing.ServerCert.CertKey
	return pair.CertFile != "" || pair.KeyFile != "" || o.SecureServing.ServerCert.GeneratedCert != nil
}

// Config returns the configuration of the server. It generates a certificate if none is
// configured, and opens the ports of the server.
func (o CompletedOptions) Config() (*apiserver.Config, error) {
	if !o.hasCertificate() {
		made, err := ensureSelfMade(o.SecureServing.ServerCert.CertDirectory, o.SelfMadeCertHosts, time.Now())
		if err != nil {
			return nil, fmt.Errorf("self-made serving certificate: %w", err)
		}
		o.SecureServing.ServerCert.CertKey.CertFile, o.SecureServing.ServerCert.CertKey.KeyFile = made.CertFile, made.KeyFile
	}
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	names := openapi.NewDefinitionNamer(apiserver.Scheme)
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generatedopenapi.GetOpenAPIDefinitions, names)
	generic.OpenAPIConfig.Info.Title, generic.OpenAPIConfig.Info.Version = "Proviso", version.Get().GitVersion
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, names)
	generic.OpenAPIV3Config.Info.Title, generic.OpenAPIV3Config.Info.Version = "Proviso", version.Get().GitVersion

	config := &apiserver.Config{GenericConfig: generic, ExtraConfig: apiserver.ExtraConfig{EnableDemoAPI: o.EnableDemoAPI}}
	for _, apply := range []func(*apiserver.Config) error{o.applyServing, o.applyAccess, o.applyFeatures, o.applyAdmission} {
		if err := apply(config); err != nil {
			return nil, err
		}
	}
	return config, nil
}

func (o CompletedOptions) applyServing(config *apiserver.Config) error {
	generic := config.GenericConfig
	if err := o.Generic.ApplyTo(&generic.Config); err != nil {
		return err
	}
	generic.EffectiveVersion = effectiveVersion{generic.EffectiveVersion}
	if err := o.EgressSelector.ApplyTo(&generic.Config); err != nil {
		return fmt.Errorf("egress selector: %w", err)
	}
	if err := o.Traces.ApplyTo(generic.EgressSelector, &generic.Config); err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	o.Etcd.StorageConfig.Transport.TracerProvider = generic.TracerProvider // as kube-apiserver does
	if err := o.Etcd.ApplyTo(&generic.Config); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	if err := o.SecureServing.ApplyToConfig(&generic.Config); err != nil {
		return fmt.Errorf("secure serving: %w", err)
	}
	generic.ExternalAddress = externalAddress(generic)
	var err error
	if config.ExtraConfig.FrontDoor, err = o.FrontDoor.config(*o.SecureServing.SecureServingOptions); err != nil {
		return err
	}
	var innerDoor *manifest.Config
	if frontDoor := config.ExtraConfig.FrontDoor; frontDoor != nil {
		innerDoor = frontDoor.InnerDoor
		if o.Traces.ConfigFile != "" {
			frontDoor.TracerProvider = generic.TracerProvider
		}
	}
	config.ExtraConfig.KubeAPIServers = o.FrontDoor.KubeAPIServers
	config.ExtraConfig.Barriers = o.Barriers.config(innerDoor)
	return nil
}

// externalAddress returns the address for discovery. Clients reach the server through
// kube-apiserver, so that the address matters little; but without one the generic server would
// look for a network interface, which a test or a laptop may not have.
func externalAddress(generic *genericapiserver.RecommendedConfig) string {
	if generic.ExternalAddress != "" {
		return generic.ExternalAddress
	}
	_, port, err := net.SplitHostPort(generic.SecureServing.Listener.Addr().String())
	if err != nil {
		return "localhost"
	}
	return net.JoinHostPort("localhost", port)
}

func (o CompletedOptions) applyAccess(config *apiserver.Config) error {
	generic := config.GenericConfig
	if err := o.applyAuthentication(&generic.Config); err != nil {
		return fmt.Errorf("authentication: %w", err)
	}
	check, err := o.clientCAReadiness(generic.SecureServing.ClientCA, generic.Authentication.RequestHeaderConfig)
	if err != nil {
		return err
	}
	if check != nil {
		generic.AddReadyzChecks(check)
	}
	if check != nil && !o.Authentication.TolerateInClusterLookupFailure { // with it, the CAs may never be known
		generic.SecureServing.ClientCA = whenKnown{check.bundle, check}
		config.ExtraConfig.ClientsAreKnown = check.known.Load
		if err := generic.AddPostStartHook("proviso-client-ca", func(hook genericapiserver.PostStartHookContext) error {
			go check.run(hook)
			return nil
		}); err != nil {
			return err
		}
	}
	config.ExtraConfig.Policies, config.ExtraConfig.PolicyStalenessBound = &engine.Source{}, o.PolicyStalenessBound
	webhooks, err := o.applyWebhooks(config)
	if err != nil {
		return fmt.Errorf("authorization: %w", err)
	}
	fields, err := o.applyFineGrained(config)
	if err != nil {
		return fmt.Errorf("fine-grained authorization: %w", err)
	}
	if frontDoor := config.ExtraConfig.FrontDoor; frontDoor != nil {
		// The front door has one more check to make while kube-apiserver waits, so that there is one attempt.
		if frontDoor.KubeAPIServer, err = o.Authorization.kubeAPIServer(min(o.Authorization.AllowCacheTTL, maxInnerDoorTTL), 0, 1); err != nil {
			return fmt.Errorf("authorization: %w", err)
		}
		if frontDoor.ForReviews, err = o.Authorization.kubeAPIServer(min(o.Authorization.AllowCacheTTL, maxInnerDoorTTL), 0, 1); err != nil {
			return fmt.Errorf("authorization: %w", err)
		}
		frontDoor.MissesWebhooks = webhooks != nil && o.isOn(features.WebhooksAtFrontDoor) && frontDoor.InnerDoor != nil && frontDoor.InnerDoor.AsksOthers
		frontDoor.LeavesConditions = o.leavesConditions()
	}
	chains, err := o.Authorization.Chains(apiserver.AuthorizerConfig{
		Policies: config.ExtraConfig.Policies, Webhooks: webhooks, WebhooksAtFrontDoor: o.isOn(features.WebhooksAtFrontDoor), Fields: fields, Node: o.demoAuthorizer(),
	}, o.FrontDoor.InnerDoorConfig != "" || o.leavesConditions())
	if err != nil {
		return fmt.Errorf("authorization: %w", err)
	}
	config.ExtraConfig.Chains = *chains
	generic.Authorization.Authorizer = chains.Requests
	if err := o.Audit.ApplyTo(&generic.Config); err != nil {
		return fmt.Errorf("auditing: %w", err)
	}
	return nil
}

// demoAuthorizer returns the example authorizer, which decides about what is placed on nodes: imaginary
// machines, and pods in reviews. It returns nil if the demo API is not served.
func (o CompletedOptions) demoAuthorizer() authorization.Decider {
	if !o.EnableDemoAPI {
		return nil
	}
	return authorization.DeciderOf(node.Authorizer{Resources: []schema.GroupResource{demo.Resource("virtualmachines"), {Resource: "pods"}}})
}

// applyWebhooks reads the configuration of webhooks, and reloads it while the server runs. It
// returns nil if no webhooks are configured.
func (o CompletedOptions) applyWebhooks(config *apiserver.Config) (*webhook.Source, error) {
	webhooks, err := o.Authorization.Webhooks(o.leavesConditions())
	if err != nil || webhooks == nil {
		return nil, err
	}
	return webhooks, config.GenericConfig.AddPostStartHook("proviso-authorization-webhooks", func(hook genericapiserver.PostStartHookContext) error {
		go webhooks.Run(hook)
		return nil
	})
}

// resync is how often the informers of objects in kube-apiserver pass all of them on again, as CoreAPIOptions has it.
const resync = 10 * time.Minute

// withoutManagedFields is a transform for informers that drops the managedFields of ValidatingAdmissionPolicies and their bindings: there may be thousands of barriers. Other objects keep them, because an admission policy may
// read them from its parameter.
func withoutManagedFields(obj any) (any, error) {
	switch obj.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return controller.WithoutManagedFields(obj)
	}
	return obj, nil
}

func (o CompletedOptions) applyFeatures(config *apiserver.Config) error {
	generic := config.GenericConfig
	if err := o.CoreAPI.ApplyTo(generic); err != nil {
		return fmt.Errorf("core API: %w", err)
	}
	client, err := kubernetes.NewForConfig(generic.ClientConfig)
	if err != nil {
		return fmt.Errorf("core API: %w", err)
	}
	generic.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(withoutManagedFields))
	if err := o.Features.ApplyTo(&generic.Config, client, generic.SharedInformerFactory); err != nil {
		return fmt.Errorf("features: %w", err)
	}
	return nil
}

func (o CompletedOptions) applyAdmission(config *apiserver.Config) error {
	generic := config.GenericConfig
	client, err := kubernetes.NewForConfig(generic.ClientConfig)
	if err != nil {
		return fmt.Errorf("core API: %w", err)
	}
	if err := o.applyEnforcement(config, client); err != nil {
		return fmt.Errorf("enforcement: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(generic.ClientConfig)
	if err != nil {
		return fmt.Errorf("core API: %w", err)
	}
	addMutatingPolicies(generic.SharedInformerFactory)
	err = o.Admission.ApplyTo(&generic.Config, servedPolicies{generic.SharedInformerFactory}, client, dynamicClient,
		generic.FeatureGate, generic.EffectiveVersion, exclusions{},
		authorizationconditionsenforcer.Initializer{Enforcer: config.ExtraConfig.Enforcer})
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}

// Run runs the server until ctx ends, and then shuts it down gracefully. An embedded etcd starts
// before all other parts and stops after them.
func (o CompletedOptions) Run(ctx context.Context) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if o.embeddedEtcd {
		member, startErr := etcd.Start(ctx, o.DataDir)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, member.Close()) }()
		go func() {
			select {
			case failure := <-member.Err():
				stop(fmt.Errorf("embedded etcd: %w", failure))
			case <-ctx.Done():
			}
		}()
	}
	config, err := o.Config()
	if err != nil {
		return err
	}
	if err := o.checkExclusions(ctx, config, stop); err != nil {
		return err
	}
	config.ExtraConfig.End = stop
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := completed.New()
	if err != nil {
		return err
	}
	if err := server.Run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// effectiveVersion makes /version return the version of Proviso. Feature gates and CEL libraries
// still use the version of the Kubernetes libraries.
type effectiveVersion struct {
	basecompatibility.EffectiveVersion
}

// Info returns the version of Proviso.
func (effectiveVersion) Info() *apimachineryversion.Info {
	info := version.Get()
	return &info
}
