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
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

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
