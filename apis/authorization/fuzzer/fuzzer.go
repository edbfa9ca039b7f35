/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package fuzzer fills objects of authorization.k8s.io with random content that
// survives a round trip through every version.
package fuzzer

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// Funcs returns the functions for fields whose content must not be completely random.
func Funcs(_ runtimeserializer.CodecFactory) []any {
	return []any{
		func(set *authorization.SubjectAccessReviewConditionSet, c randfill.Continue) {
			set.AuthorizerName = c.String(0)
			set.Allowed, set.Denied = c.Bool(), c.Bool()
			// An empty mode would be defaulted in a set with conditions.
			set.FailureMode = []authorization.FailureMode{authorization.FailureModeDeny, authorization.FailureModeNoOpinion}[c.Intn(2)]
			if c.Bool() {
				c.Fill(&set.Conditions)
			} else if c.Intn(3) == 0 {
				c.Fill(&set.ConditionsChain)
			}
		},
		func(raw *runtime.RawExtension, c randfill.Continue) {
			content := map[string]string{"key": c.String(0)} // null would not survive the round trip
			raw.Raw, _ = json.Marshal(content)
		},
	}
}
