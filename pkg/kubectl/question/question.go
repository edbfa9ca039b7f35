/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package question reads the arguments of commands that ask about a request, VERB and TYPE, TYPE/NAME or a URL, as kubectl auth can-i does,
// with the same warnings.
//
// The package must not import the server, pkg/apiserver.
package question

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
)

// The verbs and resources that kubectl auth can-i knows. Others cause a warning.
var (
	resourceVerbs = sets.New("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "use", "bind", "impersonate", "*",
		"approve", "sign", "escalate", "attest")
	nonResourceURLVerbs = sets.New("get", "put", "post", "head", "options", "delete", "patch", "*")
	// nonStandardResources are resources that no server serves: users and groups, for the verb impersonate.
	nonStandardResources = sets.New("users", "groups")
)

// Question is the request that a command asks about. It has a resource, or a URL.
type Question struct {
	Verb, NonResourceURL, Name, Namespace, Subresource string
	// LabelSelector and FieldSelector belong to a verb about many objects, as kubectl sends them.
	LabelSelector, FieldSelector string
	Resource                     schema.GroupVersionResource
	// AllNamespaces says that the namespace is empty because the question is about all of them.
	AllNamespaces bool
	// IsClusterScoped says that requests for the resource have no namespace, as far as the server tells. Those for a Namespace have its name.
	IsClusterScoped bool
}

// AddFlags adds the flags of a question.
func (q *Question) AddFlags(fs *pflag.FlagSet, usageAllNamespaces string) {
	fs.BoolVarP(&q.AllNamespaces, "all-namespaces", "A", q.AllNamespaces, usageAllNamespaces)
	fs.StringVar(&q.Subresource, "subresource", q.Subresource, "SubResource such as pod/log or deployment/scale")
}

// AddSelectorFlags adds the flags of selectors.
func (q *Question) AddSelectorFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&q.LabelSelector, "selector", "l", q.LabelSelector, "Label selector of a list, watch or deletecollection, as in 'kubectl get'.")
	fs.StringVar(&q.FieldSelector, "field-selector", q.FieldSelector, "Field selector of a list, watch or deletecollection, as in 'kubectl get'.")
}

// ErrURLSubresource is the error of a URL with a subresource.
var ErrURLSubresource = errors.New("--subresource can not be used with NonResourceURL")

// Read reads TYPE, TYPE/NAME or a URL with the resources of the cluster, and prints the warnings of kubectl auth can-i. An empty argument is a resource that
// a file names: readFile reads it, and is nil if there is no file.
func (q *Question) Read(o *command.Options, argument string, readFile func(meta.RESTMapper) error) (err error) {
	if IsURL(argument) {
		q.ReadURL(argument, o.Warn)
		return nil
	}
	if !q.AllNamespaces {
		if q.Namespace, _, err = o.Flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return err
		}
	}
	mapper, err := o.Flags.ToRESTMapper()
	if err != nil {
		return err
	}
	if argument != "" {
		if err := q.ReadResource(mapper, argument, o.Warn); err != nil {
			return err
		}
	}
	if readFile != nil {
		if err := readFile(mapper); err != nil {
			return err
		}
	}
	server, err := o.Flags.ToDiscoveryClient()
	if err != nil {
		return err
	}
	q.checkResource(server, o.Warn)
	return nil
}

// IsURL reports whether an argument is a URL, and not a resource.
func IsURL(argument string) bool { return strings.HasPrefix(argument, "/") }

// ReadURL sets the URL. warn is called for an unknown verb.
func (q *Question) ReadURL(argument string, warn func(string)) {
	q.NonResourceURL = argument
	if !nonResourceURLVerbs.Has(q.Verb) {
		warn(fmt.Sprintf("verb '%s' is not a known verb", q.Verb))
	}
}

// ReadResource sets the resource and the name from TYPE or TYPE/NAME. A resource that the mapper does not have is taken as it is, and causes a
// warning. The error says that no server has answered.
func (q *Question) ReadResource(mapper meta.RESTMapper, argument string, warn func(string)) (err error) {
	resource, name, _ := strings.Cut(argument, "/")
	q.Name = cmp.Or(name, q.Name) // a field selector may have set it
	q.Resource, err = resourceFor(mapper, resource, warn)
	return err
}

// resourceFor resolves a resource as kubectl auth can-i does.
func resourceFor(mapper meta.RESTMapper, argument string, warn func(string)) (schema.GroupVersionResource, error) {
	if argument == "*" {
		return schema.GroupVersionResource{Resource: argument}, nil
	}
	full, groupResource := schema.ParseResourceArg(strings.ToLower(argument))
	if full != nil {
		if found, err := mapper.ResourceFor(*full); err == nil && !found.Empty() {
			return found, nil
		}
	}
	found, err := mapper.ResourceFor(groupResource.WithVersion(""))
	if err == nil {
		return found, nil
	}
	if _, isUnreachable := errors.AsType[*url.Error](err); isUnreachable {
		return found, err
	}
	if !nonStandardResources.Has(groupResource.String()) {
		text := fmt.Sprintf("the server doesn't have a resource type '%s'", groupResource.Resource)
		if groupResource.Group != "" {
			text += fmt.Sprintf(" in group '%s'", groupResource.Group)
		}
		warn(text)
	}
	return schema.GroupVersionResource{Resource: argument}, nil
}

// checkResource warns of an unknown verb, of a namespace for a resource that has none, and of a subresource that is written as a name.
func (q *Question) checkResource(server discovery.ServerResourcesInterface, warn func(string)) {
	known := &metav1.APIResourceList{}
	if found, err := server.ServerResourcesForGroupVersion(q.Resource.GroupVersion().String()); err == nil && q.Resource.Resource != "*" {
		known = found
	}
	find := func(name string) int {
		return slices.IndexFunc(known.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
	}
	if q.Subresource == "" && q.Name != "" && find(q.Resource.Resource+"/"+q.Name) >= 0 {
		warn(fmt.Sprintf("the question is about an object with the name '%[1]s': did you mean --subresource=%[1]s", q.Name))
	}
	i := find(q.Resource.Resource)
	hasNoNamespace := i >= 0 && !known.APIResources[i].Namespaced
	q.IsClusterScoped = hasNoNamespace && !q.IsOfNamespaces()
	if q.AllNamespaces {
		return
	}
	if hasNoNamespace {
		text := fmt.Sprintf("resource '%s' is not namespace scoped", q.Resource.Resource)
		if q.Resource.Group != "" {
			text += fmt.Sprintf(" in group '%s'", q.Resource.Group)
		}
		warn(text)
	}
	if !resourceVerbs.Has(q.Verb) {
		warn(fmt.Sprintf("verb '%s' is not a known verb", q.Verb))
	}
}

// Namespace reads a namespace. It is nil if the name is empty, if the user may not read it, or if it does not exist: then conditions that read it fail.
func Namespace(ctx context.Context, client corev1client.NamespacesGetter, name string) (map[string]any, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // absence is a result, and not an error
	}
	namespace, err := client.Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absence is a result, and not an error
	}
	if err != nil {
		return nil, err
	}
	namespace.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(namespace)
}

// Request is the request of a question, as reports show it.
type Request struct {
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Version     string `json:"version,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	Path        string `json:"path,omitempty"`
	// LabelSelector and FieldSelector are as kubectl writes them.
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
}

// RequestOf returns a request as reports show it.
func RequestOf(r authorizer.AttributesRecord) Request {
	return Request{
		Verb: r.Verb, Group: r.APIGroup, Version: r.APIVersion, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name, Path: r.Path,
		LabelSelector: labels.NewSelector().Add(r.LabelSelectorRequirements...).String(), FieldSelector: textOf(r.FieldSelectorRequirements),
	}
}

func textOf(requirements fields.Requirements) string {
	texts := make([]string, 0, len(requirements))
	for _, r := range requirements {
		texts = append(texts, r.Field+string(r.Operator)+fields.EscapeValue(r.Value))
	}
	return strings.Join(texts, ",")
}

// ResourceText returns a resource, which may have a subresource, with its group, as in deployments.apps/scale.
func ResourceText(resource, group string) string {
	resource, subresource, _ := strings.Cut(resource, "/")
	return strings.TrimSuffix(strings.TrimSuffix(resource+"."+group, ".")+"/"+subresource, "/")
}

// Record returns the request of the question, without a user.
func (q *Question) Record() authorizer.AttributesRecord {
	resource, path := q.Attributes(q.Resource.Version)
	return authorization.AttributesOf(nil, resource, path)
}

// SpecOf returns the part of a SubjectAccessReview that describes a user.
func SpecOf(who *authenticationv1.UserInfo) *authorizationv1alpha1.SubjectAccessReviewSpec {
	spec := &authorizationv1alpha1.SubjectAccessReviewSpec{User: who.Username, UID: who.UID, Groups: who.Groups, Extra: map[string]authorizationv1.ExtraValue{}}
	for key, values := range who.Extra {
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	return spec
}

// IsNameless reports whether the question is about all objects of a resource, although each request has a name.
func (q *Question) IsNameless() bool {
	return q.NonResourceURL == "" && authorization.LacksName(q.Verb, q.Subresource, q.Name)
}

// IsOfNamespaces reports whether the question is about Namespaces.
func (q *Question) IsOfNamespaces() bool {
	return q.Resource.GroupResource() == schema.GroupResource{Resource: "namespaces"}
}

// Attributes returns the request of the question, for one version or, as kubectl auth can-i asks, for none.
func (q *Question) Attributes(version string) (*authorizationv1.ResourceAttributes, *authorizationv1.NonResourceAttributes) {
	if q.NonResourceURL != "" {
		return nil, &authorizationv1.NonResourceAttributes{Verb: q.Verb, Path: q.NonResourceURL}
	}
	namespace := q.Namespace
	if q.IsOfNamespaces() && q.Name != "" {
		namespace = q.Name // a Namespace is in itself
	}
	a := &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: q.Verb, Group: q.Resource.Group, Version: version, Resource: q.Resource.Resource, Subresource: q.Subresource, Name: q.Name,
	}
	SetSelectors(a, q.LabelSelector, q.FieldSelector)
	return a, nil
}

// SetSelectors sets the selectors of a request that are not empty.
func SetSelectors(a *authorizationv1.ResourceAttributes, byLabels, byFields string) {
	if byLabels != "" {
		a.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: byLabels}
	}
	if byFields != "" {
		a.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: byFields}
	}
}

// readSelectors returns an error for selectors that are none, or for a request that has none. A field selector may set the name, as in kube-apiserver.
func (q *Question) readSelectors(verb string, isURL bool) error {
	if q.LabelSelector == "" && q.FieldSelector == "" {
		return nil
	}
	if isURL || !slices.Contains([]string{"list", "watch", "deletecollection"}, verb) {
		return fmt.Errorf("--selector and --field-selector are for list, watch and deletecollection, and the verb is %q", verb)
	}
	if _, err := labels.ParseToRequirements(q.LabelSelector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	selector, err := fields.ParseSelector(q.FieldSelector)
	if err != nil {
		return fmt.Errorf("--field-selector: %w", err)
	}
	if name, ok := selector.RequiresExactMatch("metadata.name"); ok && verb != "deletecollection" && len(content.IsPathSegmentName(name)) == 0 {
		q.Name = name
	}
	return nil
}

// SelectorFlags returns the flags of kubectl for selectors, quoted for a shell.
func SelectorFlags(byLabels, byFields string) string {
	var flags []string
	for flag, selector := range map[string]string{"-l ": byLabels, "--field-selector ": byFields} {
		if strings.ContainsFunc(selector, isSpecial) {
			selector = "'" + strings.ReplaceAll(selector, "'", `'\''`) + "'"
		}
		if selector != "" {
			flags = append(flags, flag+selector)
		}
	}
	slices.Sort(flags)
	return strings.Join(flags, " ")
}

// isSpecial reports whether a shell could read a character of a selector as something else. Names come from authors of policies.
func isSpecial(r rune) bool {
	isPlain := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./=,:@", r)
	return !isPlain
}

// ErrNamespace is the error of a question without a server that has no namespace.
var ErrNamespace = errors.New("with -f, you must specify --namespace or --all-namespaces: no kubeconfig is read")

// ReadWithoutServer is Read without a server, and reads TYPE or TYPE/NAME with the resources of Kubernetes. If Kubernetes does not have it, it is taken as
// it is, as RESOURCE.VERSION.GROUP or RESOURCE.GROUP.
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
