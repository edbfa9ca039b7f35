/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// countedSelectors counts how often the selectors of a request are read.
type countedSelectors struct {
	authorizer.AttributesRecord

	labels, fields int
}

func (c *countedSelectors) GetLabelSelector() (labels.Requirements, error) {
	c.labels++
	return c.AttributesRecord.GetLabelSelector()
}

func (c *countedSelectors) GetFieldSelector() (fields.Requirements, error) {
	c.fields++
	return c.AttributesRecord.GetFieldSelector()
}

const (
	readsLabels = `request.labelSelector.requirements.exists(r, r.key == "a") && request.labelSelector.requirements.size() > 0`
	readsFields = `request.fieldSelector.requirements.size() > 0`
)

// TestSelectorsAreReadOnlyIfNeeded asks that a selector, whose length a client chooses, is read
// only for a condition that reads it and that counts, and once for all of them.
func TestSelectorsAreReadOnlyIfNeeded(t *testing.T) {
	t.Parallel()
	many := map[string]spec{}
	for i := range 20 {
		many[fmt.Sprint("p", i)] = spec{Effect: deny, Condition: readsLabels}
	}
	for _, tc := range []struct {
		name       string
		specs      map[string]spec
		want       string
		labels     int
		fieldReads int
	}{
		{name: "no policy", want: "NoOpinion, NoOpinion"},
		{name: "a condition on something else", specs: map[string]spec{"p": {Effect: deny, Condition: `request.verb == "get"`}}, want: "NoOpinion, NoOpinion"},
		{name: "policies that do not match", specs: map[string]spec{"p": {Effect: deny, Condition: readsLabels, Rules: anyPath}}, want: "NoOpinion, NoOpinion"},
		{name: "a condition that reads labels", specs: map[string]spec{"p": {Effect: deny, Condition: readsLabels}}, want: "Deny, NoOpinion", labels: 1},
		{name: "a condition that reads fields", specs: map[string]spec{"p": {Effect: deny, Condition: readsFields}}, want: "NoOpinion, NoOpinion", fieldReads: 1},
		{name: "an unconditional Deny after conditions", specs: map[string]spec{"a": {Effect: deny, Condition: readsLabels}, "b": {Effect: noOpinion, Condition: "true"}, "z": {Effect: deny}}, want: "Deny, NoOpinion"},
		{name: "many conditions that hold", specs: many, want: "Deny, NoOpinion", labels: 1},
		{name: "many conditions of both parts", specs: map[string]spec{
			"a": {Effect: deny, Condition: "!(" + readsLabels + ")"}, "b": {Effect: deny, Condition: "!(" + readsLabels + ")"},
			"c": {Effect: noOpinion, Condition: "!(" + readsLabels + ")"}, "d": {Effect: allow, Condition: readsLabels},
		}, want: "NoOpinion, Allow", labels: 2}, // once in each part
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := &countedSelectors{AttributesRecord: podsOf("list")}
			selector, err := labels.ParseToRequirements("a,b in (x, y)")
			if err != nil {
				t.Fatal(err)
			}
			a.LabelSelectorRequirements = selector
			if got := decided(t, publish(t, tc.specs), a); got != tc.want || a.labels != tc.labels || a.fields != tc.fieldReads {
				t.Errorf("got %s after reading labels %d times and fields %d times, want %s, %d and %d", got, a.labels, a.fields, tc.want, tc.labels, tc.fieldReads)
			}
		})
	}
}
