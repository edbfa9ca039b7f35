/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/apis/config"
	"github.com/proviso-authz/proviso/apis/config/validation"
)

func valid() config.AuthorizerConfiguration {
	file := "/etc/proviso/webhook.kubeconfig"
	return config.AuthorizerConfiguration{
		Type: config.AuthorizerTypeWebhook, Name: "webhook.example.com",
		Webhook: &config.WebhookConfiguration{
			Timeout: metav1.Duration{Duration: time.Second}, AuthorizedTTL: metav1.Duration{Duration: time.Minute}, UnauthorizedTTL: metav1.Duration{Duration: time.Second},
			SubjectAccessReviewVersion: "v1alpha1", FailurePolicy: config.FailurePolicyDeny,
			ConnectionInfo:                      config.WebhookConnectionInfo{Type: "KubeConfigFile", KubeConfigFile: &file},
			ConditionsEndpointKubeConfigContext: "conditions", AuthorizationConditionsReviewVersion: "v1alpha1",
			MatchConditionSubjectAccessReviewVersion: "v1", MatchConditions: []config.WebhookMatchCondition{{Expression: "true"}},
		},
	}
}

// upstreamNames replaces the names of KEP-5681.
func upstreamNames(a *config.AuthorizerConfiguration) {
	a.Webhook.ConditionsEndpointKubeConfigContext, a.Webhook.AuthorizationConditionsReviewVersion = "", ""
	a.Webhook.ConditionsReview = &config.WebhookConditionsReview{Version: "v1alpha1", KubeConfigContextName: "conditions"}
}

func TestValidateAuthorizationConfiguration(t *testing.T) {
	t.Parallel()
	empty, relative := "", "webhook.kubeconfig"
	type authorizer = config.AuthorizerConfiguration
	for _, tc := range []struct {
		name   string
		change func(*authorizer)
		want   []string
	}{
		{"valid", func(*authorizer) {}, nil},
		{"without conditions", func(a *authorizer) {
			a.Webhook.ConditionsEndpointKubeConfigContext, a.Webhook.AuthorizationConditionsReviewVersion = "", ""
		}, nil},
		{"v1", func(a *authorizer) {
			a.Webhook.SubjectAccessReviewVersion = "v1"
			a.Webhook.ConditionsEndpointKubeConfigContext, a.Webhook.AuthorizationConditionsReviewVersion = "", ""
		}, nil},
		{"no name", func(a *authorizer) { a.Name = "" }, []string{"authorizers[0].name: Required"}},
		{"a name that is none", func(a *authorizer) { a.Name = "A b" }, []string{"authorizers[0].name: Invalid value"}},
		{"a name that is taken", func(a *authorizer) { a.Name = "kube-apiserver" }, []string{`authorizers[0].name: Invalid value: "kube-apiserver": must not be the name of a built-in authorizer`}},
		{"no type", func(a *authorizer) { a.Type = "" }, []string{"authorizers[0].type: Required"}},
		{"another type", func(a *authorizer) { a.Type = "RBAC" }, []string{`authorizers[0].type: Unsupported value: "RBAC"`}},
		{"no webhook", func(a *authorizer) { a.Webhook = nil }, []string{"authorizers[0].webhook: Required"}},
		{"no timeout", func(a *authorizer) { a.Webhook.Timeout.Duration = 0 }, []string{"webhook.timeout: Required"}},
		{"a negative timeout", func(a *authorizer) { a.Webhook.Timeout.Duration = -1 }, []string{"webhook.timeout: Invalid"}},
		{"a long timeout", func(a *authorizer) { a.Webhook.Timeout.Duration = 30*time.Second + 1 }, []string{"must be greater than 0s and at most 30s"}},
		{"negative lifetimes", func(a *authorizer) {
			a.Webhook.AuthorizedTTL.Duration, a.Webhook.UnauthorizedTTL.Duration = -1, -1
		}, []string{"webhook.authorizedTTL", "webhook.unauthorizedTTL"}},
		{"no version", func(a *authorizer) { a.Webhook.SubjectAccessReviewVersion = "" }, []string{"subjectAccessReviewVersion: Required"}},
		{"another version", func(a *authorizer) { a.Webhook.SubjectAccessReviewVersion = "v1beta1" }, []string{"subjectAccessReviewVersion: Unsupported"}},
		{"no failure policy", func(a *authorizer) { a.Webhook.FailurePolicy = "" }, []string{"failurePolicy: Required"}},
		{"another failure policy", func(a *authorizer) { a.Webhook.FailurePolicy = "Allow" }, []string{"failurePolicy: Unsupported"}},
		{"no connection", func(a *authorizer) { a.Webhook.ConnectionInfo = config.WebhookConnectionInfo{} },
			[]string{"connectionInfo.type: Required", "connectionInfo.kubeConfigFile: Required"}},
		{"another connection", func(a *authorizer) { a.Webhook.ConnectionInfo.Type = "InClusterConfig" }, []string{"connectionInfo.type: Unsupported"}},
		{"an empty path", func(a *authorizer) { a.Webhook.ConnectionInfo.KubeConfigFile = &empty }, []string{"kubeConfigFile: Required"}},
		{"a relative path", func(a *authorizer) { a.Webhook.ConnectionInfo.KubeConfigFile = &relative }, []string{"must be an absolute path"}},
		{"match conditions of no version", func(a *authorizer) { a.Webhook.MatchConditionSubjectAccessReviewVersion = "" },
			[]string{"matchConditionSubjectAccessReviewVersion: Required"}},
		{"match conditions of another version", func(a *authorizer) { a.Webhook.MatchConditionSubjectAccessReviewVersion = "v1alpha1" },
			[]string{"matchConditionSubjectAccessReviewVersion: Unsupported"}},
		{"an empty match condition", func(a *authorizer) { a.Webhook.MatchConditions[0].Expression = " " }, []string{"matchConditions[0].expression: Required"}},
		{"a match condition twice", func(a *authorizer) {
			a.Webhook.MatchConditions = append(a.Webhook.MatchConditions, a.Webhook.MatchConditions[0])
		}, []string{"matchConditions[1].expression: Duplicate"}},
		{"too many match conditions", func(a *authorizer) {
			a.Webhook.MatchConditions = make([]config.WebhookMatchCondition, config.MaxMatchConditions+1)
		}, []string{"matchConditions: Too many"}},
		{"an endpoint for conditions of no version", func(a *authorizer) { a.Webhook.AuthorizationConditionsReviewVersion = "" },
			[]string{"authorizationConditionsReviewVersion: Required"}},
		{"an endpoint for conditions of another version", func(a *authorizer) { a.Webhook.AuthorizationConditionsReviewVersion = "v1" },
			[]string{"authorizationConditionsReviewVersion: Unsupported"}},
		{"a version of no endpoint", func(a *authorizer) { a.Webhook.ConditionsEndpointKubeConfigContext = "" },
			[]string{"authorizationConditionsReviewVersion: Forbidden: needs conditionsEndpointKubeConfigContext"}},
		{"conditions of v1", func(a *authorizer) { a.Webhook.SubjectAccessReviewVersion = "v1" }, nil},
		{"upstream's names", upstreamNames, nil},
		{"upstream's names, of v1", func(a *authorizer) { upstreamNames(a); a.Webhook.SubjectAccessReviewVersion = "v1" }, nil},
		{"upstream's names without a version", func(a *authorizer) { upstreamNames(a); a.Webhook.ConditionsReview.Version = "" }, []string{"conditionsReview.version: Required"}},
		{"upstream's names with another version", func(a *authorizer) { upstreamNames(a); a.Webhook.ConditionsReview.Version = "v1" }, []string{"conditionsReview.version: Unsupported"}},
		{"both names", func(a *authorizer) { a.Webhook.ConditionsReview = &config.WebhookConditionsReview{Version: "v1alpha1"} },
			[]string{"conditionsEndpointKubeConfigContext: Forbidden: may not be specified together", "authorizationConditionsReviewVersion: Forbidden: may not be specified together"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := valid()
			tc.change(&a)
			check(t, &config.AuthorizationConfiguration{Authorizers: []config.AuthorizerConfiguration{a}}, tc.want)
		})
	}
}

func TestValidateSeveralAuthorizers(t *testing.T) {
	t.Parallel()
	check(t, &config.AuthorizationConfiguration{}, []string{"authorizers: Required"})
	check(t, &config.AuthorizationConfiguration{Authorizers: []config.AuthorizerConfiguration{valid(), valid()}}, []string{"authorizers[1].name: Duplicate"})
	many := &config.AuthorizationConfiguration{}
	for i := range config.MaxAuthorizers + 1 {
		a := valid()
		a.Name = fmt.Sprintf("w%d", i)
		many.Authorizers = append(many.Authorizers, a)
	}
	check(t, many, []string{"authorizers: Too many"})
}

// check compares errors with fragments of their texts, one for each, in order.
func check(t *testing.T, c *config.AuthorizationConfiguration, want []string) {
	t.Helper()
	var got []string
	for i, err := range validation.ValidateAuthorizationConfiguration(c, []string{"kube-apiserver"}) {
		message := err.Error()
		if i < len(want) && strings.Contains(message, want[i]) {
			message = want[i]
		}
		got = append(got, message)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
