/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
)

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
	// the webhook: v1 or v1alpha1. Without the feature gate UpstreamConditionalDecisions,
	// conditions need v1alpha1. Required.
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

	// ConditionsReview has the webhook asked for conditions in the form that is proposed for Kubernetes.
	// It replaces ConditionsEndpointKubeConfigContext and AuthorizationConditionsReviewVersion, and
	// needs the feature gate UpstreamConditionalDecisions.
	ConditionsReview *WebhookConditionsReview

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

// WebhookConditionsReview says how a webhook evaluates conditions.
type WebhookConditionsReview struct {
	// Version is the version of the AuthorizationConditionsReviews that are sent to the webhook: v1alpha1.
	// Required.
	Version string
	// KubeConfigContextName is the context of the kubeconfig for the endpoint at which the webhook
	// evaluates conditions. If it is empty, this is the endpoint for SubjectAccessReviews.
	KubeConfigContextName string
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

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// InnerDoorConfiguration describes the inner door of a cluster, and the front door that belongs to it. From the same file the
// command inner-door-config writes the configuration of kube-apiserver, and the server knows which manifest to expect.
type InnerDoorConfiguration struct {
	metav1.TypeMeta

	// URL is the address of the port --webhook-secure-port: https, a host and a port. The serving certificate must be valid for
	// the host, and kube-apiserver must be able to resolve it: it does not resolve names of Services. Required.
	URL string
	// CABundle has the certificates, in PEM, with which kube-apiserver verifies the serving certificate. Exactly one of caBundle and
	// caFile is required.
	CABundle []byte
	// CAFile is a file with these certificates. A relative path is relative to the configuration file.
	CAFile string
	// Namespace is the namespace of Proviso: of its ServiceAccount, and of the requests with which it finds out whether a kube-apiserver
	// calls the inner door. proviso-system by default.
	Namespace string
	// Resources are the resources whose writes the inner door decides. At least one and at most 256.
	Resources []InnerDoorResource
	// ExcludedIdentities are the users, and the members of groups, about whom kube-apiserver asks Proviso at neither door. If it
	// is empty, it is the ServiceAccount of Proviso, nodes and the control plane. If it is set, it replaces these.
	ExcludedIdentities ExcludedIdentities
	// AskOtherAuthorizers lets kube-apiserver call the inner door only for writes that no other of its authorizers allows. It asks
	// them in the version "*", with a label selector that only this question has. True is safe only if every other authorizer
	// answers that question as strictly as a request. By default it is true if they are of the types Node and RBAC, which do,
	// and false otherwise: the inner door is then called for every write to the resources.
	AskOtherAuthorizers bool
	// OwnerReferencesPermissionEnforcement says that this admission plugin of kube-apiserver is on. An update that changes the
	// owners of an object then needs the permission to delete the object, too.
	OwnerReferencesPermissionEnforcement bool
	// KubeAPIServer has what the files on the control-plane nodes need.
	KubeAPIServer KubeAPIServerConfiguration
}

// InnerDoorResource is a resource, or a subresource.
type InnerDoorResource struct {
	// Group is the API group. It is empty for the core group.
	Group string
	// Resource is the name of the resource in the plural and in lower case, such as "pods". Wildcards are refused.
	Resource string
	// Subresource is the name of a subresource, such as "status". It is empty for the resource itself.
	Subresource string
}

// ExcludedIdentities are users and groups.
type ExcludedIdentities struct {
	// Users are names of users.
	Users []string
	// Groups are names of groups.
	Groups []string
}

// KubeAPIServerConfiguration describes the configuration of kube-apiserver, with paths on the control-plane nodes.
type KubeAPIServerConfiguration struct {
	// Directory is the absolute path of the directory into which the written files are copied. /etc/kubernetes/proviso by default.
	Directory string
	// ClientCertificate and ClientKey are the absolute paths of the certificate and the key with which kube-apiserver calls
	// Proviso. client.crt and client.key in Directory by default.
	ClientCertificate, ClientKey string
	// FrontDoorFailurePolicy is the decision of kube-apiserver at the front door if Proviso does not answer: NoOpinion (by
	// default) lets the later authorizers decide. Deny refuses all requests, except requests of the excluded identities.
	FrontDoorFailurePolicy FailurePolicy
	// AuthorizersBefore and AuthorizersAfter are the authorizers before and after the front door, as in AuthorizationConfiguration of
	// apiserver.config.k8s.io/v1. Policies cannot deny what an authorizer before the front door allows. By default
	// there are none before it, and Node and RBAC after it.
	AuthorizersBefore, AuthorizersAfter []apiserverv1.AuthorizerConfiguration
}
