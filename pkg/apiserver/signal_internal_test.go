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

// TestSignal asks that the first change is heard at once, that many are heard together, that none is lost, that work that takes long is done less often, and that no work keeps
// the next one away for more than a second.
func TestSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, began, heard := newSignal(), time.Now(), []time.Duration{}
		go s.run(ctx, 200*time.Millisecond, func() {
			heard = append(heard, time.Since(began))
			time.Sleep(map[int]time.Duration{3: 20 * time.Millisecond, 4: time.Hour}[len(heard)])
		})
		for _, at := range []time.Duration{3 * time.Second, 3100 * time.Millisecond, 3150 * time.Millisecond, 9 * time.Second, 9200 * time.Millisecond, 12 * time.Second} {
			time.Sleep(at - time.Since(began))
			s.set()
		}
		time.Sleep(2 * time.Hour)
		cancel()
		synctest.Wait()
		if want := []time.Duration{3 * time.Second, 3200 * time.Millisecond, 9 * time.Second, 9420 * time.Millisecond, time.Hour + 10420*time.Millisecond}; !slices.Equal(heard, want) {
			t.Errorf("heard at %v", heard)
		}
	})
}
