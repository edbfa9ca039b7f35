/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"testing"
	"time"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestCountingAllocatesNothing counts what a decision by conditions counts.
func TestCountingAllocatesNothing(t *testing.T) {
	p, e := &Policy{tally: &tally{effect: authorization.EffectAllow}}, &evaluation{stage: authorization.StageRequest}
	if got := testing.AllocsPerRun(100, func() {
		e.began = time.Now()
		p.count(resultFalse)
		p.countUnconditional()
		e.observe()
	}); got != 0 {
		t.Errorf("got %v allocations", got)
	}
}
