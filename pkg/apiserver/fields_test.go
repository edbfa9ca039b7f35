/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

func openAPI(definitions common.GetOpenAPIDefinitions) *common.OpenAPIV3Config {
	return genericapiserver.DefaultOpenAPIV3Config(definitions, openapi.NewDefinitionNamer(apiserver.Scheme))
}

// TestFieldsOfMachines are those of the schema that the server serves itself.
func TestFieldsOfMachines(t *testing.T) {
	t.Parallel()
	fields, err := apiserver.NewFields(openAPI(generatedopenapi.GetOpenAPIDefinitions), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range fields.Markers.List() {
		if l.Excluded {
			t.Errorf("%s of %s is excluded, so that the gate FineGrainedAuthorization alone changes who may write it", l.Field, l.Resource)
		}
	}
	if _, err := fields.Types.TypeOf(t.Context(), demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine")); err != nil {
		t.Error(err)
	}
	if _, err := fields.Types.TypeOf(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "Pod"}); !errors.Is(err, changes.ErrNoSchema) {
		t.Errorf("pods: got %v, want none", err)
	}
}

// TestFieldsOfStoredKinds expects a schema of each kind of policy.proviso.dev that is stored. Without one, the elements of its lists have
// no keys, so that no permission on a condition of the status applies.
func TestFieldsOfStoredKinds(t *testing.T) {
	t.Parallel()
	fields, err := apiserver.NewFields(openAPI(generatedopenapi.GetOpenAPIDefinitions), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, is := range apiserver.Scheme.KnownTypes(policyv1alpha1.SchemeGroupVersion) {
		if _, isKind := is.FieldByName("Spec"); !isKind {
			continue
		}
		if _, err := fields.Types.TypeOf(t.Context(), policyv1alpha1.SchemeGroupVersion.WithKind(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMalformedMarkersKeepTheServerFromStarting and say where they are.
func TestMalformedMarkersKeepTheServerFromStarting(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, marker, text, want string
	}{
		{"a name", "x-kubernetes-permission-verb", "Node", `schemas of fields: the schema of VirtualMachine in demo.proviso.dev/v1alpha1: spec.nodeName: x-kubernetes-permission-verb "Node" must be in lowerCamelCase`},
		{"a marker", "x-kubernetes-permission-exclude", "true", "spec.nodeName: x-kubernetes-permission-exclude is no marker that is known"},
		{"a source", "x-kubernetes-permission-parameterized-by", "rack", `spec.nodeName: x-kubernetes-permission-parameterized-by "rack" names no source`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			changed := 0
			_, err := apiserver.NewFields(openAPI(func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
				definitions := generatedopenapi.GetOpenAPIDefinitions(ref)
				for _, d := range definitions {
					if node, ok := d.Schema.Properties["nodeName"]; ok {
						node.Extensions[tc.marker] = tc.text // a map: the one in the definition
						changed++
					}
				}
				return definitions
			}), nil)
			if changed == 0 || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v after %d changes, want %q", err, changed, tc.want)
			}
		})
	}
}

// kubeAPIServer publishes widgets, knows a group whose server is down, and counts.
type kubeAPIServer struct {
	asked atomic.Int32
	down  atomic.Bool
}

func (k *kubeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.asked.Add(1)
	switch {
	case k.down.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/openapi/v3":
		_, _ = w.Write([]byte(`{"paths": {"apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1"}}}`))
	case r.URL.Path == "/openapi/v3/apis/example.com/v1":
		_, _ = w.Write([]byte(`{"components": {"schemas": {"Widget": {"type": "object", "properties": {"spec": {"type": "object"}},
			"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}]}}}}`))
	case r.URL.Path == "/api" || r.URL.Path == "/apis":
		list := apidiscoveryv2.APIGroupDiscoveryList{}
		if r.URL.Path == "/apis" {
			list.Items = []apidiscoveryv2.APIGroupDiscovery{{
				ObjectMeta: metav1.ObjectMeta{Name: "stale.example.com"},
				Versions:   []apidiscoveryv2.APIVersionDiscovery{{Version: "v1", Freshness: apidiscoveryv2.DiscoveryFreshnessStale}},
			}}
		}
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		_ = json.NewEncoder(w).Encode(list)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// TestSchemasOfOthers are read from kube-apiserver, and never those of what is served here.
func TestSchemasOfOthers(t *testing.T) {
	t.Parallel()
	const (
		found = "found"
		none  = "none"
		fails = "fails"
	)
	for _, tc := range []struct {
		name string
		kind schema.GroupVersionKind
		down bool
		want string
		asks bool
	}{
		{"published", schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, false, found, true},
		{"not published", schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}, false, none, true},
		{"of a group that nobody has", schema.GroupVersionKind{Group: "nobody.example.com", Version: "v1", Kind: "Gadget"}, false, none, true},
		{"of a server that is down", schema.GroupVersionKind{Group: "stale.example.com", Version: "v1", Kind: "Widget"}, false, fails, true},
		{"while kube-apiserver is down", schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, true, fails, true},
		{"an own kind", demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine"), true, found, false},
		{"an own mapping", schema.GroupVersionKind{Group: "policy.proviso.dev", Version: "v1alpha1", Kind: "FieldPermissionMapping"}, true, found, false},
		{"an own kind that is not stored", schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1alpha1", Kind: "SubjectAccessReview"}, true, none, false},
		{"an own kind of the other group", schema.GroupVersionKind{Group: "authorization.proviso.dev", Version: "v1alpha1", Kind: "SubjectAccessReview"}, true, none, false},
		{"the same kind of kube-apiserver", schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"}, false, none, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			kube := &kubeAPIServer{}
			kube.down.Store(tc.down)
			server := httptest.NewServer(kube)
			defer server.Close()
			fields, err := apiserver.NewFields(openAPI(generatedopenapi.GetOpenAPIDefinitions), &restclient.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			_, err = fields.Types.TypeOf(t.Context(), tc.kind)
			got := fails
			switch {
			case err == nil:
				got = found
			case errors.Is(err, changes.ErrNoSchema):
				got = none
			}
			if got != tc.want {
				t.Errorf("got %s (%v), want %s", got, err, tc.want)
			}
			if asked := kube.asked.Load() > 0; asked != tc.asks {
				t.Errorf("kube-apiserver was asked: %v, want %v", asked, tc.asks)
			}
		})
	}
}

// TestDocumentedMappingAgreesWithMarkers checks the mapping of docs/fine-grained.md beside the
// markers of machines: where the two contradicted each other, neither would cover anything.
func TestDocumentedMappingAgreesWithMarkers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/fine-grained.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```yaml\napiVersion: policy.proviso.dev/v1alpha1\n")
	block, _, _ = strings.Cut(block, "```")
	stored, converted := &policyv1alpha1.FieldPermissionMapping{}, &policyapi.FieldPermissionMapping{}
	if err := yaml.UnmarshalStrict([]byte(block), stored); err != nil || !found {
		t.Fatalf("found: %v, %v", found, err)
	}
	if err := policyv1alpha1.Convert_v1alpha1_FieldPermissionMapping_To_policy_FieldPermissionMapping(stored, converted, nil); err != nil {
		t.Fatal(err)
	}
	fields, err := apiserver.NewFields(openAPI(generatedopenapi.GetOpenAPIDefinitions), nil)
	if err != nil {
		t.Fatal(err)
	}
	source := mapping.NewSource(fields.Markers)
	source.Publish(converted)
	rules := source.Table().For(demov1alpha1.SchemeGroupVersion.WithResource("virtualmachines"))
	kind := demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine")
	for verb, change := range map[string]func(*demov1alpha1.VirtualMachineSpec){
		"granular:nodeAssignment": func(s *demov1alpha1.VirtualMachineSpec) { s.NodeName = "n" },
		"granular:adminDevices":   func(s *demov1alpha1.VirtualMachineSpec) { s.AdminAccess = ptr.To(true) },
		"granular:disk(data)":     func(s *demov1alpha1.VirtualMachineSpec) { s.Disks[1].SizeGiB = 2 },
		"granular:tag(x)":         func(s *demov1alpha1.VirtualMachineSpec) { s.Tags = []string{"x"} },
	} {
		before := &demov1alpha1.VirtualMachine{Spec: demov1alpha1.VirtualMachineSpec{Disks: []demov1alpha1.VirtualMachineDisk{{Name: "root", SizeGiB: 1}, {Name: "data", SizeGiB: 1}}}}
		after := before.DeepCopy()
		change(&after.Spec)
		changed, err := changes.Differ{Types: fields.Types}.Changes(t.Context(), kind, before, after)
		if err != nil {
			t.Fatal(err)
		}
		has := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() == verb {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})
		if got := (granular.Checker{Authorizer: has}).Include(t.Context(), rules, changed, authorizer.AttributesRecord{}); !got.Allowed || got.Fields != 1 {
			t.Errorf("%s: got %+v, want it to be allowed", verb, got)
		}
	}
}
