/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import "encoding/json"

// MarshalJSON leaves out allowed if it is false and the response has a decision: beside the decision Allow it would
// read like a contradiction.
func (r AuthorizationConditionsResponse) MarshalJSON() ([]byte, error) {
	type plain AuthorizationConditionsResponse
	if r.Decision == nil || r.Allowed {
		return json.Marshal(plain(r))
	}
	return json.Marshal(struct {
		plain   `json:",inline"`
		Allowed *bool `json:"allowed,omitempty"`
	}{plain: plain(r)})
}
