/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/apis/config/v1alpha1"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	on, off := true, false
	given := v1alpha1.WebhookConfiguration{
		AuthorizedTTL: metav1.Duration{Duration: time.Second}, CacheAuthorizedRequests: &off,
		UnauthorizedTTL: metav1.Duration{Duration: time.Hour}, CacheUnauthorizedRequests: &off,
	}
	for _, tc := range []struct {
		name     string
		in, want v1alpha1.WebhookConfiguration
	}{
		{"what is given stays", given, given},
		{"what is not", v1alpha1.WebhookConfiguration{}, v1alpha1.WebhookConfiguration{
			AuthorizedTTL: metav1.Duration{Duration: 5 * time.Minute}, CacheAuthorizedRequests: &on,
			UnauthorizedTTL: metav1.Duration{Duration: 30 * time.Second}, CacheUnauthorizedRequests: &on,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &v1alpha1.AuthorizationConfiguration{Authorizers: []v1alpha1.AuthorizerConfiguration{{Webhook: &tc.in}, {}}}
			v1alpha1.SetObjectDefaults_AuthorizationConfiguration(c)
			if diff := cmp.Diff(tc.want, *c.Authorizers[0].Webhook); diff != "" {
				t.Errorf("defaulted (-want +got):\n%s", diff)
			}
		})
	}
}
