/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/places"
)

// TestGenerate makes cases twice. A case depends on the seed and the number alone.
func TestGenerate(t *testing.T) {
	t.Parallel()
	encoded := func(seed uint64, number int) string {
		content, err := json.Marshal(places.Generate(seed, number))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	other := 0
	for number := range 200 {
		first, second := encoded(1, number), encoded(1, number)
		if first != second {
			t.Errorf("case %d differs", number)
		}
		if first != strings.Replace(encoded(2, number), `"Seed":2`, `"Seed":1`, 1) {
			other++
		}
	}
	if other < 200 {
		t.Errorf("with another seed %d of 200 cases are others", other)
	}
}

// status returns the answers about one policy.
func status(message string, audit *policyv1alpha1.PolicyAuditStatus) *places.Answers {
	return &places.Answers{
		Code: 200, Body: []byte(`{"status": {"denied": true, "reason": "policy=shop/a reason=Denied: no; ` + message + `"}}`),
		Policies: []places.PolicyAnswer{{Audit: audit, Status: policyv1alpha1.AuthorizationPolicyStatus{
			Conditions:  []metav1.Condition{{Type: policyv1alpha1.PolicyEffective, Reason: "Enforced"}},
			Enforcement: []policyv1alpha1.RuleEnforcement{{Verbs: []string{"create"}, Resources: []string{"pods"}, At: policyv1alpha1.EnforcedAtInnerDoor, Result: policyv1alpha1.ResultEnforced, Message: message}},
		}}},
	}
}

// TestCodes has texts that are worded in two ways, and texts that say something else.
func TestCodes(t *testing.T) {
	t.Parallel()
	c := &places.Case{Number: 7, Policies: []places.Policy{{Namespace: "shop", Name: "a"}}}
	const note = "the inner door is not configured for these writes"
	codes := places.CodesOf(c, status(note, &policyv1alpha1.PolicyAuditStatus{Undetermined: 1}))
	if got := codes.FrontDoor; got.Decision != "denied" || !slices.Equal(got.Why, []string{"note-not-listed", "policy=shop/a reason=Denied"}) {
		t.Errorf("got %+v", got)
	}
	if got := codes.Policies[0].Entries[0].Why; !slices.Equal(got, []string{"note-not-listed"}) {
		t.Errorf("got %q", got)
	}
	counts := places.Counts{}
	counts.Add(codes)
	if counts["status InnerDoor Enforced"] != 1 || counts["note note-not-listed"] != 1 || counts["audit undetermined"] != 1 || len(counts.Unclassified()) > 0 {
		t.Errorf("got %v", counts)
	}
	counts.Add(places.CodesOf(c, status("what no phrase has", nil)))
	if got := counts.Unclassified(); !slices.Contains(got, "what no phrase has") {
		t.Errorf("got %q, want the text without a phrase", got)
	}
	if problems := counts.Problems(3); !slices.Contains(problems, `"status InnerDoor Enforced" occurs in 2 cases, want 3`) {
		t.Errorf("got %q", problems)
	}
	if problems := counts.Problems(2); slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, "status InnerDoor Enforced") }) {
		t.Errorf("got %q", problems)
	}
}

// TestCompareFiles compares files with an equal case, one that differs, and one that differs and is marked.
func TestCompareFiles(t *testing.T) {
	t.Parallel()
	write := func(name string, messages ...string) string {
		var content bytes.Buffer
		for i, message := range messages {
			c := &places.Case{Number: i, Policies: []places.Policy{{Namespace: "shop", Name: "a"}}}
			if i == 2 {
				c.Policies[0].Spec = policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectDeny, Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"patch"}, Resources: []string{"pods"}}}}
			}
			if err := json.NewEncoder(&content).Encode(&places.Line{Case: c, Codes: places.CodesOf(c, status(message, nil))}); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const a, b = "they cannot be listed", "their Leases cannot be read"
	var out bytes.Buffer
	differences, err := places.CompareFiles(write("before", a, a, a), write("after", a, b, b), &out)
	if err != nil || differences != 2 {
		t.Errorf("got %d, %v, want 2", differences, err)
	}
	for _, want := range []string{"case 1 of seed 0\n", "case 2 of seed 0 (a Deny rule", "- policy shop/a status: rules[0] [create] [pods]: InnerDoor Enforced [servers-not-listed]", "+ policy shop/a status", "3 cases: 2 differ; in 1 of them"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %q", &out, want)
		}
	}
	if strings.Contains(out.String(), "case 0") {
		t.Errorf("got %s, want nothing about an equal case", &out)
	}
	if _, err := places.CompareFiles(write("before", a), write("after", a, a), &out); err == nil {
		t.Error("files with other cases are compared")
	}
}
