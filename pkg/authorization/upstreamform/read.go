/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package upstreamform

import (
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kjson "sigs.k8s.io/json"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// MaxDecisionBytes bounds the JSON of a decision: more than the longest one within the bounds of the data model whose texts are escaped.
const MaxDecisionBytes = 12 << 20

var (
	errNoDecision  = errors.New("there is no decision")
	errLong        = errors.New("it is too long")
	errNoRequest   = errors.New("there is no admissionRequest, or it has no uid")
	errConditional = errors.New("it must not depend on conditions")
	errDuplicate   = errors.New("it has a field twice")
)

// ReadDecision reads a decision. A field that is not known may restrict the decision, and the meaning of a duplicate field would
// depend on the parser: for both the error wraps ErrInvalid. The error quotes names of fields only.
func ReadDecision(raw *runtime.RawExtension) (*Decision, error) {
	d := &Decision{}
	err := errNoDecision
	switch {
	case raw == nil || len(raw.Raw) == 0 || string(raw.Raw) == "null":
	//guard:upstreams-form-long-decisions
	case len(raw.Raw) > MaxDecisionBytes:
		err = errLong
	default:
		//guard:upstreams-form-fields-not-known
		err = strictly(raw.Raw, d, kjson.DisallowDuplicateFields, kjson.DisallowUnknownFields)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return d, nil
}

// strictly decodes JSON. The first error of a strict option is an error.
func strictly(raw []byte, into any, options ...kjson.StrictOption) error {
	strict, err := kjson.UnmarshalStrict(raw, into, options...)
	if err == nil && len(strict) > 0 {
		err = utilerrors.NewAggregate(strict[:1])
	}
	return err
}

// ReadUnconditional reads a decision that must be Allow, Deny or NoOpinion. The error wraps ErrInvalid, and the caller must then deny.
func ReadUnconditional(raw *runtime.RawExtension) (authorization.Decision, error) {
	d, err := ReadDecision(raw)
	if err != nil {
		return authorization.Decision{}, err
	}
	//guard:upstreams-form-two-members-answer
	if err := d.hasOneMember(); err != nil {
		return authorization.Decision{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	switch d.Type {
	case TypeAllow:
		return authorization.Allow(d.Allow.text(), nil), nil
	case TypeNoOpinion:
		return authorization.NoOpinion(d.NoOpinion.text(), nil), nil
	case TypeDeny:
		return authorization.Deny(d.Deny.text(), nil), nil
	}
	return authorization.Decision{}, fmt.Errorf("%w: %w", ErrInvalid, errConditional)
}

// text is the reason with the error, which did not prevent an answer.
func (u *Unconditional) text() string {
	if u.Reason == "" || u.EvaluationError == "" {
		return u.Reason + u.EvaluationError
	}
	return u.Reason + "; " + u.EvaluationError
}

// ReadAdmissionRequest reads the request of an AuthorizationConditionsReview. Unknown fields are ignored, because newer versions of
// Kubernetes add fields to requests. The error quotes nothing of the request.
func ReadAdmissionRequest(raw *runtime.RawExtension) (*admissionv1.AdmissionRequest, error) {
	if raw == nil || len(raw.Raw) == 0 {
		return nil, errNoRequest
	}
	request := &admissionv1.AdmissionRequest{}
	duplicates, err := kjson.UnmarshalStrict(raw.Raw, request, kjson.DisallowDuplicateFields)
	switch {
	case err != nil:
		return nil, errors.New("the admissionRequest is not valid JSON of its kind")
	//guard:upstreams-form-request-twice
	case len(duplicates) > 0:
		return nil, fmt.Errorf("the admissionRequest: %w", errDuplicate)
	//guard:upstreams-form-no-uid
	case request.UID == "":
		return nil, errNoRequest
	}
	return request, nil
}

// ErrOtherVersion is the error of a request whose objects have another version or kind than the request that was authorized.
var ErrOtherVersion = errors.New("the admissionRequest has its objects in another version than the request")

// Data returns the data of an AdmissionRequest in the form of KEP-5681. The conditions were written for the request that was authorized:
// the error is ErrOtherVersion if its objects have been converted.
func Data(request *admissionv1.AdmissionRequest) (*authorizationapi.AuthorizationConditionsRequest, error) {
	//guard:upstreams-form-another-kind
	if request.RequestKind != nil && *request.RequestKind != request.Kind || request.RequestResource != nil && *request.RequestResource != request.Resource {
		return nil, ErrOtherVersion
	}
	//guard:upstreams-form-another-subresource
	if (request.RequestResource != nil || request.RequestSubResource != "") && request.RequestSubResource != request.SubResource {
		return nil, ErrOtherVersion
	}
	return &authorizationapi.AuthorizationConditionsRequest{
		Operation: authorizationapi.Operation(request.Operation), Kind: &request.Kind, Resource: &request.Resource, SubResource: request.SubResource,
		Name: request.Name, Namespace: request.Namespace, UserInfo: &request.UserInfo, DryRun: request.DryRun != nil && *request.DryRun,
		Object: present(request.Object), OldObject: present(request.OldObject), Options: present(request.Options),
	}, nil
}

// present returns an object, or nil if there is none.
func present(object runtime.RawExtension) *runtime.RawExtension {
	if len(object.Raw) == 0 || string(object.Raw) == "null" {
		return nil
	}
	return &object
}

// AdmissionRequestOf returns the request with which an author evaluates conditions. The namespace object has no place in it.
func AdmissionRequestOf(uid types.UID, data *authorizationapi.AuthorizationConditionsRequest) (*runtime.RawExtension, error) {
	request := &admissionv1.AdmissionRequest{
		UID: uid, SubResource: data.SubResource, RequestSubResource: data.SubResource, Name: data.Name, Namespace: data.Namespace,
		Operation: admissionv1.Operation(data.Operation), DryRun: &data.DryRun, UserInfo: *data.UserInfo,
	}
	if data.Kind != nil {
		request.Kind, request.RequestKind = *data.Kind, data.Kind
	}
	if data.Resource != nil {
		request.Resource, request.RequestResource = *data.Resource, data.Resource
	}
	for to, object := range map[*runtime.RawExtension]*runtime.RawExtension{&request.Object: data.Object, &request.OldObject: data.OldObject, &request.Options: data.Options} {
		if object != nil {
			*to = *object
		}
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}
