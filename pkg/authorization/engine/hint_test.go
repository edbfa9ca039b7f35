/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// looksFor is a condition that a requirement of a selector meets.
func looksFor(selector, body string) string {
	return "request." + selector + ".requirements.exists(r, " + body + ")"
}

func team(value string) string {
	return looksFor("labelSelector", fmt.Sprintf(`r.key == "team" && r.operator == "In" && r.values == [%q]`, value))
}

// values returns as many further values of a requirement.
func values(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, ",v%d", i)
	}
	return text.String()
}

// selectorIn finds the selectors that a reason names.
var selectorIn = regexp.MustCompile(`use (?:the label selector (.+?))?(?: and )?(?:the field selector (.+?))?(?:; |$)`)

// selecting returns a request of alice with selectors.
func selecting(t *testing.T, verb, byLabels, byFields string) authorizer.AttributesRecord {
	t.Helper()
	a := podsOf(verb)
	var err error
	if a.LabelSelectorRequirements, err = labels.ParseToRequirements(byLabels); err != nil {
		t.Fatal(err)
	}
	parsed, err := fields.ParseSelector(byFields)
	if err != nil {
		t.Fatal(err)
	}
	a.FieldSelectorRequirements = parsed.Requirements()
	a.Name, _ = parsed.RequiresExactMatch("metadata.name")
	return a
}

// TestHints has refused lists, and the selectors with which they are allowed. The named selectors are right: the same list with these
// selectors is allowed.
func TestHints(t *testing.T) {
	t.Parallel()
	const (
		part   = "policy=a reason=NotMet: failed part reads request.labelSelector"
		folded = "policy=a reason=Error: its condition cannot be evaluated for this request"
		blue   = ": use the label selector team=blue"
	)
	for _, tc := range []struct {
		name           string
		policies       map[string]spec
		condition      string
		verb           string
		labels, fields string
		want           string
	}{
		{name: "one value", condition: team("blue"), want: part + blue},
		{name: "one value, watch", condition: team("blue"), verb: "watch", want: part + blue},
		{name: "one value, deletecollection", condition: team("blue"), verb: "deletecollection", want: part + blue},
		{name: "a value in the values", condition: looksFor("labelSelector", `r.key == "team" && r.operator == "In" && "blue" in r.values && r.values.size() == 1`), want: part + blue},
		{name: "all values", condition: looksFor("labelSelector", `r.key == "team" && r.operator == "In" && r.values.all(v, v in ["blue", "red"])`), want: part + blue},
		{name: "the first value", condition: looksFor("labelSelector", `"team" == r.key && r.values[0] == "blue"`), want: part + blue},
		{name: "several values", condition: looksFor("labelSelector", `r.key == "team" && r.values == ["a", "b"]`), want: part + ": use the label selector team in (a,b)"},
		{name: "another operator", condition: looksFor("labelSelector", `r.key == "team" && r.operator == "NotIn" && r.values == ["blue"]`), want: part + ": use the label selector team notin (blue)"},
		{name: "a label that exists", condition: looksFor("labelSelector", `r.key == "team" && r.operator == "Exists"`), want: part + ": use the label selector team"},
		{name: "a label that does not exist", condition: looksFor("labelSelector", `r.key == "team" && r.operator == "DoesNotExist"`), want: part + ": use the label selector !team"},
		{name: "one of two keys", condition: looksFor("labelSelector", `r.key in ["a", "team"] && r.key == "team" && r.values == ["blue"]`), want: part + blue},
		{name: "what is the user's", condition: looksFor("labelSelector", `r.key == "owner" && r.values == [request.userInfo.username]`), want: "policy=a reason=NotMet: failed part reads request.labelSelector, request.userInfo: use the label selector owner=alice"},
		{name: "a field", condition: looksFor("fieldSelector", `r.key == "spec.nodeName" && r.operator == "In" && r.values == ["n,1"]`), want: `policy=a reason=NotMet: failed part reads request.fieldSelector: use the field selector spec.nodeName=n\,1`},
		{name: "a field that is not", condition: looksFor("fieldSelector", `r.key == "spec.nodeName" && r.operator == "NotIn" && r.values == ["n"]`), want: `policy=a reason=NotMet: failed part reads request.fieldSelector: use the field selector spec.nodeName!=n`},
		{name: "the name", condition: looksFor("fieldSelector", `r.key == "metadata.name" && r.values == ["n"]`) + ` && request.name == "n"`, want: "policy=a reason=NotMet: failed part reads request.fieldSelector: use the field selector metadata.name=n"},
		{name: "both selectors", condition: team("blue") + " && " + looksFor("fieldSelector", `r.key == "spec.nodeName" && r.values == ["n"]`), want: part + ": use the label selector team=blue and the field selector spec.nodeName=n"},
		{name: "two labels", condition: team("blue") + " && " + looksFor("labelSelector", `r.key == "env" && r.values == ["dev"]`), want: part + ": use the label selector env=dev,team=blue"},
		{name: "one of two", condition: team("blue") + " || " + looksFor("labelSelector", `r.key == "env" && r.values == ["dev"]`), want: part + blue},
		{name: "a part that holds", condition: `request.verb == "list" && ` + team("blue"), want: part + blue},
		{name: "one of two users", condition: `request.userInfo.username == "bob" && ` + team("red") + ` || request.userInfo.username == "alice" && ` + team("blue"), want: "policy=a reason=NotMet: failed part reads request.userInfo, request.labelSelector" + blue},
		{name: "with what is selected", condition: team("blue"), labels: "app=x", want: part + ": use the label selector app=x,team=blue"},
		{name: "with fields that are selected", condition: team("blue"), fields: "spec.nodeName=n", want: part + blue + " and the field selector spec.nodeName=n"},
		{name: "instead of what is selected", condition: team("blue"), labels: "team=red", want: part + blue},
		{name: "the object, or the selector", condition: `object.metadata.labels.team == "blue" || ` + team("blue"), want: folded + blue},
		{name: "the object in other requests", condition: `request.verb in ["list", "watch"] ? ` + team("blue") + ` : object.metadata.labels.team == "blue"`, want: "policy=a reason=NotMet: failed part reads request.verb, request.labelSelector" + blue},

		{name: "another user", condition: `request.userInfo.username == "bob" && ` + team("blue"), want: ""},
		{name: "another name", condition: `request.name == "other" && ` + team("blue"), want: "policy=a reason=NotMet: failed part reads request.name"},
		{name: "another name, perhaps", condition: `(request.name == "other" || object.a == 1) && ` + team("blue"), want: part},
		{name: "the object, too", condition: `object.a == 1 && ` + team("blue"), want: part},
		{name: "an operator that does not exist", condition: looksFor("labelSelector", `r.key == "team" && r.operator == "Is" && r.values == ["blue"]`), want: part},
		{name: "a value that no label has", condition: looksFor("labelSelector", `r.key == "team" && r.values == ["no label!"]`), want: part},
		{name: "a long selector", condition: looksFor("fieldSelector", `r.key == "`+strings.Repeat("a", 300)+`" && r.values == ["b"]`), want: "policy=a reason=NotMet: failed part reads request.fieldSelector"},
		{name: "instead of many that are selected", condition: team("blue"), labels: strings.TrimSuffix(strings.Repeat("team=red,", 33), ","), want: part},
		{name: "instead of many values that are selected", condition: team("blue"), labels: "team in (red" + values(128) + ")", want: part},
		{name: "instead of some values that are selected", condition: team("blue"), labels: "team in (red" + values(127) + ")", want: part + blue},
		{name: "a value of a field that a reason cannot show", condition: looksFor("fieldSelector", `r.key == "spec.nodeName" && r.values == ["n\u202ek"]`), want: "policy=a reason=NotMet: failed part reads request.fieldSelector"},
		{name: "a field that looks like another reason", condition: looksFor("fieldSelector", `r.key == "policy=b" && r.values == ["n"]`), want: "policy=a reason=NotMet: failed part reads request.fieldSelector"},
		{name: "no name in place of one", condition: `request.name == "n" && ` + looksFor("fieldSelector", `r.key == "metadata.name" && r.operator == "NotIn" && r.values == ["m"]`), fields: "metadata.name=n", want: "policy=a reason=NotMet: failed part reads request.fieldSelector"},
		{name: "values in another order than a server reads them", condition: looksFor("labelSelector", `r.key == "team" && r.values == ["b", "a"]`), want: part},
		{name: "a value twice", condition: looksFor("labelSelector", `r.key == "team" && r.values == ["a", "a"]`), want: part},
		{name: "requirements in another order than a server reads them", condition: team("blue") + ` && request.labelSelector.requirements[0].key == "zone"`, labels: "zone=a", want: part},
		{name: "with a requirement that kube-apiserver does not send", condition: team("blue"), labels: "size>7", want: part},
		{name: "with a field that a reason cannot show", condition: team("blue"), fields: "spec.nodeName=n\u202ek", want: part},
		{name: "the name of a deletecollection", condition: looksFor("fieldSelector", `r.key == "metadata.name" && r.values == ["n"]`) + ` && request.name == "n"`, verb: "deletecollection", want: "policy=a reason=NotMet: failed part reads request.fieldSelector"},
		{name: "a name that no object has", condition: looksFor("fieldSelector", `r.key == "metadata.name" && r.values == ["a/b"]`) + ` && request.name == "a/b"`, want: "policy=a reason=NotMet: failed part reads request.fieldSelector"},
		{name: "no requirement", condition: `!request.labelSelector.requirements.exists(r, r.key == "team")`, labels: "team=blue", want: part},
		{name: "by index", condition: `request.labelSelector.requirements.size() == 1 && request.labelSelector.requirements[0].key == "team"`, want: part},
		{name: "another verb", condition: team("blue"), verb: "get", want: part},
		{name: "a creation", condition: team("blue"), verb: "create", want: part},
		{name: "no opinion on conditions", policies: map[string]spec{"a": {Effect: allow, Condition: `object.a == 1 || ` + team("blue")}, "n": {Effect: noOpinion, Condition: "object.b == 1"}},
			want: strings.ReplaceAll(folded, "=a ", "=n ") + "; " + folded},
		{name: "another name than that of the rule", policies: map[string]spec{"a": {Effect: allow, Rules: []rule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"p"}}},
			Condition: looksFor("fieldSelector", `r.key == "metadata.name" && r.values == ["other"]`)}}, fields: "metadata.name=p", want: "policy=a reason=NotMet: failed part reads request.fieldSelector"},
		{name: "a policy of the namespace", policies: map[string]spec{"n/a": {Effect: allow, Condition: team("blue")}}, want: strings.ReplaceAll(part, "=a", "=n/a") + blue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.policies == nil {
				tc.policies = map[string]spec{"a": {Effect: allow, Condition: tc.condition}}
			}
			verb := tc.verb
			if verb == "" {
				verb = "list"
			}
			grants := partOf(publish(t, tc.policies), true)
			d := grants.Decide(t.Context(), selecting(t, verb, tc.labels, tc.fields)).Fold()
			if !d.IsNoOpinion() || d.Reason() != tc.want {
				t.Errorf("got %s, %q\nwant NoOpinion, %q", show(t, d), d.Reason(), tc.want)
			}
			if named := selectorIn.FindStringSubmatch(d.Reason()); named != nil {
				for _, a := range newHTTPServer(t).read(t, verb, named[1], named[2]) {
					if again := grants.Decide(t.Context(), a); !again.IsAllow() {
						t.Errorf("with the selectors %q and %q: got %s, want Allow", named[1], named[2], show(t, again))
					}
				}
			}
		})
	}
}

// TestHintsHaveABudget looks for the selectors of policies whose conditions are expensive: hints spend nothing of what conditions may
// cost, and end with the budget of explanations.
func TestHintsHaveABudget(t *testing.T) {
	t.Parallel()
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 40), ",") + "]"
	expensive := list + ".all(x, " + list + ".all(y, x == y && request.name == ''))"
	policies := map[string]spec{}
	for i := range 20 {
		policies[fmt.Sprintf("p%02d", i)] = spec{Effect: allow, Condition: team("blue") + " && " + expensive}
	}
	ctx := authorization.WithPolicyBudgets(t.Context())
	budgets := authorization.PolicyBudgetsOf(ctx)
	reason := partOf(publish(t, policies), true).Decide(ctx, selecting(t, "list", "", "")).Reason()
	hints, policiesNamed := strings.Count(reason, "use the label selector team=blue"), strings.Count(reason, "reason=NotMet")
	if hints == 0 || hints >= policiesNamed || policiesNamed != 8 {
		t.Errorf("got %d hints for %d policies, want hints for the first of 8: %s", hints, policiesNamed, reason)
	}
	if left := budgets.LeftToExplain(); left != 0 {
		t.Errorf("%d is left to explain", left)
	}
	if spent := uint64(cel.AuthorizationBudget) - budgets.Left(""); spent > 20*100 {
		t.Errorf("the hints have spent of what conditions may cost: %d", spent)
	}
}
