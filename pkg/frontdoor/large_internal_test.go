/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestReasonsTakeASlot checks that the reason of a decision has been found when the slot of its review is free again.
func TestReasonsTakeASlot(t *testing.T) {
	t.Parallel()
	for _, isLarge := range []bool{false, true} {
		isFound := false
		_, err := newLimits().of(t.Context(), untilOf(t.Context(), t.Context()), &reviewSpec{}, isLarge, func() {}).decision(t.Context(), func(context.Context) authorization.Decision {
			return authorization.NoOpinionBecause(func() string { isFound = true; return "" })
		})
		if err != nil || !isFound {
			t.Errorf("large %t: the reason was found: %t, %v", isLarge, isFound, err)
		}
	}
}
