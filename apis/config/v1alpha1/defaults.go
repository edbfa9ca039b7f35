/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
