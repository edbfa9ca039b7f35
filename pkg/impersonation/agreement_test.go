/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/impersonation"
	"github.com/proviso-authz/proviso/test/testutil/cases"
)

// TestFilterAgreesWithReviews: whatever the policies and the other permissions are, a request
// comes to what a review says, in the same words.
func TestFilterAgreesWithReviews(t *testing.T) {
	t.Parallel()
	const requests = 10
	sites := cases.Of(400)
	r := rand.New(rand.NewPCG(18, 14))
	type outcome struct {
		User               *user.DefaultInfo
		Constraint, Reason string
		Residual           []string
	}
	outcomes := map[string]int{}
	for sites.Next() {
		source := &engine.Source{}
		publish(t, source, generatedPolicies(r))
		conditional := conditionalOver(t, source, scattered(r.Uint64(), r.IntN(2) == 0))
		constrained := r.IntN(2) == 0
		reviewer, err := impersonation.NewReviewer(conditional.Chain, constrained, &conditional)
		if err != nil {
			t.Fatal(err)
		}
		for range requests {
			wanted := &user.DefaultInfo{
				Name: pick(r, "bob", "bob", "carol", "system:anonymous", "system:node:n1", "system:serviceaccount:a:b", " "), UID: pick(r, "", "", "7"),
				Groups: pick(r, nil, nil, []string{"g"}, []string{"g", "h"}, []string{"system:masters"}, []string{"1", "2", "3", "4", "5"}),
				Extra:  pick(r, nil, nil, map[string][]string{"example.com/k": {"v"}}, map[string][]string{"A": {"v"}}, map[string][]string{"*": {"v"}}, map[string][]string{"Authorization.proviso.dev/impersonation-conditions": {"v"}}),
			}
			request := pick(r, getPod, as(getPod, onNode), requestFor("create", "pods"), authorizer.AttributesRecord{User: getPod.User, Verb: "get", Path: "/metrics"})
			filter := newFilterOver(t, source, nil, func(c *impersonation.FilterConfig) {
				c.Authorizer, c.Conditional, c.Constrained = conditional.Chain, conditional, constrained
			})
			came := send(t.Context(), t, filter, request, impersonation.HeadersOf(wanted))
			got := outcome{User: came.User, Constraint: came.Constraint, Residual: came.Residual}
			if came.Code != http.StatusNoContent {
				var status metav1.Status
				if err := json.Unmarshal([]byte(came.Body), &status); err != nil {
					t.Fatal(err)
				}
				got.Reason = status.Message
			}
			answer, err := reviewer.Review(t.Context(), request, wanted)
			if err != nil {
				t.Fatal(err)
			}
			want := outcome{User: copyOf(answer.User), Constraint: answer.Constraint, Residual: textsOf(answer.Residual), Reason: answer.Reason}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("constrained %v, %s as %+v (-review +request):\n%s", constrained, request.Verb, wanted, diff)
			}
			outcomes[fmt.Sprintf("%s, residual %v", answer.Mode, len(answer.Residual) > 0)]++
		}
	}
	t.Log(outcomes)
	for _, needed := range []string{", residual false", "user-info, residual false", "conditional, residual false", "conditional, residual true", "legacy, residual false", "legacy, residual true"} {
		if outcomes[needed] < sites.Share(20) {
			t.Errorf("only %d are %q", outcomes[needed], needed)
		}
	}
}
