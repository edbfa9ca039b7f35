/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

const inAudit = policyv1alpha1.PolicyEnforcementAudit

// TestInnerDoorAudit has what the inner door finds out about policies with the enforcement Audit: p0 in each row. It counts only what depends on the
// object, because the front door has counted the rest.
func TestInnerDoorAudit(t *testing.T) {
	t.Parallel()
	const denied = "would be denied: policy=p0 reason=Denied: it denies the request"
	allows := policy{effect: allow, verbs: []string{"*"}}
	allowsDev := policy{effect: allow, verbs: []string{"*"}, condition: isDev}
	decided := engine.AuditDelta{Decided: 1}
	for _, tc := range []struct {
		name       string
		policy     policy
		others     []policy
		request    *admissionv1.AdmissionRequest
		annotation string
		warning    string
		want       engine.AuditDelta
	}{
		{name: "a Deny", policy: policy{effect: deny}, others: []policy{allows}, request: create(devClaim), annotation: "would-deny", warning: denied},
		{name: "a Deny on the object", policy: policy{effect: deny, condition: isDev}, others: []policy{allows}, request: create(devClaim), annotation: "would-deny", warning: denied, want: decided},
		{name: "a Deny on another object", policy: policy{effect: deny, condition: isDev}, others: []policy{allows}, request: create(prodClaim)},
		{name: "a Deny on the old object", policy: policy{effect: deny, condition: wasDev}, others: []policy{allowsDev}, request: update(devClaim, devClaim), annotation: "would-deny", warning: denied, want: decided},
		{name: "a Deny of another verb", policy: policy{effect: deny, verbs: []string{"delete"}}, others: []policy{allows}, request: create(devClaim)},
		{name: "a Deny that fails", policy: policy{effect: deny, condition: `object.spec.none == 1`}, others: []policy{allows}, request: create(devClaim), annotation: "error,would-deny",
			warning: "would be denied: policy=p0 reason=Error: its condition could not be evaluated", want: engine.AuditDelta{Decided: 1, Errors: 1}},
		{name: "a Deny of what is refused", policy: policy{effect: deny, condition: "!(" + isDev + ")"}, others: []policy{allowsDev}, request: create(prodClaim), annotation: "would-deny", want: decided},
		{name: "an Allow of what is refused", policy: policy{effect: allow, condition: "!(" + isDev + ")"}, others: []policy{allowsDev}, request: create(prodClaim), annotation: "would-allow", want: decided},
		{name: "an Allow of a request without permission", policy: policy{effect: allow, condition: isDev}, request: create(devClaim), annotation: "undetermined", want: engine.AuditDelta{Undetermined: 1}},
		{name: "an Allow of what is denied", policy: policy{effect: allow, condition: isDev}, others: []policy{allowsDev, {effect: deny, verbs: []string{"*"}, condition: isDev}}, request: create(devClaim)},
		{name: "a NoOpinion", policy: policy{effect: hold, condition: isDev}, others: []policy{allowsDev}, request: create(devClaim), annotation: "would-hold-back", want: decided},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.policy.enforcement = inAudit
			if tc.policy.verbs == nil {
				tc.policy.verbs = []string{"*"}
			}
			source, compiled := compiledOf(t, append([]policy{tc.policy}, tc.others...))
			got := responseOf(t, post(handlerOf(t, deciderOf(t, source)), strings.NewReader(reviewOf(t, tc.request)), nil))
			delete(got.AuditAnnotations, "decision")
			delete(got.AuditAnnotations, "reason")
			delete(got.AuditAnnotations, "condition")
			if keys := strings.Join(slices.Sorted(maps.Keys(got.AuditAnnotations)), ","); keys != tc.annotation {
				t.Errorf("got the annotations %v, want %s", got.AuditAnnotations, tc.annotation)
			}
			for _, value := range got.AuditAnnotations {
				if value != "cluster.policy.proviso.dev/p0" {
					t.Errorf("got %q", value)
				}
			}
			if warning := strings.Join(got.Warnings, "; "); warning != tc.warning {
				t.Errorf("got the warnings %q, want %q", warning, tc.warning)
			}
			counts := compiled[engine.Key{Name: "p0"}].AuditCounts().Take()
			if diff := cmp.Diff(tc.want, counts, cmpopts.IgnoreFields(engine.AuditDelta{}, "Last")); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAuditDecidesNothing adds random policies with the enforcement Audit to random policies: answers differ in annotations and warnings
// about them only.
func TestAuditDecidesNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(17, 6))
	conditions := []string{"", isDev, wasDev, "!(" + isDev + ")", `object.spec.none == 1`, `request.verb == "update"`, `request.name == "c"`, `request.path == ""`}
	verbs := []string{"*", "create", "update", "patch", "delete", "get"}
	some := func(most int, enforcement policyv1alpha1.PolicyEnforcement) (policies []policy) {
		for range random.IntN(most) {
			policies = append(policies, policy{
				effect: []policyv1alpha1.PolicyEffect{allow, allow, deny, hold}[random.IntN(4)], verbs: []string{verbs[random.IntN(len(verbs))]},
				condition: conditions[random.IntN(len(conditions))], enforcement: enforcement,
			})
		}
		return policies
	}
	requests := []*admissionv1.AdmissionRequest{
		create(devClaim), create(prodClaim), update(devClaim, devClaim), update(prodClaim, devClaim), remove(devClaim),
		of(remove(prodClaim), func(r *admissionv1.AdmissionRequest) { r.Name = "" }), of(update("1", devClaim), func(*admissionv1.AdmissionRequest) {}),
	}
	annotated := 0
	for range 60 {
		enforced := some(4, "")
		all := slices.Concat(enforced, some(6, inAudit))
		without, with := handlerOf(t, deciderOf(t, sourceOf(t, enforced))), handlerOf(t, deciderOf(t, sourceOf(t, all)))
		for _, request := range requests {
			want, got := responseOf(t, post(without, strings.NewReader(reviewOf(t, request)), nil)), responseOf(t, post(with, strings.NewReader(reviewOf(t, request)), nil))
			for _, key := range []string{"would-deny", "would-allow", "would-hold-back", "error", "undetermined"} {
				if _, ok := got.AuditAnnotations[key]; ok {
					annotated++
				}
				delete(got.AuditAnnotations, key)
			}
			got.Warnings = nil
			wantText, _ := json.Marshal(want)
			gotText, _ := json.Marshal(got)
			if string(wantText) != string(gotText) {
				t.Fatalf("%s with %s: got\n%s\nwithout the policies in Audit\n%s", request.Operation, fmt.Sprint(all), gotText, wantText)
			}
		}
	}
	if annotated < 100 {
		t.Errorf("only %d annotations", annotated)
	}
}
