/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard_test

import (
	"sync"
	"testing"

	"github.com/google/cel-go/common/types"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestSharedErrorsDoNotRace evaluates at once what ends in errors that cel-go shares. It
// takes the race detector to fail; that they are labelled is checked anyway.
func TestSharedErrorsDoNotRace(t *testing.T) {
	t.Parallel()
	if e, ok := types.NoSuchOverloadErr().(*types.Err); !ok || e.NodeID() == 0 {
		t.Error("the error of overloads has no label")
	}
	compiler := compilers.Conditions(t)
	for _, text := range []string{`object.a / object.b == 1`, `timestamp(object.c) == timestamp(0)`} {
		program := compilers.Compiled(t, compiler, text)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				values := cel.Values{cel.Object: map[string]any{"a": "x", "b": nil, "c": int64(1 << 62)}}
				if _, _, err := program.Eval(t.Context(), values); err == nil {
					t.Errorf("%s: got no error", text)
				}
			})
		}
		group.Wait()
	}
}
