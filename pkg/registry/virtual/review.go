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

// Review asks a chain what a review asks, and passes on what the caller should know about
// the answer as warnings.
func Review(ctx context.Context, chain *authorization.Chain, record authorizer.AttributesRecord, config *authorizationapi.ConditionalAuthorizationConfiguration) authorizationapi.SubjectAccessReviewStatus {
	status, warnings := chain.Review(ctx, record, config)
	for _, text := range warnings {
		warning.AddWarning(ctx, "", text)
	}
	return status
}
