/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// annotationsOf evaluates both sides as a request does, and returns what its audit event gets, by name.
func annotationsOf(t *testing.T, g authorizer.UnconditionalAuthorizer, data write) map[string]string {
	t.Helper()
	config := granular.Config{Authorizer: g, Types: things.Types(t), Mappings: sourceOf(things.Mapping("m", things.Spec(things.Excluded(`metadata.annotations["boom"]`, "selfDestruction", ""))))}
	chain := chainOf(t, membersOf(t, config))
	ctx, trail := granular.WithTrail(t.Context())
	// An update that is attempted again leaves what was checked last.
	for _, earlier := range []string{"metadata: {name: b, annotations: {boom: c}}", "metadata: {name: b}"} {
		chain.Decide(ctx, updateByBob).Evaluate(ctx, authorization.EvaluatorFor(updateOf(t, "metadata: {name: a}", earlier), nil))
	}
	chain.Decide(ctx, updateByBob).Evaluate(ctx, authorization.EvaluatorFor(data, nil))
	annotations := trail.Annotations()
	if text := strings.Join(annotations, " "); strings.Contains(text, "hidden") {
		t.Errorf("got a value in %s", text)
	}
	result, last := map[string]string{}, ""
	for pair := range slices.Chunk(annotations, 2) {
		if pair[0] <= last {
			t.Errorf("got %s after %s, want each annotation once, in alphabetical order", pair[0], last)
		}
		last = pair[0]
		result[strings.TrimPrefix(last, "granular.proviso.dev/")] = pair[1]
	}
	return result
}

func TestGranularTrail(t *testing.T) {
	t.Parallel()
	type row struct {
		Verbs         string
		Fails         bool // the authorizer
		Before, After map[string]any
		Want          map[string]string
	}
	rows.Run(t, "testdata/trail.yaml", func(t *testing.T, tc row) {
		g := &prefixes{grants: grants{verbs: strings.Fields(tc.Verbs)}}
		if tc.Fails {
			g.err = errors.New("hidden")
		}
		data := updateOf(t, "", "")
		data.before, data.object = things.Object(tc.Before), things.Object(tc.After)
		if diff := cmp.Diff(tc.Want, annotationsOf(t, g, data), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
	})
}

// TestGranularTrailIsBounded changes 200 labels: a list in an audit event ends with the number of the entries that it leaves out.
func TestGranularTrailIsBounded(t *testing.T) {
	t.Parallel()
	many := strings.Builder{}
	for i := range 200 {
		fmt.Fprintf(&many, "example-%03d.com/secret: hidden, ", i)
	}
	manyLabels := updateOf(t, "metadata: {name: a}", "metadata: {name: a, labels: {"+many.String()+"}}")
	for _, tc := range []struct {
		name  string
		verbs []string
		want  map[string]string // what the last entries of a list contain
	}{
		{name: "all may be changed", verbs: []string{"granular", "granular:labels"}, want: map[string]string{"include-fields": "and 168 more"}},
		{name: "the last may not be changed", verbs: []string{"granular", "granular:label("}, want: map[string]string{
			// Three checks for the first label and one for each other.
			"include-verbs":  `granular:label(example-061.com), and `,
			"include-fields": `metadata.labels["example-062.com/secret"], and 30 more`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := annotationsOf(t, &prefixes{grants: grants{verbs: tc.verbs}}, manyLabels)
			for name, text := range got {
				if len(text) > 2048 {
					t.Errorf("%s has %d bytes", name, len(text))
				}
			}
			for name, want := range tc.want {
				var entries []string
				if err := json.Unmarshal([]byte(got[name]), &entries); err != nil || len(entries) < 3 {
					t.Fatalf("%s: got %q, %v", name, got[name], err)
				}
				if last := strings.Join(entries[len(entries)-2:], ", "); !strings.Contains(last, want) {
					t.Errorf("%s: got %s at the end, want %s", name, last, want)
				}
			}
		})
	}
}

// prefixes has every verb that begins with one of its own.
type prefixes struct {
	grants
	err error
}

func (p *prefixes) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if p.err != nil && a.GetVerb() != "granular" {
		return authorizer.DecisionNoOpinion, "", p.err
	}
	for _, verb := range p.verbs {
		if strings.HasSuffix(verb, "(") && strings.HasPrefix(a.GetVerb(), verb) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return p.grants.Authorize(ctx, a)
}

// TestTrailOfReviews keeps nothing of conditions that came over the wire: they are about other
// requests than the one that has them evaluated.
func TestTrailOfReviews(t *testing.T) {
	t.Parallel()
	include := mustMake(t, granular.NewInclude, granular.Config{Authorizer: &grants{verbs: []string{"*"}}, Types: things.Types(t), Mappings: sourceOf()})
	ctx, trail := granular.WithTrail(t.Context())
	d := overTheWire(t, include.ConditionsAwareAuthorize(ctx, updateByBob), nil)
	if got, _, _ := include.EvaluateConditions(ctx, d, updateOf(t, "metadata: {name: a}", "metadata: {name: a, labels: {x: z}}")); got != authorizer.DecisionAllow {
		t.Errorf("got %v", got)
	}
	if got := trail.Annotations(); len(got) > 0 {
		t.Errorf("got %v, want nothing", got)
	}
}
