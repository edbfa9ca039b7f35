/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/frontdoor"
)

// handles are the options of a kube-apiserver that handles conditional decisions.
const handles = `"authorizationOptions": {"handledDecisionTypes": ["Allow", "Deny", "NoOpinion", "ConditionsMap", "Union"]}`

// reviewOf is a review of alice about a resource of the API group "" in namespace demo.
func reviewOf(verb, resource, more string) string {
	resource, subresource, _ := strings.Cut(resource, "/")
	return `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "alice", "groups": ["system:authenticated"], ` + more +
		`"resourceAttributes": {"verb": "` + verb + `", "version": "v1", "resource": "` + resource + `", "subresource": "` + subresource + `", "namespace": "demo", "name": "c"}}}`
}

const canaryNonce = "0123456789abcdef0123456789abcdef"

// canaryOf is a review of a canary of conditions.
func canaryOf(verb, more string) string {
	review := reviewOf(verb, "configmaps", more+`"extra": {"authorization.proviso.dev/canary": ["`+canaryNonce+`"]}, `)
	return strings.NewReplacer(`"alice"`, `"system:proviso:canary"`, `"demo"`, `"default"`, `"c"`, `"proviso-conditions-canary"`).Replace(review)
}

// TestConditionsAreLeft asks as a kube-apiserver that handles conditions, and as others.
func TestConditionsAreLeft(t *testing.T) {
	t.Parallel()
	const (
		image      = `object.spec.image == \"debian\"`
		allowImage = `"allowConditions":[{"id":"cluster.policy.proviso.dev/p","type":"authorizer.kubernetes.io/cel","condition":"` + image + `"}]`
		denyImage  = `"denyConditions":[{"id":"cluster.policy.proviso.dev/NAME","type":"authorizer.kubernetes.io/cel","condition":"` + image + `"}]`
		mapOf      = `{"status":{"allowed":false,"conditionalDecision":{"type":"Union","union":[{"authorizerName":"AUTHORIZER","decision":{"type":"ConditionsMap","conditionsMap":{`
	)
	allowed := strings.NewReplacer("AUTHORIZER", "policy.proviso.dev").Replace(mapOf + allowImage + `}}}]}}}`)
	denied := strings.NewReplacer("AUTHORIZER", "deny.policy.proviso.dev", "NAME", "p").Replace(mapOf + denyImage + `}}}]}}}`)
	both := strings.NewReplacer("AUTHORIZER", "deny.policy.proviso.dev", "NAME", "d").Replace(mapOf+denyImage+`}}},`) + `{"authorizerName":"policy.proviso.dev","decision":{"type":"Allow","allow":{}}}]}}}`
	options := handles + ", "
	onOld := map[string]policy{"p": {effect: allow, condition: `oldObject.spec.image == "debian"`}}
	reads := []string{"get persistentvolumeclaims/ demo:c", "list persistentvolumeclaims/ demo:c", "list persistentvolumeclaims/ demo:"}
	for _, tc := range []struct {
		name     string
		policies map[string]policy
		body     string
		rbac     *others
		want     string
	}{
		{name: "create", policies: onCondition, body: reviewOf("create", "persistentvolumeclaims", options), want: allowed},
		{name: "patch", policies: onCondition, body: reviewOf("patch", "persistentvolumeclaims", options), rbac: &others{allow: reads}, want: allowed},
		{name: "a resource that the inner door does not decide", policies: onCondition, body: reviewOf("create", "configmaps", options), want: allowed},
		{name: "deletecollection", policies: onOld, body: strings.Replace(reviewOf("deletecollection", "persistentvolumeclaims", options), `"c"`, `""`, 1), rbac: &others{allow: reads}, want: strings.Replace(allowed, "object", "oldObject", 1)},
		{name: "Deny, without permission to read", policies: unlessIt, body: reviewOf("update", "persistentvolumeclaims", options), want: denied},
		{name: "Allow and Deny", policies: alwaysUnless, body: reviewOf("create", "persistentvolumeclaims", options), want: both},
		{name: "Allow", policies: always, body: reviewOf("create", "persistentvolumeclaims", options), want: `{"status":{"allowed":true,`},
		{name: "Deny", policies: never, body: reviewOf("create", "persistentvolumeclaims", options), want: `{"status":{"allowed":false,"denied":true,`},
		{name: "no opinion", body: reviewOf("create", "persistentvolumeclaims", options), want: `{"status":{"allowed":false}}`},

		{name: "no options: the inner door decides", policies: onCondition, body: reviewOf("create", "services", ""), want: `{"status":{"allowed":false,"reason":"policy=p reason=Error: its condition cannot be evaluated`},
		{name: "options without chains", policies: onCondition, body: reviewOf("create", "persistentvolumeclaims", `"authorizationOptions": {"handledDecisionTypes": ["Allow", "Deny", "NoOpinion", "ConditionsMap"]}, `), want: `{"status":{"allowed":false,"reason":`},
		{name: "patch, without permission to read", policies: onCondition, body: reviewOf("patch", "persistentvolumeclaims", options), want: `{"status":{"allowed":false,"reason":"policy=p reason=Error: its condition cannot be evaluated for this request: the answer may show objects`},
		{name: "Allow and Deny, without permission to read", policies: alwaysUnless, body: reviewOf("update", "persistentvolumeclaims", options), want: `{"status":{"allowed":false,"denied":true,"reason":"policy=d reason=Error: its condition cannot be evaluated`},
		{name: "an error instead of the permission to read", policies: onCondition, body: reviewOf("update", "persistentvolumeclaims", options), rbac: &others{allow: reads, err: errors.New("x")}, want: `{"status":{"allowed":false,"reason":`},
		{name: "a read", policies: onCondition, body: reviewOf("get", "persistentvolumeclaims", options), rbac: &others{allow: reads}, want: `{"status":{"allowed":false,"reason":`},
		{name: "a connection", policies: onCondition, body: reviewOf("create", "pods/exec", options), want: `{"status":{"allowed":false,"reason":`},
		{name: "a connection by PUT", policies: onCondition, body: reviewOf("update", "pods/proxy", options), rbac: &others{allow: []string{"get pods/proxy demo:c"}}, want: `{"status":{"allowed":false,"reason":`},
		{name: "a review", policies: onCondition, body: strings.Replace(reviewOf("create", "tokenreviews", options), `"v1"`, `"v1", "group": "authentication.k8s.io"`, 1), want: `{"status":{"allowed":false,"reason":`},
		{name: "every verb", policies: onCondition, body: reviewOf("*", "persistentvolumeclaims", options), want: `{"status":{"allowed":false,"reason":"the answer depends on conditions, and the review does not name one verb`},
		{name: "a resource with excluded fields", policies: onCondition, body: reviewOf("create", "secrets", options), want: `{"status":{"allowed":false,"reason":`},
		{name: "every version", policies: onCondition, body: strings.Replace(reviewOf("create", "persistentvolumeclaims", options), `"v1"`, `"*"`, 1), want: `{"status":{"allowed":false,"reason":"the answer depends on conditions, and the review does not name one verb`},
		{name: "a version that another server serves", policies: onCondition, body: strings.Replace(reviewOf("create", "persistentvolumeclaims", options), `"v1"`, `"v2"`, 1), want: `{"status":{"allowed":false,"reason":`},
		{name: "what Proviso serves, and enforces itself", policies: onCondition, body: strings.Replace(reviewOf("create", "virtualmachines", options), `"v1"`, `"v1alpha1", "group": "demo.proviso.dev"`, 1), want: `{"status":{"allowed":true,"reason":"allowed if the conditions hold, which Proviso evaluates at admission`},
		{name: "a check of Proviso", policies: onCondition, body: reviewOf("create", "persistentvolumeclaims", options+`"extra": {"authorization.proviso.dev/delegated": ["true"]}, `), want: `{"status":{"allowed":false}}`},
		{name: "a canary with options", policies: always, body: canaryOf("update", options), want: `{"status":{"allowed":false,"denied":true,"reason":"the front door denies every canary of conditions, and kube-apiserver handles conditions: ` + canaryNonce + `"}}`},
		{name: "a canary without options", policies: always, body: canaryOf("update", ""), want: `{"status":{"allowed":false,"denied":true,"reason":"the front door denies every canary of conditions, and kube-apiserver does not handle conditions: ` + canaryNonce + `"}}`},
		{name: "another request of the canary", policies: never, body: canaryOf("delete", options), want: `{"status":{"allowed":false}}`},
		{name: "a canary of another user", policies: never, body: strings.Replace(canaryOf("update", options), "system:proviso:canary", "alice", 1), want: `{"status":{"allowed":false,"denied":true,"reason":"policy=`},
		{name: "options and a mode", policies: onCondition, body: reviewOf("create", "persistentvolumeclaims", handles+`, "conditionalAuthorization": {"mode": "Optimized"}, `), want: `400`},
		{name: "options that are no object", policies: onCondition, body: reviewOf("create", "persistentvolumeclaims", `"authorizationOptions": 1, `), want: `400`},
		{name: "a list that is a text", policies: never, body: reviewOf("create", "persistentvolumeclaims", `"authorizationOptions": {"handledDecisionTypes": "Union"}, `), want: `400`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.rbac == nil {
				tc.rbac = &others{}
			}
			source := publish(t, tc.policies)
			door, err := frontdoor.New(frontdoor.Config{
				Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, ReviewsShowConditions: true, KubeAPIServer: tc.rbac,
				Places: places{enforces: enforcesMachines, inner: newInnerDoor(), handler: newHandler()}.table(),
			})
			if err != nil {
				t.Fatal(err)
			}
			got := listen(t, door)(post(tc.body))
			if tc.want == "400" {
				if got.code != http.StatusBadRequest {
					t.Errorf("got %d: %s", got.code, got.body)
				}
				return
			}
			body := strings.Replace(got.body, `"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{},`, "", 1)
			if got.code != http.StatusOK || !strings.HasPrefix(body, tc.want) {
				t.Errorf("got %d:\n%s\nwant\n%s", got.code, body, tc.want)
			}
		})
	}
}
