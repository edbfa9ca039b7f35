/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Check is one authorization of a request: a verb, with or without the name of the object.
type Check struct {
	// Verb is the verb of the request.
	Verb string
	// Named says that the request has the name of the object.
	Named bool
}

// Way is one way to send a write: kube-apiserver has authorized all of its checks.
type Way []Check

// Kind is one kind of writes: all resources that have it are in the same webhook.
type Kind struct {
	// Name is the name of the kind, a DNS label.
	Name string
	// Operation is the operation at admission.
	Operation admissionregistrationv1.OperationType
	// Has reports whether the resource has writes of this kind.
	Has func(Resource) bool
	// Ways are the ways to send such a write, which look the same at admission.
	Ways []Way
	// Collection is the way if the write has no name. It is nil if Ways are for these writes, too.
	Collection Way
}

// Kinds are the kinds of writes. There is no kind for CONNECT: the answer to a connection cannot be taken back.
var Kinds = []Kind{
	{
		// A POST is authorized without the name, and a PATCH that creates as patch and as create with the name.
		Name: "create", Operation: admissionregistrationv1.Create,
		Has: func(r Resource) bool { return r.Subresource == "" && !r.isCreatedByPut() },
		//guard:inner-door-patch-creates
		Ways: []Way{{{Verb: "create"}}, {{Verb: "create", Named: true}, {Verb: "patch", Named: true}}},
	},
	{
		// A PUT that creates is authorized as update and as create with the name.
		Name: "create-or-put", Operation: admissionregistrationv1.Create,
		Has: Resource.isCreatedByPut,
		Ways: []Way{
			{{Verb: "create"}},
			{{Verb: "create", Named: true}, {Verb: "update", Named: true}},
			{{Verb: "create", Named: true}, {Verb: "patch", Named: true}},
		},
	},
	{
		Name: "create-named", Operation: admissionregistrationv1.Create,
		Has:  Resource.isCreatedByName,
		Ways: []Way{{{Verb: "create", Named: true}}},
	},
	{
		Name: "update", Operation: admissionregistrationv1.Update,
		Has:  func(r Resource) bool { return !r.isCreatedByName() },
		Ways: []Way{{{Verb: "update", Named: true}}, {{Verb: "patch", Named: true}}},
	},
	{
		Name: "delete", Operation: admissionregistrationv1.Delete,
		Has:        func(r Resource) bool { return r.Subresource == "" },
		Ways:       []Way{{{Verb: "delete", Named: true}}},
		Collection: Way{{Verb: "deletecollection"}},
	},
}

func (r Resource) isCreatedByName() bool { return slices.Contains(createdByName, r.Subresource) }

// Verbs returns the verbs of the writes that the inner door decides for a resource.
func (r Resource) Verbs() []string {
	var verbs []string
	for i := range Kinds {
		if !Kinds[i].Has(r) {
			continue
		}
		for _, check := range slices.Concat(append(slices.Clone(Kinds[i].Ways), Kinds[i].Collection)...) {
			if !slices.Contains(verbs, check.Verb) {
				verbs = append(verbs, check.Verb)
			}
		}
	}
	return verbs
}
