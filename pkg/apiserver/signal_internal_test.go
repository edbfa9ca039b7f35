/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestSignal asks that the first change is heard at once, that many are heard together, that none is lost, and that work that takes long is done less often.
func TestSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, began, heard := newSignal(), time.Now(), []time.Duration{}
		go s.run(ctx, time.Second, func() {
			if heard = append(heard, time.Since(began)); len(heard) == 3 {
				time.Sleep(time.Second)
			}
		})
		for _, at := range []time.Duration{3 * time.Second, 3100 * time.Millisecond, 3200 * time.Millisecond, 9 * time.Second, 9100 * time.Millisecond} {
			time.Sleep(at - time.Since(began))
			s.set()
		}
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		if want := []time.Duration{3 * time.Second, 4 * time.Second, 9 * time.Second, 30 * time.Second}; !slices.Equal(heard, want) {
			t.Errorf("heard at %v", heard)
		}
	})
}
