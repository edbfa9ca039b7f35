/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

const (
	// SchemaExpiry is how long a schema is used, so that changes of CustomResourceDefinitions are
	// seen. To read a schema of the core group, a document of a megabyte is read.
	SchemaExpiry = 30 * time.Second
	// SchemaRetry is how long Published remembers that a kind has no schema, or that reading the schema failed,
	// so that not every request calls a server that is down.
	SchemaRetry = 5 * time.Second
	// maxPublished bounds the kinds whose schemas are remembered, and the kinds whose schemas are being
	// read. The schema of pods takes some 300 KiB.
	maxPublished = 128
	// maxReads bounds the documents that are read at the same time.
	maxReads = 4
)

// SchemaReader reads the published schema of a kind, with all references replaced. The error wraps
// ErrNoSchema if every server that could have one answered that the kind has none. It must end by itself,
// and be safe for concurrent use.
type SchemaReader func(kind schema.GroupVersionKind) (*spec.Schema, error)

// Published returns the types of kinds whose schemas other servers publish. It reads a schema when it is
// needed, and again when it is older than SchemaExpiry: an old schema is not used any longer, even if it
// cannot be read again. It is safe for concurrent use.
type Published struct {
	read SchemaReader
	// pending bounds the kinds whose schemas are being read or wait for it, and reads bounds the reads at the same
	// time.
	pending, reads chan struct{}
	flights        singleflight.Group
	types          *utilcache.LRUExpireCache
}

var _ Types = &Published{}

// publishedType is the type of a kind, or why there is none.
type publishedType struct {
	found typed.ParseableType
	err   error
}

// NewPublished makes Published.
func NewPublished(read SchemaReader) *Published {
	return &Published{
		read: read, pending: make(chan struct{}, maxPublished), reads: make(chan struct{}, maxReads), types: utilcache.NewLRUExpireCache(maxPublished),
	}
}

var (
	errManySchemas = fmt.Errorf("the schemas of %d kinds are being read", maxPublished)
	errReading     = errors.New("reading the schema failed")
)

// TypeOf implements Types. It returns the type or the error that it remembers for the kind. If it remembers none, it
// waits until the schema has been read, or until ctx ends. Requests for the same kind share one read. It
// returns an error at once if the schemas of maxPublished kinds are being read.
func (p *Published) TypeOf(ctx context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error) {
	if cached, ok := p.cached(kind); ok {
		return cached.found, cached.err
	}
	// The key is quoted, because a kind in a review may have any characters.
	flight := p.flights.DoChan(fmt.Sprintf("%q %q %q", kind.Group, kind.Version, kind.Kind), func() (any, error) { return p.fetch(kind), nil })
	select {
	case result := <-flight:
		fetched, ok := result.Val.(publishedType)
		if !ok {
			return typed.ParseableType{}, errReading
		}
		return fetched.found, fetched.err
	case <-ctx.Done():
		return typed.ParseableType{}, ctx.Err()
	}
}

func (p *Published) cached(kind schema.GroupVersionKind) (publishedType, bool) {
	value, _ := p.types.Get(kind)
	cached, ok := value.(publishedType)
	return cached, ok
}

// fetch reads a schema and remembers the type or the error, unless another flight has just read the schema.
func (p *Published) fetch(kind schema.GroupVersionKind) publishedType {
	if cached, ok := p.cached(kind); ok {
		return cached
	}
	select {
	case p.pending <- struct{}{}:
		defer func() { <-p.pending }()
	default:
		return publishedType{err: errManySchemas}
	}
	p.reads <- struct{}{}
	defer func() { <-p.reads }()
	var result publishedType
	result.found, result.err = p.readType(kind)
	age := SchemaExpiry
	if result.err != nil {
		age = SchemaRetry
	}
	p.types.Add(kind, result, age-1) // the cache still returns an entry at the moment at which it expires
	return result
}

// readType reads the type of a kind. A schema without fields says nothing about an object: the error wraps ErrNoSchema,
// as for a kind without schema. A panic of the reader is an error.
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
