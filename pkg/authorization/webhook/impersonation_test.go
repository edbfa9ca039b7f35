/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestOpaqueImpersonation has the author of an opaque condition decide an impersonation. Everything but a plain answer leaves the request refused.
func TestOpaqueImpersonation(t *testing.T) {
	t.Parallel()
	opaque := status(`"conditionsChain":` + allowIf(unknown, "?"))
	denying := status(`"conditionsChain":[{"authorizerName":"a","conditions":[{"id":"example.com/c","effect":"Deny","type":"example.com/opaque"}]},{"authorizerName":"b","conditions":[{"id":"example.com/c","effect":"Allow","type":"k8s.io/authorization-cel","condition":"true"}]}]`)
	for _, tc := range []struct {
		name, answer string
		evaluation   http.HandlerFunc
		gateOff      bool
		want         string
		asked        bool
	}{
		{"allowed", opaque, says(response(`"allowed":true`)), false, "Allow", true},
		{"denied", opaque, says(response(`"denied":true`)), false, "Deny", true},
		{"no opinion", opaque, says(response(``)), false, "NoOpinion", true},
		{"an Allow of a set that can only deny", denying, says(response(`"allowed":true`)), false, "Deny", true},
		{"conditions on the object", opaque, says(response(`"conditionSets":` + allowIf(unknown, "?"))), false, "Deny", true},
		{"an error", opaque, fails(500), false, "Deny", true},
		{"nothing", opaque, says(``), false, "Deny", true},
		{"without the gate", opaque, says(response(`"allowed":true`)), true, "conditional", false},
		{"in the other form, which has no impersonation", status(`"conditionalDecision":` + lone), says(response(`"allowed":true`)), false, "conditional", false},
		{"a condition that needs no author", status(`"conditionsChain":` + allowIf(known, "true")), says(response(`"allowed":true`)), false, "conditional", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, says(tc.answer), tc.evaluation)
			decision := chainOf(t, newSourceWith(t, !tc.gateOff, conditional(t, "w", r))).Decide(t.Context(), asking())
			serialized, _ := authorization.Serializable(decision)
			got := serialized.WithAuthorsOf(decision).DecidedByAuthors(t.Context(), &user.DefaultInfo{Name: "alice"}, &authorizationapi.ImpersonationData{
				Request: authorizationapi.ImpersonatedRequest{Verb: "get", Resource: "pods"}, User: authenticationv1.UserInfo{Username: "bob"},
			})
			if got.IsUnconditional() || tc.want != "conditional" {
				got = got.Evaluate(t.Context(), authorization.ConditionEvaluatorFunc(nil))
			}
			if kindOf(got) != tc.want {
				t.Errorf("got %s: %s %v, want %s", kindOf(got), got.Reason(), got.Err(), tc.want)
			}
			sent := r.last(ofConditions)
			if (sent != "") != tc.asked {
				t.Errorf("sent %q", sent)
			}
			if !tc.asked {
				return
			}
			var review struct {
				Request map[string]json.RawMessage
			}
			if err := json.Unmarshal([]byte(sent), &review); err != nil {
				t.Fatal(err)
			}
			delete(review.Request, "conditionSets")
			want := map[string]json.RawMessage{
				"userInfo":      json.RawMessage(`{"username":"alice","extra":{"authorization.proviso.dev/delegated":["true"]}}`),
				"impersonation": json.RawMessage(`{"request":{"verb":"get","resource":"pods"},"user":{"username":"bob"}}`),
			}
			if diff := cmp.Diff(want, review.Request); diff != "" || !strings.Contains(sent, `"authorizerName":"a"`) {
				t.Errorf("%s in %s", diff, sent)
			}
		})
	}
}
