/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The bounds of what NamesOf returns: a warning must hold it.
const (
	maxNames      = 16
	maxNamesBytes = 128
)

// everyName are the attributes of a request whose name is not known. Rules for some names match it.
type everyName struct{ authorizer.Attributes }

func isForEveryName(a authorizer.Attributes) bool {
	_, ok := a.(everyName)
	return ok
}

// NamesOf returns the names in the rules of those policies that match a request with any name. There can be others if a condition reads the name, whose text the
// caller may not be allowed to see, or if there are too many.
func (s *Snapshot) NamesOf(a authorizer.Attributes) (n authorization.Names) {
	every := everyName{a}
	for _, x := range []*index{&s.restricting, &s.granting} {
		for _, m := range x.find(every, nil) {
			if m.policy.condition != nil && m.policy.condition.readsName {
				n.IsOpen, n.By = true, cmp.Or(n.By, strings.TrimPrefix(m.policy.key.Namespace+"/"+m.policy.key.Name, "/"))
			}
			for i := range m.policy.rules {
				if r := &m.policy.rules[i]; r.matches(every) != noMatch {
					n.Names = append(n.Names, r.resourceNames...)
				}
			}
		}
	}
	slices.Sort(n.Names)
	n.Names = slices.Compact(n.Names)
	bytes := 0
	for i, name := range n.Names {
		//guard:engine-names-of-a-warning
		if bytes += len(name); i == maxNames || bytes > maxNamesBytes {
			return authorization.Names{Names: n.Names[:i], IsOpen: true, By: n.By}
		}
	}
	return n
}
