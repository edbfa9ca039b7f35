/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	restclient "k8s.io/client-go/rest"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// BenchmarkRequest is an update that passes the whole handler chain and validating
// admission, but reaches no storage: with an Allow policy that has no condition, and with
// conditions of which the last allows. What one condition costs is the difference.
func BenchmarkRequest(b *testing.B) {
	for _, conditions := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("conditions=%d", conditions), func(b *testing.B) {
			handler := handlerChain(b, conditions)
			request := httptest.NewRequestWithContext(b.Context(), http.MethodPut, "/apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines/web-1", nil)
			b.ReportAllocs()
			for b.Loop() {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, request)
				if recorder.Code != http.StatusOK {
					b.Fatal(recorder.Code, recorder.Body)
				}
			}
		})
	}
}

func handlerChain(b *testing.B, conditions int) http.Handler {
	b.Helper()
	chain, err := authorization.NewChain(authorization.Member{Name: "policies", Decider: allowing(b, conditions)})
	if err != nil {
		b.Fatal(err)
	}
	gv := schema.GroupVersion{Group: "demo.proviso.dev", Version: "v1alpha1"}
	vm := machine(b)
	objects := admission.NewObjectInterfacesFromScheme(apiserver.Scheme)
	return wholeChain(b, chain, gv.WithResource("virtualmachines"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _ := genericapirequest.UserFrom(r.Context())
		attributes := admission.NewAttributesRecord(vm, vm, gv.WithKind("VirtualMachine"), "n", "web-1", gv.WithResource("virtualmachines"), "",
			admission.Update, &metav1.UpdateOptions{}, false, who)
		if err := enforcement.Enforce(r.Context(), attributes, objects); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
		}
	}))
}

// wholeChain is the handler chain of a server that enforces on one resource, before a
// handler.
func wholeChain(b *testing.B, chain *authorization.Chain, resource schema.GroupVersionResource, handler http.Handler) http.Handler {
	b.Helper()
	enforcer, err := enforcement.New(enforcement.Config{Chain: chain, Conditional: true})
	if err != nil {
		b.Fatal(err)
	}
	enforcer.MarkEnforced()
	enforcer.Cover(&genericapiserver.APIGroupInfo{
		PrioritizedVersions:          []schema.GroupVersion{resource.GroupVersion()},
		VersionedResourcesStorageMap: map[string]map[string]rest.Storage{resource.Version: {resource.Resource: coveredStorage{}}},
	})
	config := genericapiserver.NewConfig(apiserver.Codecs)
	config.EffectiveVersion, config.FeatureGate = compatibility.DefaultBuildEffectiveVersion(), utilfeature.DefaultFeatureGate
	config.ExternalAddress, config.LoopbackClientConfig = "localhost:443", &restclient.Config{Host: "localhost"}
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}}
	config.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: alice}, true, nil
	})
	config.RequestInfoResolver = genericapiserver.NewRequestInfoResolver(config)
	if err := enforcer.ApplyTo(config); err != nil {
		b.Fatal(err)
	}
	return config.BuildHandlerChainFunc(handler, config)
}

// coveredStorage is what serves the resource, as far as the enforcer cares. It is never
// called.
type coveredStorage struct{ rest.StandardStorage }

func (coveredStorage) RunsValidatingAdmission() {}

// allowing are policies that allow everybody to update: one without a condition, or so many
// with one of which only the last holds.
func allowing(b *testing.B, conditions int) *engine.Authorizer {
	b.Helper()
	compiler := compilers.Policies(b)
	source, policies := &engine.Source{}, map[engine.Key]*engine.Policy{}
	for i := range max(conditions, 1) {
		spec := &policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectAllow, Subjects: nil,
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"update"}, APIGroups: []string{"*"}, Resources: []string{"*"}}},
		}
		switch {
		case conditions == 0:
		case i == conditions-1:
			spec.Condition = evaluated[0].expression
		default:
			spec.Condition = fmt.Sprintf(`object.spec.storageClassName == "other-%d"`, i)
		}
		key := engine.Key{Name: fmt.Sprintf("p%02d", i)}
		policy, err := engine.New(key, spec, compiler)
		if err != nil {
			b.Fatal(err)
		}
		policies[key] = policy
	}
	source.Publish(engine.NewBuilder().Apply(policies))
	return &engine.Authorizer{Source: source, Part: engine.Granting}
}
