/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package config

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationConfiguration names the authorizers that are asked after the policies. It
// has the shape of AuthorizationConfiguration in apiserver.config.k8s.io, with what KEP-5681
// adds to it.
type AuthorizationConfiguration struct {
	metav1.TypeMeta

	// Authorizers are asked in order. At least one and at most MaxAuthorizers.
	Authorizers []AuthorizerConfiguration
}

// AuthorizerType is the type of an authorizer.
type AuthorizerType string

// AuthorizerTypeWebhook is an authorizer that is asked by SubjectAccessReview.
const AuthorizerTypeWebhook AuthorizerType = "Webhook"

// AuthorizerConfiguration is one authorizer.
type AuthorizerConfiguration struct {
	// Type is the type of the authorizer: Webhook.
	Type AuthorizerType
	// Name names the authorizer in conditions, messages and metrics. It is a DNS subdomain
	// that no other authorizer of the server has.
	Name string
	// Webhook configures an authorizer of type Webhook.
	Webhook *WebhookConfiguration
}

// WebhookConfiguration says how and when a webhook is asked.
type WebhookConfiguration struct {
	// Timeout bounds each call, at most MaxTimeout. Required.
	Timeout metav1.Duration
	// AuthorizedTTL is how long an Allow is reused. Conditional answers are reused for the
	// shorter of this and UnauthorizedTTL.
	AuthorizedTTL metav1.Duration
	// CacheAuthorizedRequests says whether an Allow is reused at all.
	CacheAuthorizedRequests bool
	// UnauthorizedTTL is how long a Deny or NoOpinion is reused.
	UnauthorizedTTL metav1.Duration
	// CacheUnauthorizedRequests says whether a Deny or NoOpinion is reused at all.
	CacheUnauthorizedRequests bool

	// SubjectAccessReviewVersion is the version of authorization.k8s.io in which the webhook
	// is asked. Conditions need v1alpha1.
	SubjectAccessReviewVersion string
	// MatchConditionSubjectAccessReviewVersion is the version that MatchConditions see: v1.
	MatchConditionSubjectAccessReviewVersion string
	// FailurePolicy is what a failure to get an answer counts as.
	FailurePolicy FailurePolicy
	// ConnectionInfo says where the webhook is.
	ConnectionInfo WebhookConnectionInfo
	// MatchConditions must all be true for the webhook to be asked; otherwise it has no
	// opinion. If one fails and none is false, the failure policy decides.
	MatchConditions []WebhookMatchCondition

	// ConditionsEndpointKubeConfigContext is the context of the kubeconfig that leads to where
	// the webhook evaluates conditions. If it is empty, the webhook is not asked for
	// conditions, and conditions that it returns nevertheless are refused.
	ConditionsEndpointKubeConfigContext string
	// AuthorizationConditionsReviewVersion is the version in which conditions are sent there.
	AuthorizationConditionsReviewVersion string
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
	// Type is the type of the connection: KubeConfigFile.
	Type string
	// KubeConfigFile is the absolute path of a kubeconfig file. The server of its current
	// context is the exact URL to which reviews are sent.
	KubeConfigFile *string
}

// WebhookMatchCondition is a condition on asking a webhook.
type WebhookMatchCondition struct {
	// Expression is a CEL expression over request, the SubjectAccessReviewSpec of the
	// question.
	Expression string
}
