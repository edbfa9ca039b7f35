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
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// VerbConditional is the verb that conditional mode checks, and the impersonation constraint that audit records for it.
const VerbConditional = "constrainedimpersonate"

// Conditional is conditional mode (KEP-5681, "Constrained Impersonation through
// Conditional Authorization"). It makes one check for each part of the impersonated user: the
// name, the UID, each group and each value of extra. Policies on these checks may have conditions on
// the request and on the whole user. In the other modes permissions are a union; here each policy says which
// request, and which other parts, it is for.
//
// Conditions on the object remain as residual conditions, which are evaluated at admission.
type Conditional struct {
	// Chain decides the checks, with conditions.
	Chain *authorization.Chain
	// Denials has the authorizers of Chain that can only deny and that are fast. As soon as conditional mode cannot
	// allow the impersonation any more, Denials decides the checks on the remaining parts of the user instead of Chain,
	// because a denial is final in all modes.
	Denials *authorization.Chain
	// Compiler compiles conditions, and Partial compiles them for evaluation before the object is
	// known.
	Compiler *cel.Compiler
	Partial  *partial.Compiler
	// NeedsCreate reports whether a request needs the verb create in addition to its own, as connections do
	// (KEP-5681, "Compound Authorization for Connectible Resources"). Conditions then must
	// hold for both verbs. If nil, no request does.
	NeedsCreate func(authorizer.Attributes) bool

	record recordFunc
}

// conditionalResult is the answer of conditional mode.
type conditionalResult struct {
	result
	// final is true if the impersonation is denied, and no other mode may allow it.
	final bool
	// denials are the residual conditions that apply if another mode allows the impersonation.
	denials []authorization.Set
}

// maxConditionalParts bounds the parts of one user that have conditions: conditions are compiled for each of these
// parts, and a client may name as many groups as fit into headers. No review can have
// more parts.
const maxConditionalParts = 2 + api.MaxImpersonatedGroups + api.MaxImpersonatedExtraValues

// maxDeniedParts bounds the checks that run makes with Denials alone, after the check of one part did not pass. The
// impersonation is denied if the user has more parts: a requester without any permission must not cause unlimited work.
// One check without conditions takes some 20 µs. A directory gives fewer groups to one user.
const maxDeniedParts = 8192

// run checks all parts of the wanted user, until a check is denied, and allows the impersonation if all checks pass. After
// a check that does not pass, and from the start for a user that conditional mode does not impersonate (identify), Denials
// decides the remaining checks instead of Chain. All checks use the same snapshot of the policies and one budget.
//
// A denial of any part is final for all modes. If a denial depends on the object, it is returned in denials, which apply
// even if another mode allows the impersonation.
func (c *Conditional) run(ctx context.Context, request authorizer.AttributesRecord, wanted *user.DefaultInfo) (answer conditionalResult) {
	impersonated, username, passed := identify(wanted)
	ctx = c.Chain.Pin(ctx)
	checks, deniedParts := c.newUserChecks(request, impersonated), 0
	for _, p := range append([]part{username}, partsOf(wanted)...) {
		chain := c.Chain
		if !passed {
			// One answer is enough to refuse. A client must not cause many checks by naming many groups.
			chain = c.Denials
		}
		start := time.Now()
		check, residual := checks.check(ctx, chain, p.attributes(request.User))
		if !passed {
			if deniedParts++; deniedParts > maxDeniedParts {
				check = check.denied("the parts of the user are too many to be checked", errManyParts)
			}
		}
		if passed || check.Decision == authorizer.DecisionDeny || len(residual.denials) > 0 {
			c.record.record(check, time.Since(start))
			answer.Checks = append(answer.Checks, check)
		}
		if check.Decision == authorizer.DecisionDeny {
			answer.refusal, answer.final = check.forbidden(), true
			return answer
		}
		passed = passed && check.passes()
	}
	answer.denials = named(checks.residual.denials)
	if passed {
		answer.Residual = named(checks.residual.all)
		answer.User, answer.Mode, answer.Constraint = impersonated, api.ImpersonationModeConditional, VerbConditional
	}
	return answer
}

// userChecks makes the checks on the parts of one user.
type userChecks struct {
	*Conditional
	// evaluator evaluates the conditions of all checks within one budget.
	evaluator *celeval.Evaluator
	// requests are the values of impersonatedRequest for which the conditions must hold: the
	// request itself, and the create that a connection needs.
	requests []any
	// impersonated has the same requests for the authors of conditions, with the impersonated user.
	impersonated []*api.ImpersonationData
	// wildcards is true if a review asks about many versions or resources. Conditional decisions are then folded, because
	// conditions are written for one version of one resource.
	wildcards bool
	// residual has the residual conditions of all checks.
	residual residual
	// conditional is the number of checks that had conditions.
	conditional int
}

func (c *Conditional) newUserChecks(request authorizer.AttributesRecord, impersonated user.Info) *userChecks {
	u := &userChecks{
		Conditional: c,
		evaluator: &celeval.Evaluator{Compiler: c.Compiler, Partial: c.Partial, Values: cel.Values{
			cel.ImpersonatedUser: cel.Known(celeval.UserData(impersonated)),
		}},
		requests:  []any{cel.Known(celeval.RequestData(request))},
		wildcards: authorization.HasWildcards(request),
	}
	u.impersonated = append(u.impersonated, impersonationOf(request, impersonated))
	if request.Verb != "create" && c.NeedsCreate != nil && c.NeedsCreate(request) {
		request.Verb = "create"
		u.requests = append(u.requests, cel.Known(celeval.RequestData(request)))
		u.impersonated = append(u.impersonated, impersonationOf(request, impersonated))
	}
	return u
}

// check makes a check, and returns it with its answer and the residual conditions of the answer. The answer is a denial
// if the checks made so far have too many residual sets, or if too many of them have conditions.
func (u *userChecks) check(ctx context.Context, chain *authorization.Chain, attributes authorizer.AttributesRecord) (Check, residual) {
	check, residual := u.decide(ctx, chain, attributes)
	u.residual.add(residual)
	if len(check.Conditions) > 0 {
		u.conditional++
	}
	switch {
	case len(u.residual.all) > api.MaxConditionSets:
		check = check.denied(reasonUnenforceable, errMany)
	case u.conditional > maxConditionalParts:
		check = check.denied("the conditions on the user are too many to be evaluated", errParts)
	}
	return check, residual
}

// decide calls a chain, and evaluates its decision for each of u.requests. The answer is the strictest of these results,
// and the residual conditions of all are returned.
func (u *userChecks) decide(ctx context.Context, chain *authorization.Chain, attributes authorizer.AttributesRecord) (check Check, all residual) {
	check = Check{Mode: api.ImpersonationModeConditional, Attributes: attributes}
	decision := chain.Decide(ctx, authorization.Request{Attributes: attributes, Mode: api.ConditionsModeHumanReadable})
	if u.wildcards {
		decision = decision.Fold()
	}
	// A review shows the conditions, so requests must not evaluate more of them than a review can show.
	complete := decision
	decision, check.Conditions = authorization.Serializable(decision)
	if decision.IsUnconditional() {
		return check.answered(decision), residual{}
	}
	unanswered := check
	check.Decision = authorizer.DecisionAllow
	for i, request := range u.requests {
		u.evaluator.Values[cel.ImpersonatedRequest] = request
		decided := decision.WithAuthorsOf(complete).DecidedByAuthors(ctx, attributes.User, u.impersonated[i])
		answer, residual := u.evaluate(ctx, unanswered, decided)
		if i > 0 && !answer.passes() {
			answer.Reason = strings.TrimSuffix("a connection needs the verb create as well: "+answer.Reason, ": ")
		}
		check = check.and(answer)
		all.add(residual)
	}
	return check, all
}

// evaluate evaluates a conditional decision for one request, and returns the answer and its residual conditions. The
// answer is a denial if the residual conditions cannot be expressed as deny-only conditions.
func (u *userChecks) evaluate(ctx context.Context, check Check, decision authorization.Decision) (Check, residual) {
	decision = decision.Evaluate(ctx, authorization.Measured(authorization.StageImpersonation, u.evaluator))
	if decision.IsUnconditional() {
		return check.answered(decision), residual{}
	}
	denyOnly, err := u.denyOnly(decision)
	if err != nil {
		return check.denied(reasonUnenforceable, err), residual{}
	}
	check.OnObject = decision.CanBecomeAllowed()
	check.Decision, check.Reason = authorizer.DecisionNoOpinion, "no authorizer can allow it for any object"
	if check.OnObject {
		check.Reason = "allowed on conditions on the object"
	}
	return check, denyOnly
}

// and returns the stricter one of two answers to a check that must both pass. Of equally strict answers it returns the
// first, unless only the other has a reason.
func (c Check) and(other Check) Check {
	if other.strictness() > c.strictness() || other.strictness() == c.strictness() && c.Reason == "" {
		return other
	}
	return c
}

// strictness orders answers, from the least strict one: Allow, an answer that depends on the object, NoOpinion, Deny.
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

// answered returns the check with an unconditional decision as its answer.
func (c Check) answered(decision authorization.Decision) Check {
	c.Decision, c.Reason, c.Err = decision.Concrete()
	return c
}

// denied returns the check with a denial as its answer.
func (c Check) denied(reason string, err error) Check {
	c.OnObject = false
	c.Decision, c.Reason, c.Err = authorizer.DecisionDeny, reason, err
	return c
}

// part is a part of a user that needs a permission.
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

// identify returns the user that handlers would see, the part for the user name, and whether conditional mode can
// impersonate the wanted user at all. It refuses the same users and adds the same groups as the constrained modes of
// upstream's filter. For example, a wanted node or service account must have a name, but no UID, groups or extra.
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

// withImplicitGroup adds the group system:unauthenticated for the user system:anonymous. For every other user it adds
// system:authenticated, unless the groups contain system:unauthenticated.
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

// partsOf returns the parts of a user except the name: the UID, the groups, and the values of extra by sorted key.
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

// impersonationOf returns what the authors of conditions get to know about a request and the user that makes it.
func impersonationOf(a authorizer.AttributesRecord, u user.Info) *api.ImpersonationData {
	extra := make(map[string]authenticationv1.ExtraValue, len(u.GetExtra()))
	for key, values := range u.GetExtra() {
		extra[key] = values
	}
	return &api.ImpersonationData{
		Request: api.ImpersonatedRequest{
			Verb: a.Verb, APIGroup: a.APIGroup, APIVersion: a.APIVersion, Resource: a.Resource, Subresource: a.Subresource,
			Namespace: a.Namespace, Name: a.Name, Path: authorization.PathOf(a),
		},
		User: authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra},
	}
}
