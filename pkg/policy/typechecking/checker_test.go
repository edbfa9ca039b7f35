/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	machine := demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine")
	self := policyv1alpha1.Variable{Name: "self", Expression: `operation == "DELETE" ? oldObject : object`}
	for _, tc := range []struct {
		name   string
		policy *policyv1alpha1.AuthorizationPolicySpec
		want   []string
	}{
		{name: "right", policy: policy("widgets", `object.spec.size > 3 && oldObject.spec.color == request.userInfo.username`)},
		{name: "without expressions", policy: policy("widgets", "")},
		{name: "all but some fields", policy: policy("widgets", `unchanged(object, oldObject, ["spec.size", "metadata.annotations['a/b']"])`)},
		{
			name:   "all but a field that does not exist",
			policy: policy("widgets", `unchanged(object, oldObject, ["spec.color", "spec.sise"])`),
			want:   []string{"spec.condition: example.com/v1, Kind=Widget: unchanged: object.spec.sise: undefined field 'sise', did you mean 'size'?"},
		},
		{name: "the kind and the version of its resource", policy: policy("widgets", `object.kind == "Widget" && oldObject.apiVersion in ["example.com/v1"] && has(object.kind)`)},
		{
			name:   "another kind and version",
			policy: policy("widgets", `object.kind == "widget" && "v1" == oldObject.apiVersion && (object.kind == "widget" || object.kind in ["Widget", "Pod"])`),
			want: []string{
				`spec.condition: object.kind is never "widget": for the resources of the rules it is Widget`,
				`spec.condition: oldObject.apiVersion is never "v1": for the resources of the rules it is example.com/v1`,
				`spec.condition: object.kind is never "Pod": for the resources of the rules it is Widget`,
			},
		},
		{name: "kinds of resources with wildcards", policy: policy("widgets,*", `object.kind == "Pod"`)},
		{name: "kinds of subresources", policy: policy("widgets,widgets/scale", `object.kind == "Scale"`)},
		{name: "kinds of unknown resources", policy: policy("widgets,gadgets", `object.kind == "Gadget"`)},
		{
			name:   "no such field",
			policy: policy("widgets", `object.spec.sise > 3`),
			want:   []string{"spec.condition: example.com/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'sise', did you mean 'size'?"},
		},
		{
			name: "every expression, in the order of the fields",
			policy: policy("widgets", `variables.self.spec.sise > 3`, self,
				policyv1alpha1.Variable{Name: "bad", Expression: `variables.self.spec.size + "a"`},
				policyv1alpha1.Variable{Name: "fine", Expression: `variables.bad == variables.self.spec.color`}),
			want: []string{
				"spec.variables[1].expression: example.com/v1, Kind=Widget: ERROR: <input>:1:26: found no matching overload for '_+_' applied to '(int, string)'",
				"spec.condition: example.com/v1, Kind=Widget: ERROR: <input>:1:20: undefined field 'sise', did you mean 'size'?",
			},
		},
		{
			name: "every kind, in order",
			policy: &policyv1alpha1.AuthorizationPolicySpec{
				Condition: `object.spec.size > 1`,
				Rules:     []policyv1alpha1.PolicyRule{rule("other.example.com,example.com", "", "widgets")},
			},
			want: []string{
				"spec.condition: example.com/v1, Kind=Widget: object.spec may be missing: then the condition fails, and the policy denies; write object.?spec.?size.orValue(0)",
				"spec.condition: example.com/v1beta1, Kind=Widget: ERROR: <input>:1:18: found no matching overload for '_>_' applied to '(string, int)'; a number is written without quotes, and a text in quotes",
				"spec.condition: other.example.com/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'size'",
			},
		},
		{
			name: "a resource of this server",
			policy: &policyv1alpha1.AuthorizationPolicySpec{
				Condition: `object.spec.storageClassName == "dev" && object.spec.storageClas == "dev" && object.spec.disks.all(d, d.sizeGiB < 10 && d.name == 1) && object.metadata.labels["a"] == "b" && object.spec.memory == 1`,
				Rules:     []policyv1alpha1.PolicyRule{rule(machine.Group, "", "virtualmachines")},
			},
			want: []string{
				"spec.condition: demo.proviso.dev/v1alpha1, Kind=VirtualMachine: ERROR: <input>:1:53: undefined field 'storageClas', did you mean 'storageClassName'?; " +
					"ERROR: <input>:1:128: found no matching overload for '_==_' applied to '(string, int)'; " +
					"ERROR: <input>:1:194: found no matching overload for '_==_' applied to '(string, int)'; a number is written without quotes, and a text in quotes",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := checker(t, &schemas{table: widgets, own: ownSchemas(t)}, mapper(widgets, machine))
			got, err := c.Check("", tc.policy)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, warningsOf(got)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWarningsAreBounded checks that no more warnings are given than a status may hold,
// the first ones, and that each is short.
func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	long := policy("widgets", `object.nope`)
	long.Rules[0].APIVersions = nil
	for i := range 60 {
		long.Variables = append(long.Variables, policyv1alpha1.Variable{
			Name:       fmt.Sprintf("v%d", i),
			Expression: strings.Repeat(`object.nope || `, 40) + "true",
		})
	}
	got, err := checker(t, &schemas{table: widgets}, mapper(widgets)).Check("", long)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.ExpressionWarnings); n != typechecking.MaxWarnings {
		t.Fatalf("got %d warnings", n)
	}
	last := got.ExpressionWarnings[31]
	if last.FieldRef != "spec.variables[15].expression" || !strings.HasPrefix(last.Warning, "example.com/v1beta1, ") || len(last.Warning) > 2048 {
		t.Errorf("the last one is %+v", last)
	}
}

// TestCheckFailures checks what is known, what is not, and what is not known to be known.
func TestCheckFailures(t *testing.T) {
	t.Parallel()
	bad, broken := policy("widgets", `object.nope`), errors.New("broken")
	for _, tc := range []struct {
		name         string
		schemas      resolver.SchemaResolver
		kinds        typechecking.Kinds
		policy       *policyv1alpha1.AuthorizationPolicySpec
		wantWarnings int
		wantErr      string
	}{
		{name: "an unknown resource", schemas: &schemas{table: widgets}, kinds: mapper(nil)},
		{name: "an unknown schema", schemas: &schemas{}, kinds: mapper(widgets)},
		{name: "a schema of no object", schemas: &schemas{table: widgets}, kinds: mapper(widgets), policy: policy("texts,freeforms", `object.nope`)},
		{name: "no answer about schemas", schemas: &schemas{err: broken}, kinds: mapper(widgets), wantErr: "example.com/v1, Kind=Widget: broken"},
		{name: "no answer about resources", schemas: &schemas{table: widgets}, kinds: failingKinds{mapper(nil), ""}, wantErr: "the kind of widgets.example.com: no answer"},
		{name: "a resolver that panics", schemas: panicking{}, kinds: mapper(widgets), wantErr: "panicking"},
		{name: "what is known beside what is not", schemas: &schemas{table: widgets}, kinds: failingKinds{mapper(widgets), "other.example.com"}, wantWarnings: 1, wantErr: "widgets.other.example.com: no answer",
			policy: &policyv1alpha1.AuthorizationPolicySpec{Condition: `object.nope`, Rules: []policyv1alpha1.PolicyRule{rule("other.example.com,example.com", "v1", "widgets")}}},
		{name: "a kind that may be one of those that are not known", schemas: &schemas{table: widgets}, kinds: someKinds{mapper(widgets)}, policy: policy("widgets", `object.kind == "Other"`), wantErr: "no answer"},
		{name: "nothing to check", schemas: panicking{}, kinds: failingKinds{mapper(nil), ""}, policy: policy("widgets", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.policy == nil {
				tc.policy = bad
			}
			got, err := checker(t, tc.schemas, tc.kinds).Check("", tc.policy)
			if got == nil || len(got.ExpressionWarnings) != tc.wantWarnings {
				t.Errorf("got %v, want %d warnings", got, tc.wantWarnings)
			}
			if tc.wantErr == "" && err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if tc.wantErr != "" && (!errors.Is(err, typechecking.ErrIncomplete) || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("got %v, want ErrIncomplete and %q", err, tc.wantErr)
			}
		})
	}
}

// someKinds are some of the kinds of each resource.
type someKinds struct{ typechecking.Kinds }

func (s someKinds) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	kinds, _ := s.Kinds.KindsFor(resource)
	return kinds, errors.New("no answer")
}

// failingKinds fails for a group, or for all.
type failingKinds struct {
	typechecking.Kinds
	group string
}

func (f failingKinds) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	if f.group == "" || f.group == resource.Group {
		return nil, errors.New("no answer")
	}
	return f.Kinds.KindsFor(resource)
}

type panicking struct{}

func (panicking) ResolveSchema(schema.GroupVersionKind) (*spec.Schema, error) { panic("panicking") }

// TestTypesAreKept checks for how long a type, its absence and a failure are remembered.
func TestTypesAreKept(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		schemas *schemas
		expiry  time.Duration
	}{
		{"a type", &schemas{table: widgets}, 5 * time.Minute},
		{"none", &schemas{}, 30 * time.Second},
		{"a failure", &schemas{err: errors.New("broken")}, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := checker(t, tc.schemas, mapper(widgets))
				for _, step := range []struct {
					after time.Duration
					want  int
				}{{0, 1}, {tc.expiry - time.Second, 1}, {2 * time.Second, 2}} {
					time.Sleep(step.after)
					first, firstErr := c.Check("", policy("widgets", `object.nope`))
					second, secondErr := c.Check("", policy("widgets", `object.nope`))
					if n := len(tc.schemas.kindsAsked()); n != step.want {
						t.Errorf("after %s more: asked %d times, want %d", step.after, n, step.want)
					}
					if !cmp.Equal(first, second) || (firstErr == nil) != (secondErr == nil) {
						t.Errorf("what is kept differs: %v %v, then %v %v", first, firstErr, second, secondErr)
					}
				}
			})
		})
	}
}

// TestCleanPoliciesAreCheckedAgain checks a policy without mistakes, and again when something has changed so that it has one or cannot be checked.
func TestCleanPoliciesAreCheckedAgain(t *testing.T) {
	t.Parallel()
	const widget = "example.com/v1/Widget"
	size := policyv1alpha1.Variable{Name: "x", Expression: "object.spec.size"}
	ofGroups := func(groups string) *policyv1alpha1.AuthorizationPolicySpec {
		result := policy("widgets", "variables.x > 1", size)
		result.Rules = []policyv1alpha1.PolicyRule{rule(groups, "v1", "widgets")}
		return result
	}
	of := func(table map[string]string) func(*schemas) { return func(s *schemas) { s.table = table } }
	fails := func(s *schemas) { s.err = errors.New("broken") }
	same := func(*schemas) {}
	texts := map[string]string{widget: widgets["example.com/v1beta1/Widget"]}
	for _, tc := range []struct {
		name    string
		before  map[string]string
		change  func(*schemas)
		expiry  time.Duration
		checked *policyv1alpha1.AuthorizationPolicySpec // the same policy, if nil
		want    string                                  // a mistake, a failure, or nothing
	}{
		{"nothing", widgets, same, time.Hour, nil, ""},
		{"a type", widgets, of(texts), 5 * time.Minute, nil, "mistake"},
		{"a type that comes", nil, of(texts), 30 * time.Second, nil, "mistake"},
		{"a schema cannot be read", widgets, fails, 5 * time.Minute, nil, "failure"},
		{"whether there is a schema cannot be read", nil, fails, 30 * time.Second, nil, "failure"},
		{"the condition", widgets, same, 0, policy("widgets", "variables.x > 'a'", size), "mistake"},
		{"a variable", widgets, same, 0, policy("widgets", "variables.x > 1", policyv1alpha1.Variable{Name: "x", Expression: "object.spec.color"}), "mistake"},
		{"the kinds", widgets, same, 0, ofGroups("example.com,other.example.com"), "mistake"},
		{"other kinds cannot be had", widgets, same, 0, ofGroups("example.com,broken.example.com"), "failure"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &schemas{table: tc.before}
				c := checker(t, s, failingKinds{mapper(widgets), "broken.example.com"})
				checked := policy("widgets", "variables.x > 1", size)
				for range 2 {
					if got, err := c.Check("", checked); err != nil || len(got.ExpressionWarnings) > 0 {
						t.Fatalf("before: got %v, %v, want no mistake", got, err)
					}
				}
				tc.change(s)
				time.Sleep(tc.expiry + time.Second)
				if tc.checked != nil {
					checked = tc.checked
				}
				found, err := c.Check("", checked)
				got := ""
				switch {
				case err != nil:
					got = "failure"
				case len(found.ExpressionWarnings) > 0:
					got = "mistake"
				}
				if got != tc.want {
					t.Errorf("got %v, %v, want %q", found, err, tc.want)
				}
			})
		})
	}
}

// BenchmarkCheck checks a policy again and again: with the same condition, whose result is kept, and with a new condition each time.
func BenchmarkCheck(b *testing.B) {
	for _, bc := range []struct {
		name string
		next func(i int) string
	}{{"kept", func(int) string { return "object.spec.size > 1" }}, {"new", func(i int) string { return fmt.Sprintf("object.spec.size > %d", i) }}} {
		b.Run(bc.name, func(b *testing.B) {
			c, err := typechecking.New(&schemas{table: widgets}, mapper(widgets))
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				if got, err := c.Check("", policy("widgets", bc.next(i))); err != nil || len(got.ExpressionWarnings) > 0 {
					b.Fatalf("got %v, %v", got, err)
				}
			}
		})
	}
}

func TestCheckConcurrently(t *testing.T) {
	t.Parallel()
	c := checker(t, &schemas{table: widgets}, mapper(widgets))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := c.Check("", policy("widgets,odds", `object.nope == variables.x`, policyv1alpha1.Variable{Name: "x", Expression: "object.spec"}))
			if err != nil || len(got.ExpressionWarnings) != 3 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	wg.Wait()
}

func TestNewNeedsParts(t *testing.T) {
	t.Parallel()
	if _, err := typechecking.New(nil, mapper(nil)); err == nil {
		t.Error("a checker without schemas was made")
	}
	if _, err := typechecking.New(&schemas{}, nil); err == nil {
		t.Error("a checker without kinds was made")
	}
}

// TestCheckIsBounded checks a long condition for more kinds than there is time for.
func TestCheckIsBounded(t *testing.T) {
	t.Parallel()
	table, groups := map[string]string{}, []string{}
	for i := range 10 {
		group := fmt.Sprintf("g%d.example.com", i)
		table[group+"/v1/Widget"], groups = widgets["example.com/v1/Widget"], append(groups, group)
	}
	s := &schemas{table: table}
	got, err := checker(t, s, mapper(table)).Check("", &policyv1alpha1.AuthorizationPolicySpec{
		Condition: strings.Repeat("true||", 1650) + "object.spec.size == 1",
		Rules:     []policyv1alpha1.PolicyRule{rule(strings.Join(groups, ","), "v1", "widgets")},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "spec: g8.example.com/v1, Kind=Widget: not checked, nor are the kinds after it"
	if lines := warningsOf(got); len(lines) != 1 || !strings.HasPrefix(lines[0], want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	if asked := s.kindsAsked(); len(asked) != 9 {
		t.Errorf("asked for %d schemas, want 9", len(asked))
	}
}
