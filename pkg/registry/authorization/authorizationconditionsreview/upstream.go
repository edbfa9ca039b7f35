/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationconditionsreview

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// loneAuthorizer names the set of a decision that is not a chain.
const loneAuthorizer = "conditions"

// checkForm returns a BadRequest error for a request in both forms, and for one in the form that is proposed for Kubernetes without
// the feature gate: conditions that are ignored would not deny.
func (r *REST) checkForm(request *authorizationapi.AuthorizationConditionsRequest) error {
	if request == nil {
		return nil
	}
	proposed := given([]named{{"request.decision", request.Decision != nil}, {"request.admissionRequest", request.AdmissionRequest != nil}})
	ofKEP := given([]named{
		{"request.conditionSets", request.ConditionSets != nil}, {"request.operation", request.Operation != ""},
		{"request.kind", request.Kind != nil}, {"request.resource", request.Resource != nil},
		{"request.subResource", request.SubResource != ""}, {"request.name", request.Name != ""}, {"request.namespace", request.Namespace != ""},
		{"request.namespaceObject", request.NamespaceObject != nil}, {"request.userInfo", request.UserInfo != nil},
		{"request.object", request.Object != nil}, {"request.oldObject", request.OldObject != nil}, {"request.options", request.Options != nil},
		{"request.dryRun", request.DryRun}, {"request.impersonation", request.Impersonation != nil},
	})
	switch {
	//guard:conditions-reviews-two-forms
	case len(proposed) > 0 && len(ofKEP) > 0:
		return apierrors.NewBadRequest(fmt.Sprintf("the review mixes two forms: it has %s, and %s of KEP-5681: send one form", strings.Join(proposed, ", "), strings.Join(ofKEP, ", ")))
	//guard:conditions-reviews-upstreams-form-without-gate
	case len(proposed) > 0 && !r.upstream:
		return apierrors.NewBadRequest(strings.Join(proposed, ", ") + " needs the feature gate UpstreamConditionalDecisions, which is off")
	}
	return nil
}

// named is a field, and whether a request has it.
type named struct {
	name    string
	isGiven bool
}

func given(fields []named) []string {
	var names []string
	for _, f := range fields {
		if f.isGiven {
			names = append(names, f.name)
		}
	}
	return names
}

// evaluateUpstream evaluates a valid request in the form that is proposed for Kubernetes.
func (r *REST) evaluateUpstream(ctx context.Context, caller user.Info, request *authorizationapi.AuthorizationConditionsRequest) (*authorizationapi.AuthorizationConditionsResponse, error) {
	admission, err := upstreamform.ReadAdmissionRequest(request.AdmissionRequest)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	data, err := upstreamform.Data(admission)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	//guard:conditions-reviews-data-admissionrequest
	if errs := validation.ValidateConditionsData(data, field.NewPath("request", "admissionRequest")); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: virtual.GroupOf(ctx), Kind: "AuthorizationConditionsReview"}, "", errs)
	}
	conditional, err := upstreamform.ReadDecision(request.Decision)
	if err == nil {
		data.ConditionSets, err = upstreamform.Sets(loneAuthorizer, conditional)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("request.decision: " + err.Error())
	}
	decision, err := r.decide(ctx, caller, data)
	if err != nil {
		return nil, err
	}
	encoded, err := upstreamform.EncodeUnconditional(decision).Raw()
	return &authorizationapi.AuthorizationConditionsResponse{UID: admission.UID, Decision: encoded}, err
}
