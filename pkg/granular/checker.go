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

	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// MaxChecks bounds the authorization checks that one request can cause. A request that
// needs more than these has to do with more kinds of keys than an administrator would
// grant one by one; a more general permission costs one check.
const MaxChecks = 64

// MaxNamed bounds the fields that a result names, besides the one that lacks permission.
const MaxNamed = 32

// Checker checks the permissions on fields. It is safe for concurrent use if its authorizer
// is.
type Checker struct {
	// Authorizer answers whether the user has a verb. Its answers are not conditional.
	Authorizer authorizer.UnconditionalAuthorizer
}

// Result is what a check came to. The zero value refuses.
type Result struct {
	// Allowed says that every field that needs a permission has one.
	Allowed bool
	// Reason says why not: the first field that lacks permission, and what would cover it.
	// It says nothing about the rest of the fields.
	Reason string
	// Fields is how many fields were looked at.
	Fields int
	// Named are the names of those that need a permission, or the first MaxNamed of them, and
	// the one that lacks it. Unnamed is how many there are besides, among those that were looked
	// at.
	Named   []string
	Unnamed int
	// Verbs are the verbs that were asked for, in this order, each once.
	Verbs []string
	// Err is why nobody can tell, if that is why it is not allowed.
	Err error
}

// asker asks for each verb once. It lives for one request.
type asker struct {
	//nolint:containedctx // lives for one request
	ctx        context.Context
	authorizer authorizer.UnconditionalAuthorizer
	attributes authorizer.Attributes
	answers    map[string]bool
	changes    *changes.Changes // of a check of exclusions
	effort     effort
	result     Result
}

func (c Checker) ask(ctx context.Context, attributes authorizer.Attributes) *asker {
	return &asker{ctx: ctx, authorizer: c.Authorizer, attributes: attributes, answers: map[string]bool{}}
}

// isLate reports whether the request has ended before all fields were checked. The result then says
// so.
func (a *asker) isLate() bool {
	err := a.ctx.Err()
	if err != nil {
		a.result.Reason, a.result.Err = fmt.Sprintf("the fields could not be checked in time: %v", err), err
	}
	return err != nil
}

// needs notes that a field needs a permission.
func (a *asker) needs(path fieldpath.Path) {
	if len(a.result.Named) < MaxNamed {
		a.result.Named = append(a.result.Named, changes.NameOf(path))
	} else {
		a.result.Unnamed++
	}
}

// lacks notes that the field that was noted last lacks its permission.
func (a *asker) lacks(path fieldpath.Path) Result {
	if a.result.Unnamed > 0 {
		a.result.Unnamed--
		a.result.Named = append(a.result.Named, changes.NameOf(path))
	}
	return a.result
}

var (
	errNoAuthorizer  = errors.New("there is no authorizer that could be asked")
	errTooManyChecks = fmt.Errorf("the request needs more than the %d authorization checks that one may cause", MaxChecks)
	errCheckFailed   = errors.New("the authorizers failed to answer")
)

// has reports whether the user has a verb. Whatever comes with an error is no.
func (a *asker) has(verb string) (bool, error) {
	if answer, ok := a.answers[verb]; ok {
		return answer, nil
	}
	switch {
	case a.authorizer == nil:
		return false, errNoAuthorizer
	case len(a.result.Verbs) == MaxChecks:
		return false, errTooManyChecks
	case a.ctx.Err() != nil:
		return false, a.ctx.Err()
	}
	a.result.Verbs = append(a.result.Verbs, verb)
	decision, _, err := a.authorizer.Authorize(a.ctx, withVerb{a.attributes, verb})
	if err != nil {
		return false, fmt.Errorf("%w about the verb %q", errCheckFailed, verb)
	}
	a.answers[verb] = decision == authorizer.DecisionAllow
	return a.answers[verb], nil
}

// withVerb is a request with another verb.
type withVerb struct {
	authorizer.Attributes
	verb string
}

func (a withVerb) GetVerb() string  { return a.verb }
func (a withVerb) IsReadOnly() bool { return false }

// Include checks what a user without permission on the whole object changes: each field
// must be covered by a permission on itself or on one that it is in, the most general of
// which is asked for first (KEP-3617, "API Server Additional Plumbing and Checks", step 5).
func (c Checker) Include(ctx context.Context, rules *mapping.Rules, changed *changes.Changes, attributes authorizer.Attributes) Result {
	a := c.ask(ctx, attributes)
	for _, path := range changed.Paths() {
		if a.isLate() {
			return a.result
		}
		a.result.Fields++
		a.needs(path)
		if !a.covers(rules, path, "the field "+changes.NameOf(path)) {
			return a.lacks(path)
		}
	}
	for _, c := range changed.Claims() {
		if a.isLate() {
			return a.result
		}
		a.result.Fields++
		a.needs(c.Field())
		if !a.covers(rules.InVersion(c.APIVersion), c.Path, c.String()) {
			return a.lacks(c.Field())
		}
	}
	a.result.Allowed = true
	return a.result
}

// covers reports whether a permission covers a field. If not, the result says why; subject is
// the change in words.
func (a *asker) covers(rules *mapping.Rules, path fieldpath.Path, subject string) bool {
	var candidates, notes []string
	for r := range rules.All() {
		if !r.Includes(path) {
			continue
		}
		verb, err := r.Verb(a.ctx, path, a.effort.evaluate)
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		ok, err := a.has(verb)
		if err != nil {
			a.result.Reason, a.result.Err = fmt.Sprintf("field %s: %v", changes.NameOf(path), err), err
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
	a.result.Reason = refusal(subject, candidates, notes)
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

// Exclude checks what anybody changes: each field that is excluded needs its own
// permission, whatever more general ones the user has.
func (c Checker) Exclude(ctx context.Context, rules *mapping.Rules, changed *changes.Changes, attributes authorizer.Attributes) Result {
	a := c.ask(ctx, attributes)
	a.changes = changed
	for _, path := range changed.Paths() {
		if a.isLate() {
			return a.result
		}
		a.result.Fields++
		noted := false
		for r := range rules.All() {
			if !r.Excludes() || !a.isChanged(r, path) {
				continue
			}
			if !noted {
				a.needs(path)
				noted = true
			}
			if !a.hasExcluded(r, path, "the field "+changes.NameOf(path)) {
				return a.lacks(path)
			}
		}
	}
	for _, c := range changed.Claims() {
		if a.isLate() {
			return a.result
		}
		if !a.mayClaim(rules.InVersion(c.APIVersion), c) {
			return a.lacks(c.Field())
		}
	}
	a.result.Allowed = true
	return a.result
}

// mayClaim reports whether every exclusion that a claim is about is the user's to change.
func (a *asker) mayClaim(rules *mapping.Rules, c changes.Claim) bool {
	a.result.Fields++
	noted := false
	for r := range rules.All() {
		if !r.Excludes() || !a.isClaimed(r, c) {
			continue
		}
		if !noted {
			a.needs(c.Field())
			noted = true
		}
		if !a.hasExcluded(r, c.Path, c.String()) {
			return false
		}
	}
	return true
}

// hasExcluded reports whether the user has the permission of an excluded field. If not, the
// result says why; subject is the change in words.
func (a *asker) hasExcluded(r *mapping.Rule, path fieldpath.Path, subject string) bool {
	verb, err := r.Verb(a.ctx, path, a.effort.evaluate)
	if err != nil {
		a.result.Reason = fmt.Sprintf("%s is excluded from general permission, and no permission covers it (%v)", subject, err)
		return false
	}
	ok, err := a.has(verb)
	if err != nil {
		a.result.Reason, a.result.Err = fmt.Sprintf("field %s: %v", changes.NameOf(path), err), err
		return false
	}
	if !ok {
		a.result.Reason = fmt.Sprintf("%s is excluded from general permission: changing it needs the verb %q besides", subject, verb)
		if r.LimitsValues() && a.effort.isSpent() {
			a.result.Reason += "; the request changes too much to look at all values"
		}
	}
	return ok
}
