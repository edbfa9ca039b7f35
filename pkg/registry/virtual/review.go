/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package virtual

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// Review decides a review. It adds warnings about the answer to the response.
func Review(ctx context.Context, reviewer *authorization.Reviewer, record authorizer.AttributesRecord, config *authorizationapi.ConditionalAuthorizationConfiguration) authorizationapi.SubjectAccessReviewStatus {
	status, warnings := reviewer.Review(ctx, record, config)
	Warn(ctx, warnings...)
	return status
}

// Warn adds warnings to the response.
func Warn(ctx context.Context, warnings ...string) {
	for _, text := range warnings {
		warning.AddWarning(ctx, "", text)
	}
}
