/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// VerbConditional is the verb of the mode conditional, and its constraint.
const VerbConditional = "constrainedimpersonate"

// Conditional is the mode conditional (KEP-5681, "Constrained Impersonation through
// Conditional Authorization"): one check for each part of the user who is impersonated,
// with conditions on the request and on the whole user. In the other modes permissions
// are a union; here each says which request, and which other parts, it is for.
//
// What depends on the object is left over: a residual that has to be enforced where the
// object is known.
type Conditional struct {
	// Chain decides, with conditions.
	Chain *authorization.Chain
	// Denials are those of the chain's authorizers that only deny, and that are fast. They
	// are asked about every part of a user, also if the impersonation cannot be allowed in
	// this mode: another one must not allow what they deny. If nil, nobody is.
	Denials *authorization.Chain
	// Compiler and Partial compile conditions, the latter for what is known before the
	// object is.
	Compiler *cel.Compiler
	Partial  *cel.PartialCompiler
	// NeedsCreate tells the requests that need the verb create beside their own: connections
	// (KEP-5681, "Compound Authorization for Connectible Resources"). Conditions then must
	// hold for both verbs. If nil, no request does.
	NeedsCreate func(authorizer.Attributes) bool

	// count counts a check; it may be nil.
	count func(decision string, duration time.Duration)
}

// conditionally is the answer of the mode conditional.
type conditionally struct {
	Answer
	// final says that no other mode may allow.
	final bool
	// otherwise is what remains if another mode allows.
	otherwise []authorization.Set
}

// maxConditionalParts bounds the parts of one user that have conditions, which are compiled
// for each of them: anybody may name as many groups as fit into headers. No review can have
// more parts.
const maxConditionalParts = 2 + api.MaxImpersonatedGroups + api.MaxImpersonatedExtraValues

// review checks the parts of the wanted user until one does not pass, all of them by the
// same policies and within one budget. A denial of any part is final, also one that depends
// on the object.
func (c *Conditional) review(ctx context.Context, request authorizer.AttributesRecord, wanted *user.DefaultInfo) (answer conditionally) {
	impersonated, username, passed := identify(wanted)
	ctx = c.Chain.Pin(ctx)
	sum := c.newSum(request, impersonated)
	for _, p := range append([]part{username}, partsOf(wanted)...) {
		chain := c.Chain
		if !passed {
			// One answer is enough to refuse. Nobody may cause many questions by many groups.
			if chain = c.Denials; chain == nil {
				break
			}
		}
		check := Check{Mode: api.ImpersonationModeConditional, Attributes: p.attributes(request.User)}
		start := time.Now()
		remaining := c.check(ctx, chain, &check, sum, authorization.AsksAboutMany(request))
		sum.add(&check, remaining)
		if passed || check.Decision == authorizer.DecisionDeny || len(remaining.denials) > 0 {
			c.measure(&check, time.Since(start))
			answer.Checks = append(answer.Checks, check)
		}
		if check.Decision == authorizer.DecisionDeny {
			answer.Reason, answer.final = check.forbidden().Error(), true
			return answer
		}
		passed = passed && check.passes()
	}
	answer.otherwise = named(sum.denials)
	if passed {
		answer.Residual = named(sum.all)
		answer.User, answer.Mode, answer.Constraint = impersonated, api.ImpersonationModeConditional, VerbConditional
	}
	return answer
}

// sum is what the parts of a user come to together.
type sum struct {
	remainder
	// evaluator evaluates the conditions on all of them, and spends one budget.
	evaluator *authorization.CELEvaluator
	// requests are the values of impersonatedRequest for which all of them must hold: the
	// request itself, and the create that a connection needs.
	requests []any
	// conditional is how many of them have conditions.
	conditional int
}

func (c *Conditional) newSum(request authorizer.AttributesRecord, impersonated user.Info) *sum {
	s := &sum{
		requests: []any{cel.Known(requestValueOf(request))},
		evaluator: &authorization.CELEvaluator{Compiler: c.Compiler, Partial: c.Partial, Values: cel.Values{
			cel.ImpersonatedUser: cel.Known(userValueOf(impersonated)),
		}},
	}
	if request.Verb != "create" && c.NeedsCreate != nil && c.NeedsCreate(request) {
		request.Verb = "create"
		s.requests = append(s.requests, cel.Known(requestValueOf(request)))
	}
	return s
}

// add adds a part, and denies it if it is too much.
func (s *sum) add(check *Check, remaining remainder) {
	s.remainder.add(remaining)
	if len(check.Conditions) > 0 {
		s.conditional++
	}
	switch {
	case len(s.all) > api.MaxConditionSets:
		check.deny(reasonUnenforceable, errMany)
	case s.conditional > maxConditionalParts:
		check.deny("the conditions on the user are too many to be evaluated", errParts)
	}
}

func (c *Conditional) measure(check *Check, duration time.Duration) {
	if c.count == nil {
		return
	}
	if check.passes() {
		c.count("allowed", duration)
	} else {
		c.count("denied", duration)
	}
}

// check asks a chain about one part, and returns what then remains to be enforced on the object.
// Conditions are written for one version of one resource, so that there are none for a
// review that asks about many.
func (c *Conditional) check(ctx context.Context, chain *authorization.Chain, check *Check, s *sum, many bool) (remains remainder) {
	decision := chain.Decide(ctx, authorization.Attributes{AttributesRecord: check.Attributes, Mode: api.ConditionsModeHumanReadable})
	if many {
		decision = decision.Fold()
	}
	if decision.IsUnconditional() {
		check.Decision, check.Reason, check.Err = decision.Concrete()
		return remainder{}
	}
	check.Decision = authorizer.DecisionAllow // so far
	for i, request := range s.requests {
		s.evaluator.Values[cel.ImpersonatedRequest] = request
		var one Check
		remains.add(c.settle(ctx, &one, decision, s.evaluator))
		if i > 0 && !one.passes() {
			one.Reason = strings.TrimSuffix("a connection needs the verb create as well: "+one.Reason, ": ")
		}
		check.and(one)
	}
	return remains
}

// settle evaluates a conditional decision for one request, and returns what then remains to
// be enforced on the object.
func (c *Conditional) settle(ctx context.Context, check *Check, decision authorization.Decision, evaluator *authorization.CELEvaluator) remainder {
	decision = evaluate(ctx, check, decision, evaluator)
	if decision.IsUnconditional() {
		check.Decision, check.Reason, check.Err = decision.Concrete()
		return remainder{}
	}
	remains, err := c.denyOnly(decision)
	if err != nil {
		check.deny(reasonUnenforceable, err)
		return remainder{}
	}
	check.Decision, check.Reason = authorizer.DecisionNoOpinion, "nobody can allow it, whatever the object is"
	if decision.CanBecomeAllowed() {
		check.OnObject, check.Reason = true, "allowed on conditions on the object"
	}
	return remains
}

// and adds the answer to another question that must pass, too: the stricter one counts. Of equally strict ones the first
// counts, unless only the other has a reason.
func (c *Check) and(other Check) {
	c.Conditions = other.Conditions // both have all conditions that the decision has
	if other.strictness() > c.strictness() || other.strictness() == c.strictness() && c.Reason == "" {
		c.Decision, c.Reason, c.Err, c.OnObject = other.Decision, other.Reason, other.Err, other.OnObject
	}
}

// strictness orders answers: a denial is stricter than no opinion, and that is stricter than
// what depends on the object.
func (c Check) strictness() int {
	switch {
	case c.OnObject:
		return 1
	case c.Decision == authorizer.DecisionAllow:
		return 0
	case c.Decision == authorizer.DecisionNoOpinion:
		return 2
	default:
		return 3
	}
}

const reasonUnenforceable = "what is left to be decided on the object cannot be enforced"

func (c *Check) deny(reason string, err error) {
	c.OnObject = false
	c.Decision, c.Reason, c.Err = authorizer.DecisionDeny, reason, err
}

// evaluate evaluates conditions as they are on the wire, as a server that had them from a
// review would. What does not fit there fails closed.
func evaluate(ctx context.Context, check *Check, decision authorization.Decision, evaluator *authorization.CELEvaluator) authorization.Decision {
	status := authorization.Status(decision)
	if len(status.ConditionsChain) == 0 {
		return decision.Fold()
	}
	check.Conditions = status.ConditionsChain
	sets, err := authorization.SetsFromWire(status.ConditionsChain)
	if err != nil {
		return authorization.Deny("", err)
	}
	return authorization.Chained(sets...).Evaluate(ctx, evaluator)
}

// part is a part of a user that takes a permission.
type part struct {
	resource, subresource, namespace, name string
}

func (p part) attributes(requester user.Info) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: requester, Verb: VerbConditional, APIGroup: authenticationv1.GroupName, APIVersion: authenticationv1.SchemeGroupVersion.Version,
		Resource: p.resource, Subresource: p.subresource, Namespace: p.namespace, Name: p.name, ResourceRequest: true,
	}
}

const nodeUsernamePrefix = "system:node:"

// identify returns whom the server would see, the part that stands for the user name, and
// whether this mode impersonates such users. The refusals and the groups are those of the
// constrained modes of the filter: nodes and service accounts come with nothing but their
// name.
func identify(wanted *user.DefaultInfo) (impersonated *user.DefaultInfo, username part, ok bool) {
	ok = !slices.Contains(wanted.Groups, "") && !slices.Contains(wanted.Groups, user.SystemPrivilegedGroup) && isValidExtra(wanted.Extra)
	impersonated = &user.DefaultInfo{Name: wanted.Name, UID: wanted.UID, Groups: slices.Clone(wanted.Groups), Extra: wanted.Extra}
	username = part{resource: "users", name: wanted.Name}
	isOnlyName := wanted.UID == "" && len(wanted.Groups) == 0 && len(wanted.Extra) == 0
	if namespace, name, err := serviceaccount.SplitUsername(wanted.Name); err == nil {
		username = part{resource: "serviceaccounts", namespace: namespace, name: name}
		ok = ok && isOnlyName
		if len(wanted.Groups) == 0 {
			impersonated.Groups = serviceaccount.MakeGroupNames(namespace)
		}
	} else if node, isNode := nodeOf(wanted.Name); isNode {
		username = part{resource: "nodes", name: node}
		ok = ok && isOnlyName
		if isOnlyName {
			impersonated.Groups = []string{user.NodesGroup}
		}
	}
	impersonated.Groups = withImplicitGroup(impersonated.Name, impersonated.Groups)
	return impersonated, username, ok
}

func nodeOf(username string) (string, bool) {
	node, ok := strings.CutPrefix(username, nodeUsernamePrefix)
	return node, ok && len(apimachineryvalidation.NameIsDNSSubdomain(node, false)) == 0
}

// withImplicitGroup adds the group of the authenticated, or of those who are not.
func withImplicitGroup(username string, groups []string) []string {
	implicit := user.AllAuthenticated
	switch {
	case username == user.Anonymous:
		implicit = user.AllUnauthenticated
	case slices.Contains(groups, user.AllUnauthenticated):
		return groups
	}
	if slices.Contains(groups, implicit) {
		return groups
	}
	return append(groups, implicit)
}

func isValidExtra(extra map[string][]string) bool {
	for key, values := range extra {
		if len(utilvalidation.IsDomainPrefixedPath(field.NewPath("extra"), key)) > 0 || key != strings.ToLower(key) ||
			len(values) == 0 || slices.Contains(values, "") {
			return false
		}
	}
	return true
}

// partsOf returns the parts of a user beside the name, in the order of the filter.
func partsOf(wanted *user.DefaultInfo) []part {
	var parts []part
	if wanted.UID != "" {
		parts = append(parts, part{resource: "uids", name: wanted.UID})
	}
	for _, group := range wanted.Groups {
		parts = append(parts, part{resource: "groups", name: group})
	}
	for _, key := range slices.Sorted(maps.Keys(wanted.Extra)) {
		for _, value := range wanted.Extra[key] {
			parts = append(parts, part{resource: "userextras", subresource: key, name: value})
		}
	}
	return parts
}

func requestValueOf(a authorizer.AttributesRecord) map[string]any {
	return map[string]any{
		"verb": a.Verb, "apiGroup": a.APIGroup, "apiVersion": a.APIVersion, "resource": a.Resource,
		"subresource": a.Subresource, "namespace": a.Namespace, "name": a.Name, "path": authorization.PathOf(a),
	}
}

func userValueOf(u user.Info) map[string]any {
	extra := map[string]any{}
	for key, values := range u.GetExtra() {
		extra[key] = listOf(values)
	}
	return map[string]any{"username": u.GetName(), "uid": u.GetUID(), "groups": listOf(u.GetGroups()), "extra": extra}
}

func listOf(values []string) []any {
	list := make([]any, 0, len(values))
	for _, v := range values {
		list = append(list, v)
	}
	return list
}
