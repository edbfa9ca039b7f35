/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// The bounds of what Names returns: a warning must hold it.
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

// Names returns the names in the rules of policies that match a request whatever its name is, and that can change the decision on a request without a name. An Allow
// policy cannot change an Allow, and a Deny policy for some names cannot change what nothing allows. IsOpen is set if there are too many names, or if a condition compares
// the name: the caller may not be allowed to see its text.
func (s *Snapshot) Names(a authorizer.Attributes, decision authorization.Decision) (n authorization.Names) {
	every, names := everyName{a}, sets.New[string]()
	for _, x := range []*index{&s.restricting, &s.granting} {
		for _, m := range x.find(every, nil) {
			p := m.policy
			if p.comparesName(a) && p.canChange(decision, true) {
				n.IsOpen, n.By = true, cmp.Or(n.By, strings.TrimPrefix(p.key.Namespace+"/"+p.key.Name, "/"))
			}
			//guard:engine-names-of-policies-without-effect
			if p.canChange(decision, false) {
				n.IsOpen = !p.addNames(every, names) || n.IsOpen
			}
		}
	}
	n.Names = sets.List(names)
	return n
}

// canChange reports whether a policy can change a decision on a request without a name if the request gets one. If the policy compares the name, it may have caused the
// decision, because it has compared the empty name.
func (p *Policy) canChange(decision authorization.Decision, compares bool) bool {
	switch p.conditionEffect() {
	case authorization.EffectAllow:
		return !decision.IsAllow() && !decision.IsDeny()
	case authorization.EffectDeny:
		return decision.CanBecomeAllowed() || compares && decision.IsDeny()
	default: // NoOpinion keeps Allow policies from allowing
		return decision.CanBecomeAllowed() || compares && !decision.IsDeny()
	}
}

// comparesName reports whether the condition reads the name of the request, or for a Namespace the namespace, which is the same.
func (p *Policy) comparesName(a authorizer.Attributes) bool {
	if p.condition == nil {
		return false
	}
	isNamespace := a.GetResource() == "namespaces" && a.GetAPIGroup() == ""
	return p.condition.readsName || isNamespace && p.condition.readsNamespace
}

// addNames adds the names of the rules that match. It returns false if there are more than a warning holds.
func (p *Policy) addNames(every everyName, names sets.Set[string]) bool {
	for i := range p.rules {
		r := &p.rules[i]
		if r.matches(every) == noMatch {
			continue
		}
		for _, name := range r.resourceNames {
			bytes := len(name)
			for other := range names {
				bytes += len(other)
			}
			//guard:engine-names-of-a-warning
			if !names.Has(name) && (len(names) == maxNames || bytes > maxNamesBytes) {
				return false
			}
			names.Insert(name)
		}
	}
	return true
}
