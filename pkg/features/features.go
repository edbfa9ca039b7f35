/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package features has the feature gates of Proviso. Importing it registers them together with the
// gates of the generic server, so that --feature-gates accepts them.
package features

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

const (
	// ConditionalAuthorization lets authorizers answer with conditions, which are enforced at
	// admission (KEP-5681). If it is off, reviews ignore the mode, and conditional decisions are
	// folded.
	ConditionalAuthorization featuregate.Feature = "ConditionalAuthorization"
	// AuthorizeConnectWithCreate requires the verb create for every connection to a resource, whatever the HTTP
	// method (KEP-5681, "Compound Authorization for Connectible Resources").
	AuthorizeConnectWithCreate featuregate.Feature = "AuthorizeConnectWithCreate"
	// ConditionalImpersonation enables the mode conditional of impersonation (KEP-5681,
	// "Constrained Impersonation through Conditional Authorization") for clients that connect to
	// the server directly, and for ImpersonationReviews. It needs ConditionalAuthorization.
	ConditionalImpersonation featuregate.Feature = "ConditionalImpersonation"
	// FineGrainedAuthorization lets users without permission to write an object change the fields for which they have
	// permission if they have the verb granular, and excludes fields from the permission to write the object (KEP-3617). It
	// needs ConditionalAuthorization.
	FineGrainedAuthorization featuregate.Feature = "FineGrainedAuthorization"
	// UpstreamConditionalDecisions has the front door answer kube-apiservers that handle conditional decisions in the wire form that
	// is proposed for Kubernetes, and evaluates the conditions that they send back. Reviews and webhooks have that form, too. It
	// needs ConditionalAuthorization.
	UpstreamConditionalDecisions featuregate.Feature = "UpstreamConditionalDecisions"
	// WebhooksAtFrontDoor has the front door ask the webhooks of --authorization-config, and the example authorizer of the demo API,
	// about requests that policies do not deny.
	WebhooksAtFrontDoor featuregate.Feature = "WebhooksAtFrontDoor"
)

// specs apply to every version that the generic server can emulate, because the gates have versions of Proviso, not
// of Kubernetes.
var specs = map[featuregate.Feature]featuregate.VersionedSpecs{
	ConditionalAuthorization:     {{Version: version.MajorMinor(1, 0), Default: true, PreRelease: featuregate.Beta}},
	AuthorizeConnectWithCreate:   {{Version: version.MajorMinor(1, 0), Default: true, PreRelease: featuregate.Beta}},
	FineGrainedAuthorization:     {{Version: version.MajorMinor(1, 0), Default: false, PreRelease: featuregate.Alpha}},
	UpstreamConditionalDecisions: {{Version: version.MajorMinor(1, 0), Default: false, PreRelease: featuregate.Alpha}},
	WebhooksAtFrontDoor:          {{Version: version.MajorMinor(1, 0), Default: true, PreRelease: featuregate.Beta}},
	ConditionalImpersonation:     {{Version: version.MajorMinor(1, 0), Default: false, PreRelease: featuregate.Alpha}},
}

//nolint:gochecknoinits // flags are parsed after all gates are registered
func init() {
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.AddVersioned(specs))
}
