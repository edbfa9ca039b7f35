/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
)

// TestNoteWithoutObject says of each write without an object that ValidatingAdmissionPolicies may refuse it, and of no other request.
func TestNoteWithoutObject(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection", "get", "list", "watch", "impersonate"} {
		in := &input{}
		in.request.Spec = &authorizationv1alpha1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "pods"}}
		if err := in.readAdmission(t.Context()); err != nil {
			t.Fatal(err)
		}
		isWrite := verb != "get" && verb != "list" && verb != "watch" && verb != "impersonate"
		if (len(in.notes) == 1) != isWrite {
			t.Errorf("%s: got %q", verb, in.notes)
		}
	}
}
