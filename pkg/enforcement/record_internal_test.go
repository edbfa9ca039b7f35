/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

var alice = &user.DefaultInfo{Name: "alice", UID: "1", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"x", "y"}}}

// decided is a request of alice for a machine.
func decided(verb, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: alice, Verb: verb, APIGroup: "g", APIVersion: "v1", Resource: "things", Namespace: "n", Name: name, ResourceRequest: true, Path: "/p",
	}
}

// admitted is what admission sees of it.
func admitted(operation admission.Operation, name string) admissionRequest {
	return admissionRequest{operation: operation, name: name, namespace: "n", group: "g", version: "v1", resource: "things", user: alice}
}

type admissionRequest struct {
	operation                                              admission.Operation
	name, namespace, group, version, resource, subresource string
	user                                                   user.Info
}

func (r admissionRequest) attributes() admission.Attributes {
	return admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, r.namespace, r.name,
		schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.resource}, r.subresource, r.operation, nil, false, r.user)
}

// changed returns a copy with one thing changed.
func changed[T any](value T, change func(*T)) T {
	change(&value)
	return value
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	bob := &user.DefaultInfo{Name: "bob"}
	for _, tc := range []struct {
		name string
		was  authorizer.AttributesRecord
		is   admissionRequest
		want bool
	}{
		{"create", decided("create", ""), admitted(admission.Create, ""), true},
		{"create with the name of the object", decided("create", ""), admitted(admission.Create, "x"), true},
		{"create of a name", decided("create", "x"), admitted(admission.Create, "x"), true},
		{"create of another name", decided("create", "x"), admitted(admission.Create, "y"), false},
		{"create of a name without one", decided("create", "x"), admitted(admission.Create, ""), false},
		{"update", decided("update", "x"), admitted(admission.Update, "x"), true},
		{"update of another name", decided("update", "x"), admitted(admission.Update, "y"), false},
		{"update that creates", decided("update", "x"), admitted(admission.Create, "x"), true},
		{"update that creates another name", decided("update", "x"), admitted(admission.Create, "y"), false},
		{"update without a name that creates one", decided("update", ""), admitted(admission.Create, "y"), false},
		{"update that deletes", decided("update", "x"), admitted(admission.Delete, "x"), false},
		{"update that connects", decided("update", "x"), admitted(admission.Connect, "y"), false},
		{"patch", decided("patch", "x"), admitted(admission.Update, "x"), true},
		{"patch that creates", decided("patch", "x"), admitted(admission.Create, "x"), true},
		{"patch that creates another name", decided("patch", "x"), admitted(admission.Create, "y"), false},
		{"patch of another name", decided("patch", "x"), admitted(admission.Update, "y"), false},
		{"create that updates", decided("create", "x"), admitted(admission.Update, "x"), false},
		{"create that deletes", decided("create", "x"), admitted(admission.Delete, "x"), false},
		{"delete", decided("delete", "x"), admitted(admission.Delete, "x"), true},
		{"delete of another name", decided("delete", "x"), admitted(admission.Delete, "y"), false},
		{"delete of a collection", decided("delete", "x"), admitted(admission.Delete, ""), false},
		{"delete that updates", decided("delete", "x"), admitted(admission.Update, "x"), false},
		{"delete that creates", decided("delete", "x"), admitted(admission.Create, "x"), false},
		{"deletecollection", decided("deletecollection", ""), admitted(admission.Delete, ""), true},
		{"deletecollection with the name of an object", decided("deletecollection", ""), admitted(admission.Delete, "x"), true},
		{"deletecollection of a name", decided("deletecollection", "x"), admitted(admission.Delete, "x"), false},
		{"deletecollection that updates", decided("deletecollection", ""), admitted(admission.Update, ""), false},
		{"connect by get", decided("get", "x"), admitted(admission.Connect, "x"), true},
		{"connect by create", decided("create", "x"), admitted(admission.Connect, "x"), true},
		{"connect to another name", decided("get", "x"), admitted(admission.Connect, "y"), false},
		{"a read that creates", decided("get", "x"), admitted(admission.Create, "x"), false},
		{"a read that updates", decided("get", "x"), admitted(admission.Update, "x"), false},
		{"a read that deletes", decided("get", "x"), admitted(admission.Delete, "x"), false},
		{"an operation that does not exist", decided("update", "x"), admitted("IMPERSONATE", "x"), false},
		{"a path", changed(decided("update", "x"), func(a *authorizer.AttributesRecord) { a.ResourceRequest = false }), admitted(admission.Update, "x"), false},
		{"another group", decided("update", "x"), changed(admitted(admission.Update, "x"), func(r *admissionRequest) { r.group = "h" }), false},
		{"another version", decided("update", "x"), changed(admitted(admission.Update, "x"), func(r *admissionRequest) { r.version = "v2" }), false},
		{"another resource", decided("update", "x"), changed(admitted(admission.Update, "x"), func(r *admissionRequest) { r.resource = "others" }), false},
		{"another subresource", decided("update", "x"), changed(admitted(admission.Update, "x"), func(r *admissionRequest) { r.subresource = "status" }), false},
		{"another namespace", decided("update", "x"), changed(admitted(admission.Update, "x"), func(r *admissionRequest) { r.namespace = "m" }), false},
		{"no namespace", decided("update", "x"), changed(admitted(admission.Update, "x"), func(r *admissionRequest) { r.namespace = "" }), false},
		{"another user", decided("update", "x"), changed(admitted(admission.Update, "x"), func(r *admissionRequest) { r.user = bob }), false},
		{"no user", decided("update", "x"), changed(admitted(admission.Update, "x"), func(r *admissionRequest) { r.user = nil }), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := (&record{attributes: tc.was}).admits(tc.is.attributes()); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// otherRequests are ways in which one request is not another.
var otherRequests = map[string]func(*authorizer.AttributesRecord){
	"group":       func(a *authorizer.AttributesRecord) { a.APIGroup = "h" },
	"version":     func(a *authorizer.AttributesRecord) { a.APIVersion = "v2" },
	"any version": func(a *authorizer.AttributesRecord) { a.APIVersion = "*" },
	"resource":    func(a *authorizer.AttributesRecord) { a.Resource = "others" },
	"subresource": func(a *authorizer.AttributesRecord) { a.Subresource = "status" },
	"namespace":   func(a *authorizer.AttributesRecord) { a.Namespace = "m" },
	"name":        func(a *authorizer.AttributesRecord) { a.Name = "y" },
	"no name":     func(a *authorizer.AttributesRecord) { a.Name = "" },
	"user":        func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "bob"} },
	"no user":     func(a *authorizer.AttributesRecord) { a.User = nil },
	"a path":      func(a *authorizer.AttributesRecord) { a.ResourceRequest = false },
}

func TestTurnsInto(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		was, check string
		want       bool
	}{
		{"update", "create", true},
		{"patch", "create", true},
		{"create", "create", false},
		{"delete", "create", false},
		{"deletecollection", "create", false},
		{"get", "create", false},
		{"update", "update", false},
		{"update", "delete", false},
		{"update", "escalate", false},
		{"update", verbUnsafeDelete, false},
	} {
		if got := (&record{attributes: decided(tc.was, "x")}).turnsInto(decided(tc.check, "x")); got != tc.want {
			t.Errorf("%s into %s: got %v, want %v", tc.was, tc.check, got, tc.want)
		}
	}
	for name, change := range otherRequests {
		if (&record{attributes: decided("update", "x")}).turnsInto(changed(decided("create", "x"), change)) {
			t.Errorf("another %s: an update turned into it", name)
		}
	}
	if (*record)(nil).turnsInto(decided("create", "x")) {
		t.Error("a request that was not authorized turned into a create")
	}
}

func TestSameUser(t *testing.T) {
	t.Parallel()
	type info = user.DefaultInfo
	otherwise := func(change func(*info)) user.Info {
		other := changed(*alice, change)
		return &other
	}
	for _, tc := range []struct {
		name string
		a, b user.Info
		want bool
	}{
		{"the same", alice, alice, true},
		{"an equal one", alice, &info{Name: "alice", UID: "1", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"x", "y"}}}, true},
		{"nobody", nil, nil, true},
		{"somebody and nobody", alice, nil, false},
		{"nobody and somebody", nil, alice, false},
		{"empty and nil", &info{Groups: []string{}, Extra: map[string][]string{}}, &info{}, true},
		{"another name", alice, otherwise(func(i *info) { i.Name = "bob" }), false},
		{"another UID", alice, otherwise(func(i *info) { i.UID = "2" }), false},
		{"a group less", alice, otherwise(func(i *info) { i.Groups = []string{"a"} }), false},
		{"a group more", alice, otherwise(func(i *info) { i.Groups = []string{"a", "b", "c"} }), false},
		{"groups in another order", alice, otherwise(func(i *info) { i.Groups = []string{"b", "a"} }), false},
		{"no extra", alice, otherwise(func(i *info) { i.Extra = nil }), false},
		{"another extra key", alice, otherwise(func(i *info) { i.Extra = map[string][]string{"l": {"x", "y"}} }), false},
		{"an extra key more", alice, otherwise(func(i *info) { i.Extra = map[string][]string{"k": {"x", "y"}, "l": nil} }), false},
		{"another extra value", alice, otherwise(func(i *info) { i.Extra = map[string][]string{"k": {"x", "z"}} }), false},
		{"a key without values for one that is missing", &info{Extra: map[string][]string{"k": nil}}, &info{Extra: map[string][]string{"l": nil}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := sameUser(tc.a, tc.b); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDescribesRequest(t *testing.T) {
	t.Parallel()
	of := func(a authorizer.AttributesRecord) context.Context {
		ctx := genericapirequest.WithRequestInfo(t.Context(), &genericapirequest.RequestInfo{
			IsResourceRequest: a.ResourceRequest, Path: a.Path, Verb: a.Verb, APIGroup: a.APIGroup, APIVersion: a.APIVersion,
			Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
		})
		return genericapirequest.WithUser(ctx, a.User)
	}
	request := decided("update", "x")
	path := authorizer.AttributesRecord{User: alice, Verb: "get", Path: "/metrics"}
	if !describesRequest(of(request), request) || !describesRequest(of(path), path) {
		t.Error("a request is not itself")
	}
	if describesRequest(t.Context(), request) {
		t.Error("a context without a request was described")
	}
	others := map[string]func(*authorizer.AttributesRecord){
		"verb":                     func(a *authorizer.AttributesRecord) { a.Verb = "create" },
		"impersonation":            func(a *authorizer.AttributesRecord) { a.Verb = "impersonate" },
		"constrained":              func(a *authorizer.AttributesRecord) { a.Verb = "impersonate-on:user-info:update" },
		"path of the same request": func(a *authorizer.AttributesRecord) { a.Path = "/q" },
	}
	for name, change := range otherRequests {
		others[name] = change
	}
	for name, change := range others {
		if describesRequest(of(request), changed(request, change)) {
			t.Errorf("another %s: described the request", name)
		}
	}
	for _, name := range []string{"verb", "path of the same request", "user", "no user"} {
		if describesRequest(of(path), changed(path, others[name])) {
			t.Errorf("another %s: described the request for a path", name)
		}
	}
}
