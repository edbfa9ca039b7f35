/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	restclient "k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/apis/demo"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// tenants is the authorizer of the server. Users may create machines without a node.
type tenants struct{}

func (tenants) Decide(_ context.Context, a authorizer.Attributes) authorization.Decision {
	if a.GetVerb() != "create" || a.GetResource() != "virtualmachines" {
		return authorization.NoOpinion("", nil)
	}
	return authorization.Conditions(authorization.Condition{
		ID: "example.com/no-node", Effect: authorization.EffectAllow, Description: "the scheduler chooses the node",
		Type: authorization.ConditionTypeCEL, Text: `!has(object.spec.nodeName)`,
	})
}

// machineStorage is a storage that calls the validation callback before it writes, and says so by a method.
// It answers with the object, and keeps nothing.
type machineStorage struct{ virtual.Resource }

func (machineStorage) RunsValidatingAdmission() {}

func (machineStorage) Create(ctx context.Context, object runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	return object, validate(ctx, object.DeepCopyObject())
}

// machineGroup returns the API group of the server.
func machineGroup() *genericapiserver.APIGroupInfo {
	group := genericapiserver.NewDefaultAPIGroupInfo(demo.GroupName, apiserver.Scheme, apiserver.ParameterCodec, apiserver.Codecs)
	group.VersionedResourcesStorageMap["v1alpha1"] = map[string]rest.Storage{"virtualmachines": machineStorage{virtual.Resource{
		Singular: "virtualmachine", Namespaced: true, NewFunc: func() runtime.Object { return &demo.VirtualMachine{} },
	}}}
	return &group
}

// newServer returns an aggregated API server that enforces the conditions of its own authorizer.
func newServer(authenticate authenticator.RequestFunc) (*genericapiserver.GenericAPIServer, error) {
	config, group := genericapiserver.NewConfig(apiserver.Codecs), machineGroup()
	config.EffectiveVersion, config.ExternalAddress = compatibility.DefaultBuildEffectiveVersion(), "127.0.0.1:443"
	config.LoopbackClientConfig, config.Authentication.Authenticator = &restclient.Config{}, authenticate
	names := openapi.NewDefinitionNamer(apiserver.Scheme)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, names)

	chain, err := authorization.NewChain(authorization.Member{Name: "tenants", Decider: tenants{}})
	compiler, compilerErr := cel.NewCompiler()
	if err := errors.Join(err, compilerErr); err != nil {
		return nil, err
	}
	enforcer, err := enforcement.New(enforcement.Config{Chain: chain, Conditional: true, ConnectWithCreate: true, Conditions: compiler})
	if err != nil {
		return nil, err
	}
	options := genericoptions.NewAdmissionOptions()
	authorizationconditionsenforcer.AddTo(options)
	config.AdmissionControl, err = options.Plugins.InitPlugin(authorizationconditionsenforcer.PluginName, nil, authorizationconditionsenforcer.Initializer{Enforcer: enforcer})
	enforcer.Cover(group)
	if err := errors.Join(err, enforcer.ApplyTo(config)); err != nil {
		return nil, err
	}
	server, err := config.Complete(nil).New("example", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	return server, server.InstallAPIGroup(group)
}

// An aggregated API server decides about requests on conditions, and enforces them on the objects. The authorization
// filter cannot see the object: it lets the request to create one pass on a condition, and refuses all other requests.
func Example() {
	server, err := newServer(func(r *http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: r.Header.Get("User")}}, true, nil
	})
	if err != nil {
		panic(err)
	}
	defer server.Destroy()
	const path = "/apis/demo.proviso.dev/v1alpha1/namespaces/default/virtualmachines"
	for _, spec := range []string{`{"image":"debian-12"}`, `{"image":"debian-12","nodeName":"node-1"}`} {
		body := `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"vm"},"spec":` + spec + `}`
		fmt.Println("create", spec)
		send(server, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	}
	fmt.Println("delete")
	send(server, httptest.NewRequest(http.MethodDelete, path+"/vm", http.NoBody))

	// Output:
	// create {"image":"debian-12"}
	// 201 Created
	// create {"image":"debian-12","nodeName":"node-1"}
	// 403 Forbidden
	// delete
	// 403 Forbidden
}

// send sends a request of alice, and prints the answer.
func send(server *genericapiserver.GenericAPIServer, r *http.Request) {
	r.Header.Set("User", "alice")
	r.Header.Set("Content-Type", runtime.ContentTypeJSON)
	w := httptest.NewRecorder()
	server.Handler.ServeHTTP(w, r)
	fmt.Println(w.Code, http.StatusText(w.Code))
}
