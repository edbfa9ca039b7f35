/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// readKey counts how often its value is read.
type readKey struct {
	types.String
	reads *int
}

func (k readKey) Value() any {
	*k.reads++
	return k.String.Value()
}

// TestKeysAreReadOnce sorts keys. Each must be printed once, not once for each comparison.
func TestKeysAreReadOnce(t *testing.T) {
	t.Parallel()
	const n = 100
	reads, all := 0, map[ref.Val]ref.Val{}
	for i := range n {
		all[readKey{types.String(fmt.Sprintf("%03d", n-i)), &reads}] = types.True
	}
	keys := sortedKeys(types.DefaultTypeAdapter.NativeToValue(all).(traits.Mapper))
	if reads != n || len(keys) != n {
		t.Errorf("got %d reads of %d keys, want one of each of %d", reads, len(keys), n)
	}
	for i, key := range keys {
		if want := fmt.Sprintf("%03d", i+1); key.Value() != want {
			t.Errorf("got %v at place %d, want %s", key.Value(), i, want)
		}
	}
}
