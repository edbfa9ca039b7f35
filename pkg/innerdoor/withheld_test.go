/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// TestWithheld has refused writes of alice, who may read the stored object or not. The audit event has the reason in any case.
func TestWithheld(t *testing.T) {
	t.Parallel()
	const (
		begins = "the write is allowed only on conditions, and does not meet them (details are shown to users who may "
		got    = begins + "get the object): "
		listed = begins + "list the objects): "
		part   = "failed part: "
	)
	writes := policy{effect: allow, verbs: []string{"create", "update", "patch", "delete", "deletecollection"}, condition: `(operation == "DELETE" ? oldObject : object).spec.storageClassName == "dev"`}
	status := policy{effect: allow, verbs: []string{"update"}, resource: "persistentvolumeclaims/status", condition: isDev}
	reads := func(verb, condition string, names ...string) policy {
		return policy{effect: allow, verbs: []string{verb}, condition: condition, names: names}
	}
	collection := of(remove(prodClaim), func(r *admissionv1.AdmissionRequest) { r.Name = "" })
	for _, tc := range []struct {
		name     string
		policies []policy
		request  *admissionv1.AdmissionRequest
		want     string
		wantPart bool
	}{
		{name: "an update by a user who may get the object", policies: []policy{writes, reads("get", "")}, request: update(prodClaim, devClaim), wantPart: true},
		{name: "an update", policies: []policy{writes}, request: update(prodClaim, devClaim), want: got + "policy=p0"},
		{name: "two conditions", policies: []policy{writes, writes}, request: update(prodClaim, devClaim), want: got + "policy=p0; policy=p1"},
		{name: "get of another object", policies: []policy{writes, reads("get", "", "d")}, request: update(prodClaim, devClaim), want: got + "policy=p0"},
		{name: "get on conditions", policies: []policy{writes, reads("get", "dryRun")}, request: update(prodClaim, devClaim), want: got + "policy=p0"},
		{name: "list", policies: []policy{writes, reads("list", "")}, request: update(prodClaim, devClaim), want: got + "policy=p0"},
		{name: "get denied", policies: []policy{writes, reads("get", ""), {effect: deny, verbs: []string{"get"}}}, request: update(prodClaim, devClaim), want: got + "policy=p0"},
		{name: "a subresource, with get of the object", policies: []policy{status, reads("get", "")}, request: of(update(prodClaim, devClaim), about("persistentvolumeclaims", "status")), wantPart: true},
		{name: "a subresource, with get of the subresource", policies: []policy{status, {effect: allow, verbs: []string{"get"}, resource: "persistentvolumeclaims/status"}}, request: of(update(prodClaim, devClaim), about("persistentvolumeclaims", "status")), want: got + "policy=p0"},
		{name: "a deletion", policies: []policy{writes}, request: remove(prodClaim), want: got + "policy=p0"},
		{name: "a deletion by a user who may get the object", policies: []policy{writes, reads("get", "")}, request: remove(prodClaim), wantPart: true},
		{name: "a collection", policies: []policy{writes, reads("get", "")}, request: collection, want: listed + "policy=p0"},
		{name: "a collection of a user who may list the objects", policies: []policy{writes, reads("list", "")}, request: collection, wantPart: true},
		{name: "a collection of a user who may list the objects by a selector", policies: []policy{writes, reads("list", `request.labelSelector.requirements.exists(r, r.key == "a")`)}, request: collection, want: listed + "policy=p0"},
		{name: "a create, whose object is alice's", policies: []policy{writes}, request: create(prodClaim), wantPart: true},
		{name: "no condition", policies: []policy{{effect: deny, verbs: []string{"update", "patch"}}}, request: update(prodClaim, devClaim), want: "policy=p0 reason=Denied: it denies the request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			response := responseOf(t, post(handlerOf(t, deciderOf(t, sourceOf(t, tc.policies))), strings.NewReader(reviewOf(t, tc.request)), nil))
			message, audited := response.Result.Message, response.AuditAnnotations["reason"]
			if response.Allowed || tc.want != "" && message != tc.want || strings.Contains(message, part) != tc.wantPart {
				t.Errorf("got allowed %t, message %q, want %q, a part of a condition: %t", response.Allowed, message, tc.want, tc.wantPart)
			}
			if (message == audited) == strings.HasPrefix(message, begins) {
				t.Errorf("the audit event has %q, the message is %q", audited, message)
			}
			if strings.HasPrefix(message, begins) && len(response.Result.Details.Causes) != 1 {
				t.Errorf("got the causes %+v, want the digest alone", response.Result.Details.Causes)
			}
		})
	}
}

// TestWithheldOwners has refused updates of alice that change the owners of an object, which needs the verb delete, too. Whether they change
// depends on the stored object.
func TestWithheldOwners(t *testing.T) {
	t.Parallel()
	const (
		withheld = "the write is allowed only on conditions, and does not meet them (details are shown to users who may get the object)"
		owned    = `{"metadata": {"name": "c", "ownerReferences": [{"uid": "1"}]}, "spec": {"storageClassName": "dev"}}`
	)
	updates, deletes := policy{effect: allow, verbs: []string{"update", "patch"}}, policy{effect: allow, verbs: []string{"delete"}, condition: wasDev}
	onCondition := policy{effect: allow, verbs: []string{"update"}, condition: `object.metadata.name == "c"`}
	for _, tc := range []struct {
		name     string
		policies []policy
		want     string
	}{
		{name: "delete on a condition", policies: []policy{updates, deletes}, want: withheld},
		{name: "delete denied", policies: []policy{updates, {effect: deny, verbs: []string{"delete"}}}, want: withheld},
		{name: "no delete", policies: []policy{updates}, want: withheld},
		{name: "both on conditions", policies: []policy{onCondition, deletes}, want: withheld + ": policy=p0"},
		{name: "a user who may get the object", policies: []policy{updates, deletes, {effect: allow, verbs: []string{"get"}}}, want: "policy=p1 reason=NotMet: failed part: " + wasDev},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decider := deciderOf(t, sourceOf(t, tc.policies))
			decider.OwnerReferences = true
			response := responseOf(t, post(handlerOf(t, decider), strings.NewReader(reviewOf(t, update(owned, prodClaim))), nil))
			if response.Allowed || response.Result.Message != tc.want {
				t.Errorf("got allowed %t, %q, want %q", response.Allowed, response.Result.Message, tc.want)
			}
		})
	}
}

// TestTrail adds what is recorded of a decision to the audit event, without domains, and never in place of the decision.
func TestTrail(t *testing.T) {
	t.Parallel()
	type key struct{}
	decider := deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"create"}, condition: isDev}}))
	handler, err := innerdoor.NewHandler(innerdoor.HandlerConfig{Decider: decider, Digest: digest, Trail: func(ctx context.Context) (context.Context, func() []string) {
		return context.WithValue(ctx, key{}, true), func() []string {
			return []string{"a.dev/include", "x", "a.dev/include-verbs", `["y"]`, "a.dev/decision", "z"}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks/admit/{"+innerdoor.DigestWildcard+"}", handler)
	for object, decision := range map[string]string{devClaim: "allow", prodClaim: "deny"} {
		got := responseOf(t, post(mux, strings.NewReader(reviewOf(t, create(object))), nil)).AuditAnnotations
		if got["include"] != "x" || got["include-verbs"] != `["y"]` || got["decision"] != decision || got["reason"] == "" && decision == "deny" {
			t.Errorf("got %q (%v), want the decision %s and the trail", got, slices.Sorted(maps.Keys(got)), decision)
		}
	}
}
