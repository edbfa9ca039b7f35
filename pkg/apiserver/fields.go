/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	authorizationprovisov1alpha1 "github.com/proviso-authz/proviso/apis/authorizationproviso/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// schemaTimeout bounds reading one schema document. The largest ones have a few megabytes.
const schemaTimeout = 10 * time.Second

// servedVersions are all versions that this server can serve. Their schemas are built in.
var servedVersions = slices.Concat(reviewVersions, []schema.GroupVersion{policyv1alpha1.SchemeGroupVersion, demov1alpha1.SchemeGroupVersion})

// reviewVersions are the versions of the two groups of reviews.
var reviewVersions = []schema.GroupVersion{authorizationv1alpha1.SchemeGroupVersion, authorizationprovisov1alpha1.SchemeGroupVersion}

// withFields are the resources of this server whose objects are stored, so that their fields can need permissions.
var withFields = []struct {
	version  schema.GroupVersion
	resource string
	object   runtime.Object
}{
	{version: demov1alpha1.SchemeGroupVersion, resource: "virtualmachines", object: &demov1alpha1.VirtualMachine{}},
	{version: policyv1alpha1.SchemeGroupVersion, resource: "clusterauthorizationpolicies", object: &policyv1alpha1.ClusterAuthorizationPolicy{}},
	{version: policyv1alpha1.SchemeGroupVersion, resource: "authorizationpolicies", object: &policyv1alpha1.AuthorizationPolicy{}},
	{version: policyv1alpha1.SchemeGroupVersion, resource: "enforcementconfigurations", object: &policyv1alpha1.EnforcementConfiguration{}},
	{version: policyv1alpha1.SchemeGroupVersion, resource: "fieldpermissionmappings", object: &policyv1alpha1.FieldPermissionMapping{}},
}

// Fields has the schemas and permissions of fields.
type Fields struct {
	// Types are the schemas of kinds. The schemas of the kinds in servedVersions are built in;
	// all other schemas are read from kube-apiserver when they are needed, if there is a client
	// of kube-apiserver.
	Types changes.Types
	// Markers are the permissions that fields need by the field markers in the schemas of this server.
	Markers *mapping.Markers
}

// NewFields reads the schemas of this server. kubeAPIServer is the client configuration for the
// schemas of other servers; if it is nil, their kinds are compared without a schema. If a field
// marker is invalid, the error names the field.
func NewFields(openAPI *common.OpenAPIV3Config, kubeAPIServer *restclient.Config) (Fields, error) {
	own, markers, err := ownFields(openAPI)
	if err != nil {
		return Fields{}, fmt.Errorf("schemas of fields: %w", err)
	}
	fields := Fields{Types: own, Markers: markers}
	if kubeAPIServer == nil {
		return fields, nil
	}
	published, err := newDiscovery(kubeAPIServer)
	if err != nil {
		return Fields{}, err
	}
	fields.Types = changes.Divide(own, servedVersions, changes.NewPublished(schemaReader(published)))
	return fields, nil
}

func ownFields(openAPI *common.OpenAPIV3Config) (changes.Types, *mapping.Markers, error) {
	var names []string
	resources := map[schema.GroupVersionKind]string{}
	for _, s := range withFields {
		names = append(names, openapiutil.GetCanonicalTypeName(s.object))
		resources[s.version.WithKind(reflect.TypeOf(s.object).Elem().Name())] = s.resource
	}
	schemas, err := builder3.BuildOpenAPIDefinitionsForResources(openAPI, names...)
	if err != nil {
		return nil, nil, err
	}
	types, err := changes.NewTypes(schemas)
	if err != nil {
		return nil, nil, err
	}
	markers, err := mapping.NewMarkers(schemas, resources)
	return types, markers, err
}

// schemaReader returns a reader of published schemas. It returns ErrNoSchema only if all servers behind
// kube-apiserver are available, because otherwise the schema may be missing for the moment only.
func schemaReader(published *typechecking.Discovery) changes.SchemaReader {
	return func(kind schema.GroupVersionKind) (*spec.Schema, error) {
		found, err := published.ResolveSchema(kind)
		if !errors.Is(err, resolver.ErrSchemaNotFound) {
			return found, err
		}
		if err := published.Missing(kind.GroupVersion()); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s", changes.ErrNoSchema, kind)
	}
}

// newDiscovery returns clients for the schemas that servers publish.
func newDiscovery(configs ...*restclient.Config) (*typechecking.Discovery, error) {
	var clients []discovery.DiscoveryInterface
	for _, config := range configs {
		config = restclient.CopyConfig(config)
		config.Timeout = schemaTimeout
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("client of schemas: %w", err)
		}
		clients = append(clients, client)
	}
	return typechecking.NewDiscovery(clients...), nil
}
