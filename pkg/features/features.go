/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package features has the feature gates of Proviso. Importing it adds them to those of
// the generic server, so that --feature-gates knows them.
package features

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

const (
	// ConditionalAuthorization lets authorizers answer with conditions, which are enforced
	// at admission (KEP-5681). Without it, modes in reviews are ignored and what depends on
	// conditions is folded.
	ConditionalAuthorization featuregate.Feature = "ConditionalAuthorization"
	// AuthorizeConnectWithCreate demands the verb create of whoever connects to a resource,
	// whatever the HTTP method (KEP-5681, "Compound Authorization for Connectible Resources").
	AuthorizeConnectWithCreate featuregate.Feature = "AuthorizeConnectWithCreate"
	// ConditionalImpersonation has the server impersonate in the mode conditional, too (KEP-5681,
	// "Constrained Impersonation through Conditional Authorization"), for the clients that connect
	// to it directly, and lets ImpersonationReviews tell. It needs ConditionalAuthorization.
	ConditionalImpersonation featuregate.Feature = "ConditionalImpersonation"
	// FineGrainedAuthorization lets those who may not write an object change the fields for
	// which they have permission, and excludes fields from what permission on the whole object
	// includes (KEP-3617). It needs ConditionalAuthorization.
	FineGrainedAuthorization featuregate.Feature = "FineGrainedAuthorization"
)

// specs apply to every version that the generic server can emulate: the gates are those of
// Proviso, whose versions are others.
var specs = map[featuregate.Feature]featuregate.VersionedSpecs{
	ConditionalAuthorization:   {{Version: version.MajorMinor(1, 0), Default: true, PreRelease: featuregate.Beta}},
	AuthorizeConnectWithCreate: {{Version: version.MajorMinor(1, 0), Default: true, PreRelease: featuregate.Beta}},
	FineGrainedAuthorization:   {{Version: version.MajorMinor(1, 0), Default: false, PreRelease: featuregate.Alpha}},
	ConditionalImpersonation:   {{Version: version.MajorMinor(1, 0), Default: false, PreRelease: featuregate.Alpha}},
}

//nolint:gochecknoinits // flags are parsed against gates that are already there
func init() {
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.AddVersioned(specs))
}
