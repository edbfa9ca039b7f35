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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// TestGranularTrail evaluates both sides as a request does, and reads what its audit event gets.
func TestGranularTrail(t *testing.T) {
	t.Parallel()
	const plain = "metadata: {name: a}\n"
	many := strings.Builder{}
	for i := range 200 {
		fmt.Fprintf(&many, "example-%03d.com/secret: hidden, ", i)
	}
	manyLabels := "metadata: {name: a, labels: {" + many.String() + "}}"
	for _, tc := range []struct {
		name          string
		verbs         string
		err           error
		before, after string
		want          []string
		wantLong      map[string]string // what the last entries of long lists begin with
	}{
		{name: "nothing changes", verbs: "granular", before: plain, after: plain},
		{name: "a label", verbs: "granular granular:labels", before: plain, after: "metadata: {name: a, labels: {x: hidden}}", want: []string{
			"granular.proviso.dev/include", "allowed",
			"granular.proviso.dev/include-fields", `["metadata.labels.x"]`,
			"granular.proviso.dev/include-verbs", `["granular:metadata","granular:labels"]`,
		}},
		{name: "a label without permission", verbs: "granular", before: plain, after: "metadata: {name: a, labels: {other.com/x: hidden}}", want: []string{
			"granular.proviso.dev/include", "refused",
			"granular.proviso.dev/include-fields", `["metadata.labels[\"other.com/x\"]"]`,
			"granular.proviso.dev/include-verbs", `["granular:metadata","granular:labels","granular:label(other.com)"]`,
		}},
		{name: "an excluded field", verbs: "granular granular:metadata", before: plain, after: "metadata: {name: a, annotations: {boom: hidden, other: hidden}}", want: []string{
			"granular.proviso.dev/exclude", "refused",
			"granular.proviso.dev/exclude-fields", `["metadata.annotations.boom"]`,
			"granular.proviso.dev/exclude-verbs", `["granular:selfDestruction"]`,
		}},
		{name: "both", verbs: "granular granular:metadata granular:selfDestruction", before: plain, after: "metadata: {name: a, annotations: {boom: hidden, other: hidden}}", want: []string{
			"granular.proviso.dev/exclude", "allowed",
			"granular.proviso.dev/exclude-fields", `["metadata.annotations.boom"]`,
			"granular.proviso.dev/exclude-verbs", `["granular:selfDestruction"]`,
			"granular.proviso.dev/include", "allowed",
			"granular.proviso.dev/include-fields", `["metadata.annotations.boom","metadata.annotations.other"]`,
			"granular.proviso.dev/include-verbs", `["granular:metadata"]`,
		}},
		{name: "an object that does not fit", verbs: "granular", before: plain, after: "secret: hidden", want: []string{"granular.proviso.dev/exclude", "failed"}},
		{name: "an authorizer that fails", verbs: "granular", err: errors.New("hidden"), before: plain, after: "metadata: {name: a, annotations: {boom: hidden}}", want: []string{
			"granular.proviso.dev/exclude", "failed",
			"granular.proviso.dev/exclude-fields", `["metadata.annotations.boom"]`,
			"granular.proviso.dev/exclude-verbs", `["granular:selfDestruction"]`,
		}},
		{name: "many labels", verbs: "granular granular:labels", before: plain, after: manyLabels, wantLong: map[string]string{
			"granular.proviso.dev/include-fields": "and 168 more",
		}},
		{name: "many labels, of which the last lacks permission", verbs: "granular granular:label(", before: plain, after: manyLabels, wantLong: map[string]string{
			// Three checks for the first label and one for each other.
			"granular.proviso.dev/include-verbs":  `granular:label(example-061.com), and `,
			"granular.proviso.dev/include-fields": `metadata.labels["example-062.com/secret"], and 30 more`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := &prefixes{grants{verbs: strings.Fields(tc.verbs)}, tc.err}
			config := granular.Config{Authorizer: g, Types: things.Types(t), Mappings: sourceOf(things.Mapping("m", things.Spec(things.Excluded(`metadata.annotations["boom"]`, "selfDestruction", ""))))}
			chain, err := authorization.NewChain(
				authorization.Member{Name: "exclude", Decider: authorization.DeciderOf(mustMake(t, granular.NewExclude, config))},
				authorization.Member{Name: "include", Decider: authorization.DeciderOf(mustMake(t, granular.NewInclude, config))})
			if err != nil {
				t.Fatal(err)
			}
			ctx, trail := granular.WithTrail(t.Context())
			data := updateOf(t, tc.before, tc.after)
			// An update that is attempted again leaves what was checked last.
			for _, earlier := range []string{"metadata: {name: b, annotations: {boom: c}}", "metadata: {name: b}"} {
				chain.Decide(ctx, updateByBob).Evaluate(ctx, authorization.EvaluatorFor(updateOf(t, plain, earlier), nil))
			}
			chain.Decide(ctx, updateByBob).Evaluate(ctx, authorization.EvaluatorFor(data, nil))
			got := trail.Annotations()
			if text := strings.Join(got, " "); strings.Contains(text, "hidden") {
				t.Errorf("got a value in %s", text)
			}
			if tc.wantLong == nil {
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("annotations (-want +got):\n%s", diff)
				}
				return
			}
			for i := 0; i < len(got); i += 2 {
				if len(got[i+1]) > 2048 {
					t.Errorf("%s has %d bytes", got[i], len(got[i+1]))
				}
				want, ok := tc.wantLong[got[i]]
				if !ok {
					continue
				}
				var entries []string
				if err := json.Unmarshal([]byte(got[i+1]), &entries); err != nil || len(entries) < 3 {
					t.Fatalf("%s: got %q, %v", got[i], got[i+1], err)
				}
				if last := strings.Join(entries[len(entries)-2:], ", "); !strings.Contains(last, want) {
					t.Errorf("%s: got %s at the end, want %s", got[i], last, want)
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
