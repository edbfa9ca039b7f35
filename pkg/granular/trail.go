/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

const (
	// auditPrefix is what the keys of the annotations begin with; the side follows.
	auditPrefix = "granular.proviso.dev/"
	auditFields = "-fields"
	auditVerbs  = "-verbs"
	// maxAnnotationBytes bounds an annotation: audit backends cut events that are too long.
	maxAnnotationBytes = 2048
)

// Trail keeps what was checked about the fields of one request, for its audit event. It is
// safe for concurrent use.
type Trail struct {
	mu      sync.Mutex
	results map[string]Result // by side
}

type trailKey struct{}

// WithTrail returns a context whose conditions are kept in a trail. Conditions of other
// requests, which reviews evaluate, are not.
func WithTrail(ctx context.Context) (context.Context, *Trail) {
	trail := &Trail{results: map[string]Result{}}
	return context.WithValue(ctx, trailKey{}, trail), trail
}

func trailFrom(ctx context.Context) *Trail {
	trail, _ := ctx.Value(trailKey{}).(*Trail)
	return trail
}

// add keeps the last result of a side: an update may be attempted several times. What an
// earlier attempt included does not matter where the last one is refused before.
func (t *Trail) add(side string, result Result) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results[side] = result
	if side == sideExclude && !result.Allowed {
		delete(t.results, sideInclude)
	}
}

// Annotations returns audit annotations, key by value: for each side that had something to
// check, granular.proviso.dev/SIDE, which is allowed, refused, or failed if nobody could
// tell, and as lists in JSON the fields that needed a permission and the verbs that were asked
// for. They have names and keys, and nothing of an object besides, and at most 2048 bytes each.
func (t *Trail) Annotations() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var annotations []string
	for _, side := range []string{sideExclude, sideInclude} {
		result, ok := t.results[side]
		if !ok || result.Allowed && len(result.Named) == 0 {
			continue
		}
		verdict := "allowed"
		switch {
		case result.Err != nil:
			verdict = "failed"
		case !result.Allowed:
			verdict = "refused"
		}
		annotations = append(annotations, auditPrefix+side, verdict)
		if len(result.Named) > 0 {
			annotations = append(annotations, auditPrefix+side+auditFields, listOf(result.Named, result.Unnamed))
		}
		if len(result.Verbs) > 0 {
			annotations = append(annotations, auditPrefix+side+auditVerbs, listOf(result.Verbs, 0))
		}
	}
	return annotations
}

// listOf makes a list in JSON of as many entries as fit, of which the last says how many do
// not. What is asked for last is why a request is refused: it is always among them.
func listOf(entries []string, more int) string {
	last := entries[len(entries)-1]
	var fits []string
	size := len(quotedEntry(last)) + len(quotedEntry(moreOf(len(entries)+more)))
	for _, entry := range entries[:len(entries)-1] {
		if size += len(quotedEntry(entry)); size > maxAnnotationBytes {
			break
		}
		fits = append(fits, entry)
	}
	more += len(entries) - 1 - len(fits)
	fits = append(fits, last)
	if more > 0 {
		fits = append(fits, moreOf(more))
	}
	text, _ := json.Marshal(fits) // strings always become JSON
	return string(text)
}

func moreOf(n int) string { return fmt.Sprintf("and %d more", n) }

// quotedEntry is an entry with what is around it.
func quotedEntry(entry string) string {
	text, _ := json.Marshal([]string{entry})
	return string(text)
}
