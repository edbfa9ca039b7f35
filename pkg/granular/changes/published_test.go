/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// publisher is somebody who publishes schemas, and counts how often it is asked.
type publisher struct {
	mu    sync.Mutex
	found *spec.Schema
	err   error
	asked int
	// block, if it is not nil, is waited for before every answer; running are those who wait.
	block         chan struct{}
	running, most int
}

func (p *publisher) read(schema.GroupVersionKind) (*spec.Schema, error) {
	p.mu.Lock()
	p.asked++
	p.running++
	p.most = max(p.most, p.running)
	block := p.block
	p.mu.Unlock()
	if block != nil {
		<-block
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	if p.found == nil && p.err == nil {
		panic("boom")
	}
	return p.found, p.err
}

func (p *publisher) set(found *spec.Schema, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found, p.err = found, err
}

func (p *publisher) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func publishedThing() *spec.Schema {
	s := things.Thing.OpenAPI()
	return &s
}

// errNone is what a reader says of a kind without schema.
var errNone = fmt.Errorf("%w: Thing", changes.ErrNoSchema)

// TestPublished is what happens to a schema that comes, changes, cannot be read and goes.
func TestPublished(t *testing.T) {
	t.Parallel()
	const (
		typed   = `status.conditions[type="A"].type`
		untyped = `status.conditions`
		closed  = "the schema of the kind could not be read, so the changed fields are unknown: example.com/v1, Kind=Thing"
	)
	noConditions := publishedThing()
	delete(noConditions.Properties, "status")
	failure := errors.New("secret.example.com:443 is down")
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{}
		differ := changes.Differ{Types: changes.NewPublished(p.read)}
		for _, step := range []struct {
			name  string
			found *spec.Schema
			err   error
			after time.Duration
			want  string // the field that changes, or the error
			asked int    // in all
		}{
			{"it has none yet", nil, errNone, 0, untyped, 1},
			{"and will not have one at once", publishedThing(), nil, changes.SchemaRetry - 1, untyped, 1},
			{"it comes", publishedThing(), nil, 1, typed, 2},
			{"it is remembered", nil, failure, changes.SchemaExpiry - 1, typed, 2},
			{"it is not used for longer", nil, failure, 1, closed, 3},
			{"the publisher is not asked all the time", publishedThing(), nil, changes.SchemaRetry - 1, closed, 3},
			{"it is back", publishedThing(), nil, 1, typed, 4},
			{"it changes", noConditions, nil, changes.SchemaExpiry, "the new object does not fit the schema of its kind", 5},
			{"it disappears", nil, errNone, changes.SchemaExpiry, untyped, 6},
			{"it has no fields", &spec.Schema{}, nil, changes.SchemaRetry, untyped, 7},
			{"it cannot be used", spec.ArrayProperty(nil).SetProperty("status", *spec.ArrayProperty(nil)), nil, changes.SchemaRetry, closed, 8},
			{"the reader panics", nil, nil, changes.SchemaRetry, closed, 9},
		} {
			p.set(step.found, step.err)
			time.Sleep(step.after)
			for range 2 {
				changed, err := differ.Changes(t.Context(), things.Kind, things.Object(things.Parse(t, "metadata: {name: a}")), things.Object(things.Parse(t, "metadata: {name: a}\nstatus: {conditions: [{type: A}]}")))
				got := fmt.Sprint(err)
				if err == nil {
					got = strings.Join(namesOf(changed), " ")
				}
				if !strings.HasPrefix(got, step.want) || strings.Contains(got, "secret") {
					t.Errorf("%s: got %q, want %q", step.name, got, step.want)
				}
			}
			if got := p.times(); got != step.asked {
				t.Errorf("%s: asked %d times, want %d", step.name, got, step.asked)
			}
		}
	})
}

// TestPublishedIsReadOnce also if many ask, and not by those who cannot wait.
func TestPublishedIsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{found: publishedThing(), block: make(chan struct{})}
		types := changes.NewPublished(p.read)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := types.TypeOf(ctx, things.Kind); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who cannot wait: got %v", err)
		}
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if _, err := types.TypeOf(t.Context(), things.Kind); err != nil {
					t.Errorf("who waits: got %v", err)
				}
			})
		}
		synctest.Wait()
		close(p.block)
		group.Wait()
		if got := p.times(); got != 1 {
			t.Errorf("read %d times, want once", got)
		}
	})
}

// TestPublishedKindsAreToldApart reads the schemas of kinds at the same time whose names look alike if they are written one after the other. A review may
// have any characters in the name of a kind.
func TestPublishedKindsAreToldApart(t *testing.T) {
	t.Parallel()
	kinds := []schema.GroupVersionKind{
		{Group: "a", Version: "b", Kind: "c"}, {Group: "a b", Version: "", Kind: "c"}, {Group: "a", Version: "b c", Kind: ""}, {Group: "", Version: "a b", Kind: "c"},
		{Group: `a" "b`, Version: "", Kind: "c"}, {Group: "a", Version: `b" "c`, Kind: ""}, {},
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		read := map[schema.GroupVersionKind]int{}
		types := changes.NewPublished(func(kind schema.GroupVersionKind) (*spec.Schema, error) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			read[kind]++
			return nil, fmt.Errorf("%w: %q", changes.ErrNoSchema, fmt.Sprintf("%q %q %q", kind.Group, kind.Version, kind.Kind))
		})
		var group sync.WaitGroup
		for _, kind := range slices.Repeat(kinds, 3) {
			group.Go(func() {
				_, err := types.TypeOf(t.Context(), kind)
				if want := fmt.Sprintf("%q", fmt.Sprintf("%q %q %q", kind.Group, kind.Version, kind.Kind)); err == nil || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("%q: got the answer for another kind: %v", kind, err)
				}
			})
		}
		group.Wait()
		for _, kind := range kinds {
			if read[kind] != 1 {
				t.Errorf("%q was read %d times, want once", kind, read[kind])
			}
		}
	})
}

// TestPublishedAfterImpatience has callers whose requests end before the schema has been read. The read goes on, and the next caller has its result.
func TestPublishedAfterImpatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{found: publishedThing(), block: make(chan struct{})}
		types := changes.NewPublished(p.read)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 3 {
			if _, err := types.TypeOf(ended, things.Kind); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want that the request has ended", err)
			}
		}
		close(p.block)
		synctest.Wait()
		found, err := types.TypeOf(ended, things.Kind) // remembered: nothing has to be waited for
		if err != nil || !found.IsValid() || p.times() != 1 {
			t.Errorf("got %v after %d reads, want the schema of the first", err, p.times())
		}
	})
}

// TestPublishedIsBounded in the schemas that are read at a time, and that are remembered.
func TestPublishedIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{found: publishedThing(), block: make(chan struct{})}
		types := changes.NewPublished(p.read)
		kind := func(i int) schema.GroupVersionKind {
			return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: fmt.Sprintf("Kind%d", i)}
		}
		var group sync.WaitGroup
		for i := range 128 {
			group.Go(func() { _, _ = types.TypeOf(t.Context(), kind(i)) })
		}
		synctest.Wait()
		if _, err := types.TypeOf(t.Context(), kind(128)); err == nil || errors.Is(err, changes.ErrNoSchema) {
			t.Errorf("one more than can be read: got %v, want an error", err)
		}
		close(p.block)
		group.Wait()
		if p.most != 4 {
			t.Errorf("%d were read at a time, want 4", p.most)
		}
		time.Sleep(time.Second)
		for i := 128; i < 200; i++ {
			if _, err := types.TypeOf(t.Context(), kind(i)); err != nil {
				t.Errorf("kind %d: %v", i, err)
			}
		}
		// Those are in the place of others that are older.
		if _, err := types.TypeOf(t.Context(), kind(199)); err != nil || p.times() != 200 {
			t.Errorf("read %d schemas, %v, want 200", p.times(), err)
		}
		for i := range 128 {
			_, _ = types.TypeOf(t.Context(), kind(i))
		}
		if got := p.times(); got < 200+72 {
			t.Errorf("read %d schemas, as if all were remembered", got)
		}
	})
}

// TestDivide says who is asked for which kind.
func TestDivide(t *testing.T) {
	t.Parallel()
	other := schema.GroupVersionKind{Group: "other.example.com", Version: "v1", Kind: "Other"}
	p := &publisher{found: publishedThing()}
	types := changes.Divide(things.Types(t), []schema.GroupVersion{things.Kind.GroupVersion()}, changes.NewPublished(p.read))
	if _, err := types.TypeOf(t.Context(), things.Kind); err != nil {
		t.Error(err)
	}
	if _, err := types.TypeOf(t.Context(), things.Kind.GroupVersion().WithKind("Unknown")); !errors.Is(err, changes.ErrNoSchema) {
		t.Errorf("an unknown kind of an own version: got %v", err)
	}
	if got := p.times(); got != 0 {
		t.Errorf("the publisher was asked %d times about own kinds", got)
	}
	if _, err := types.TypeOf(t.Context(), other); err != nil || p.times() != 1 {
		t.Errorf("another kind: got %v, asked %d times", err, p.times())
	}
	if _, err := types.TypeOf(t.Context(), schema.GroupVersionKind{Group: things.Kind.Group, Version: "v9", Kind: "Thing"}); err != nil || p.times() != 2 {
		t.Errorf("another version of an own group: got %v, asked %d times", err, p.times())
	}
}
