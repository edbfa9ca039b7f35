/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	demoapi "github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/accessreview"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/authorizationconditionsreview"
	"github.com/proviso-authz/proviso/pkg/registry/demo/virtualmachine"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// TestCovered asks for each verb and resource whether conditions on it are evaluated behind
// the front door.
func TestCovered(t *testing.T) {
	t.Parallel()
	reviews := genericapiserver.NewDefaultAPIGroupInfo(authorizationapi.GroupName, Scheme, ParameterCodec, Codecs)
	reviews.VersionedResourcesStorageMap["v1alpha1"] = map[string]rest.Storage{
		"subjectaccessreviews":           accessreview.NewSubjectREST(nil),
		"authorizationconditionsreviews": authorizationconditionsreview.NewREST(authorizationconditionsreview.Compilers{}, nil, nil, false),
	}
	machines := genericapiserver.NewDefaultAPIGroupInfo(demoapi.GroupName, Scheme, ParameterCodec, Codecs)
	machines.VersionedResourcesStorageMap["v1alpha1"] = map[string]rest.Storage{
		"virtualmachines":         &stored.REST{},
		"virtualmachines/status":  &stored.StatusREST{},
		"virtualmachines/console": &virtualmachine.ConsoleREST{},
	}
	chain, err := authorization.NewChain()
	if err != nil {
		t.Fatal(err)
	}
	enforcer, err := enforcement.New(enforcement.Config{Chain: chain, Conditional: true})
	if err != nil {
		t.Fatal(err)
	}
	enforcer.MarkEnforced()
	enforcer.Cover(&reviews, &machines)
	config := CompletedConfig{&completedConfig{extra: ExtraConfig{Enforcer: enforcer, Mappings: &mapping.Source{}}}}
	fields := config.fieldsOf(&FrontDoorConfig{Fields: chain})
	concrete := []string{"create", "update", "patch", "delete", "deletecollection", "get", "list", "watch", "escalate", "restrict"}
	for _, tc := range []struct {
		group, version, resource, subresource string
		want                                  []string
		wantFields                            []string // of these, by permission on fields, too
	}{
		{"demo.proviso.dev", "v1alpha1", "virtualmachines", "", []string{"create", "update", "patch", "delete", "deletecollection"}, []string{"create", "update", "patch"}},
		{"demo.proviso.dev", "v1alpha1", "virtualmachines", "status", []string{"update", "patch"}, []string{"update", "patch"}},
		{"demo.proviso.dev", "v1alpha1", "virtualmachines", "console", []string{"create", "get"}, nil}, // the verbs of the methods that connect, and create
		{"demo.proviso.dev", "v1alpha1", "virtualmachines", "*", nil, nil},
		{"demo.proviso.dev", "v1alpha1", "*", "", nil, nil},
		{"demo.proviso.dev", "v1alpha1", "virtualmachines/status", "", nil, nil},
		{"demo.proviso.dev", "v1", "virtualmachines", "", nil, nil},
		{"demo.proviso.dev", "*", "virtualmachines", "", nil, nil},
		{"", "v1alpha1", "virtualmachines", "", nil, nil},
		{"authorization.k8s.io", "v1alpha1", "subjectaccessreviews", "", []string{"create"}, []string{"create"}},
		{"authorization.k8s.io", "v1alpha1", "authorizationconditionsreviews", "", nil, nil},
		{"authorization.k8s.io", "v1", "subjectaccessreviews", "", nil, nil},
		{"", "v1", "pods", "", nil, nil},
	} {
		var got, gotFields []string
		for _, verb := range append([]string{"*", ""}, concrete...) {
			a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: verb, APIGroup: tc.group, APIVersion: tc.version, Resource: tc.resource, Subresource: tc.subresource, ResourceRequest: true}
			if enforcer.Covers(a) {
				got = append(got, verb)
				if _, ok := fields.Check(a); ok {
					gotFields = append(gotFields, verb)
				}
			}
			a.ResourceRequest = false
			if enforcer.Covers(a) {
				t.Errorf("%+v: a path is covered", tc)
			}
		}
		if !slices.Equal(gotFields, tc.wantFields) {
			t.Errorf("%s/%s %s/%s: by permission on fields: got %v, want %v", tc.group, tc.version, tc.resource, tc.subresource, gotFields, tc.wantFields)
		}
		slices.Sort(got)
		if !slices.Equal(got, slices.Sorted(slices.Values(tc.want))) {
			t.Errorf("%s/%s %s/%s: got %v, want %v", tc.group, tc.version, tc.resource, tc.subresource, got, tc.want)
		}
	}
}

// TestNoFieldsAtTheFrontDoor leaves out what is needed to check them.
func TestNoFieldsAtTheFrontDoor(t *testing.T) {
	t.Parallel()
	chain, err := authorization.NewChain()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		mappings *mapping.Source
		door     FrontDoorConfig
		want     bool
	}{
		"no authorizer":   {&mapping.Source{}, FrontDoorConfig{}, false},
		"no mappings":     {nil, FrontDoorConfig{Fields: chain}, false},
		"everything":      {&mapping.Source{}, FrontDoorConfig{Fields: chain}, true},
		"the gate is off": {nil, FrontDoorConfig{}, false},
	} {
		config := CompletedConfig{&completedConfig{extra: ExtraConfig{Mappings: tc.mappings}}}
		if got := config.fieldsOf(&tc.door) != nil; got != tc.want {
			t.Errorf("%s: fields are asked about: %t, want %t", name, got, tc.want)
		}
	}
}
