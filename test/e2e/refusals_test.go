/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"regexp"
	"strings"
	"testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// reasonEntry is what a refusal says of one policy or condition.
type reasonEntry struct{ name, word, text string }

var reasonStart = regexp.MustCompile(`(policy|condition)=(\S+) reason=(\w+): `)

// ownValues begins what a refusal says of the object that the user has sent.
const ownValues = "; the request has "

// entriesOf reads the reason of a refusal, and returns what is before its entries.
func entriesOf(message string) (before string, entries []reasonEntry) {
	message = strings.TrimSpace(strings.ReplaceAll(message, `\"`, `"`))
	message, _, _ = strings.Cut(message, ownValues)
	starts := reasonStart.FindAllStringSubmatchIndex(message, -1)
	if len(starts) == 0 {
		return message, nil
	}
	for i, at := range starts {
		end := len(message)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		entries = append(entries, reasonEntry{name: message[at[2]:at[3]] + "=" + message[at[4]:at[5]], word: message[at[6]:at[7]], text: strings.TrimSuffix(message[at[1]:end], "; ")})
	}
	return message[:starts[0][0]], entries
}

// internalSteps are words of the evaluation that say nothing to a user.
var internalSteps = []string{"folded", "left to", "failure mode", "no opinion", "counts as true", "no condition can", "no Allow", "failed closed", "a question of Proviso"}

// checkReason asks that the reason of a refusal consists of one entry for each policy that it names, and that the part that
// it calls false is a part of the condition and false.
func (x *table) checkReason(t *testing.T, c *tableCase, data []admitted, message string) {
	t.Helper()
	before, entries := entriesOf(message)
	_, policies := c.wanted()
	if len(policies) == 0 {
		if strings.Contains(message, "policy=") {
			t.Errorf("the refusal names policies that have nothing to do with it: %s", message)
		}
		return
	}
	for _, step := range internalSteps {
		if strings.Contains(message, step) {
			t.Errorf("the refusal tells a step of the evaluation, %q: %s", step, message)
		}
	}
	if len(entries) == 0 {
		if !strings.Contains(message, "details are shown to users who may") {
			t.Errorf("the refusal has no reason: %s", message)
		}
		return
	}
	words := strings.TrimSuffix(strings.TrimSpace(before), "a connection also needs the verb create:")
	if c.route == "kube" { // kube-apiserver has refused the request, and names its authorizer
		words = strings.TrimSuffix(words, "proviso.front-door:")
	}
	if !strings.HasSuffix(strings.TrimSpace(words), `in the namespace "`+c.set.namespace()+`":`) {
		t.Errorf("the refusal says more than its entries: %q", before)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if seen[e.name] {
			t.Errorf("the refusal names %s twice: %s", e.name, message)
		}
		seen[e.name] = true
		x.checkEntry(t, c, data, e)
	}
}

// checkEntry compares an entry with its policy.
func (x *table) checkEntry(t *testing.T, c *tableCase, data []admitted, e reasonEntry) {
	t.Helper()
	var policy *tablePolicy
	for i := range c.set.Policies {
		p := &c.set.Policies[i]
		if e.name == "policy="+p.Name && p.Cluster || e.name == "policy="+c.set.namespace()+"/"+p.Name && !p.Cluster {
			policy = p
		}
	}
	if policy == nil {
		t.Errorf("there is no policy %s", e.name)
		return
	}
	words := map[policyv1alpha1.PolicyEffect]string{
		policyv1alpha1.PolicyEffectAllow: "NotMet", policyv1alpha1.PolicyEffectDeny: "Denied", policyv1alpha1.PolicyEffectNoOpinion: "HeldBack",
	}
	if e.word != words[policy.Effect] && e.word != "Error" || !strings.HasPrefix(e.text, policy.Description) {
		t.Errorf("%s has the effect %s and is described as %q; the refusal says %s: %s", e.name, policy.Effect, policy.Description, e.word, e.text)
	}
	if e.word != "NotMet" {
		return
	}
	_, part, found := strings.Cut(e.text, "failed part")
	if !found {
		t.Errorf("%s: the refusal does not say which part of %s is false: %s", e.name, policy.Condition, e.text)
	}
	if part, found = strings.CutPrefix(part, ": "); !found || len(data) == 0 {
		return // a part that reads the request only
	}
	alone := &tablePolicy{Name: policy.Name, Variables: policy.Variables, Condition: part}
	for _, o := range data {
		for _, q := range o.checks {
			if holds, err := x.oracle.evaluate(t, alone, x.oracle.values(t, c.set, c.As, o, q)); err == nil && !holds {
				return
			}
		}
	}
	t.Errorf("%s: the part %s is not false", e.name, part)
}

// checkReason asks that the reason of a refusal consists of entries of the conditions on fields.
func (c *fieldCase) checkReason(t *testing.T, message string) {
	t.Helper()
	_, entries := entriesOf(message)
	seen := map[string]bool{}
	for _, e := range entries {
		known := e.name == "condition=granular.proviso.dev/include" && e.word == "NotMet" || e.name == "condition=granular.proviso.dev/exclude" && e.word == "Denied"
		if !known || seen[e.name] {
			t.Errorf("the refusal names %s twice, or it is no condition on fields: %s", e.name, message)
		}
		seen[e.name] = true
	}
	if c.Field != "" && len(entries) == 0 {
		t.Errorf("the refusal has no reason: %s", message)
	}
}
