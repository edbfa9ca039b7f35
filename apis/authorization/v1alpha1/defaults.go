/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

// SetDefaults_SubjectAccessReviewConditionSet sets the failure mode to Deny if it is empty. Sets
// without conditions are unchanged, because their evaluation cannot fail.
func SetDefaults_SubjectAccessReviewConditionSet(set *SubjectAccessReviewConditionSet) {
	if set.FailureMode == "" && len(set.Conditions) > 0 {
		set.FailureMode = FailureModeDeny
	}
	// The generated defaulter does not descend into a nested field of the same type.
	for i := range set.ConditionsChain {
		SetDefaults_SubjectAccessReviewConditionSet(&set.ConditionsChain[i])
	}
}
