/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
)

// selecting are the verbs of requests that have selectors.
var selecting = []string{"list", "watch", "deletecollection"}

// narrowing is what a request must have, in addition to the question, for rules to match it: one of some object names, a namespace, or both. It is
// empty if the rules match the question itself.
type narrowing struct {
	names     []string
	namespace string
}

func (n narrowing) isEmpty() bool { return len(n.names) == 0 && n.namespace == "" }

// narrowingOf returns the narrowing of a question for rules. It returns false if the rules match no request that the question covers. matches
// reports whether the rules match a request.
func narrowingOf(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec, record authorizer.AttributesRecord, matches func(authorizer.AttributesRecord) bool) (n narrowing, ok bool) {
	if matches(record) {
		return n, true
	}
	if !record.ResourceRequest {
		return n, false
	}
	if record.Namespace == "" {
		record.Namespace, n.namespace = key.Namespace, key.Namespace
	}
	if n.namespace != "" && matches(record) {
		return n, true
	}
	for i := range spec.Rules {
		for _, name := range spec.Rules[i].ResourceNames {
			named := record
			named.Name = name
			if record.Name == "" && canHaveName(record) && !slices.Contains(n.names, name) && matches(named) {
				n.names = append(n.names, name)
			}
		}
	}
	return n, len(n.names) > 0
}

// covers reports whether a narrowing has all requests that another one has, and meets whether they have some in common.
func (n narrowing) covers(other narrowing) bool {
	isNamed := len(n.names) == 0 || len(other.names) > 0 && !slices.ContainsFunc(other.names, func(name string) bool { return !slices.Contains(n.names, name) })
	return isNamed && (n.namespace == "" || n.namespace == other.namespace)
}

func (n narrowing) meets(other narrowing) bool {
	isNamed := len(n.names) == 0 || len(other.names) == 0 || slices.ContainsFunc(other.names, func(name string) bool { return slices.Contains(n.names, name) })
	return isNamed && (n.namespace == "" || other.namespace == "" || n.namespace == other.namespace)
}

// restricts returns how often a restriction without a condition applies to what a requester is granted. A request in all namespaces that has no selector is
// not one in a namespace, or about a name.
func (n narrowing) restricts(grants []part, isOfAll bool) result {
	meetsOne, coversAll := false, true
	for _, grant := range grants {
		meets := n.meets(grant.only) && (!isOfAll || !grant.only.isEmpty())
		meetsOne, coversAll = meetsOne || meets, coversAll && meets && n.covers(grant.only)
	}
	switch {
	case !meetsOne:
		return none
	case coversAll:
		return always
	}
	return onCondition
}

// needs returns what a request must have, together with a condition, which may be "".
func (n narrowing) needs(condition, verb string) needs {
	var all, words []string
	if n.namespace != "" {
		all, words = append(all, fmt.Sprintf("request.namespace == %q", n.namespace)), append(words, "-n "+n.namespace)
	}
	if len(n.names) > 0 {
		quoted, flags := make([]string, len(n.names)), make([]string, len(n.names))
		for i, name := range n.names {
			quoted[i], flags[i] = fmt.Sprintf("%q", name), question.SelectorFlags("", "metadata.name="+name)
		}
		all = append(all, fmt.Sprintf("request.name in [%s]", strings.Join(quoted, ", ")))
		if slices.Contains(selecting, verb) {
			words = append(words, strings.Join(flags, " or "))
		} else {
			words = append(words, "the name is "+strings.Join(n.names, " or "))
		}
	}
	if condition != "" {
		return needs{condition: strings.Join(append(all, "("+condition+")"), " && ")}
	}
	return needs{strings.Join(all, " && "), strings.Join(words, " and ")}
}
