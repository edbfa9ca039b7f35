/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

// bare is a storage that serves nothing.
type bare struct{}

func (bare) New() runtime.Object { return &demo.VirtualMachine{} }
func (bare) Destroy()            {}

// marked is a storage that says that it runs admission, and serves nothing.
type marked struct{ bare }

func (marked) RunsValidatingAdmission() {}

// embedding has a Store within, which it could leave out.
type embedding struct{ *genericregistry.Store }

// graceful deletes in two steps.
type graceful struct {
	rest.RESTDeleteStrategy
	rest.RESTGracefulDeleteStrategy
}

// review is created, and says that it runs admission.
type review struct{ marked }

func (review) Create(context.Context, runtime.Object, rest.ValidateObjectFunc, *metav1.CreateOptions) (runtime.Object, error) {
	return nil, nil
}

// eviction is created under a name, as pods/eviction is.
type eviction struct{ bare }

func (eviction) Create(context.Context, string, runtime.Object, rest.ValidateObjectFunc, *metav1.CreateOptions) (runtime.Object, error) {
	return nil, nil
}

// markedEviction runs admission.
type markedEviction struct {
	eviction
	marked
}

func (markedEviction) New() runtime.Object { return nil }
func (markedEviction) Destroy()            {}

// updated is updated only.
type updated struct{ marked }

func (updated) Update(context.Context, string, rest.UpdatedObjectInfo, rest.ValidateObjectFunc, rest.ValidateObjectUpdateFunc, bool, *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return nil, false, nil
}

// console is connected to by some methods.
type console struct {
	bare
	methods string
}

func (c console) ConnectMethods() []string                                { return strings.Split(c.methods, ",") }
func (console) NewConnectOptions() (o runtime.Object, sub bool, s string) { return nil, false, "" }
func (console) Connect(context.Context, string, runtime.Object, rest.Responder) (http.Handler, error) {
	return nil, nil
}

// both is read as well as connected to.
type both struct{ console }

func (both) Get(context.Context, string, *metav1.GetOptions) (runtime.Object, error) { return nil, nil }

// storages are what the classifier has to tell apart.
var storages = map[string]rest.Storage{
	"virtualmachines":        &genericregistry.Store{},
	"virtualmachines/bare":   bare{},
	"virtualmachines/embeds": embedding{&genericregistry.Store{}},
	"virtualmachines/evict":  eviction{},
	"virtualmachines/moved":  markedEviction{},
	"virtualmachines/status": updated{},
	"virtualmachines/exec":   console{methods: "GET,POST"},
	"virtualmachines/proxy":  console{methods: "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS"},
	"virtualmachines/both":   both{console{methods: "GET,POST"}},
	"reviews":                review{},
	"nothing":                marked{},
	"gracefully":             &genericregistry.Store{DeleteStrategy: graceful{}},
}

func covering(t *testing.T) *enforcement.Enforcer {
	t.Helper()
	return newRig(t, rigConfig{chain: chainOf(t), storages: storages}).enforcer
}

func about(verb, path string) authorizer.AttributesRecord {
	resource, subresource, _ := strings.Cut(path, "/")
	return authorizer.AttributesRecord{
		ResourceRequest: true, Verb: verb, APIGroup: demo.GroupName, APIVersion: "v1alpha1", Resource: resource, Subresource: subresource, Namespace: "n", Name: "x",
	}
}

// TestClassifier lists for each storage the verbs on which conditions may pass.
func TestClassifier(t *testing.T) {
	t.Parallel()
	enforcer := covering(t)
	verbs := []string{
		"create", "update", "patch", "delete", "deletecollection", "get", "list", "watch",
		"bind", "escalate", "restrict", "impersonate", "approve", "proxy", "unsafe-delete-ignore-read-errors", "CREATE", "*", "",
	}
	for path, want := range map[string]string{
		"virtualmachines":        "create update patch delete deletecollection",
		"virtualmachines/bare":   "",
		"virtualmachines/embeds": "",
		"virtualmachines/evict":  "",
		"virtualmachines/moved":  "create",
		"virtualmachines/status": "update",
		"virtualmachines/exec":   "create get",
		"virtualmachines/proxy":  "create update patch delete get",
		"virtualmachines/both":   "",
		"reviews":                "create",
		"nothing":                "",
		"gracefully":             "create update patch",
		"unserved":               "",
		"virtualmachines/other":  "",
		"*":                      "",
		"virtualmachines/*":      "",
	} {
		var got []string
		for _, verb := range verbs {
			if enforcer.Covers(about(verb, path)) {
				got = append(got, verb)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", path, got, want)
		}
	}
	for name, change := range map[string]func(*authorizer.AttributesRecord){
		"another group":            func(a *authorizer.AttributesRecord) { a.APIGroup = "apps" },
		"every group":              func(a *authorizer.AttributesRecord) { a.APIGroup = "*" },
		"the core group":           func(a *authorizer.AttributesRecord) { a.APIGroup = "" },
		"a version not served":     func(a *authorizer.AttributesRecord) { a.APIVersion = "v1" },
		"every version":            func(a *authorizer.AttributesRecord) { a.APIVersion = "*" },
		"no version":               func(a *authorizer.AttributesRecord) { a.APIVersion = "" },
		"not about a resource":     func(a *authorizer.AttributesRecord) { a.ResourceRequest = false },
		"a path for a subresource": func(a *authorizer.AttributesRecord) { a.Resource = "virtualmachines/status" },
	} {
		a := about("create", "virtualmachines")
		change(&a)
		if enforcer.Covers(a) {
			t.Errorf("%s: covered", name)
		}
	}
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	enforcer := covering(t)
	for _, tc := range []struct {
		verb, group, version, path string
		enforced, folded           bool
	}{
		{"create", demo.GroupName, "v1alpha1", "virtualmachines", true, false},
		{"create", demo.GroupName, "*", "virtualmachines", true, false},
		{"get", demo.GroupName, "*", "virtualmachines", false, true},
		{"deletecollection", "*", "*", "*", true, true},
		{"get", "*", "*", "*", false, true},
		{"get", "*", "*", "*/exec", true, false},
		{"get", "*", "*", "*/*", true, true},
		{"update", "*", "*", "*/exec", false, false},
		{"create", "*", "*", "virtualmachines/evict", false, true},
		{"create", "*", "v1", "*/*", false, false},
		{"create", "apps", "*", "*/*", false, false},
		{"bind", "*", "*", "*/*", false, false},
	} {
		a := about(tc.verb, tc.path)
		a.APIGroup = tc.group
		if enforced, folded := enforcer.Coverage(a, []string{tc.version}); enforced.Has(tc.verb) != tc.enforced || folded.Has(tc.verb) != tc.folded {
			t.Errorf("%+v: got %v, %v", tc, sets.List(enforced), sets.List(folded))
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	enforcer := covering(t)
	group := genericapiserver.NewDefaultAPIGroupInfo(demo.GroupName, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.VersionedResourcesStorageMap["v1"] = map[string]rest.Storage{"virtualmachines": storages["virtualmachines"]}
	enforcer.Cover(&group)
	for _, tc := range []struct {
		group, path string
		resource    bool
		want        string
	}{
		{demo.GroupName, "virtualmachines", true, "v1 v1alpha1"},
		{demo.GroupName, "virtualmachines/status", true, "v1alpha1"},
		{demo.GroupName, "unserved", true, ""},
		{demo.GroupName, "*", true, ""},
		{"*", "virtualmachines", true, ""},
		{"", "virtualmachines", true, ""},
		{demo.GroupName, "virtualmachines", false, ""},
	} {
		a := about("get", tc.path)
		a.APIGroup, a.APIVersion, a.ResourceRequest = tc.group, "*", tc.resource
		if got := strings.Join(enforcer.Versions(a), " "); got != tc.want {
			t.Errorf("%+v: got %s", tc, got)
		}
	}
}

// TestNothingIsCoveredUnlessItIsEnforced turns off what enforces.
func TestNothingIsCoveredUnlessItIsEnforced(t *testing.T) {
	t.Parallel()
	off := newRig(t, rigConfig{chain: chainOf(t), storages: storages, adjust: func(c *enforcement.Config) { c.Conditional = false }}).enforcer
	unplugged, err := enforcement.New(enforcement.Config{Chain: chainOf(t), Conditional: true})
	if err != nil {
		t.Fatal(err)
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(demo.GroupName, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.VersionedResourcesStorageMap["v1alpha1"] = storages
	unplugged.Cover(&group)
	for name, enforcer := range map[string]*enforcement.Enforcer{"the gate is off": off, "the plugin is missing": unplugged} {
		enforced, folded := enforcer.Coverage(about("create", "*/*"), nil)
		if enforcer.Covers(about("create", "virtualmachines")) || len(enforced) > 0 || !folded.Has("create") {
			t.Errorf("%s: something is covered, or not folded", name)
		}
	}
}
