/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

const (
	// SchemaExpiry is how long a schema is used, so that those of changed
	// CustomResourceDefinitions are seen. Reading one takes a document of a megabyte for the
	// core group.
	SchemaExpiry = 30 * time.Second
	// SchemaRetry is how long it is remembered that there was no schema, or why it could not
	// be read: a server that is down must not be asked by every request.
	SchemaRetry = 5 * time.Second
	// maxPublished bounds the kinds whose schemas are remembered. That of pods takes some
	// 300 KiB.
	maxPublished = 128
	// maxReads bounds the documents that are read at a time.
	maxReads = 4
)

// SchemaReader reads the schema of a kind from those who publish it, with all references
// replaced. The error wraps ErrNoSchema if they all said that the kind has none. It must end
// by itself, and be safe for concurrent use.
type SchemaReader func(kind schema.GroupVersionKind) (*spec.Schema, error)

// Published are the types of kinds whose schemas others publish. It reads a schema when it is
// needed, and anew when it is older than SchemaExpiry: an old one is used no longer, whatever
// becomes of that. It is safe for concurrent use.
type Published struct {
	read  SchemaReader
	reads chan struct{}

	mu    sync.Mutex
	known map[schema.GroupVersionKind]*published
}

var _ Types = &Published{}

// published is what became of reading a schema. What is below done is set when that is closed.
type published struct {
	done  chan struct{}
	until time.Time
	found typed.ParseableType
	err   error
}

// NewPublished makes Published.
func NewPublished(read SchemaReader) *Published {
	return &Published{read: read, reads: make(chan struct{}, maxReads), known: map[schema.GroupVersionKind]*published{}}
}

var (
	errManySchemas = fmt.Errorf("the schemas of %d kinds are being read", maxPublished)
	errReading     = errors.New("reading the schema failed")
)

// TypeOf implements Types. It waits until the schema is there, or until ctx ends.
func (p *Published) TypeOf(ctx context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error) {
	entry, err := p.entry(kind)
	if err != nil {
		return typed.ParseableType{}, err
	}
	select {
	case <-entry.done:
		return entry.found, entry.err
	case <-ctx.Done():
		return typed.ParseableType{}, ctx.Err()
	}
}

// entry returns what is known about a kind, or will be. Requests for the same kind share it.
func (p *Published) entry(kind schema.GroupVersionKind) (*published, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if entry, ok := p.known[kind]; ok && !entry.isOver(now) {
		return entry, nil
	}
	delete(p.known, kind)
	if len(p.known) >= maxPublished && !p.forgetOne() {
		return nil, errManySchemas
	}
	entry := &published{done: make(chan struct{})}
	p.known[kind] = entry
	go p.fill(kind, entry)
	return entry, nil
}

// isOver reports whether an entry must be read anew.
func (e *published) isOver(now time.Time) bool {
	select {
	case <-e.done:
		return !now.Before(e.until)
	default:
		return false
	}
}

// forgetOne makes room by the entry that ends first. It is false if all are being read.
func (p *Published) forgetOne() bool {
	var first schema.GroupVersionKind
	var until time.Time
	for kind, entry := range p.known {
		select {
		case <-entry.done:
			if until.IsZero() || entry.until.Before(until) {
				first, until = kind, entry.until
			}
		default:
		}
	}
	delete(p.known, first)
	return !until.IsZero()
}

// fill reads a schema, and lets those go on who wait for it.
func (p *Published) fill(kind schema.GroupVersionKind, entry *published) {
	defer close(entry.done)
	p.reads <- struct{}{}
	defer func() { <-p.reads }()
	entry.found, entry.err = p.readType(kind)
	age := SchemaExpiry
	if entry.err != nil {
		age = SchemaRetry
	}
	entry.until = time.Now().Add(age)
}

// readType reads the type of a kind. A schema without fields says nothing about an object.
func (p *Published) readType(kind schema.GroupVersionKind) (found typed.ParseableType, err error) {
	defer func() {
		if recover() != nil {
			found, err = typed.ParseableType{}, errReading
		}
	}()
	s, err := p.read(kind)
	switch {
	case err != nil:
		return typed.ParseableType{}, err
	case len(s.Properties) == 0:
		return typed.ParseableType{}, fmt.Errorf("%w with fields: %s", ErrNoSchema, kind)
	}
	const name = "object"
	converted, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{name: s}, false)
	if err != nil {
		return typed.ParseableType{}, fmt.Errorf("%w: %w", errReading, err)
	}
	parser := &typed.Parser{Schema: smdschema.Schema{Types: converted.Types}}
	return parser.Type(name), nil
}
