/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

// TestExclusionWarnings asks what the author of an exclusion is told about resources whose writes are not all decided by Proviso.
func TestExclusionWarnings(t *testing.T) {
	t.Parallel()
	const (
		never = "spec.resources[0]: Proviso does not decide writes of pods, so that it does not check the excluded fields; they count in reviews only"
		some  = "spec.resources[0]: the excluded fields of pods are checked only for users whom no other authorizer of kube-apiserver, such as RBAC, allows the write"
	)
	resources := []innerdoor.Resource{{Resource: "pods"}, {Group: "apps", Resource: "deployments", Subresource: "scale"}}
	asks, asksNobody := &manifest.Config{AsksOthers: true, Resources: resources}, &manifest.Config{Resources: resources}
	excluded := policyapi.FieldPermission{Path: "spec.hostNetwork", Permission: "nodeNetworks", Exclusion: &policyapi.FieldExclusion{}}
	for _, tc := range []struct {
		name     string
		resource policyapi.FieldPermissionResource
		fields   []policyapi.FieldPermission
		door     *manifest.Config
		want     []string
	}{
		{name: "no inner door", resource: policyapi.FieldPermissionResource{Resource: "pods"}, want: []string{never}},
		{name: "listed", resource: policyapi.FieldPermissionResource{Resource: "pods"}, door: asks, want: []string{some}},
		{name: "listed, and everybody's writes are decided", resource: policyapi.FieldPermissionResource{Resource: "pods"}, door: asksNobody},
		{name: "not listed", resource: policyapi.FieldPermissionResource{Resource: "secrets"}, door: asks, want: []string{strings.ReplaceAll(never, "pods", "secrets")}},
		{name: "another group", resource: policyapi.FieldPermissionResource{APIGroup: "example.com", Resource: "pods"}, door: asks, want: []string{strings.ReplaceAll(never, "pods", "pods.example.com")}},
		{name: "a subresource is listed", resource: policyapi.FieldPermissionResource{APIGroup: "apps", Resource: "deployments"}, door: asks, want: []string{strings.ReplaceAll(never, "pods", "deployments.apps")}},
		{name: "Proviso's own", resource: policyapi.FieldPermissionResource{APIGroup: "demo.proviso.dev", Resource: "virtualmachines"}, door: asks},
		{name: "nothing is excluded", resource: policyapi.FieldPermissionResource{Resource: "pods"}, fields: []policyapi.FieldPermission{{Path: "spec.hostNetwork", Permission: "nodeNetworks"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			spec := &policyapi.FieldPermissionMappingSpec{Resources: []policyapi.FieldPermissionResource{tc.resource}, Fields: tc.fields}
			if spec.Fields == nil {
				spec.Fields = []policyapi.FieldPermission{excluded}
			}
			config := CompletedConfig{&completedConfig{extra: ExtraConfig{FrontDoor: &FrontDoorConfig{InnerDoor: tc.door}}}}
			got, errs := config.checkMapping("m", spec)
			if diff := cmp.Diff(tc.want, got); diff != "" || len(errs) > 0 {
				t.Errorf("got %v, -want +got:\n%s", errs, diff)
			}
		})
	}
}
