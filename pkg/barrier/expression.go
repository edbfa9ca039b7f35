/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The expressions for the attributes of a request. kube-apiserver leaves out empty values.
const (
	username    = `has(request.userInfo.username) ? request.userInfo.username : ""`
	uid         = `has(request.userInfo.uid) ? request.userInfo.uid : ""`
	groups      = `has(request.userInfo.groups) ? request.userInfo.groups : []`
	extra       = `has(request.userInfo.extra) ? request.userInfo.extra : {}`
	namespace   = `has(request.namespace) ? request.namespace : ""`
	name        = `has(request.name) ? request.name : ""`
	subresource = `has(request.requestSubResource) ? request.requestSubResource : ""`
	options     = `has(request.options) ? dyn(request.options) : null`
	dryRun      = `has(request.dryRun) && request.dryRun`

	group      = "request.requestResource.group"
	version    = "request.requestResource.version"
	resource   = "request.requestResource.resource"
	operation  = "request.operation"
	alwaysTrue = "true"
)

// oneOf returns an expression that is true if a value is one of the texts.
func oneOf(value string, texts []string) string {
	if len(texts) == 1 {
		return value + " == " + quoted(texts[0])
	}
	list := make([]string, 0, len(texts))
	for _, text := range texts {
		list = append(list, quoted(text))
	}
	return value + " in [" + strings.Join(list, ", ") + "]"
}

// quoted writes a text in CEL.
//
//guard:barrier-texts
func quoted(text string) string { return strconv.QuoteToASCII(strings.ToValidUTF8(text, "\uFFFD")) }

// conjunction returns an expression that is true if all operands are. Empty operands and true are left out.
func conjunction(operands ...string) string {
	return chain(operands, alwaysTrue, " && ", func(text string) bool { return text == alwaysTrue })
}

// disjunction returns an expression that is true if one of the operands is. Empty operands are left out. If one is true, so is the result.
func disjunction(operands ...string) string {
	if slices.Contains(operands, alwaysTrue) {
		return alwaysTrue
	}
	return chain(operands, "false", " || ", func(string) bool { return false })
}

func chain(operands []string, empty, symbol string, isNeutral func(string) bool) string {
	var parts []string
	for _, operand := range operands {
		if operand != "" && !isNeutral(operand) && !slices.Contains(parts, operand) {
			parts = append(parts, operand)
		}
	}
	switch len(parts) {
	case 0:
		return empty
	case 1:
		return parts[0]
	}
	for i, text := range parts {
		parts[i] = "(" + text + ")"
	}
	return strings.Join(parts, symbol)
}

// userIs returns an expression that is true for the users, and for the members of the groups. Both lists may be empty.
func userIs(users, members []string) string {
	var operands []string
	if len(users) > 0 {
		operands = append(operands, oneOf("("+username+")", users))
	}
	if len(members) > 0 {
		operands = append(operands, fmt.Sprintf("(%s).exists(g, %s)", groups, oneOf("g", members)))
	}
	return disjunction(operands...)
}

// resourceIs returns an expression that is true for the resources of a rule, which may have wildcards.
func resourceIs(paths []string) string {
	if slices.Contains(paths, all) {
		return alwaysTrue
	}
	bySubresource := map[string][]string{}
	for _, path := range paths {
		name, sub, _ := strings.Cut(path, "/")
		bySubresource[sub] = append(bySubresource[sub], name)
	}
	operands := make([]string, 0, len(bySubresource))
	for _, sub := range slices.Sorted(maps.Keys(bySubresource)) {
		names := sortedSet(bySubresource[sub])
		is := oneOf("("+subresource+")", []string{sub})
		if !slices.Contains(names, all) {
			is = conjunction(oneOf(resource, names), is)
		}
		operands = append(operands, is)
	}
	return disjunction(operands...)
}
