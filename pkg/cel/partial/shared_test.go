/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestValuesThatHoldThemselvesAreRefused evaluates conditions at authorization. The known data has 8^9 parts, because
// lists contain one list several times, and no function may walk through all of them.
func TestValuesThatHoldThemselvesAreRefused(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	value := "[request.name]" + strings.Repeat(".map(a, [a, a, a, a, a, a, a, a])", 9)
	for _, text := range []string{"dyn(" + value + ").sum() == 1", value + ".flatten(100).size() == 1", value + `.indexOf(dyn("")) == 1`} {
		expression := compilers.Compiled(t, c, text)
		plan, err := expression.Plan(cel.Request)
		if err != nil {
			t.Fatal(err)
		}
		outcome := plan.EvalWithin(t.Context(), request("alice", "create"), cel.NamespacedAuthorizationBudget)
		if err := outcome.Err(); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("…%s: got %v for %d units, want a refusal", text[len(text)-25:], err, outcome.Cost())
		}
	}
}
