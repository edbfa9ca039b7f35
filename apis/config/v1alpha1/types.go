/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationConfiguration names the authorizers that are asked after the policies. It
// has the shape of AuthorizationConfiguration in apiserver.config.k8s.io, with what KEP-5681
// adds to it.
type AuthorizationConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// authorizers are asked in order. At least one and at most 16.
	Authorizers []AuthorizerConfiguration `json:"authorizers"`
}

// AuthorizerType is the type of an authorizer.
type AuthorizerType string

// AuthorizerTypeWebhook is an authorizer that is asked by SubjectAccessReview.
const AuthorizerTypeWebhook AuthorizerType = "Webhook"

// AuthorizerConfiguration is one authorizer.
type AuthorizerConfiguration struct {
	// type is the type of the authorizer: Webhook.
	Type AuthorizerType `json:"type"`
	// name names the authorizer in conditions, messages and metrics. It is a DNS subdomain
	// that no other authorizer of the server has.
	Name string `json:"name"`
	// webhook configures an authorizer of type Webhook.
	Webhook *WebhookConfiguration `json:"webhook,omitempty"`
}

// WebhookConfiguration says how and when a webhook is asked.
type WebhookConfiguration struct {
	// timeout bounds each call, at most 30s. A call that fails in passing is repeated, within
	// a timeout of its own. Required.
	Timeout metav1.Duration `json:"timeout"`
	// authorizedTTL is how long an Allow is reused; 5m by default. Conditional answers are
	// reused for the shorter of this and unauthorizedTTL.
	AuthorizedTTL metav1.Duration `json:"authorizedTTL"`
	// cacheAuthorizedRequests says whether an Allow is reused at all; true by default.
	// Conditional answers are reused only if this and cacheUnauthorizedRequests are true.
	CacheAuthorizedRequests *bool `json:"cacheAuthorizedRequests,omitempty"`
	// unauthorizedTTL is how long a Deny or NoOpinion is reused; 30s by default.
	UnauthorizedTTL metav1.Duration `json:"unauthorizedTTL"`
	// cacheUnauthorizedRequests says whether a Deny or NoOpinion is reused at all; true by
	// default.
	CacheUnauthorizedRequests *bool `json:"cacheUnauthorizedRequests,omitempty"`

	// subjectAccessReviewVersion is the version of authorization.k8s.io in which the webhook
	// is asked: v1 or v1alpha1. Conditions need v1alpha1. Required.
	SubjectAccessReviewVersion string `json:"subjectAccessReviewVersion"`
	// matchConditionSubjectAccessReviewVersion is the version that matchConditions see: v1.
	// Required if there are any.
	MatchConditionSubjectAccessReviewVersion string `json:"matchConditionSubjectAccessReviewVersion,omitempty"`
	// failurePolicy is what a failure to get an answer counts as: an error, a timeout, an
	// answer that makes no sense. NoOpinion leaves the request to later authorizers, Deny
	// denies it. Conditions that were not asked for deny in any case. Required.
	FailurePolicy FailurePolicy `json:"failurePolicy"`
	// connectionInfo says where the webhook is. Required.
	ConnectionInfo WebhookConnectionInfo `json:"connectionInfo"`
	// matchConditions must all be true for the webhook to be asked; otherwise it has no
	// opinion. If one fails and none is false, the failure policy decides. At most 64.
	MatchConditions []WebhookMatchCondition `json:"matchConditions,omitempty"`

	// conditionsEndpointKubeConfigContext is the context of the kubeconfig that leads to where
	// the webhook evaluates conditions (KEP-5681, "Supporting webhooks through the
	// AuthorizationConditionsReview API"). If it is empty, the webhook is not asked for
	// conditions, and conditions that it returns nevertheless are refused.
	ConditionsEndpointKubeConfigContext string `json:"conditionsEndpointKubeConfigContext,omitempty"`
	// authorizationConditionsReviewVersion is the version of authorization.k8s.io in which
	// conditions are sent there: v1alpha1. Required with conditionsEndpointKubeConfigContext.
	AuthorizationConditionsReviewVersion string `json:"authorizationConditionsReviewVersion,omitempty"`
}

// FailurePolicy says what a failure to get an answer counts as.
type FailurePolicy string

const (
	// FailurePolicyNoOpinion leaves the request to later authorizers.
	FailurePolicyNoOpinion FailurePolicy = "NoOpinion"
	// FailurePolicyDeny denies the request.
	FailurePolicyDeny FailurePolicy = "Deny"
)

// ConnectionInfoKubeConfigFile is the type of a connection that a kubeconfig describes.
const ConnectionInfoKubeConfigFile = "KubeConfigFile"

// WebhookConnectionInfo says where a webhook is.
type WebhookConnectionInfo struct {
	// type is the type of the connection: KubeConfigFile.
	Type string `json:"type"`
	// kubeConfigFile is the absolute path of a kubeconfig file. The server of its current
	// context is the exact URL to which reviews are sent; it must be https, and verified.
	KubeConfigFile *string `json:"kubeConfigFile,omitempty"`
}

// WebhookMatchCondition is a condition on asking a webhook.
type WebhookMatchCondition struct {
	// expression is a CEL expression over request, the SubjectAccessReviewSpec (v1) of the
	// question.
	Expression string `json:"expression"`
}
