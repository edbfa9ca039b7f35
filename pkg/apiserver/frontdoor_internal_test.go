/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	demoapi "github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/authorizationconditionsreview"
	"github.com/proviso-authz/proviso/pkg/registry/authorization/subjectaccessreview"
	"github.com/proviso-authz/proviso/pkg/registry/demo/virtualmachine"
)

// TestCovered asks for each verb and resource whether conditions on it are evaluated behind
// the front door.
func TestCovered(t *testing.T) {
	t.Parallel()
	reviews := genericapiserver.NewDefaultAPIGroupInfo(authorizationapi.GroupName, Scheme, ParameterCodec, Codecs)
	reviews.VersionedResourcesStorageMap["v1alpha1"] = map[string]rest.Storage{
		"subjectaccessreviews":           subjectaccessreview.NewREST(nil),
		"authorizationconditionsreviews": authorizationconditionsreview.NewREST(authorizationconditionsreview.Compilers{}, nil),
	}
	machines := genericapiserver.NewDefaultAPIGroupInfo(demoapi.GroupName, Scheme, ParameterCodec, Codecs)
	machines.VersionedResourcesStorageMap["v1alpha1"] = map[string]rest.Storage{
		"virtualmachines":         &virtualmachine.REST{},
		"virtualmachines/status":  &virtualmachine.StatusREST{},
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
	enforcer.Plug()
	enforcer.Cover(&reviews, &machines)
	concrete := []string{"create", "update", "patch", "delete", "deletecollection", "get", "list", "watch", "escalate", "restrict"}
	for _, tc := range []struct {
		group, version, resource, subresource string
		want                                  []string
	}{
		{"demo.proviso.dev", "v1alpha1", "virtualmachines", "", []string{"create", "update", "patch", "delete", "deletecollection"}},
		{"demo.proviso.dev", "v1alpha1", "virtualmachines", "status", []string{"update", "patch"}},
		{"demo.proviso.dev", "v1alpha1", "virtualmachines", "console", []string{"create", "get"}}, // the verbs of the methods that connect, and create
		{"demo.proviso.dev", "v1alpha1", "virtualmachines", "*", nil},
		{"demo.proviso.dev", "v1alpha1", "*", "", nil},
		{"demo.proviso.dev", "v1alpha1", "virtualmachines/status", "", nil},
		{"demo.proviso.dev", "v1", "virtualmachines", "", nil},
		{"demo.proviso.dev", "*", "virtualmachines", "", nil},
		{"", "v1alpha1", "virtualmachines", "", nil},
		{"authorization.k8s.io", "v1alpha1", "subjectaccessreviews", "", []string{"create"}},
		{"authorization.k8s.io", "v1alpha1", "authorizationconditionsreviews", "", nil},
		{"authorization.k8s.io", "v1", "subjectaccessreviews", "", nil},
		{"", "v1", "pods", "", nil},
	} {
		var got []string
		for _, verb := range append([]string{"*", ""}, concrete...) {
			a := authorizer.AttributesRecord{Verb: verb, APIGroup: tc.group, APIVersion: tc.version, Resource: tc.resource, Subresource: tc.subresource, ResourceRequest: true}
			if enforcer.Covers(a) {
				got = append(got, verb)
			}
			a.ResourceRequest = false
			if enforcer.Covers(a) {
				t.Errorf("%+v: a path is covered", tc)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, slices.Sorted(slices.Values(tc.want))) {
			t.Errorf("%s/%s %s/%s: got %v, want %v", tc.group, tc.version, tc.resource, tc.subresource, got, tc.want)
		}
	}
}
