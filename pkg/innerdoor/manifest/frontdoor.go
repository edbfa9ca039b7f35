/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package manifest

import "strconv"

// notMarked is true unless a review is a question of the manifest: its version is "*", and its only selector is the label selector that
// CEL's function labelSelector makes of OtherAuthorizersKey. The key alone would not do: kube-apiserver copies the label
// selectors of clients into reviews, and a client with the key would avoid Deny policies. No request of a client has the version "*".
// Each field is read behind has, because an expression that fails is decided by the failure policy.
var notMarked = "!(has(request.resourceAttributes)" +
	" && has(request.resourceAttributes.version) && request.resourceAttributes.version == '*'" +
	" && !has(request.resourceAttributes.fieldSelector)" +
	" && has(request.resourceAttributes.labelSelector)" +
	" && has(request.resourceAttributes.labelSelector.requirements)" +
	" && size(request.resourceAttributes.labelSelector.requirements) == 1" +
	" && request.resourceAttributes.labelSelector.requirements.all(r," +
	" has(r.key) && r.key == " + strconv.Quote(OtherAuthorizersKey) +
	" && has(r.operator) && r.operator == 'Exists'" +
	" && (!has(r.values) || size(r.values) == 0)))"

// FrontDoorConditions returns the matchConditions of the front door in kube-apiserver's AuthorizationConfiguration: kube-apiserver
// does not call it about the identities that are left out and, if the manifest asks the other authorizers, about these questions.
func (c Config) FrontDoorConditions() []string {
	//guard:manifest-identities-front-door
	conditions := []string{c.withDefaults().Identities.expression(
		"(has(request.user) ? request.user : '')", "request.groups", "has(request.groups)")}
	//guard:manifest-marker-not-sent
	if c.AsksOthers {
		conditions = append(conditions, notMarked)
	}
	return conditions
}
