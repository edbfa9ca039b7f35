/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

// SetDefaults_SubjectAccessReviewConditionSet makes an error deny unless the authorizer
// said otherwise. Sets without conditions are left alone: nothing in them can fail.
func SetDefaults_SubjectAccessReviewConditionSet(set *SubjectAccessReviewConditionSet) {
	if set.FailureMode == "" && len(set.Conditions) > 0 {
		set.FailureMode = FailureModeDeny
	}
	// The generated defaulter does not descend into the type that it is in.
	for i := range set.ConditionsChain {
		SetDefaults_SubjectAccessReviewConditionSet(&set.ConditionsChain[i])
	}
}
