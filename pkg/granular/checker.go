/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// MaxChecks bounds the authorization checks of one call of Include or Exclude. A request that needs more
// of them changes more kinds of keys than an administrator would grant one by one; a more general
// permission costs one check.
const MaxChecks = 64

// MaxNamed bounds the fields that a result names, in addition to the one that lacks permission.
const MaxNamed = 32

// Checker checks the permissions on fields. It is safe for concurrent use if its authorizer
// is.
type Checker struct {
	// Authorizer answers whether the user has a verb. Its answers are not conditional.
	Authorizer authorizer.UnconditionalAuthorizer
}

// Result is the result of a check. The zero value refuses.
type Result struct {
	// Allowed says that every field that needs a permission has one.
	Allowed bool
	// Reason says why the result is not allowed: the first field that lacks permission and the verbs that
	// would cover it, or the error. It says nothing about the rest of the fields.
	Reason string
	// Fields is the number of changed fields and of claims that were checked.
	Fields int
	// Named are the names of the fields that need a permission: the first MaxNamed, and the one that
	// lacks it. Unnamed is the number of checked fields that need a permission and are not named.
	Named   []string
	Unnamed int
	// Verbs are the verbs about which the authorizer was asked, in the order of these checks, each once.
	Verbs []string
	// Err is the error that prevented the check. It is nil if a permission is missing.
	Err error
}

// check is the state of one call of Include or Exclude. It asks the authorizer about each verb once.
type check struct {
	//nolint:containedctx // lives for one request
	ctx        context.Context
	authorizer authorizer.UnconditionalAuthorizer
	attributes authorizer.Attributes
	answers    map[string]bool
	changes    *changes.Changes // set in a check of exclusions only
	budget     budget
	// evaluations has the last result of each rule that limits values.
	evaluations map[evaluationKey]evaluation
	// verbs has the last verb of each rule.
	verbs  map[*mapping.Rule]ruleVerb
	result Result
}

func (c Checker) newCheck(ctx context.Context, attributes authorizer.Attributes) *check {
	return &check{ctx: ctx, authorizer: c.Authorizer, attributes: attributes, answers: map[string]bool{}, verbs: map[*mapping.Rule]ruleVerb{}}
}

// isLate reports whether the context of the request has ended. If so, it sets the reason and the error of the
// result.
func (k *check) isLate() bool {
	err := k.ctx.Err()
	if err != nil {
		k.result.Reason, k.result.Err = fmt.Sprintf("the fields could not be checked in time: %v", err), err
	}
	return err != nil
}

// recordField records that a field needs a permission.
func (k *check) recordField(path fieldpath.Path) {
	if len(k.result.Named) < MaxNamed {
		k.result.Named = append(k.result.Named, changes.NameOf(path))
	} else {
		k.result.Unnamed++
	}
}

// fieldAt returns a function that names a changed field.
func fieldAt(path fieldpath.Path) func() string {
	return func() string { return "the field " + changes.NameOf(path) }
}

// refuse returns the result after the user turned out to lack the permission on the field at path, which was recorded
// last. It adds the name of the field if recordField only counted it.
func (k *check) refuse(path fieldpath.Path) Result {
	if k.result.Unnamed > 0 {
		k.result.Unnamed--
		k.result.Named = append(k.result.Named, changes.NameOf(path))
	}
	return k.result
}

var (
	errNoAuthorizer  = errors.New("there is no authorizer that could be asked")
	errTooManyChecks = fmt.Errorf("the request needs more than the %d authorization checks that one may cause", MaxChecks)
	errCheckFailed   = errors.New("the authorizers failed to answer")
)

// isGranted reports whether the user has a verb. It returns an error if the authorizer is nil or returns an error, if
// MaxChecks checks have been made, or if the context has ended.
func (k *check) isGranted(verb string) (bool, error) {
	if answer, ok := k.answers[verb]; ok {
		return answer, nil
	}
	switch {
	case k.authorizer == nil:
		return false, errNoAuthorizer
	case len(k.result.Verbs) == MaxChecks:
		return false, errTooManyChecks
	case k.ctx.Err() != nil:
		return false, k.ctx.Err()
	}
	k.result.Verbs = append(k.result.Verbs, verb)
	decision, _, err := k.authorizer.Authorize(k.ctx, authorization.WithVerb(k.attributes, verb))
	//guard:granular-answer-error
	if err != nil {
		return false, fmt.Errorf("%w about the verb %q", errCheckFailed, verb)
	}
	k.answers[verb] = decision == authorizer.DecisionAllow
	return k.answers[verb], nil
}

// ruleVerb is the verb that one field needs by a rule, or the reason why there is none.
type ruleVerb struct {
	field fieldpath.Path
	verb  string
	err   error
}

// verbOf returns the verb that a user needs, by the rule r, to write the field at path, or why there is none.
//
// All paths inside the same field of a rule need the same verb. The callers go through them one after the other, so
// verbOf keeps the last result of each rule, and does not evaluate the rule's expression again for every path. If path
// is above the fields of the rule, and the rule may be about several of them, nothing is kept.
func (k *check) verbOf(r *mapping.Rule, path fieldpath.Path) (string, error) {
	field, ok := r.FieldAt(path)
	if !ok {
		return r.Verb(k.ctx, path, k.budget.evaluate)
	}
	last, ok := k.verbs[r]
	//guard:granular-verb-another-field
	if !ok || !last.field.Equals(field) {
		last = ruleVerb{field: field}
		last.verb, last.err = r.Verb(k.ctx, path, k.budget.evaluate)
		k.verbs[r] = last
	}
	return last.verb, last.err
}

// Include checks the changes of a user without permission on the whole object: the user must have a permission on
// each field that changes and on each claimed field, or on a field that contains it. The most general
// permission is asked for first (KEP-3617, "API Server Additional Plumbing and Checks", step 5).
func (c Checker) Include(ctx context.Context, rules *mapping.Rules, changed *changes.Changes, attributes authorizer.Attributes) Result {
	k := c.newCheck(ctx, attributes)
	for _, path := range changed.Paths() {
		if k.isLate() {
			return k.result
		}
		k.result.Fields++
		k.recordField(path)
		if !k.covers(rules, path, fieldAt(path)) {
			return k.refuse(path)
		}
	}
	for _, c := range changed.Claims() {
		if k.isLate() {
			return k.result
		}
		k.result.Fields++
		k.recordField(c.Field())
		if !k.covers(rules.InVersion(c.APIVersion), c.Path, c.String) {
			return k.refuse(c.Field())
		}
	}
	k.result.Allowed = true
	return k.result
}

// covers reports whether the user has a permission that covers a field. If not, covers sets the reason of the
// result; subject returns the words for the change.
func (k *check) covers(rules *mapping.Rules, path fieldpath.Path, subject func() string) bool {
	var candidates, notes []string
	for r := range rules.All() {
		if !r.Includes(path) {
			continue
		}
		verb, err := k.verbOf(r, path)
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		ok, err := k.isGranted(verb)
		if err != nil {
			k.result.Reason, k.result.Err = fmt.Sprintf("field %s: %v", changes.NameOf(path), err), err
			return false
		}
		if ok {
			return true
		}
		// A schema and a mapping may say the same.
		if quoted := fmt.Sprintf("%q", verb); !slices.Contains(candidates, quoted) {
			candidates = append(candidates, quoted)
		}
	}
	k.result.Reason = refusal(subject(), candidates, notes)
	return false
}

func refusal(subject string, candidates, notes []string) string {
	text := fmt.Sprintf("changing %s needs permission on the whole object, since no permission on fields covers it", subject)
	if len(candidates) > 0 {
		text = fmt.Sprintf("changing %s needs the verb %s", subject, strings.Join(candidates, " or "))
	}
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, "; ") + ")"
	}
	return text
}

// Exclude checks the changes of every user: for each excluded field that changes or is claimed, the user must have the
// permission of the exclusion, even if the user has more general permissions.
func (c Checker) Exclude(ctx context.Context, rules *mapping.Rules, changed *changes.Changes, attributes authorizer.Attributes) Result {
	k := c.newCheck(ctx, attributes)
	k.changes = changed
	for _, path := range changed.Paths() {
		if k.isLate() {
			return k.result
		}
		if !k.mayChange(rules, path, path, fieldAt(path), func(r *mapping.Rule) bool { return k.isChanged(r, path) }) {
			return k.refuse(path)
		}
	}
	for _, c := range changed.Claims() {
		if k.isLate() {
			return k.result
		}
		if !k.mayChange(rules.InVersion(c.APIVersion), c.Path, c.Field(), c.String, func(r *mapping.Rule) bool { return k.isClaimed(r, c) }) {
			return k.refuse(c.Field())
		}
	}
	//guard:granular-writes-without-change
	k.result.Allowed = k.mayWrite(rules)
	return k.result
}

// mayWrite reports whether the user has the permission of every exclusion of all writes, also of those that seem to change nothing.
func (k *check) mayWrite(rules *mapping.Rules) bool {
	for r := range rules.All() {
		if r.IsOfEveryWrite() && !k.hasExcluded(r, nil, func() string { return "the object" }) {
			return false
		}
	}
	return true
}

// mayChange reports whether the user has the permission of every exclusion that applies to one change or claim. path is the excluded field, and
// field the one that the result records. subject returns the words for the change, and applies reports whether an exclusion applies.
func (k *check) mayChange(rules *mapping.Rules, path, field fieldpath.Path, subject func() string, applies func(*mapping.Rule) bool) bool {
	k.result.Fields++
	noted := false
	for r := range rules.All() {
		if !r.Excludes() || !applies(r) {
			continue
		}
		if !noted {
			k.recordField(field)
			noted = true
		}
		if !k.hasExcluded(r, path, subject) {
			return false
		}
	}
	return true
}

// hasExcluded reports whether the user has the permission of an exclusion r for the field at path. If not, hasExcluded
// sets the reason of the result; subject returns the words for the change.
func (k *check) hasExcluded(r *mapping.Rule, path fieldpath.Path, subject func() string) bool {
	verb, err := k.verbOf(r, path)
	if err != nil {
		k.result.Reason = fmt.Sprintf("%s is excluded from general permission, and no permission covers it (%v)", subject(), err)
		return false
	}
	ok, err := k.isGranted(verb)
	if err != nil {
		k.result.Reason, k.result.Err = fmt.Sprintf("field %s: %v", changes.NameOf(path), err), err
		return false
	}
	if !ok {
		k.result.Reason = fmt.Sprintf("%s is excluded from general permission: changing it also needs the verb %q", subject(), verb)
		if r.IsOfEveryWrite() {
			k.result.Reason = fmt.Sprintf("the request may change an excluded field that its object does not show: it also needs the verb %q", verb)
		}
		if r.LimitsValues() && k.budget.isSpent() {
			k.result.Reason += "; the request changes too much to look at all values"
		}
	}
	return ok
}
