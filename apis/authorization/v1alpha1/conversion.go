/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// readable returns an error for an embedded object with valid JSON syntax but an invalid value, such as a
// number beyond every range. The check must be part of decoding, because the tracking of managed
// fields in the generic server, which comes next, panics on such values.
func readable(path string, embedded *runtime.RawExtension) error {
	if embedded == nil || len(embedded.Raw) == 0 {
		return nil
	}
	var value any
	if err := utiljson.Unmarshal(embedded.Raw, &value); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Convert_v1alpha1_AuthorizationConditionsRequest_To_authorization_AuthorizationConditionsRequest
// returns an error for embedded objects that cannot be read.
func Convert_v1alpha1_AuthorizationConditionsRequest_To_authorization_AuthorizationConditionsRequest(in *AuthorizationConditionsRequest, out *authorization.AuthorizationConditionsRequest, s conversion.Scope) error {
	err := cmp.Or(
		readable("request.object", in.Object), readable("request.oldObject", in.OldObject), readable("request.options", in.Options),
		readable("request.namespaceObject", in.NamespaceObject), readable("request.decision", in.Decision), readable("request.admissionRequest", in.AdmissionRequest),
	)
	if err != nil {
		return err
	}
	return autoConvert_v1alpha1_AuthorizationConditionsRequest_To_authorization_AuthorizationConditionsRequest(in, out, s)
}

// Convert_v1alpha1_AuthorizationConditionsResponse_To_authorization_AuthorizationConditionsResponse returns an error for a decision that
// cannot be read. A client may send one, although the server ignores it.
func Convert_v1alpha1_AuthorizationConditionsResponse_To_authorization_AuthorizationConditionsResponse(in *AuthorizationConditionsResponse, out *authorization.AuthorizationConditionsResponse, s conversion.Scope) error {
	if err := readable("response.decision", in.Decision); err != nil {
		return err
	}
	return autoConvert_v1alpha1_AuthorizationConditionsResponse_To_authorization_AuthorizationConditionsResponse(in, out, s)
}

// Convert_v1alpha1_SubjectAccessReviewStatus_To_authorization_SubjectAccessReviewStatus returns an error for a decision that cannot be
// read. A client may send one, although the server ignores it.
func Convert_v1alpha1_SubjectAccessReviewStatus_To_authorization_SubjectAccessReviewStatus(in *SubjectAccessReviewStatus, out *authorization.SubjectAccessReviewStatus, s conversion.Scope) error {
	if err := readable("status.conditionalDecision", in.ConditionalDecision); err != nil {
		return err
	}
	return autoConvert_v1alpha1_SubjectAccessReviewStatus_To_authorization_SubjectAccessReviewStatus(in, out, s)
}
