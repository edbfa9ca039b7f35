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
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

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

// TestInnerDoorDefaults has authorizers besides the front door: they are only asked by default if they are known to be strict.
func TestInnerDoorDefaults(t *testing.T) {
	t.Parallel()
	type authorizers = []apiserverv1.AuthorizerConfiguration
	node, rbac, webhook := apiserverv1.AuthorizerConfiguration{Type: "Node", Name: "node"}, apiserverv1.AuthorizerConfiguration{Type: "RBAC", Name: "rbac"}, apiserverv1.AuthorizerConfiguration{Type: "Webhook", Name: "w"}
	on, off := true, false
	for _, tc := range []struct {
		name          string
		before, after authorizers
		ask           *bool
		wantAfter     authorizers
		want          bool
	}{
		{name: "no authorizers", wantAfter: authorizers{node, rbac}, want: true},
		{name: "none after the front door", after: authorizers{}, wantAfter: authorizers{}, want: true},
		{name: "RBAC", after: authorizers{rbac}, wantAfter: authorizers{rbac}, want: true},
		{name: "Node before it", before: authorizers{node}, after: authorizers{rbac}, wantAfter: authorizers{rbac}, want: true},
		{name: "a webhook after it", after: authorizers{rbac, webhook}, wantAfter: authorizers{rbac, webhook}},
		{name: "a webhook before it", before: authorizers{webhook}, wantAfter: authorizers{node, rbac}},
		{name: "ABAC", after: authorizers{{Type: "ABAC", Name: "abac"}}, wantAfter: authorizers{{Type: "ABAC", Name: "abac"}}},
		{name: "a webhook that is declared to be strict", before: authorizers{webhook}, ask: &on, wantAfter: authorizers{node, rbac}, want: true},
		{name: "RBAC that is not to be asked", ask: &off, wantAfter: authorizers{node, rbac}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &v1alpha1.InnerDoorConfiguration{AskOtherAuthorizers: tc.ask, KubeAPIServer: v1alpha1.KubeAPIServerConfiguration{AuthorizersBefore: tc.before, AuthorizersAfter: tc.after}}
			v1alpha1.SetObjectDefaults_InnerDoorConfiguration(c)
			want := v1alpha1.KubeAPIServerConfiguration{
				Directory: "/etc/kubernetes/proviso", ClientCertificate: "/etc/kubernetes/proviso/client.crt", ClientKey: "/etc/kubernetes/proviso/client.key",
				FrontDoorFailurePolicy: "NoOpinion", AuthorizersBefore: tc.before, AuthorizersAfter: tc.wantAfter,
			}
			if diff := cmp.Diff(want, c.KubeAPIServer); diff != "" {
				t.Errorf("defaulted (-want +got):\n%s", diff)
			}
			if *c.AskOtherAuthorizers != tc.want {
				t.Errorf("got askOtherAuthorizers %t, want %t", *c.AskOtherAuthorizers, tc.want)
			}
		})
	}
}
