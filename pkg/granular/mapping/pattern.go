/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
)

// maxSteps bounds the steps of a pattern. Kubernetes has fields at depth 15.
const maxSteps = 32

// stepKind says what a step of a pattern matches. The kinds are ordered from general to specific.
type stepKind uint8

const (
	stepAny  stepKind = iota // [*]: every key of a map, every element of a list
	stepKey                  // [type="Ready"]: the elements of a list with that key
	stepName                 // .field or ["key"]: a field, a key of a map or an element of a set
)

type step struct {
	kind stepKind
	key  string // for stepKey, the name of the key
	name string // for stepName, the name or key; for stepKey, the value of the key
}

// pattern matches fields: metadata.labels[*], metadata.labels["example.com/x"],
// spec.nodeName, status.conditions[type="Ready"].status.
type pattern []step

var (
	fieldStep = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$-]*`)

	errPathLong   = fmt.Errorf("must have at most %d bytes", policy.MaxFieldPathBytes)
	errPathDeep   = fmt.Errorf("must have at most %d steps", maxSteps)
	errPathSyntax = errors.New(`must be fields with dots between them, with [*] for every element, ["key"] for one key and [name="value"] for the element with that key`)
	errPathStart  = errors.New("must begin with a field")
)

func parsePattern(text string) (pattern, error) {
	if len(text) > policy.MaxFieldPathBytes {
		return nil, errPathLong
	}
	var result pattern
	for rest := text; rest != ""; {
		s, remaining, ok := parseStep(rest, len(result) == 0)
		if !ok {
			return nil, errPathSyntax
		}
		result, rest = append(result, s), remaining
	}
	switch {
	case len(result) == 0:
		return nil, errPathStart
	case len(result) > maxSteps:
		return nil, errPathDeep
	}
	return result, nil
}

func parseStep(text string, first bool) (s step, rest string, ok bool) {
	if rest, ok := strings.CutPrefix(text, "[*]"); ok && !first {
		return step{kind: stepAny}, rest, true
	}
	if inside, ok := strings.CutPrefix(text, "["); ok && !first {
		s := step{kind: stepName}
		if key := fieldStep.FindString(inside); key != "" && strings.HasPrefix(inside[len(key):], "=") {
			s, inside = step{kind: stepKey, key: key}, inside[len(key)+1:]
		}
		quoted, err := strconv.QuotedPrefix(inside)
		if err != nil || !strings.HasPrefix(quoted, `"`) {
			return step{}, "", false
		}
		if s.name, err = strconv.Unquote(quoted); err != nil {
			return step{}, "", false
		}
		rest, ok := strings.CutPrefix(inside[len(quoted):], "]")
		return s, rest, ok
	}
	if !first {
		if text, ok = strings.CutPrefix(text, "."); !ok {
			return step{}, "", false
		}
	}
	name := fieldStep.FindString(text)
	return step{kind: stepName, name: name}, text[len(name):], name != ""
}

// String returns the canonical text of a pattern: equal patterns have the same text, and different ones do not.
func (p pattern) String() string {
	var b strings.Builder
	for _, s := range p {
		switch s.kind {
		case stepAny:
			b.WriteString("[*]")
		case stepKey:
			fmt.Fprintf(&b, "[%s=%s]", s.key, strconv.Quote(s.name))
		case stepName:
			//guard:granular-keys-shortened
			changes.WriteElement(&b, fieldpath.FieldNameElement(s.name))
		}
	}
	return b.String()
}

// names returns the names in the steps of kind stepName.
func (p pattern) names() []string {
	var names []string
	for _, s := range p {
		if s.kind == stepName {
			names = append(names, s.name)
		}
	}
	return names
}

func (s step) matches(e fieldpath.PathElement) bool {
	switch s.kind {
	case stepAny:
		return true
	case stepKey:
		return e.Key != nil && slices.ContainsFunc(*e.Key, func(f value.Field) bool { return f.Name == s.key && isText(f.Value, s.name) })
	default:
		return e.FieldName != nil && *e.FieldName == s.name || e.Value != nil && isText(*e.Value, s.name)
	}
}

// isText reports whether the text of a key (textOf) is the given one.
func isText(key value.Value, text string) bool {
	written, err := textOf(key)
	return err == nil && written == text
}

// matchesPrefix reports whether the first n steps match the first n elements.
func (p pattern) matchesPrefix(path fieldpath.Path, n int) bool {
	for i := range n {
		if !p[i].matches(path[i]) {
			return false
		}
	}
	return true
}

// covers reports whether a pattern matches the field at path, or a field that contains it.
func (p pattern) covers(path fieldpath.Path) bool {
	return len(p) <= len(path) && p.matchesPrefix(path, len(p))
}

// isBelow reports whether a pattern can match fields inside the field at path. It returns false if it matches the
// field itself.
func (p pattern) isBelow(path fieldpath.Path) bool {
	return len(p) > len(path) && p.matchesPrefix(path, len(path))
}

// lastAny returns the index of the last [*], or -1.
func (p pattern) lastAny() int {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].kind == stepAny {
			return i
		}
	}
	return -1
}

// isOwned returns the reason why no rule may have the pattern: it matches a field that the server owns, or one inside
// such a field. It returns nothing for all other patterns.
func (p pattern) isOwned() string {
	for _, owned := range changes.ServerOwned() {
		if len(p) >= len(owned) && p.matchesPrefix(owned, len(owned)) {
			if owned.Equals(changes.ManagedFieldsPath) {
				return "the server owns metadata.managedFields, whose changes need the permissions of the fields that it lists"
			}
			return fmt.Sprintf("the server owns %s, so that its changes need no permission", changes.NameOf(owned))
		}
	}
	return ""
}
