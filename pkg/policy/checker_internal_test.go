/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"testing"
	"testing/synctest"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// TestChecksTakeTurns checks a policy while as many as may be are compiled.
func TestChecksTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		checker := NewChecker(newCompiler(t), enforcementstatus.Server{}, nil)
		for range maxCompilations {
			checker.compilations <- struct{}{}
		}
		isDone := false
		go func() {
			_, _ = checker.Check(engine.Key{Name: "p"}, &policy.AuthorizationPolicySpec{Condition: "true"})
			isDone = true
		}()
		synctest.Wait()
		if isDone {
			t.Errorf("more than %d policies were compiled at the same time", maxCompilations)
		}
		<-checker.compilations
		synctest.Wait()
		if !isDone || len(checker.compilations) != maxCompilations-1 {
			t.Errorf("got %v, and %d places taken, want that it is done, and %d", isDone, len(checker.compilations), maxCompilations-1)
		}
	})
}
