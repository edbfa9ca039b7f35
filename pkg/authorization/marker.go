/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

// DelegationMarker is the user extra in every SubjectAccessReview that Proviso sends. The front
// door, Proviso's authorization webhook, never answers Allow to a review with the marker, so that a
// policy cannot be the reason for its own decision. A client that forges the marker only loses
// permissions.
const DelegationMarker = "authorization.proviso.dev/delegated"
