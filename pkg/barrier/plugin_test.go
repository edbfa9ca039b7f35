/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"context"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/proviso-authz/proviso/pkg/barrier"
)

// admissionCluster is what the admission plugin of kube-apiserver needs: namespaces, and an authorizer for the checks of expressions.
type admissionCluster struct {
	client     kubernetes.Interface
	informers  informers.SharedInformerFactory
	dynamic    *dynamicfake.FakeDynamicClient
	authorizer authorizer.UnconditionalAuthorizer
	dir        string
}

func newAdmissionCluster(tb testing.TB, checks authorizer.UnconditionalAuthorizer, namespaces ...*corev1.Namespace) *admissionCluster {
	tb.Helper()
	objects := make([]runtime.Object, 0, len(namespaces))
	for _, namespace := range namespaces {
		objects = append(objects, namespace)
	}
	c := &admissionCluster{client: fake.NewClientset(objects...), dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), authorizer: checks, dir: tb.TempDir()}
	c.informers = informers.NewSharedInformerFactory(c.client, 0)
	namespacesInformer := c.informers.Core().V1().Namespaces().Informer()
	c.informers.Admissionregistration().V1().ValidatingAdmissionPolicies().Informer()
	c.informers.Admissionregistration().V1().ValidatingAdmissionPolicyBindings().Informer()
	ctx, cancel := context.WithCancel(tb.Context())
	c.informers.Start(ctx.Done())
	c.informers.WaitForCacheSync(ctx.Done())
	if !namespacesInformer.HasSynced() {
		tb.Fatal("namespaces are not known")
	}
	tb.Cleanup(func() {
		cancel()
		c.informers.Shutdown()
	})
	return c
}

// plugin is the admission plugin ValidatingAdmissionPolicy of kube-apiserver with some barriers.
type plugin struct {
	*validating.Plugin
	stop chan struct{}
}

// load returns the plugin with barriers, as it loads them from a static manifest. The caller must close it.
func (c *admissionCluster) load(tb testing.TB, barriers ...*barrier.Barrier) *plugin {
	tb.Helper()
	return c.loadObjects(tb, objectsOf(barriers...)...)
}

func objectsOf(barriers ...*barrier.Barrier) (objects []barrier.Objects) {
	for _, b := range barriers {
		objects = append(objects, barrier.Objects{Policy: b.Policy, Binding: b.Binding})
	}
	return objects
}

// loadObjects is load for the objects of barriers and groups.
func (c *admissionCluster) loadObjects(tb testing.TB, objects ...barrier.Objects) *plugin {
	tb.Helper()
	var policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	var bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	for _, o := range objects {
		policy, binding := o.Policy.DeepCopy(), o.Binding.DeepCopy()
		// The bindings of policies from the API have these defaults.
		policies, bindings = append(policies, defaulted(policy)), append(bindings, binding)
	}
	p, err := validating.NewPlugin(nil)
	if err != nil {
		tb.Fatal(err)
	}
	stop := make(chan struct{})
	p.SetStaticManifestsDir(c.dir)
	p.SetManifestLoaders(&initializer.ManifestLoaders{LoadValidatingPolicyManifests: func(string) (
		[]*admissionregistrationv1.ValidatingAdmissionPolicy, []*admissionregistrationv1.ValidatingAdmissionPolicyBinding, string, error,
	) {
		return policies, bindings, "one", nil
	}})
	p.SetExternalKubeClientSet(c.client)
	p.SetExternalKubeInformerFactory(c.informers)
	p.SetDynamicClient(c.dynamic)
	p.SetRESTMapper(meta.MultiRESTMapper{})
	p.SetUnconditionalAuthorizer(c.authorizer)
	p.SetDrainedNotification(stop)
	if err := p.ValidateInitialization(); err != nil {
		close(stop)
		tb.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(tb.Context(), 100_000, 30_000_000_000, true, func(context.Context) (bool, error) { return p.WaitForReady(), nil }); err != nil {
		close(stop)
		tb.Fatalf("the plugin is not ready: %v", err)
	}
	return &plugin{Plugin: p, stop: stop}
}

func (p *plugin) close() { close(p.stop) }

// defaulted sets the defaults that kube-apiserver sets when it stores a policy.
func defaulted(policy *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionregistrationv1.ValidatingAdmissionPolicy {
	constraints, everything := policy.Spec.MatchConstraints, admissionregistrationv1.AllScopes
	if constraints.NamespaceSelector == nil {
		constraints.NamespaceSelector = &metav1.LabelSelector{}
	}
	if constraints.ObjectSelector == nil {
		constraints.ObjectSelector = &metav1.LabelSelector{}
	}
	for i := range constraints.ResourceRules {
		if constraints.ResourceRules[i].Scope == nil {
			constraints.ResourceRules[i].Scope = &everything
		}
	}
	return policy
}

// objectInterfaces are the interfaces of kube-apiserver for types of client-go.
type objectInterfaces struct{}

func (objectInterfaces) GetObjectCreater() runtime.ObjectCreater     { return scheme.Scheme }
func (objectInterfaces) GetObjectTyper() runtime.ObjectTyper         { return scheme.Scheme }
func (objectInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return scheme.Scheme }
func (objectInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return scheme.Scheme }
func (objectInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return runtime.NewEquivalentResourceRegistry()
}

var _ admission.ObjectInterfaces = objectInterfaces{}
