/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package config

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationConfiguration configures the authorizers that are called after the policies. It
// has the structure of AuthorizationConfiguration in apiserver.config.k8s.io, with the
// additions of KEP-5681.
type AuthorizationConfiguration struct {
	metav1.TypeMeta

	// Authorizers are called in order. At least one and at most 16.
	Authorizers []AuthorizerConfiguration
}

// AuthorizerType is the type of an authorizer.
type AuthorizerType string

// AuthorizerTypeWebhook is an authorizer that answers SubjectAccessReviews.
const AuthorizerTypeWebhook AuthorizerType = "Webhook"

// AuthorizerConfiguration configures one authorizer.
type AuthorizerConfiguration struct {
	// Type is the type of the authorizer: Webhook.
	Type AuthorizerType
	// Name is the name of the authorizer in conditions, messages and metrics. It is a DNS
	// subdomain that differs from the names of all other authorizers of the server.
	Name string
	// Webhook configures an authorizer of type Webhook.
	Webhook *WebhookConfiguration
}

// WebhookConfiguration configures how and when a webhook is called.
type WebhookConfiguration struct {
	// Timeout bounds each call, at most 30s. A call with a transient error is retried, and
	// each attempt has the full timeout. Required.
	Timeout metav1.Duration
	// AuthorizedTTL is how long an Allow is cached; 5m by default. Conditional answers are
	// cached for the shorter of this and UnauthorizedTTL.
	AuthorizedTTL metav1.Duration
	// CacheAuthorizedRequests enables caching of Allow; true by default. Conditional answers
	// are cached only if this and CacheUnauthorizedRequests are true.
	CacheAuthorizedRequests bool
	// UnauthorizedTTL is how long a Deny or NoOpinion is cached; 30s by default.
	UnauthorizedTTL metav1.Duration
	// CacheUnauthorizedRequests enables caching of Deny and NoOpinion; true by default.
	CacheUnauthorizedRequests bool

	// SubjectAccessReviewVersion is the version of the SubjectAccessReviews that are sent to
	// the webhook: v1 or v1alpha1. Conditions need v1alpha1. Required.
	SubjectAccessReviewVersion string
	// MatchConditionSubjectAccessReviewVersion is the version of the SubjectAccessReview that
	// MatchConditions read: v1. Required with MatchConditions.
	MatchConditionSubjectAccessReviewVersion string
	// FailurePolicy is the decision if there is no valid answer because of an error or a
	// timeout, or because the answer is invalid. NoOpinion leaves the decision to later
	// authorizers; Deny denies the request. An answer with conditions that were not requested
	// denies the request in any case. Required.
	FailurePolicy FailurePolicy
	// ConnectionInfo is the address of the webhook. Required.
	ConnectionInfo WebhookConnectionInfo
	// MatchConditions must all be true for the webhook to be called; otherwise it has no
	// opinion. If one of them fails and none is false, the failure policy decides. At most 64.
	MatchConditions []WebhookMatchCondition

	// ConditionsEndpointKubeConfigContext is the context of the kubeconfig for the endpoint at
	// which the webhook evaluates conditions (KEP-5681, "Supporting webhooks through the
	// AuthorizationConditionsReview API"). If it is empty, conditions are not requested from
	// the webhook, and an answer with conditions denies the request.
	ConditionsEndpointKubeConfigContext string
	// AuthorizationConditionsReviewVersion is the version of the
	// AuthorizationConditionsReviews that are sent to this endpoint: v1alpha1. Required with
	// ConditionsEndpointKubeConfigContext.
	AuthorizationConditionsReviewVersion string
}

// FailurePolicy is the decision if a webhook gives no valid answer.
type FailurePolicy string

const (
	// FailurePolicyNoOpinion leaves the decision to later authorizers.
	FailurePolicyNoOpinion FailurePolicy = "NoOpinion"
	// FailurePolicyDeny denies the request.
	FailurePolicyDeny FailurePolicy = "Deny"
)

// ConnectionInfoKubeConfigFile is the type of a connection that a kubeconfig file configures.
const ConnectionInfoKubeConfigFile = "KubeConfigFile"

// WebhookConnectionInfo is the address of a webhook.
type WebhookConnectionInfo struct {
	// Type is the type of the connection: KubeConfigFile.
	Type string
	// KubeConfigFile is the absolute path of a kubeconfig file. The server of its current
	// context is the exact URL to which reviews are sent. It must be an https: URL, and the
	// certificate of the server must be verified.
	KubeConfigFile *string
}

// WebhookMatchCondition is a condition for calling a webhook.
type WebhookMatchCondition struct {
	// Expression is a CEL expression over request, the spec of the SubjectAccessReview (v1).
	Expression string
}
