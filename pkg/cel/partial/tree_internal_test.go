/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial

import (
	"fmt"
	"testing"

	"github.com/google/cel-go/common/operators"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// refusedMacros are macros of the environment that policies cannot use, each for a reason
// that is beside the table of those that they can.
var refusedMacros = map[string]bool{"sortBy:2": true}

// TestMacrosAreKnown fails when a new version of the libraries brings a macro of which it
// has not been decided what it binds.
func TestMacrosAreKnown(t *testing.T) {
	t.Parallel()
	environment, err := cel.NewPolicyEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range environment.Engine().Env.Macros() {
		key := fmt.Sprintf("%s:%d", m.Function(), m.ArgCount())
		found[key] = true
		if _, ok := macros[key]; !ok && !refusedMacros[key] && m.Function() != operators.Has {
			t.Errorf("the macro %s is neither supported nor refused", key)
		}
	}
	for key := range macros {
		if !found[key] {
			t.Errorf("the macro %s is supported, but does not exist", key)
		}
	}
}
