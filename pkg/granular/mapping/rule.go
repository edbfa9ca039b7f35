/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Rule is the permission that a field, and every field in it, needs. It is immutable.
type Rule struct {
	pattern    pattern
	permission string
	parameter  *parameter // nil if the permission has none
	// excluded means that a change of the field needs the permission even if the user has permission on the
	// whole object. If newValues is not nil, this holds only for changes for which newValues is true or fails.
	excluded  bool
	newValues *expression
	// source is the mapping, schema or built-in mapping that has the rule.
	source string
	// broken is the reason why the rule covers no field; it is empty for a valid rule.
	broken string
	// field is the index in spec.fields of a mapping.
	field int
}

// grants returns a text that identifies the permission of a rule and its parameter. Rules with the same pattern
// contradict each other if their texts differ.
func (r *Rule) grants() string {
	text := r.permission + " with parameter " + r.parameter.String()
	if r.parameter != nil {
		// If a path has two keys, the parameter may be either of them.
		text += fmt.Sprintf(" of step %d", r.parameter.step)
	}
	return text
}

// String returns a text that is the same only for rules that differ in nothing but the source.
func (r *Rule) String() string {
	text := fmt.Sprintf("%q %s %q", r.pattern, r.grants(), r.broken)
	if r.excluded {
		text += " excluded"
	}
	if r.newValues != nil {
		text += fmt.Sprintf(" %q", r.newValues.text)
	}
	return text
}

// Matches reports whether the rule is about the field at path, or about a field that contains it. A rule without
// a pattern, which is about the whole object, matches every field.
func (r *Rule) Matches(path fieldpath.Path) bool { return r.pattern.covers(path) }

// Includes reports whether the permission of the rule covers changes of the field at path. A rule about the whole
// object covers no field, because it only excludes.
func (r *Rule) Includes(path fieldpath.Path) bool { return len(r.pattern) > 0 && r.Matches(path) }

// IsWithin reports whether the rule is about fields inside the field at path, and not about this field itself.
func (r *Rule) IsWithin(path fieldpath.Path) bool { return r.pattern.isBelow(path) }

// FieldAt returns the path of the field that the rule is about. Matches or IsWithin must be true for path, so the returned
// path is a beginning of path, path itself, or the path of a field inside. It returns false if the rule may be about several
// fields inside path.
func (r *Rule) FieldAt(path fieldpath.Path) (field fieldpath.Path, ok bool) {
	if len(path) >= len(r.pattern) {
		return path[:len(r.pattern)], true
	}
	field = path.Copy()
	for _, s := range r.pattern[len(path):] {
		if s.kind != stepName {
			return nil, false
		}
		field = append(field, fieldpath.FieldNameElement(s.name))
	}
	return field, true
}

// Excludes reports whether the field needs the permission even if the user has permission on the whole
// object.
func (r *Rule) Excludes() bool { return r.excluded }

// IsOfEveryWrite reports whether every write needs the permission, whatever it changes: the object of the request may not show the field.
func (r *Rule) IsOfEveryWrite() bool { return r.excluded && len(r.pattern) == 0 }

// LimitsValues reports whether the rule excludes only some changes, which ExcludesChange finds.
func (r *Rule) LimitsValues() bool { return r.newValues != nil }

// ExcludesChange reports whether the rule excludes a change of its field from one value to another. Nil
// is no value. An error means that this cannot be determined.
func (r *Rule) ExcludesChange(ctx context.Context, before, after any) (bool, error) {
	if r.newValues == nil {
		return true, nil
	}
	return r.newValues.excludes(ctx, before, after)
}

// Verb returns the verb that the user needs, by the rule, to change the field at path, which the rule matches. If an
// expression computes the parameter, Verb calls evaluate before, and returns its error. Other errors mean that the
// rule covers no field, or does not cover this field.
func (r *Rule) Verb(ctx context.Context, path fieldpath.Path, evaluate func() error) (string, error) {
	if r.broken != "" {
		return "", errors.New(r.broken)
	}
	if r.parameter == nil {
		return verbOf(r.permission), nil
	}
	at := r.parameter.step
	if at >= len(path) {
		return "", fmt.Errorf("permission %q: %w", r.permission, errNoKey)
	}
	if r.parameter.treatment == computed {
		if err := evaluate(); err != nil {
			return "", err
		}
	}
	text, err := r.parameter.of(ctx, path[at])
	if err != nil {
		return "", fmt.Errorf("permission %q of %s: %w", r.permission, r.source, err)
	}
	return parameterizedVerbOf(r.permission, text), nil
}
