/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package server runs proviso-apiserver inside a test, without kube-apiserver. A header names the
// user of a request, and the test provides the authorizer.
package server

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/etcd"
)

// UserHeader is the header with the user of a request.
const UserHeader = "X-Test-User"

// maxCopy bounds what the copies in one JSON patch add, in bytes. It is the bound of the generic server.
const maxCopy = 3 << 20

// The generic server sets the bound of copies in a variable of the patch library if it is not less already. Servers of earlier
// tests may read the variable meanwhile, so it is set here, before there are any, to a bound that is less.
func init() { jsonpatch.AccumulatedCopySizeLimit = maxCopy - 1 }

// Config configures the server.
type Config struct {
	// Authorizer decides requests and reviews. If it is an *authorization.Chain, it is used
	// directly.
	Authorizer authorizer.Authorizer
	// Enforcement, if set, changes the configuration of enforcement.
	Enforcement func(*enforcement.Config)
	// Admission are admission plugins that run before the one that enforces conditions.
	Admission []admission.Interface
	// Generic, if set, changes the configuration of the generic server, such as its auditing.
	Generic func(*genericapiserver.Config)
	// Extra, if set, changes the configuration of the rest of the server, such as its feature
	// gates.
	Extra func(*apiserver.ExtraConfig)
	// EtcdDir is a directory for an embedded etcd. Its path must be short enough for a socket. If
	// it is empty, a temporary directory is used and the demo API is not served.
	EtcdDir string
}

// Server is a running server.
type Server struct {
	*genericapiserver.GenericAPIServer
}

// New returns a server. It need not listen: its Handler answers requests.
func New(tb testing.TB, config Config) *Server {
	tb.Helper()
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	names := openapi.NewDefinitionNamer(apiserver.Scheme)
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generatedopenapi.GetOpenAPIDefinitions, names)
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, names)
	generic.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	generic.FeatureGate = utilfeature.DefaultFeatureGate
	generic.ExternalAddress = "localhost:443"
	generic.LoopbackClientConfig = &rest.Config{Host: "localhost"}
	generic.SharedInformerFactory = informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	generic.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name := r.Header.Get(UserHeader)
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, name != "", nil
	})

	chain := chainOf(tb, config.Authorizer)
	generic.Authorization.Authorizer = chain
	applyEtcd(tb, etcdDir(tb, config), &generic.Config)
	policies := &engine.Source{} // loaded, with no policies
	policies.Publish(engine.NewBuilder().Apply(nil))
	chains, err := apiserver.NewChains(apiserver.AuthorizerConfig{Fresh: chain, Cached: chain, Policies: policies})
	if err != nil {
		tb.Fatal(err)
	}
	chains.Reviews, chains.Requests = chain, chain
	extra := apiserver.ExtraConfig{Chains: *chains, Policies: policies, PolicyStalenessBound: time.Minute, EnableDemoAPI: config.EtcdDir != ""}
	if extra.Compilers, err = apiserver.NewCompilers(); err != nil {
		tb.Fatal(err)
	}
	enforcing := enforcement.Config{
		Chain: chain, Conditional: true, ConnectWithCreate: true, Conditions: extra.Compilers.Conditions, Bound: extra.Compilers.Bound,
	}
	if config.Enforcement != nil {
		config.Enforcement(&enforcing)
	}
	if extra.Enforcer, err = enforcement.New(enforcing); err != nil {
		tb.Fatal(err)
	}
	plugin := &authorizationconditionsenforcer.Plugin{}
	authorizationconditionsenforcer.Initializer{Enforcer: extra.Enforcer}.Initialize(plugin)
	generic.AdmissionControl = admission.NewChainHandler(append(slices.Clone(config.Admission), plugin)...)
	if config.Generic != nil {
		config.Generic(&generic.Config)
	}
	if config.Extra != nil {
		config.Extra(&extra)
	}
	completed, err := (&apiserver.Config{GenericConfig: generic, ExtraConfig: extra}).Complete()
	if err != nil {
		tb.Fatal(err)
	}
	server, err := completed.New()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.GenericAPIServer.Destroy)
	server.GenericAPIServer.PrepareRun()
	return &Server{server.GenericAPIServer}
}

func chainOf(tb testing.TB, a authorizer.Authorizer) *authorization.Chain {
	tb.Helper()
	if chain, ok := a.(*authorization.Chain); ok {
		return chain
	}
	chain, err := authorization.NewChain(authorization.Member{Name: "test", Decider: authorization.DeciderOf(a)})
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

func etcdDir(tb testing.TB, config Config) string {
	tb.Helper()
	if config.EtcdDir != "" {
		return config.EtcdDir
	}
	dir, err := os.MkdirTemp("", "ps") // short enough for a socket
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func applyEtcd(tb testing.TB, dir string, generic *genericapiserver.Config) {
	tb.Helper()
	member, err := etcd.Start(tb.Context(), filepath.Join(dir, "data"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = member.Close() })
	endpoint, err := etcd.Endpoint(filepath.Join(dir, "data"))
	if err != nil {
		tb.Fatal(err)
	}
	options := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/test", apiserver.Codecs.LegacyCodec(apiserver.StorageVersions...)))
	options.StorageConfig.Transport.ServerList = []string{endpoint}
	options.SkipHealthEndpoints = true
	options.DeleteCollectionWorkers = 4 // admission is called concurrently for the objects of a collection
	if err := options.ApplyTo(generic); err != nil {
		tb.Fatal(err)
	}
}

// maxAttempts bounds how often Answer repeats a request, with some milliseconds between attempts.
const maxAttempts = 500

// Answer returns the answer to a request. If the server answers 429, as it does until its caches
// are filled, the request is repeated, as clients do.
func (s *Server) Answer(newRequest func() *http.Request) *httptest.ResponseRecorder {
	for attempt := 1; ; attempt++ {
		recorder := httptest.NewRecorder()
		s.Handler.ServeHTTP(recorder, newRequest())
		if recorder.Code != http.StatusTooManyRequests || attempt == maxAttempts {
			return recorder
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Client serves the server's handler on a port of its own and returns a client configuration for a
// user.
func (s *Server) Client(tb testing.TB, name string) *rest.Config {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	httpServer := &http.Server{Handler: s.Handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = httpServer.Serve(listener) }()
	tb.Cleanup(func() { _ = httpServer.Close() })
	return &rest.Config{
		Host: "http://" + listener.Addr().String(),
		WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.Header.Set(UserHeader, name)
				return next.RoundTrip(r)
			})
		},
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
