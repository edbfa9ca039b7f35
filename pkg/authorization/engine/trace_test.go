/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestTrace traces the policies of each place, at authorization and with the data of admission.
func TestTrace(t *testing.T) {
	t.Parallel()
	source := publish(t, map[string]spec{
		"deny":     {Effect: deny, Condition: `object.a == 1`},
		"deny-all": {Effect: deny, Condition: "", Rules: []rule{{Verbs: []string{"create"}, APIGroups: []string{""}, APIVersions: []string{"v2"}, Resources: []string{"pods"}}}},
		"others":   {Effect: deny, Rules: []rule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
		"held":     {Effect: noOpinion, Condition: `oldObject == null && request.userInfo.username == "bob"`},
		"allow":    {Effect: allow, Condition: withChecks(`yes && object.a == 2`)},
		"n/allow":  {Effect: allow, Condition: `namespaceObject.metadata.name == "n" || oldObject.x`},
		"n/always": {Effect: allow},
	})
	data := conditionsData{attributes: podsOf("create"), operation: "CREATE", object: map[string]any{"a": int64(2)}}
	for _, tc := range []struct {
		name   string
		part   engine.Part
		data   authorizer.ConditionsData
		absent []cel.Variable
		want   string
	}{
		{name: "Deny policies at authorization", part: engine.Restricting, want: "Deny deny unknown, Deny deny-all always"},
		{name: "Deny policies with an object", part: engine.Restricting, data: data, want: "Deny deny false, Deny deny-all always"},
		{name: "policies of the cluster at authorization", part: engine.GrantingCluster, want: "Allow allow unknown, NoOpinion held false"},
		{name: "policies of the cluster with an object", part: engine.GrantingCluster, data: data, want: "Allow allow true, NoOpinion held false"},
		{name: "an object that is absent", part: engine.GrantingCluster, data: data, absent: []cel.Variable{cel.Object}, want: "Allow allow unknown, NoOpinion held false"},
		{name: "policies of namespaces", part: engine.GrantingNamespaced, data: data, want: "NoOpinion held false, Allow n/allow error, Allow n/always always"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := &engine.Authorizer{Source: source, Part: tc.part, Checks: authorizer.AuthorizerFunc(outage)}
			traces, err := a.Trace(t.Context(), podsOf("create"), tc.data, tc.absent...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, traced := range traces {
				name, value := strings.TrimPrefix(traced.Key.Namespace+"/"+traced.Key.Name, "/"), "always"
				switch condition := traced.Condition; {
				case condition == nil:
				case condition.IsUnknown:
					value = "unknown"
				case condition.Err != nil:
					value = "error"
				default:
					value = fmt.Sprint(condition.Value.Value())
				}
				if traced.IsUnconditional != (value == "always") {
					t.Errorf("%s: got unconditional %t", name, traced.IsUnconditional)
				}
				got = append(got, fmt.Sprintf("%s %s %s", traced.Effect, name, value))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if traces, err := (&engine.Authorizer{Source: &engine.Source{}}).Trace(t.Context(), podsOf("create"), data); len(traces) > 0 || err != nil {
		t.Errorf("got %v, %v without a snapshot", traces, err)
	}
}
