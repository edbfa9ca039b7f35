/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
)

var (
	identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)
	// reserved are the reserved words of CEL (section "Syntax" of its language definition).
	reserved = sets.New("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
		"import", "let", "loop", "namespace", "package", "return", "var", "void", "while")
)

func validateVariables(variables []policy.Variable, path *field.Path) field.ErrorList {
	if len(variables) > policy.MaxVariables {
		return field.ErrorList{field.TooMany(path, len(variables), policy.MaxVariables)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, v := range variables {
		at := path.Index(i)
		if seen.Has(v.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), v.Name))
		} else {
			errs = append(errs, validateIdentifier(v.Name, at.Child("name"))...)
		}
		seen.Insert(v.Name)
		errs = append(errs, validateExpression(v.Expression, at.Child("expression"))...)
	}
	return errs
}

func validateIdentifier(name string, path *field.Path) field.ErrorList {
	if errs := validateText(name, policy.MaxEntryBytes, path); len(errs) > 0 {
		return errs
	}
	switch {
	case !identifier.MatchString(name):
		return field.ErrorList{field.Invalid(path, name, "must be a CEL identifier: letters, digits and underscores, and no digit at the start")}
	case reserved.Has(name):
		return field.ErrorList{field.Invalid(path, name, "is a reserved word of CEL")}
	}
	return nil
}

func validateExpression(expression string, path *field.Path) field.ErrorList {
	if strings.TrimSpace(expression) == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return validateText(expression, policy.MaxExpressionBytes, path)
}

// validateTotal bounds the expressions of a policy together.
func validateTotal(spec *policy.AuthorizationPolicySpec, path *field.Path) field.ErrorList {
	total := len(spec.Condition)
	for _, v := range spec.Variables {
		total += len(v.Expression)
	}
	if total <= policy.MaxTotalExpressionBytes {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("variables"), fmt.Sprintf("the variables and the condition have %d bytes together, where %d are allowed: make several policies of it", total, policy.MaxTotalExpressionBytes))}
}

func validateCondition(spec *policy.AuthorizationPolicySpec, path *field.Path) field.ErrorList {
	at := path.Child("condition")
	switch {
	case spec.Condition == "" && len(spec.Variables) > 0:
		return field.ErrorList{field.Required(at, "nothing else reads variables: add a condition that uses them, or omit the variables")}
	case spec.Condition == "":
		return nil
	case strings.TrimSpace(spec.Condition) == "":
		return field.ErrorList{field.Invalid(at, spec.Condition, "must not be blank: omit it to make the effect unconditional")}
	case len(spec.Condition) > policy.MaxExpressionBytes:
		return field.ErrorList{field.TooLong(at, "", policy.MaxExpressionBytes)}
	}
	return nil
}
