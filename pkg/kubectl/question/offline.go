/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package question

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/proviso-authz/proviso/pkg/kubectl/command"
)

// ErrNamespace is the error of a question without a server that has no namespace.
var ErrNamespace = errors.New("with -f, you must specify --namespace or --all-namespaces: no kubeconfig is read")

// ReadWithoutServer is Read without a server, and reads TYPE or TYPE/NAME with the resources of Kubernetes. If Kubernetes does not have it, it is taken as it is, as
// RESOURCE.VERSION.GROUP or RESOURCE.GROUP.
func (q *Question) ReadWithoutServer(o *command.Options, argument string) {
	if IsURL(argument) {
		q.ReadURL(argument, o.Warn)
		return
	}
	if !q.AllNamespaces {
		q.Namespace = o.NamespaceFlag()
	}
	if argument == "" {
		return
	}
	known := Question{}
	if err := known.ReadResource(builtin(), argument, func(string) {}); err == nil && known.Resource.Version != "" {
		q.Resource, q.Name = known.Resource, known.Name
		return
	}
	resource, name, _ := strings.Cut(argument, "/")
	full, partly := schema.ParseResourceArg(strings.ToLower(resource))
	q.Resource, q.Name = partly.WithVersion(""), name
	if full != nil && isVersion(full.Version) {
		q.Resource = *full
	}
	if q.Resource.Version == "" && resource != "*" {
		o.Warn("the version of the resource is not known without a cluster: name it, as in deployments.v1.apps, if policies are for certain versions")
	}
}

// isVersion reports whether a text looks like a version: demo in virtualmachines.demo.proviso.dev does not.
func isVersion(text string) bool {
	return len(text) > 1 && text[0] == 'v' && text[1] >= '0' && text[1] <= '9'
}

// withoutNamespace has the kinds of Kubernetes whose objects have no namespace.
var withoutNamespace = sets.New(
	"Namespace", "Node", "PersistentVolume", "ComponentStatus", "ClusterRole", "ClusterRoleBinding", "StorageClass", "VolumeAttachment", "VolumeAttributesClass",
	"CSIDriver", "CSINode", "CertificateSigningRequest", "ClusterTrustBundle", "RuntimeClass", "PriorityClass", "PriorityLevelConfiguration", "FlowSchema",
	"IngressClass", "IPAddress", "ServiceCIDR", "DeviceClass", "ResourceSlice", "DeviceTaintRule", "StorageVersion", "StorageVersionMigration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "TokenReview", "SelfSubjectReview", "SubjectAccessReview", "SelfSubjectAccessReview",
	"SelfSubjectRulesReview",
)

// builtin returns a mapper of the resources of Kubernetes.
func builtin() meta.RESTMapper {
	versions := scheme.Scheme.PrioritizedVersionsAllGroups()
	mapper := meta.NewDefaultRESTMapper(versions)
	for _, version := range versions {
		if version.Group == "extensions" {
			continue // its resources are in other groups now
		}
		for kind := range scheme.Scheme.KnownTypes(version) {
			scope := meta.RESTScopeNamespace
			if withoutNamespace.Has(kind) {
				scope = meta.RESTScopeRoot
			}
			mapper.Add(version.WithKind(kind), scope)
		}
	}
	return preferring{mapper}
}

// preferring is a mapper that takes the preferred version of a resource that has several.
type preferring struct{ meta.RESTMapper }

// ResourceFor returns the preferred version of a resource.
func (p preferring) ResourceFor(partial schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	found, err := p.ResourcesFor(partial)
	if err != nil || slices.ContainsFunc(found, func(r schema.GroupVersionResource) bool { return r.Group != found[0].Group }) {
		return p.RESTMapper.ResourceFor(partial) // it is in several groups
	}
	return found[0], nil
}

// WithoutServer returns a mapper of kinds without a server. The resource of a kind that Kubernetes does not have is guessed, with a warning, and
// counts as namespaced.
func WithoutServer(warn func(string)) meta.RESTMapper {
	return guessing{RESTMapper: builtin(), warn: warn}
}

type guessing struct {
	meta.RESTMapper

	warn func(string)
}

// RESTMapping returns the resource of a kind.
func (g guessing) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := g.RESTMapper.RESTMapping(kind, versions...)
	if err == nil || len(versions) != 1 {
		return mapping, err
	}
	of := kind.WithVersion(versions[0])
	resource, _ := meta.UnsafeGuessKindToResource(of)
	g.warn(fmt.Sprintf("the resource of the kind %s is not known without a cluster, and taken as %s", of.Kind, resource.GroupResource()))
	return &meta.RESTMapping{Resource: resource, GroupVersionKind: of, Scope: meta.RESTScopeNamespace}, nil
}
