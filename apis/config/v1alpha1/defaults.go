/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	"path"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
)

// The default lifetimes of cached answers, as in Kubernetes.
const (
	defaultAuthorizedTTL   = 5 * time.Minute
	defaultUnauthorizedTTL = 30 * time.Second
)

// SetDefaults_WebhookConfiguration sets the defaults for cached answers.
func SetDefaults_WebhookConfiguration(webhook *WebhookConfiguration) {
	if webhook.AuthorizedTTL.Duration == 0 {
		webhook.AuthorizedTTL = metav1.Duration{Duration: defaultAuthorizedTTL}
	}
	if webhook.UnauthorizedTTL.Duration == 0 {
		webhook.UnauthorizedTTL = metav1.Duration{Duration: defaultUnauthorizedTTL}
	}
	for _, cache := range []**bool{&webhook.CacheAuthorizedRequests, &webhook.CacheUnauthorizedRequests} {
		if *cache == nil {
			on := true
			*cache = &on
		}
	}
}

// defaultNamespace is where Proviso is installed.
const defaultNamespace = "proviso-system"

// defaultDirectory is where the files of kube-apiserver are on a control-plane node.
const defaultDirectory = "/etc/kubernetes/proviso"

// The types of the authorizers that answer a question in the version "*" as strictly as a request. Both ignore selectors.
const (
	typeNode = "Node"
	typeRBAC = "RBAC"
)

// SetDefaults_InnerDoorConfiguration sets the defaults of the files of kube-apiserver.
func SetDefaults_InnerDoorConfiguration(c *InnerDoorConfiguration) {
	if c.Namespace == "" {
		c.Namespace = defaultNamespace
	}
	k := &c.KubeAPIServer
	if k.Directory == "" {
		k.Directory = defaultDirectory
	}
	if k.ClientCertificate == "" {
		k.ClientCertificate = path.Join(k.Directory, "client.crt")
	}
	if k.ClientKey == "" {
		k.ClientKey = path.Join(k.Directory, "client.key")
	}
	if k.FrontDoorFailurePolicy == "" {
		k.FrontDoorFailurePolicy = FailurePolicyNoOpinion
	}
	if k.AuthorizersAfter == nil {
		k.AuthorizersAfter = []apiserverv1.AuthorizerConfiguration{{Type: typeNode, Name: "node"}, {Type: typeRBAC, Name: "rbac"}}
	}
	if c.AskOtherAuthorizers == nil {
		areStrict := !slices.ContainsFunc(slices.Concat(k.AuthorizersBefore, k.AuthorizersAfter), func(a apiserverv1.AuthorizerConfiguration) bool {
			//guard:configuration-webhooks-asked-default
			return a.Type != typeNode && a.Type != typeRBAC
		})
		c.AskOtherAuthorizers = &areStrict
	}
}
