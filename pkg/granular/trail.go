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
	// auditPrefix is the beginning of the keys of annotations; include or exclude follows.
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
	results map[string]Result // by mode
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

// add keeps the last result of a mode, because an update may be attempted several times. If the last
// attempt is refused by an exclusion, the fields that earlier attempts included do not matter.
func (t *Trail) add(mode string, result Result) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results[mode] = result
	if mode == modeExclude && !result.Allowed {
		delete(t.results, modeInclude)
	}
}

// Annotations returns audit annotations as pairs of key and value. For each of include and exclude that
// had fields to check there is granular.proviso.dev/include or /exclude, which is allowed, refused, or
// failed if an error made the check impossible, and as lists in JSON the fields that needed a permission
// and the verbs that were asked for. Annotations contain names and keys but no values of the object, and
// have at most 2048 bytes each.
func (t *Trail) Annotations() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var annotations []string
	for _, mode := range []string{modeExclude, modeInclude} {
		result, ok := t.results[mode]
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
		annotations = append(annotations, auditPrefix+mode, verdict)
		if len(result.Named) > 0 {
			annotations = append(annotations, auditPrefix+mode+auditFields, listOf(result.Named, result.Unnamed))
		}
		if len(result.Verbs) > 0 {
			annotations = append(annotations, auditPrefix+mode+auditVerbs, listOf(result.Verbs, 0))
		}
	}
	return annotations
}

// listOf returns a JSON list of as many entries as fit. If some do not, an additional entry has their
// number. The last entry is the reason of a refusal, and is always in the list.
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
