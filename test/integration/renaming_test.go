/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/builder3"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/etcd"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

// gadgetVerbs are what the users may do with gadgets.
var gadgetVerbs = map[string]string{
	"admin":  "*",
	"placer": "granular granular:nodeAssignment",
	"tagger": "granular granular:tag(a.com)",
	"disker": "granular granular:disk(root)",
	"writer": "create update patch",
	"keeper": "create update patch granular:secrecy",
	"owner":  "create update patch granular:selfDestruction",
}

type gadgetStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (gadgetStrategy) NamespaceScoped() bool                                            { return true }
func (gadgetStrategy) PrepareForCreate(context.Context, runtime.Object)                 {}
func (gadgetStrategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}
func (gadgetStrategy) Canonicalize(runtime.Object)                                      {}
func (gadgetStrategy) AllowCreateOnUpdate(context.Context) bool                         { return false }
func (gadgetStrategy) AllowUnconditionalUpdate(context.Context) bool                    { return true }
func (gadgetStrategy) Validate(context.Context, runtime.Object) field.ErrorList         { return nil }
func (gadgetStrategy) WarningsOnCreate(context.Context, runtime.Object) []string        { return nil }
func (gadgetStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}
func (gadgetStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// newGadgetServer makes an API server that serves gadgets in their versions, with the two
// authorizers of fields and, between them, one that knows gadgetVerbs.
func newGadgetServer(t *testing.T, mappings ...*policy.FieldPermissionMapping) *server.Server {
	t.Helper()
	scheme, err := gadgetScheme()
	if err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(gadgetDefinitions, openapi.NewDefinitionNamer(scheme))
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(gadgetDefinitions, openapi.NewDefinitionNamer(scheme))
	config.EffectiveVersion, config.FeatureGate = compatibility.DefaultBuildEffectiveVersion(), utilfeature.DefaultFeatureGate
	config.ExternalAddress, config.LoopbackClientConfig = "localhost:443", &restclient.Config{Host: "localhost"}
	config.SharedInformerFactory = informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	config.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name := r.Header.Get(server.UserHeader)
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, name != "", nil
	})
	storeGadgets(t, &config.Config, codecs.LegacyCodec(gadgetVersion("v1")))

	schemas, err := builder3.BuildOpenAPIDefinitionsForResources(config.OpenAPIV3Config, gadgetPackage+"GadgetV1", gadgetPackage+"GadgetV2", gadgetPackage+"GadgetV3")
	if err != nil {
		t.Fatal(err)
	}
	resources := map[schema.GroupVersionKind]string{}
	for _, version := range []string{"v1", "v2", "v3"} {
		resources[gadgetVersion(version).WithKind("Gadget")] = "gadgets"
	}
	markers, err := mapping.NewMarkers(schemas, resources)
	if err != nil {
		t.Fatal(err)
	}
	types, err := changes.NewTypes(schemas)
	if err != nil {
		t.Fatal(err)
	}
	enforcer := applyGadgetChain(t, config, types, markers, mappings)

	group := genericapiserver.NewDefaultAPIGroupInfo(gadgetGroup, scheme, runtime.NewParameterCodec(scheme), codecs)
	gadgets := &genericregistry.Store{
		NewFunc: func() runtime.Object { return &Gadget{} }, NewListFunc: func() runtime.Object { return &GadgetList{} },
		DefaultQualifiedResource:  schema.GroupResource{Group: gadgetGroup, Resource: "gadgets"},
		SingularQualifiedResource: schema.GroupResource{Group: gadgetGroup, Resource: "gadget"},
		TableConvertor:            rest.NewDefaultTableConvertor(schema.GroupResource{Group: gadgetGroup, Resource: "gadgets"}),
	}
	strategy := gadgetStrategy{scheme, names.SimpleNameGenerator}
	gadgets.CreateStrategy, gadgets.UpdateStrategy, gadgets.DeleteStrategy = strategy, strategy, strategy
	if err := gadgets.CompleteWithOptions(&generic.StoreOptions{RESTOptions: config.RESTOptionsGetter}); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1", "v2", "v3"} {
		group.VersionedResourcesStorageMap[version] = map[string]rest.Storage{"gadgets": gadgets}
	}
	enforcer.Cover(&group)
	s, err := config.Complete().New("gadgets", genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Destroy)
	if err := s.InstallAPIGroup(&group); err != nil {
		t.Fatal(err)
	}
	s.PrepareRun()
	return &server.Server{GenericAPIServer: s}
}

func storeGadgets(t *testing.T, config *genericapiserver.Config, codec runtime.Codec) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rn") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	member, err := etcd.Start(t.Context(), filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = member.Close() })
	endpoint, err := etcd.Endpoint(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	options := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/gadgets", codec))
	options.StorageConfig.Transport.ServerList = []string{endpoint}
	options.SkipHealthEndpoints = true
	if err := options.ApplyTo(config); err != nil {
		t.Fatal(err)
	}
}

func applyGadgetChain(t *testing.T, config *genericapiserver.RecommendedConfig, types changes.Types, markers *mapping.Markers, mappings []*policy.FieldPermissionMapping) *enforcement.Enforcer {
	t.Helper()
	knows := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		verbs := strings.Fields(gadgetVerbs[a.GetUser().GetName()])
		// Only users who may get an object are shown why a write of it is refused.
		if a.GetVerb() == "get" || slices.Contains(verbs, a.GetVerb()) || slices.Contains(verbs, "*") {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	source := mapping.NewSource(markers)
	source.Publish(mappings...)
	asks := granular.Config{Authorizer: knows, Types: types, Mappings: source}
	exclude, err := granular.NewExclude(asks)
	if err != nil {
		t.Fatal(err)
	}
	include, err := granular.NewInclude(asks)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := authorization.NewChain(
		authorization.Member{Name: "exclude", Decider: exclude}, authorization.Member{Name: "verbs", Decider: authorization.DeciderOf(knows)}, authorization.Member{Name: "include", Decider: include})
	if err != nil {
		t.Fatal(err)
	}
	enforcer, err := enforcement.New(enforcement.Config{Chain: chain, Conditional: true})
	if err != nil {
		t.Fatal(err)
	}
	plugin := &authorizationconditionsenforcer.Plugin{}
	authorizationconditionsenforcer.Initializer{Enforcer: enforcer}.Initialize(plugin)
	config.AdmissionControl = admission.NewChainHandler(plugin)
	config.Authorization.Authorizer = chain
	if err := enforcer.ApplyTo(&config.Config); err != nil {
		t.Fatal(err)
	}
	return enforcer
}

// gadgetRequest makes a request in a version and returns what became of it.
func gadgetRequest(t *testing.T, s *server.Server, name, method, version, path, contentType, body string) *httptest.ResponseRecorder {
	t.Helper()
	return s.Answer(func() *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), method, fmt.Sprintf("/apis/%s/%s/namespaces/n/gadgets%s", gadgetGroup, version, path), strings.NewReader(body))
		r.Header.Set(server.UserHeader, name)
		r.Header.Set("Content-Type", contentType)
		return r
	})
}

// secrecy maps a field that the markers do not know, by its name in each version.
func secrecy(fields map[string]string) []*policy.FieldPermissionMapping {
	var mappings []*policy.FieldPermissionMapping
	for version, path := range fields {
		m := &policy.FieldPermissionMapping{Spec: policy.FieldPermissionMappingSpec{
			Resources: []policy.FieldPermissionResource{{APIGroup: gadgetGroup, APIVersions: []string{version}, Resource: "gadgets"}},
			Fields:    []policy.FieldPermission{{Path: path, Permission: "secrecy", Exclusion: &policy.FieldExclusion{NewValues: `value != "public"`}}},
		}}
		m.Name = "secrecy-" + version
		mappings = append(mappings, m)
	}
	return mappings
}

const existingGadget = `{"apiVersion":"renaming.example.com/v1","kind":"Gadget","metadata":{"name":"one","namespace":"n"},
	"spec":{"nodeName":"n1","secret":"s","tags":["a.com/x"],"disks":[{"name":"root","size":1},{"name":"data","size":1}]}}`

// TestRenamedFields checks that who may write a field does not depend on the version of the
// request, in which it has another name: by markers in both versions, and by mappings.
func TestRenamedFields(t *testing.T) {
	t.Parallel()
	s := newGadgetServer(t, secrecy(map[string]string{"v1": "spec.secret", "v2": "spec.hidden", "v3": "spec.hidden"})...)
	if got := gadgetRequest(t, s, "admin", http.MethodPost, "v1", "", "application/json", existingGadget); got.Code != http.StatusCreated {
		t.Fatal(got.Body)
	}
	type row struct {
		User           string
		By             string // apply, create or patch; a merge patch if it is not given
		V1, V2         any    // bodies that do the same
		WantV1, WantV2 string // "" if it is allowed
	}
	rows.Run(t, "testdata/renamed.yaml", func(t *testing.T, tc row) {
		for _, in := range []struct {
			version string
			body    any
			want    string
		}{{"v1", tc.V1, tc.WantV1}, {"v2", tc.V2, tc.WantV2}} {
			t.Run(in.version, func(t *testing.T) {
				t.Parallel()
				method, path, contentType := http.MethodPatch, "/one?dryRun=All", mergePatch
				switch tc.By {
				case "create":
					method, path, contentType = http.MethodPost, "?dryRun=All", jsonType
				case "apply":
					path, contentType = path+"&fieldManager=test", applyPatch
				case "patch":
					contentType = "application/json-patch+json"
				}
				if object, ok := in.body.(map[string]any); ok && contentType != mergePatch {
					object["apiVersion"], object["kind"] = gadgetGroup+"/"+in.version, "Gadget"
				}
				checkGadget(t, gadgetRequest(t, s, tc.User, method, in.version, path, contentType, jsonOf(t, in.body)), in.want)
			})
		}
	})
	t.Run("what was read is written back", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"v1", "v2"} {
			read := gadgetRequest(t, s, "admin", http.MethodGet, version, "/one", jsonType, "").Body.String()
			checkGadget(t, gadgetRequest(t, s, "placer", http.MethodPut, version, "/one?dryRun=All", jsonType, read), "")
		}
	})
}

func checkGadget(t *testing.T, got *httptest.ResponseRecorder, want string) {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal(got.Body.Bytes(), &status); err != nil {
		t.Fatal(err)
	}
	switch {
	case want == "" && got.Code >= http.StatusMultipleChoices:
		t.Errorf("got %d %s, want it to be allowed", got.Code, status.Message)
	case want != "" && (got.Code != http.StatusForbidden || !strings.Contains(status.Message, want)):
		t.Errorf("got %d %s\nwant a refusal with %s", got.Code, status.Message, want)
	}
}

// TestVersionsThatNobodyKnows are closed: in v3 no marker says what the excluded field is
// called, so that nothing can be written without its permission.
func TestVersionsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	const (
		needs  = `changing it also needs the verb "granular:selfDestruction"`
		unseen = `the request may change an excluded field that its object does not show: it also needs the verb "granular:selfDestruction"`
	)
	known := &policy.FieldPermissionMapping{Spec: policy.FieldPermissionMappingSpec{
		Resources: []policy.FieldPermissionResource{{APIGroup: gadgetGroup, APIVersions: []string{"v3"}, Resource: "gadgets"}},
		Fields:    []policy.FieldPermission{{Path: "spec.detonation", Permission: "selfDestruction", Exclusion: &policy.FieldExclusion{}}},
	}}
	known.Name = "v3"
	closed, open := newGadgetServer(t), newGadgetServer(t, known)
	for _, s := range []*server.Server{closed, open} {
		if got := gadgetRequest(t, s, "admin", http.MethodPost, "v1", "", "application/json", existingGadget); got.Code != http.StatusCreated {
			t.Fatal(got.Body)
		}
	}
	for _, tc := range []struct {
		name, user, body     string
		wantClosed, wantOpen string
	}{
		{"any field", "writer", `{"spec":{"placement":"n2"}}`, unseen, ""},
		{"a label", "writer", `{"metadata":{"labels":{"a":"b"}}}`, unseen, ""},
		{"the field that is excluded elsewhere", "writer", `{"spec":{"detonation":true}}`, unseen, needs},
		{"with its permission", "owner", `{"spec":{"detonation":true}}`, "", ""},
		{"another field with its permission", "owner", `{"spec":{"placement":"n2"}}`, "", ""},
		{"a field that has a permission elsewhere", "placer", `{"spec":{"placement":"n2"}}`, unseen, `changing the field spec.placement needs the verb "granular:specification"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const merge = "application/merge-patch+json"
			checkGadget(t, gadgetRequest(t, closed, tc.user, http.MethodPatch, "v3", "/one?dryRun=All", merge, tc.body), tc.wantClosed)
			checkGadget(t, gadgetRequest(t, open, tc.user, http.MethodPatch, "v3", "/one?dryRun=All", merge, tc.body), tc.wantOpen)
		})
	}
}
