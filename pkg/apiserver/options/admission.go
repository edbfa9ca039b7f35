/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	informersv1 "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/controller"
)

// excludedFromAdmission are the resources that are hidden from admission webhooks and policies, as
// kube-apiserver hides its own reviews: an unavailable webhook must not prevent reviews, and no
// webhook may change one.
var excludedFromAdmission = reviewsIn(authorizationapi.GroupName, authorizationapi.ProvisoGroupName)

// reviewsIn returns the resources of reviews in some groups.
func reviewsIn(groups ...string) (resources []schema.GroupResource) {
	for _, group := range groups {
		for _, resource := range []string{
			"subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews", "authorizationconditionsreviews", "impersonationreviews",
		} {
			resources = append(resources, schema.GroupResource{Group: group, Resource: resource})
		}
	}
	return resources
}

// exclusions is an initializer that hides excludedFromAdmission from admission plugins.
type exclusions struct{}

var _ admission.PluginInitializer = exclusions{}

func (exclusions) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(excludedFromAdmission)
	}
}

// withoutNamespaces decorates the plugin NamespaceLifecycle, which refuses objects in namespaces that do not exist. The plugin
// does not check LocalSubjectAccessReviews of authorization.k8s.io: its error would tell the caller which namespaces exist. The
// decorator does the same for LocalSubjectAccessReviews of authorization.proviso.dev.
func withoutNamespaces(plugin admission.Interface, name string) admission.Interface {
	if mutates, ok := plugin.(admission.MutationInterface); ok && name == lifecycle.PluginName {
		return exceptLocalReviews{mutates}
	}
	return plugin
}

type exceptLocalReviews struct{ admission.MutationInterface }

// Admit implements admission.MutationInterface.
func (e exceptLocalReviews) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == (schema.GroupResource{Group: authorizationapi.ProvisoGroupName, Resource: "localsubjectaccessreviews"}) {
		return nil
	}
	return e.MutationInterface.Admit(ctx, a, o)
}

// servedPolicies is a factory whose ValidatingAdmissionPolicies are those that may match a resource of this server. The admission plugin compiles every
// policy that it finds, and matches each one with every write. A cluster may have thousands for other resources, such as barriers.
type servedPolicies struct {
	informers.SharedInformerFactory
}

// Admissionregistration implements informers.SharedInformerFactory.
func (f servedPolicies) Admissionregistration() admissionregistration.Interface {
	return servedGroup{f.SharedInformerFactory.Admissionregistration()}
}

type servedGroup struct {
	admissionregistration.Interface
}

func (g servedGroup) V1() informersv1.Interface { return servedVersion{g.Interface.V1()} }

type servedVersion struct{ informersv1.Interface }

func (v servedVersion) ValidatingAdmissionPolicies() informersv1.TypedValidatingAdmissionPolicyInformer {
	return servedResource{v.Interface.ValidatingAdmissionPolicies()}
}

type servedResource struct {
	informersv1.TypedValidatingAdmissionPolicyInformer
}

func (r servedResource) Informer() cache.SharedIndexInformer {
	return servedInformer{r.TypedValidatingAdmissionPolicyInformer.Informer()}
}

type servedInformer struct{ cache.SharedIndexInformer }

// GetIndexer implements cache.SharedIndexInformer.
func (i servedInformer) GetIndexer() cache.Indexer {
	return servedIndexer{i.SharedIndexInformer.GetIndexer()}
}

type servedIndexer struct{ cache.Indexer }

// GetByKey implements cache.Indexer. The admission plugin looks policies up by their names, which it has from the bindings.
func (i servedIndexer) GetByKey(key string) (item any, exists bool, err error) {
	item, exists, err = i.Indexer.GetByKey(key)
	//guard:admission-policies-of-others
	if policy, ok := item.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok && !mayMatch(policy.Spec.MatchConstraints) {
		return nil, false, err
	}
	return item, exists, err
}

// mayMatch reports whether constraints may match a resource of this server. Resources in different groups are equivalent only if it serves both.
func mayMatch(constraints *admissionregistrationv1.MatchResources) bool {
	return constraints == nil || len(constraints.ResourceRules) == 0 || slices.ContainsFunc(constraints.ResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(rule.APIGroups, func(group string) bool { return group == "*" || apiserver.MayServe(group) })
	})
}

// unservedInterval is the time after which kube-apiserver is asked again for a resource that it does not serve.
const unservedInterval = 30 * time.Second

// addMutatingPolicies makes the informers of MutatingAdmissionPolicies and their bindings that all users of the factory share. It must be
// called before others make them. Kubernetes serves them in version v1 since 1.36. On an older kube-apiserver the informers of client-go
// never sync, so that the admission plugin, and with it the server, would never be ready. These informers are empty as long as kube-apiserver
// answers 404, and have the objects soon after an upgrade.
func addMutatingPolicies(factory informers.SharedInformerFactory) {
	informerFor(factory, &admissionregistrationv1.MutatingAdmissionPolicy{}, func(client kubernetes.Interface) *cache.ListWatch {
		return optional(client.AdmissionregistrationV1().MutatingAdmissionPolicies(), &admissionregistrationv1.MutatingAdmissionPolicyList{})
	})
	informerFor(factory, &admissionregistrationv1.MutatingAdmissionPolicyBinding{}, func(client kubernetes.Interface) *cache.ListWatch {
		return optional(client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings(), &admissionregistrationv1.MutatingAdmissionPolicyBindingList{})
	})
}

// informerFor returns the informer for a type of objects that all users of the factory share. It uses newListWatch only if the factory has no
// such informer yet.
func informerFor(factory informers.SharedInformerFactory, object runtime.Object, newListWatch func(kubernetes.Interface) *cache.ListWatch) cache.SharedIndexInformer {
	return factory.InformerFor(object, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(newListWatch(client), client), object, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
}

// optional lists and watches a cluster-scoped resource that kube-apiserver may not serve. Then the list is empty.
func optional[L runtime.Object](of controller.Client[L], empty L) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := of.List(ctx, options)
			if apierrors.IsNotFound(err) {
				return empty.DeepCopyObject(), nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := of.Watch(ctx, options)
			if apierrors.IsNotFound(err) && !ptr.Deref(options.SendInitialEvents, false) { // otherwise the error leads to a list
				return watchNothing(unservedInterval), nil
			}
			return events, err
		},
	}
}

// watchNothing returns a watch without events, which expires after some time, so that the informer lists again.
func watchNothing(duration time.Duration) watch.Interface {
	events := make(chan watch.Event, 1)
	time.AfterFunc(duration, func() {
		expired := apierrors.NewResourceExpired("kube-apiserver did not serve the resource")
		events <- watch.Event{Type: watch.Error, Object: &expired.ErrStatus}
		close(events)
	})
	return watch.NewProxyWatcher(events)
}
