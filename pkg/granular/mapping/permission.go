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
	"strings"
	"unicode"
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
