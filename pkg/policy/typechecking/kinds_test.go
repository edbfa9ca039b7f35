/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// TestKinds checks which kinds rules stand for, by the schemas that are asked for.
func TestKinds(t *testing.T) {
	t.Parallel()
	table := map[string]string{"events.k8s.io/v1/Event": ""}
	for _, name := range []string{"example.com/v1/Widget", "example.com/v1beta1/Widget", "example.com/v1/Gadget", "example.com.evil/v1/Widget"} {
		table[name] = ""
	}
	for _, tc := range []struct {
		name  string
		rules []policyv1alpha1.PolicyRule
		want  []string
	}{
		{"a version", []policyv1alpha1.PolicyRule{rule("example.com", "v1", "widgets")}, []string{"example.com/v1/Widget"}},
		{"a version twice", []policyv1alpha1.PolicyRule{rule("example.com", "v1,v1", "widgets")}, []string{"example.com/v1/Widget"}},
		{"every version", []policyv1alpha1.PolicyRule{rule("example.com", "", "widgets")}, []string{"example.com/v1/Widget", "example.com/v1beta1/Widget"}},
		{"every version by name", []policyv1alpha1.PolicyRule{rule("example.com", "v1,*", "widgets")}, []string{"example.com/v1/Widget", "example.com/v1beta1/Widget"}},
		{"a version that is not there", []policyv1alpha1.PolicyRule{rule("example.com", "v2", "widgets")}, nil},
		{"the core group is not every group", []policyv1alpha1.PolicyRule{rule("core", "", "events")}, []string{"v1/Event"}},
		{"a group is no prefix", []policyv1alpha1.PolicyRule{rule("example", "", "widgets")}, nil},
		{"wildcards", []policyv1alpha1.PolicyRule{rule("*", "v1", "widgets"), rule("example.com", "v1", "*"), rule("example.com", "v1", "*/status,widgets/*")}, nil},
		{"wildcards beside names", []policyv1alpha1.PolicyRule{rule("*,example.com", "v1", "*,gadgets")}, []string{"example.com/v1/Gadget"}},
		{"status", []policyv1alpha1.PolicyRule{rule("example.com", "v1", "widgets/status")}, []string{"example.com/v1/Widget"}},
		{"other subresources", []policyv1alpha1.PolicyRule{rule("example.com", "v1", "widgets/scale,widgets/console,widgets/exec/status")}, nil},
		{"twice", []policyv1alpha1.PolicyRule{rule("example.com", "v1", "widgets,widgets/status"), rule("example.com", "", "widgets")}, []string{"example.com/v1/Widget", "example.com/v1beta1/Widget"}},
		{"in order", []policyv1alpha1.PolicyRule{rule("example.com.evil,example.com", "v1", "widgets,gadgets")}, []string{"example.com/v1/Gadget", "example.com/v1/Widget", "example.com.evil/v1/Widget"}},
		{"paths", []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}}, nil},
		{"no rules", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &schemas{}
			kinds := mapper(table, schema.GroupVersionKind{Version: "v1", Kind: "Event"})
			if _, err := checker(t, s, kinds).Check("", &policyv1alpha1.AuthorizationPolicySpec{Condition: "true", Rules: tc.rules}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, s.kindsAsked()); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// countingKinds answers for every resource with a kind of its name, and counts.
type countingKinds struct {
	count int
	err   error
	empty bool
}

func (c *countingKinds) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	c.count++
	if c.empty || c.err != nil {
		return nil, c.err
	}
	return []schema.GroupVersionKind{{Group: resource.Group, Version: "v1", Kind: resource.Resource}}, nil
}

// TestWorkIsBounded checks that a policy cannot make a check long, whatever it names.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	many := func(prefix string) string {
		names := make([]string, 20_000)
		for i := range names {
			names[i] = fmt.Sprintf("%s%05d", prefix, i)
		}
		return strings.Join(names, ",")
	}
	rules := []policyv1alpha1.PolicyRule{rule(many("g"), many("v"), many("r")), rule(many("h"), "", "widgets")}
	oneEach := []policyv1alpha1.PolicyRule{rule(many("g"), "", "widgets")}
	for _, tc := range []struct {
		name        string
		rules       []policyv1alpha1.PolicyRule
		text        int
		kinds       *countingKinds
		schemas     *schemas
		wantLookups int
		wantSchemas int
	}{
		{"kinds", oneEach, 2, &countingKinds{}, &schemas{}, 10, 10},
		{"unknown resources", rules, 2, &countingKinds{empty: true}, &schemas{}, 256, 0},
		{"failing groups", oneEach, 2, &countingKinds{err: errors.New("no answer")}, &schemas{}, 3, 0},
		{"a failing group", []policyv1alpha1.PolicyRule{rule("g", many("v"), many("r"))}, 2, &countingKinds{err: errors.New("no answer")}, &schemas{}, 1, 0},
		{"long expressions", oneEach, 100 << 10, &countingKinds{}, &schemas{}, 5, 5},
		{"expressions longer than the bound", oneEach, 600 << 10, &countingKinds{}, &schemas{}, 1, 1},
		{"failing schemas", oneEach, 2, &countingKinds{}, &schemas{err: errors.New("no answer")}, 10, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := checker(t, tc.schemas, tc.kinds).Check("", &policyv1alpha1.AuthorizationPolicySpec{
				Rules: tc.rules, Condition: "1",
				Variables: []policyv1alpha1.Variable{{Name: "x", Expression: strings.Repeat("1", tc.text-1)}},
			})
			if wantErr := tc.kinds.err != nil || tc.schemas.err != nil; (err != nil) != wantErr {
				t.Errorf("got %v, want an error: %v", err, wantErr)
			}
			if tc.kinds.count != tc.wantLookups || len(tc.schemas.kindsAsked()) != tc.wantSchemas {
				t.Errorf("looked up %d resources and %d schemas, want %d and %d", tc.kinds.count, len(tc.schemas.kindsAsked()), tc.wantLookups, tc.wantSchemas)
			}
		})
	}
}

// answeringKinds answers with the same kinds for every resource.
type answeringKinds struct {
	kinds []schema.GroupVersionKind
	err   error
}

func (a answeringKinds) KindsFor(schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return a.kinds, a.err
}

// TestAnswersOfMappers has mappers that return more or other kinds than those of the resource that they were asked for.
func TestAnswersOfMappers(t *testing.T) {
	t.Parallel()
	kind := func(group, version, name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: name}
	}
	var twelve []schema.GroupVersionKind
	for i := range 12 {
		twelve = append(twelve, kind("example.com", "v1", fmt.Sprintf("Kind%02d", i)))
	}
	noMatch := &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: "widgets"}}
	for _, tc := range []struct {
		name    string
		rule    policyv1alpha1.PolicyRule
		answer  answeringKinds
		want    []string
		wantErr bool
	}{
		{name: "nothing", rule: rule("example.com", "v1", "widgets")},
		{name: "no match", rule: rule("example.com", "v1", "widgets"), answer: answeringKinds{err: noMatch}},
		{name: "no match, wrapped", rule: rule("example.com", "v1", "widgets"), answer: answeringKinds{err: fmt.Errorf("discovery: %w", noMatch)}},
		{
			name: "kinds of other groups and versions", rule: rule("example.com", "v1", "widgets"),
			answer: answeringKinds{kinds: []schema.GroupVersionKind{kind("", "v1", "A"), kind("example.com.evil", "v1", "B"), kind("example.com", "v2", "C"), kind("example.com", "v1", "D")}},
			want:   []string{"example.com/v1/D"},
		},
		{
			name: "every version", rule: rule("example.com", "", "widgets"),
			answer: answeringKinds{kinds: []schema.GroupVersionKind{kind("example.com", "v2", "C"), kind("example.com", "v1", "D"), kind("other", "v1", "E")}},
			want:   []string{"example.com/v1/D", "example.com/v2/C"},
		},
		{
			name: "kinds twice", rule: rule("example.com", "v1", "widgets,gadgets"),
			answer: answeringKinds{kinds: []schema.GroupVersionKind{kind("example.com", "v1", "D"), kind("example.com", "v1", "D")}},
			want:   []string{"example.com/v1/D"},
		},
		{
			name: "kinds beside a failure", rule: rule("example.com", "v1", "widgets"), wantErr: true,
			answer: answeringKinds{kinds: []schema.GroupVersionKind{kind("example.com", "v1", "D")}, err: errors.New("one server did not answer")},
			want:   []string{"example.com/v1/D"},
		},
		{
			name: "more kinds than are checked", rule: rule("example.com", "v1", "widgets"), answer: answeringKinds{kinds: twelve},
			want: []string{
				"example.com/v1/Kind00", "example.com/v1/Kind01", "example.com/v1/Kind02", "example.com/v1/Kind03", "example.com/v1/Kind04",
				"example.com/v1/Kind05", "example.com/v1/Kind06", "example.com/v1/Kind07", "example.com/v1/Kind08", "example.com/v1/Kind09",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &schemas{}
			_, err := checker(t, s, tc.answer).Check("", &policyv1alpha1.AuthorizationPolicySpec{Condition: "true", Rules: []policyv1alpha1.PolicyRule{tc.rule}})
			if (err != nil) != tc.wantErr {
				t.Errorf("got %v, want an error: %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, s.kindsAsked()); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSubresourcesAreNotLookedUp checks that the kind of a subresource is not taken for
// that of the objects, though it may be known: that of pods/exec is PodExecOptions.
func TestSubresourcesAreNotLookedUp(t *testing.T) {
	t.Parallel()
	kinds := &countingKinds{}
	rules := []policyv1alpha1.PolicyRule{rule("core", "v1", "pods/exec,pods/eviction,replicationcontrollers/scale,*/scale,pods/*")}
	if _, err := checker(t, &schemas{}, kinds).Check("", &policyv1alpha1.AuthorizationPolicySpec{Condition: "true", Rules: rules}); err != nil || kinds.count != 0 {
		t.Errorf("looked up %d resources: %v", kinds.count, err)
	}
}
