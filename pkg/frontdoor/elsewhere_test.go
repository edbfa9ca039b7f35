/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/place"
)

// TestEnforcedElsewhere has requests for claims, for which another server enforces conditions or not. The inner door would list them.
func TestEnforcedElsewhere(t *testing.T) {
	t.Parallel()
	rule := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"persistentvolumeclaims"}}
	const onObject = `object.metadata.name == "a"`
	request := func(verb, version string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) {
			a.Verb, a.APIGroup, a.APIVersion, a.Resource, a.Namespace, a.ResourceRequest = verb, "", version, "persistentvolumeclaims", "demo", true
		}
	}
	for _, tc := range []struct {
		name       string
		effect     policyv1alpha1.PolicyEffect
		condition  string
		change     func(*authorizer.AttributesRecord)
		elsewhere  bool
		want       string
		wantReason string
	}{
		{name: "Allow", effect: allow, condition: onObject, change: request("create", "v1"), elsewhere: true, want: "Allow", wantReason: "which the server of the resource evaluates at admission"},
		{name: "Allow, not enforced", effect: allow, condition: onObject, change: request("create", "v1"), want: "NoOpinion"},
		{name: "Deny is left to the server", effect: deny, condition: onObject, change: request("create", "v1"), elsewhere: true, want: "NoOpinion"},
		{name: "Deny, not enforced", effect: deny, condition: onObject, change: request("create", "v1"), want: "Deny"},
		{name: "an unconditional Deny", effect: deny, change: request("create", "v1"), elsewhere: true, want: "Deny"},
		{name: "any version", effect: allow, condition: onObject, change: request("create", "*"), elsewhere: true, want: "NoOpinion"},
		{name: "any version, Deny", effect: deny, condition: onObject, change: request("create", "*"), elsewhere: true, want: "Deny"},
		{name: "a marked check", effect: allow, condition: onObject, change: both(request("create", "v1"), marked(authorization.DelegationMarker)), elsewhere: true, want: "NoOpinion"},
	} {
		for name, inner := range map[string]*place.InnerDoor{"no inner door": nil, "an inner door": newInnerDoor()} {
			if inner != nil {
				inner.Listed = func(innerdoor.Resource) bool { return true }
				inner.Known = func(*place.Client) bool { return false }
			}
			source := publish(t, map[string]policy{"p": {everyone: true, effect: tc.effect, condition: tc.condition, rule: rule}})
			door, err := frontdoor.New(frontdoor.Config{
				Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, KubeAPIServer: &others{},
				Places: places{enforces: enforcesMachines, inner: inner, elsewhere: func(a authorizer.Attributes) bool {
					if a.GetAPIVersion() == "*" {
						t.Errorf("%s: asked about %s", tc.name, a.GetAPIVersion())
					}
					return tc.elsewhere && a.GetResource() == "persistentvolumeclaims"
				}}.table(),
				Fields: &frontdoor.Fields{
					Check:         func(a authorizer.Attributes) (authorizer.Attributes, bool) { return a, true },
					KubeAPIServer: &others{allow: []string{"create persistentvolumeclaims/ demo:"}},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := door.Decide(t.Context(), asAlice(tc.change))
			if err != nil || show(got) != tc.want || !strings.Contains(got.Reason(), tc.wantReason) {
				t.Errorf("%s, %s: got %s (%s), %v, want %s (%s)", tc.name, name, show(got), got.Reason(), err, tc.want, tc.wantReason)
			}
		}
	}
}
