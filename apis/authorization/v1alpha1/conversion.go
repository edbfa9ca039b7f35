/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// Convert_v1alpha1_AuthorizationConditionsRequest_To_authorization_AuthorizationConditionsRequest
// returns an error for embedded objects with valid JSON syntax but an invalid value, such as a
// number beyond every range. The check must be part of decoding, because the tracking of managed
// fields in the generic server, which comes next, panics on such values.
func Convert_v1alpha1_AuthorizationConditionsRequest_To_authorization_AuthorizationConditionsRequest(in *AuthorizationConditionsRequest, out *authorization.AuthorizationConditionsRequest, s conversion.Scope) error {
	for _, embedded := range []struct {
		name string
		raw  *runtime.RawExtension
	}{
		{name: "object", raw: in.Object}, {name: "oldObject", raw: in.OldObject}, {name: "options", raw: in.Options}, {name: "namespaceObject", raw: in.NamespaceObject},
	} {
		if embedded.raw == nil || len(embedded.raw.Raw) == 0 {
			continue
		}
		var value any
		if err := utiljson.Unmarshal(embedded.raw.Raw, &value); err != nil {
			return fmt.Errorf("request.%s: %w", embedded.name, err)
		}
	}
	return autoConvert_v1alpha1_AuthorizationConditionsRequest_To_authorization_AuthorizationConditionsRequest(in, out, s)
}
