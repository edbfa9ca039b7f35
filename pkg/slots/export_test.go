/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package slots

// Shares returns how many shares are kept.
func (s *Slots) Shares() int { return len(s.queue.shares) }
