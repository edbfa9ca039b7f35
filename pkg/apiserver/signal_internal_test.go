/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestSignal asks that the first change is heard at once, that many are heard together, and that none is lost.
func TestSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, began, heard := newSignal(), time.Now(), []time.Duration{}
		go s.run(ctx, time.Second, func() { heard = append(heard, time.Since(began)) })
		for _, at := range []time.Duration{3 * time.Second, 3100 * time.Millisecond, 3200 * time.Millisecond, 9 * time.Second} {
			time.Sleep(at - time.Since(began))
			s.set()
		}
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		if len(heard) != 3 || heard[0] != 3*time.Second || heard[1] != 4*time.Second || heard[2] != 9*time.Second {
			t.Errorf("heard at %v", heard)
		}
	})
}
