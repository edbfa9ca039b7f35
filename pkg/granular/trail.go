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
	// auditPrefix is the beginning of the keys of annotations. It is followed by include or exclude.
	auditPrefix = "granular.proviso.dev/"
	auditFields = "-fields"
	auditVerbs  = "-verbs"
	// maxAnnotationBytes bounds an annotation: audit backends cut events that are too long.
	maxAnnotationBytes = 2048
)

// Trail keeps the results of the checks on the fields of one request, for its audit event. It is
// safe for concurrent use.
type Trail struct {
	mu      sync.Mutex
	results map[string]Result // by mode
}

// recorders get the results of the conditions that are evaluated in a context. Both may be nil.
type recorders struct {
	trail *Trail
	last  *lastCheck
}

type recordersKey struct{}

func recordersOf(ctx context.Context) recorders {
	r, _ := ctx.Value(recordersKey{}).(recorders)
	return r
}

func (r recorders) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, recordersKey{}, r)
}

// WithTrail returns a context, and the trail that records the conditions that are evaluated with this context at
// admission. Conditions that a review has evaluated (EvaluateConditions) are about another request, and are not recorded.
func WithTrail(ctx context.Context) (context.Context, *Trail) {
	r := recordersOf(ctx)
	r.trail = &Trail{results: map[string]Result{}}
	return r.in(ctx), r.trail
}

// add replaces the result of a mode, because an update may be attempted several times, and the last attempt counts. If
// modeExclude refuses an attempt, add also removes the result of modeInclude, which is about an earlier attempt.
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

// Annotations returns audit annotations as pairs of key and value, for each side, include and exclude, that refused
// the write or that had a field that needed a permission. The annotation granular.proviso.dev/include or /exclude is
// allowed, refused, or failed if an error prevented the check. With the suffix -fields it lists the fields that needed a
// permission, and with -verbs the verbs about which the authorizer was asked, both in JSON. Annotations contain
// names and keys but no values of the object. Each list has at most about 2048 bytes.
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

// listOf returns a JSON list of as many entries as fit into an annotation. The last of entries is always in the list,
// because it is the reason if the write was refused. If entries are left out, or more is positive, an additional entry
// says how many are missing; more is the number of fields that are not in entries.
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

// quotedEntry returns an entry as a JSON list of its own; its length is the room that the entry needs in a list.
func quotedEntry(entry string) string {
	text, _ := json.Marshal([]string{entry})
	return string(text)
}
