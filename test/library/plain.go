/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package library is the example of docs/library.md: an aggregated API server of another project,
// which gets conditional authorization by importing packages of Proviso.
package library

import (
	"net"

	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/registry/demo/virtualmachine"
)

// Options configure the server.
type Options struct {
	// Kubeconfig is the path of the kubeconfig file for kube-apiserver, behind which Proviso is registered.
	Kubeconfig string
	// EtcdServers are the URLs of etcd. Objects are stored below EtcdPrefix.
	EtcdServers []string
	EtcdPrefix  string
	// Listener is the listener of the server. Its certificate is generated in CertDirectory.
	Listener      net.Listener
	CertDirectory string
}

// New returns a generic API server with one resource. Two lines, which are marked, are for
// conditional authorization; the others are the same in every aggregated server.
func New(o Options) (*genericapiserver.GenericAPIServer, error) {
	options := genericoptions.NewRecommendedOptions(o.EtcdPrefix, apiserver.Codecs.LegacyCodec(v1alpha1.SchemeGroupVersion))
	options.Etcd.StorageConfig.Transport.ServerList = o.EtcdServers
	options.CoreAPI.CoreAPIKubeconfigPath = o.Kubeconfig
	options.Authentication.RemoteKubeConfigFile, options.Authorization.RemoteKubeConfigFile = o.Kubeconfig, o.Kubeconfig
	options.SecureServing.Listener, options.SecureServing.ServerCert.CertDirectory = o.Listener, o.CertDirectory
	if err := options.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, err
	}
	config := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	config.EffectiveVersion, config.ExternalAddress = compatibility.DefaultBuildEffectiveVersion(), o.Listener.Addr().String()
	names := openapi.NewDefinitionNamer(apiserver.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generatedopenapi.GetOpenAPIDefinitions, names)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, names)

	enforce := conditions(options) // added for conditional authorization
	if err := options.ApplyTo(config); err != nil {
		return nil, err
	}
	machines, err := virtualmachine.NewStorage(apiserver.Scheme, config.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(demo.GroupName, apiserver.Scheme, apiserver.ParameterCodec, apiserver.Codecs)
	group.VersionedResourcesStorageMap[v1alpha1.SchemeGroupVersion.Version] = map[string]rest.Storage{"virtualmachines": machines.Objects}
	if err := enforce(config, &group); err != nil { // added for conditional authorization
		return nil, err
	}
	server, err := config.Complete().New("library", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	return server, server.InstallAPIGroup(&group)
}
