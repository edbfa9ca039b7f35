/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"sync/atomic"

	"github.com/proviso-authz/proviso/apis/policy"
)

// Source holds the mappings that are in force. Its zero value has none yet, and schemas
// without markers: until mappings are published, nothing is included, and writes to
// everything may be excluded. It is safe for concurrent use.
type Source struct {
	markers *Markers
	table   atomic.Pointer[Table]
	stale   atomic.Pointer[string]
}

// NewSource makes a Source of the markers in schemas. They are in force when mappings are
// published.
func NewSource(markers *Markers) *Source { return &Source{markers: markers} }

// Publish puts mappings in force, beside what the schemas say.
func (s *Source) Publish(mappings ...*policy.FieldPermissionMapping) {
	s.Store(s.markers.NewTable(mappings...))
}

// Store puts a table in force.
func (s *Source) Store(table *Table) { s.table.Store(table) }

// Table returns the table that is in force, nil if none has been loaded.
func (s *Source) Table() *Table { return s.table.Load() }

// SetStale says why the mappings may be out of date, or that they are not if it is empty.
// What is excluded stays so; nothing is included.
func (s *Source) SetStale(reason string) { s.stale.Store(&reason) }

// Stale returns why the mappings may be out of date, empty if they are not.
func (s *Source) Stale() string {
	if reason := s.stale.Load(); reason != nil {
		return *reason
	}
	return ""
}
