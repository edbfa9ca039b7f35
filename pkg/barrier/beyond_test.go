/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/test/testutil/barrierlaw"
)

// The outcomes of a write.
const (
	bothAdmit    = "both admit"
	bothRefuse   = "both refuse"
	policyAlone  = "the policy denies, because of a bound"
	barrierAlone = "the barrier refuses, because kube-apiserver ends the evaluation"
)

// TestBeyondBounds has data beyond a bound of Proviso or a limit of kube-apiserver. The barrier refuses what the value of the condition denies,
// and what is over the limit of kube-apiserver.
func TestBeyondBounds(t *testing.T) {
	t.Parallel()
	groups := &user.DefaultInfo{Name: "alice", Groups: slices.Repeat([]string{"team"}, 40)}
	for _, test := range []struct {
		name, condition string
		spec            map[string]any
		user            user.Info
		want            string
	}{
		{
			name: "a quantity within the bound", condition: `quantity(object.spec.text) == quantity("1")`, spec: map[string]any{"text": "0." + strings.Repeat("0", 60)},
			want: bothAdmit,
		},
		{
			name: "a long quantity", condition: `quantity(object.spec.text) == quantity("1")`, spec: map[string]any{"text": "0." + strings.Repeat("0", 70)},
			want: bothRefuse,
		},
		{
			name: "a long quantity whose condition is true", condition: `quantity(object.spec.text) == quantity("0")`, spec: map[string]any{"text": "0." + strings.Repeat("0", 70)},
			want: bothRefuse,
		},
		{
			name: "a long quantity beside an error", condition: `quantity(object.spec.text) == quantity("1") || object.spec.missing`, spec: map[string]any{"text": "0." + strings.Repeat("0", 70)},
			want: bothRefuse,
		},
		{
			name: "a quantity with a long exponent", condition: `isQuantity(object.spec.text) && quantity(object.spec.text).isGreaterThan(quantity("1"))`, spec: map[string]any{"text": "2e0000"},
			want: bothRefuse,
		},
		{name: "a text that is no quantity", condition: `isQuantity(object.spec.text)`, spec: map[string]any{"text": "two"}, want: bothAdmit},
		{name: "a long number", condition: `int(object.spec.text) > 1`, spec: map[string]any{"text": strings.Repeat("0", 300) + "1"}, want: policyAlone},
		{name: "a long number that is none", condition: `int(object.spec.text) > 1`, spec: map[string]any{"text": strings.Repeat("x", 300)}, want: bothRefuse},
		{name: "a long text that is split", condition: `object.spec.text.split(",").size() > 1`, spec: map[string]any{"text": strings.Repeat("x", 70_000)}, want: policyAlone},
		{name: "elements within the limit of cost", condition: `!object.spec.list.all(x, x in object.spec.list)`, spec: map[string]any{"list": numbers(570)}, want: bothAdmit},
		{name: "elements over the limit of cost", condition: `!object.spec.list.all(x, x in object.spec.list)`, spec: map[string]any{"list": numbers(577)}, want: policyAlone},
		{
			name: "elements over the limit of kube-apiserver, where the text of the barrier is longer", spec: map[string]any{"list": numbers(325)}, want: barrierAlone,
			condition: `object.spec.list.exists(x, object.spec.list.exists(y, request.userInfo.groups.size() == 0))`, user: groups,
		},
		{name: "as many elements as a macro of a barrier may have", condition: `object.spec.list.exists(x, x == "a")`, spec: map[string]any{"list": numbers(1000)}, want: bothAdmit},
		{name: "more elements than a macro of a barrier may have", condition: `object.spec.list.exists(x, x == "a")`, spec: map[string]any{"list": numbers(1001)}, want: barrierAlone},
		{
			name: "more entries of a merged map than a macro of a barrier may have", condition: `[object.spec].transformMapEntry(i, v, v).exists(k, k == "x")`,
			spec: entries(1001), want: barrierAlone,
		},
		{name: "as many entries of a merged map", condition: `[object.spec].transformMapEntry(i, v, v).exists(k, k == "x")`, spec: entries(1000), want: bothAdmit},
		{
			name: "elements that the barrier does not look at, because the request decides", condition: pairs + ` && request.userInfo.username == "bob"`,
			spec: map[string]any{"list": numbers(600)}, want: bothAdmit,
		},
		{
			name: "the same for each group", condition: `request.userInfo.groups.exists(g, ` + pairs + ` && g == "x")`, spec: map[string]any{"list": numbers(600)}, user: groups, want: bothAdmit,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
			object := &unstructured.Unstructured{Object: map[string]any{"spec": test.spec}}
			object.SetGroupVersionKind(kind)
			if test.user == nil {
				test.user = &user.DefaultInfo{Name: "alice"}
			}
			w := &barrierlaw.Write{
				AttributesRecord: authorizer.AttributesRecord{User: test.user, Verb: "create", APIGroup: "example.com", APIVersion: "v1", Resource: "widgets", Namespace: "demo", ResourceRequest: true},
				Operation:        admission.Create, ObjectName: "a", Object: object, Kind: kind,
			}
			spec := denial(test.condition, policyv1alpha1.PolicyRule{Verbs: everyWrite, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}})
			l := newLaw(t)
			l.compare(t, engine.Key{Name: "p"}, spec, []*barrierlaw.Write{w})
			got := bothAdmit
			switch {
			case l.covered.Load() != 1:
				got = "not covered"
			case l.bounded.Load() == 1:
				got = policyAlone
			case l.ended.Load() == 1:
				got = barrierAlone
			case l.refused.Load() == 1:
				got = bothRefuse
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// pairs compares each element of a list with each.
const pairs = `object.spec.list.exists(x, object.spec.list.exists(y, y == "x"))`

func numbers(n int) []any {
	list := make([]any, 0, n)
	for i := range n {
		list = append(list, int64(i))
	}
	return list
}

// entries returns a map with n entries.
func entries(n int) map[string]any {
	result := make(map[string]any, n)
	for i := range n {
		result[fmt.Sprint("k", i)] = "v"
	}
	return result
}
