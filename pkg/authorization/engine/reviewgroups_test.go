/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

const (
	officialGroup = "authorization.k8s.io"
	ownGroup      = "authorization.proviso.dev"
)

func reviewsIn(group, version string) authorizer.AttributesRecord {
	a := podsOf("create")
	a.APIGroup, a.APIVersion, a.Resource, a.Namespace, a.Name = group, version, "subjectaccessreviews", "", ""
	return a
}

// TestEngineReviewGroups checks that a policy that restricts reviews in one of their two groups restricts them in both, and that
// an Allow policy grants only what it names.
func TestEngineReviewGroups(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		groups, versions []string
		request          authorizer.AttributesRecord
		restricts        bool
		grants           bool
	}{
		{"the named group", []string{officialGroup}, nil, reviewsIn(officialGroup, "v1alpha1"), true, true},
		{"the own group by the official one", []string{officialGroup}, nil, reviewsIn(ownGroup, "v1alpha1"), true, false},
		{"the official group by the own one", []string{ownGroup}, nil, reviewsIn(officialGroup, "v1alpha1"), true, false},
		{"the named own group", []string{ownGroup}, nil, reviewsIn(ownGroup, "v1alpha1"), true, true},
		{"both groups", []string{officialGroup, ownGroup}, nil, reviewsIn(ownGroup, "v1alpha1"), true, true},
		{"all groups", []string{"*"}, nil, reviewsIn(ownGroup, "v1alpha1"), true, true},
		{"another group", []string{"apps"}, nil, reviewsIn(ownGroup, "v1alpha1"), false, false},
		{"the reviews of kube-apiserver by the own group", []string{ownGroup}, nil, reviewsIn(officialGroup, "v1"), false, false},
		{"the reviews of kube-apiserver by both groups", []string{officialGroup, ownGroup}, nil, reviewsIn(officialGroup, "v1"), true, true},
		{"all versions by the own group", []string{ownGroup}, nil, reviewsIn(officialGroup, "*"), true, false},
		{"no version by the own group", []string{ownGroup}, nil, reviewsIn(officialGroup, ""), true, false},
		{"one version, in the own group", []string{officialGroup}, []string{"v1alpha1"}, reviewsIn(ownGroup, "v1alpha1"), true, false},
		{"one version, in the official group", []string{ownGroup}, []string{"v1alpha1"}, reviewsIn(officialGroup, "v1alpha1"), true, false},
		{"one version, for the reviews of kube-apiserver", []string{ownGroup}, []string{"v1alpha1"}, reviewsIn(officialGroup, "v1"), false, false},
	} {
		for _, conditional := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, conditional %t", tc.name, conditional), func(t *testing.T) {
				t.Parallel()
				s := spec{Rules: []rule{{Verbs: []string{"create"}, APIGroups: tc.groups, APIVersions: tc.versions, Resources: []string{"subjectaccessreviews"}}}}
				if conditional {
					s.Condition = `object.spec.user == "bob"`
				}
				decide := func(effect policyv1alpha1.PolicyEffect) string {
					with := s
					with.Effect = effect
					specs := map[string]spec{"p": with}
					if effect == noOpinion {
						specs["yes"] = spec{Effect: allow}
					}
					return both(t, specs, tc.request)
				}
				none := []string{"NoOpinion, NoOpinion"}
				if got := decide(deny); slices.Contains(none, got) == tc.restricts {
					t.Errorf("Deny: got %s, want it to apply: %v", got, tc.restricts)
				}
				if got := decide(noOpinion); (got == "NoOpinion, Allow") == tc.restricts {
					t.Errorf("NoOpinion: got %s, want it to apply: %v", got, tc.restricts)
				}
				if got := decide(allow); slices.Contains(none, got) == tc.grants {
					t.Errorf("Allow: got %s, want it to apply: %v", got, tc.grants)
				}
			})
		}
	}
}
