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
	// excluded means that the field needs the permission even if the user has permission on the whole
	// object. If newValues is not nil, only changes for which it is true or fails do.
	excluded  bool
	newValues *expression
	// source is the mapping, schema or built-in mapping that has the rule.
	source string
	// broken is the reason why the rule covers no field; it is empty for a valid rule.
	broken string
}

// grants identifies the permission of a rule with its parameter. Rules for the same field contradict
// each other if they differ in it.
func (r *Rule) grants() string {
	text := r.permission + " with parameter " + r.parameter.String()
	if r.parameter != nil {
		// Of two keys in a path, another one is another parameter.
		text += fmt.Sprintf(" of step %d", r.parameter.step)
	}
	return text
}

// String returns a text that is the same for equal rules only.
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

// Matches reports whether the rule is about a field or one that the field is in. A rule without
// a pattern, which is about the whole object, matches every field.
func (r *Rule) Matches(path fieldpath.Path) bool { return r.pattern.covers(path) }

// Includes reports whether the permission of the rule covers changes of a field. A rule about the whole
// object covers none, because it only excludes.
func (r *Rule) Includes(path fieldpath.Path) bool { return len(r.pattern) > 0 && r.Matches(path) }

// IsWithin reports whether the rule is about fields that are in the given one.
func (r *Rule) IsWithin(path fieldpath.Path) bool { return r.pattern.isBelow(path) }

// FieldAt returns the path of the field that the rule is about, for a path that it matches or whose
// field it is within. It returns false if the rule may be about several fields.
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

// Verb returns the verb that the user needs for a field that the rule matches. If an expression makes
// the parameter, evaluate is called before, and an error of it is returned. Other errors mean that the
// rule covers nothing, or not this field.
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
