/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package registration

import "time"

// SetNow sets the clock of a watcher.
func (w *Watcher) SetNow(now func() time.Time) { w.now = now }

// SetNow sets the clock of Services.
func (s *Services) SetNow(now func() time.Time) { s.now = now }
