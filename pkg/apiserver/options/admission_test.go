/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/apiserver"
)

// wantsExclusions is an admission plugin that records what it is told to leave alone.
type wantsExclusions struct {
	admission.Interface
	excluded []schema.GroupResource
}

func (w *wantsExclusions) SetExcludedAdmissionResources(resources []schema.GroupResource) {
	w.excluded = resources
}

func (w *wantsExclusions) ValidateInitialization() error { return nil }

// TestReviewsAreExcludedFromAdmission goes by the kinds of the group, so that a review
// that is added is not forgotten.
func TestReviewsAreExcludedFromAdmission(t *testing.T) {
	t.Parallel()
	plugin := &wantsExclusions{}
	exclusions{}.Initialize(plugin)
	for kind, goType := range apiserver.Scheme.KnownTypes(authorizationapi.SchemeGroupVersion) {
		if !strings.HasSuffix(goType.PkgPath(), "/apis/authorization") {
			continue // a type that every group has
		}
		resource := authorizationapi.Resource(strings.ToLower(kind) + "s")
		if !slices.Contains(plugin.excluded, resource) {
			t.Errorf("%s is not excluded", resource)
		}
	}
	if len(plugin.excluded) == 0 {
		t.Error("nothing is excluded")
	}
}
