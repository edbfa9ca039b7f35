/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

const (
	// Verb is the verb that lets users change fields without permission on the whole object, if they also have a
	// permission for each field (KEP-3617, "API Server Additional Plumbing and Checks").
	Verb = "granular"
	// MaxPermissionBytes bounds the name of a permission, as Kubernetes bounds a label.
	MaxPermissionBytes = 63
	// MaxParameterBytes bounds the parameter of a verb: it has room for every label key, and
	// for a DNS name.
	MaxParameterBytes = 317
)

// verbOf returns the verb of a permission. Names of permissions have no parenthesis, so
// that no two permissions have the same verb, whatever is in the parameter.
func verbOf(permission string) string { return Verb + ":" + permission }

func parameterizedVerbOf(permission, parameter string) string {
	return fmt.Sprintf("%s:%s(%s)", Verb, permission, parameter)
}

var (
	lowerCamelCase = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	// actions begin names that are not nouns.
	actions = []string{"allow", "can", "change", "create", "delete", "do", "edit", "is", "may", "modify", "patch", "remove", "set", "trigger", "update", "write"}

	errPermissionEmpty = errors.New("must be given")
	errPermissionLong  = fmt.Errorf("must have at most %d bytes", MaxPermissionBytes)
	errPermissionCase  = errors.New("must be in lowerCamelCase: letters and digits only, and first a small letter")
)

// ValidatePermission checks the name of a permission by the rules of KEP-3617, "Style Guide". If the name breaks a rule
// with MUST, it returns an error; if it breaks a rule with SHOULD, a warning. Fields are the names of the
// fields on the path that the permission is for, the outermost first.
func ValidatePermission(permission string, fields []string) (warnings []string, err error) {
	switch {
	case permission == "":
		return nil, errPermissionEmpty
	case len(permission) > MaxPermissionBytes:
		return nil, errPermissionLong
	case !lowerCamelCase.MatchString(permission):
		return nil, errPermissionCase
	}
	if len(fields) == 0 {
		return nil, nil
	}
	last := fields[len(fields)-1]
	for _, ancestor := range fields[:len(fields)-1] {
		if rest, ok := strings.CutPrefix(permission, ancestor); ok && rest != "" && unicode.IsUpper(rune(rest[0])) {
			return nil, fmt.Errorf("must not refer to the field %q that it is in: a permission is about a concept, wherever objects have it", ancestor)
		}
	}
	if permission == last {
		warnings = append(warnings, fmt.Sprintf("permission %q is the name of a field; use the name of a concept that also fits fields of other kinds and versions", permission))
	}
	if word := firstWord(permission); slices.Contains(actions, word) && word != permission {
		warnings = append(warnings, fmt.Sprintf("permission %q should be a noun, but begins with %q", permission, word))
	}
	return warnings, nil
}

func firstWord(name string) string {
	if end := strings.IndexFunc(name, unicode.IsUpper); end >= 0 {
		return name[:end]
	}
	return name
}

// treatment is the way in which a key becomes a parameter (KEP-3617, "Complete List of parameter
// treatments").
type treatment uint8

const (
	verbatim             treatment = iota // the key as it is
	slashDelimitedPrefix                  // the key up to its first slash, without the slash
	computed                              // the result of an expression
)

// parameter describes how the parameter of a verb is derived from the key that a [*] of a pattern matches.
type parameter struct {
	step       int    // the index of the [*] in the pattern
	key        string // the name of the key of list elements; empty for the only key
	treatment  treatment
	expression *expression
}

var (
	errNoKey       = errors.New("the element has no key that could be the parameter")
	errWhichKey    = errors.New("the element has several keys, and the mapping does not say which is the parameter")
	errNoParameter = errors.New("the parameter would be empty")
	errParameter   = fmt.Errorf("the parameter must be printable and have at most %d bytes", MaxParameterBytes)
)

// String returns a text that is the same only for parameters that differ in nothing but the step.
func (p *parameter) String() string {
	switch {
	case p == nil:
		return "none"
	case p.treatment == computed:
		return fmt.Sprintf("%q by %q", p.key, p.expression.text)
	}
	return fmt.Sprintf("%q %d", p.key, p.treatment)
}

// of returns the text of the parameter for a path element. It returns an error if the element has no such key, if the
// expression fails, or if the text is empty, too long or not printable.
func (p *parameter) of(ctx context.Context, e fieldpath.PathElement) (string, error) {
	raw, err := p.keyOf(e)
	if err != nil {
		return "", err
	}
	text, err := textOf(raw)
	if err != nil {
		return "", err
	}
	switch p.treatment {
	case slashDelimitedPrefix:
		text, _, _ = strings.Cut(text, "/")
	case computed:
		if text, err = p.expression.parameter(ctx, text); err != nil {
			return "", fmt.Errorf("%w: %s", err, p.expression.text)
		}
	case verbatim:
	}
	switch {
	case text == "":
		return "", errNoParameter
	case len(text) > MaxParameterBytes, !utf8.ValidString(text), strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", errParameter
	}
	return text, nil
}

func (p *parameter) keyOf(e fieldpath.PathElement) (value.Value, error) {
	switch {
	case e.FieldName != nil && p.key == "":
		return value.NewValueInterface(*e.FieldName), nil
	case e.Value != nil && p.key == "":
		return *e.Value, nil
	case e.Key == nil:
		return nil, errNoKey
	}
	if p.key == "" {
		if len(*e.Key) != 1 {
			return nil, errWhichKey
		}
		return (*e.Key)[0].Value, nil
	}
	for _, field := range *e.Key {
		if field.Name == p.key {
			return field.Value, nil
		}
	}
	return nil, errNoKey
}

// textOf returns the text of a key: a string, an integer, also if it is stored as a float, or a boolean. Other keys are an
// error.
func textOf(v value.Value) (string, error) {
	switch {
	case v.IsString():
		return v.AsString(), nil
	case v.IsInt():
		return strconv.FormatInt(v.AsInt(), 10), nil
	case v.IsFloat() && v.AsFloat() == math.Trunc(v.AsFloat()) && math.Abs(v.AsFloat()) < 1<<53:
		return strconv.FormatFloat(v.AsFloat(), 'f', -1, 64), nil // is the same key, and is stored as one
	case v.IsBool():
		return strconv.FormatBool(v.AsBool()), nil
	}
	return "", errNoKey
}
