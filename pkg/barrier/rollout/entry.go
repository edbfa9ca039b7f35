/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
)

// mark is a number of the sentinel, and what was stored before.
type mark struct {
	number int64
	extent barrier.Extent
}

// text is a policy as it was at one time, and what it was compiled to.
type text struct {
	*Compiled

	subjects engine.Subjects
}

// exists reports whether there are objects.
func (t *text) exists() bool { return t.Policy != nil && t.Binding != nil }

// covers reports whether the barrier refuses a request if the policy denies it.
func (t *text) covers(a authorizer.Attributes) bool {
	return t.exists() && t.refuses() && t.sees(a)
}

//guard:rollout-users-whom-text-does-not-name
func (t *text) sees(a authorizer.Attributes) bool { return t.subjects.Have(a.GetUser()) && t.Sees(a) }

// refuses reports whether the objects refuse requests. In audit mode they do not.
func (t *text) refuses() bool {
	policy, actions := t.Policy.Spec.FailurePolicy, t.Binding.Spec.ValidationActions
	//guard:rollout-actions-binding
	return (policy == nil || *policy == admissionregistrationv1.Fail) && slices.Contains(actions, admissionregistrationv1.Deny)
}

// isStoredAs reports whether objects have the text.
func (t *text) isStoredAs(policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
	return t.hasPolicy(policy) && t.hasBinding(binding)
}

func (t *text) hasPolicy(policy *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return t.exists() && policy != nil && barrier.EqualPolicies(policy, t.Policy)
}

func (t *text) hasBinding(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
	return t.exists() && binding != nil && barrier.EqualBindings(binding, t.Binding)
}

// entry is a Deny policy.
type entry struct {
	key engine.Key
	// broken says that the policy does not compile. Then wanted is its last text that does.
	broken bool
	// wanted is the text of the policy. It is nil if the policy has never compiled.
	wanted *text
	// active has the texts that a kube-apiserver may have loaded, beside wanted. The first is the one that has become active last. It is
	// empty if none is active.
	active []*text
	// policy and binding are the stored objects with the name of the barrier, or nil.
	policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// isStored says that these objects have the wanted text.
	isStored bool
}

// name returns the name of both objects, or "" if there are none.
func (e *entry) name() string {
	if e.wanted == nil || !e.wanted.exists() {
		return ""
	}
	return e.wanted.Policy.Name
}

// covers reports whether every text that a server may have covers a request. A server may have the wanted text as soon as it is
// written, which this replica may learn later.
func (e *entry) covers(a authorizer.Attributes) bool {
	//guard:rollout-text-way
	return len(e.active) > 0 && e.wanted.covers(a) && !slices.ContainsFunc(e.active, func(t *text) bool { return !t.covers(a) })
}

// want sets the text of the policy. The text before may have been written.
func (e *entry) want(t *text) {
	before := e.wanted
	if before != nil && before.isSame(t) {
		t.Policy, t.Binding = before.Policy, before.Binding
		for i, known := range e.active {
			if known == before {
				e.active[i] = t
			}
		}
	} else if len(e.active) > 0 && !slices.Contains(e.active, before) {
		//guard:rollout-texts-their-way
		if e.active = append(e.active, before); len(e.active) > maxTexts {
			e.active = nil
		}
	}
	e.wanted = t
}

// isSame reports whether two texts are compiled to the same objects.
func (t *text) isSame(other *text) bool {
	if !t.exists() || !other.exists() {
		return t.exists() == other.exists()
	}
	return t.isStoredAs(other.Policy, other.Binding)
}

// receive takes over the stored objects. If they have a text that is not known to come from the policy, or may have had one in between,
// no text is active any more.
func (e *entry) receive(policies map[string]*admissionregistrationv1.ValidatingAdmissionPolicy, bindings map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	policy, binding := policies[e.name()], bindings[e.name()]
	texts := e.active
	if e.wanted != nil {
		texts = append(texts[:len(texts):len(texts)], e.wanted)
	}
	isKnown := slices.ContainsFunc(texts, func(t *text) bool { return t.hasPolicy(policy) }) &&
		slices.ContainsFunc(texts, func(t *text) bool { return t.hasBinding(binding) })
	//guard:rollout-other-texts
	if !isKnown || e.policy != nil && !follows(e.policy, policy) || e.binding != nil && !follows(e.binding, binding) {
		e.active = nil
	}
	e.policy, e.binding = policy, binding
	e.isStored = e.wanted != nil && e.wanted.isStoredAs(policy, binding)
}

// follows reports whether no text can have been stored between two states of an object.
func follows(before, after metav1.Object) bool {
	//guard:rollout-texts-between
	return before.GetUID() == after.GetUID() && after.GetGeneration() >= before.GetGeneration() && after.GetGeneration() <= before.GetGeneration()+1
}

// isActive reports whether the wanted text, and no other, is active.
func (e *entry) isActive() bool { return len(e.active) == 1 && e.active[0] == e.wanted }

// NumberOf returns the number of a binding of the sentinel, and false if it has none.
func NumberOf(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) (int64, bool) {
	if b == nil || b.Spec.MatchResources == nil || b.Spec.MatchResources.ObjectSelector == nil {
		return 0, false
	}
	number, err := strconv.ParseInt(b.Spec.MatchResources.ObjectSelector.MatchLabels[barrier.RolloutLabel], 10, 64)
	return number, err == nil && number > 0
}
