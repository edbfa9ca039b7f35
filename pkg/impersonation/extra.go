/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf16"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	kjson "sigs.k8s.io/json"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// ExtraConditions is the key of the extra that passes residual conditions from one Proviso to the Proviso to which it
// forwards a request. The extra is reserved: only front proxies may send it, and it can only restrict the request.
const ExtraConditions = api.ExtraImpersonationConditions

// MaxExtraBytes bounds one value of the extra ExtraConditions. The value becomes a header, and servers and
// proxies commonly limit headers to some ten kilobytes.
const MaxExtraBytes = 16 * 1024

var (
	errExtraTooLong = fmt.Errorf("the conditions that remain of the impersonation take more than the %d bytes that can be carried on", MaxExtraBytes)
	errMangled      = fmt.Errorf("%w: they are not as they were written", authorization.ErrInvalidConditions)
	errReserved     = errors.New("the extra " + ExtraConditions + " is reserved for the residual conditions of an impersonation between servers")
)

// EncodeExtra encodes residual conditions as a value of the extra ExtraConditions. It returns an error if the value would
// be longer than MaxExtraBytes.
func EncodeExtra(sets []authorization.Set) (string, error) {
	wire, err := authorization.SetsToWire(sets)
	if err != nil {
		return "", err
	}
	versioned := make([]v1alpha1.SubjectAccessReviewConditionSet, len(wire))
	for i := range wire {
		if err := v1alpha1.Convert_authorization_SubjectAccessReviewConditionSet_To_v1alpha1_SubjectAccessReviewConditionSet(&wire[i], &versioned[i], nil); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(versioned)
	if err != nil {
		return "", err
	}
	encoded := ascii(string(text))
	if len(encoded) > MaxExtraBytes {
		return "", errExtraTooLong
	}
	return encoded, nil
}

// ascii escapes the characters of a JSON text that are not ASCII, and DEL, because proxies may change them in a header.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x80 && r != 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// DecodeExtra decodes values that EncodeExtra has returned, in any order and number. It returns an error if a value cannot
// be decoded, if there are no conditions or too many, if a condition could do more than deny, or if it could not be
// enforced. The caller must then deny the request.
func DecodeExtra(compiler *cel.Compiler, values []string) ([]authorization.Set, error) {
	var sets []authorization.Set
	for _, value := range values {
		decoded, err := decodeValue(value)
		if err != nil {
			return nil, err
		}
		sets = append(sets, decoded...)
	}
	if len(sets) == 0 {
		return nil, errNotDenying
	}
	if len(sets) > api.MaxConditionSets {
		return nil, fmt.Errorf("%w: more than %d sets", authorization.ErrInvalidConditions, api.MaxConditionSets)
	}
	for _, set := range sets {
		if err := validateResidual(compiler, set); err != nil {
			return nil, err
		}
	}
	return named(sets), nil
}

func decodeValue(value string) ([]authorization.Set, error) {
	if len(value) > MaxExtraBytes {
		return nil, errExtraTooLong
	}
	if ascii(value) != value {
		return nil, errMangled
	}
	var versioned []v1alpha1.SubjectAccessReviewConditionSet
	strict, err := kjson.UnmarshalStrict([]byte(value), &versioned)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("%w: %w", authorization.ErrInvalidConditions, err)
	}
	wire := make([]api.SubjectAccessReviewConditionSet, len(versioned))
	for i := range versioned {
		if err := v1alpha1.Convert_v1alpha1_SubjectAccessReviewConditionSet_To_authorization_SubjectAccessReviewConditionSet(&versioned[i], &wire[i], nil); err != nil {
			return nil, err
		}
	}
	return authorization.SetsFromWire(wire)
}

// refuseReserved returns a refusal if the wanted user or the requester has the reserved extra, and nil otherwise. A
// requester has it only if no Authenticator has removed it; the conditions in it would be lost, because the impersonated
// user replaces the requester.
func refuseReserved(requester, wanted user.Info) error {
	//guard:impersonation-reserved-extra
	if !authorization.HasReservedExtra(requester) && !authorization.HasReservedExtra(wanted) {
		return nil
	}
	return responsewriters.ForbiddenStatusError(authorizer.AttributesRecord{
		User: requester, Verb: verbLegacy, APIGroup: authenticationv1.GroupName, APIVersion: authenticationv1.SchemeGroupVersion.Version,
		Resource: "userextras", Subresource: ExtraConditions, ResourceRequest: true,
	}, errReserved.Error())
}

// WithExtra returns a copy of the user with the residual conditions in the reserved extra, for a request that is passed on
// to another Proviso, which enforces the conditions. Without conditions it returns u.
func WithExtra(u user.Info, sets []authorization.Set) (user.Info, error) {
	if len(sets) == 0 {
		return u, nil
	}
	value, err := EncodeExtra(sets)
	if err != nil {
		return nil, err
	}
	extra := maps.Clone(u.GetExtra())
	if extra == nil {
		extra = map[string][]string{}
	}
	extra[ExtraConditions] = []string{value}
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra}, nil
}
