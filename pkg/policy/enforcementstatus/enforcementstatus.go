/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcementstatus

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

// Server describes where requests are decided. The zero value serves nothing and has no front door.
type Server struct {
	// Coverage returns two sets of verbs for the resources that attributes name; their group, resource and subresource may
	// be *. enforced has the verbs for which this server enforces conditions on one of these resources at least, and folded
	// the verbs that it serves without enforcement for one of them at least. Both are about the given versions, or about all
	// versions if none is given. If Coverage is nil, both sets are empty. It is called once for each resource in each
	// group of a rule.
	Coverage func(attributes authorizer.Attributes, versions []string) (enforced, folded sets.Set[string])
	// Elsewhere reports whether kube-apiserver serves some of the versions of a group itself that this server can serve, or passes them on to another
	// server. Without versions, all count. If nil, no server but this one serves them.
	Elsewhere func(group string, versions []string) bool
	// FrontDoor reports whether the front door is enabled.
	FrontDoor bool
	// Writes returns the verbs of the writes whose conditions the front door leaves to kube-apiserver, for a resource or a subresource. The group
	// and the resource may be *. If nil, it leaves none.
	Writes func(group, resource, subresource string) []string
	// Places returns which conditions other components evaluate at admission. If nil, they evaluate none.
	Places func() *Places
	// Barrier returns the barrier of a Deny policy with a namespace and a name, or nil if it has none. If isStored is false, it returns the barrier
	// that the policy would have with the specification. If Barrier is nil, no policy has a barrier.
	Barrier func(namespace, name string, spec *policyv1alpha1.AuthorizationPolicySpec, isStored bool) *Barrier
	// BarriersAreKnown reports whether Barrier knows the state of stored barriers. If nil, it does.
	BarriersAreKnown func() bool
	// LeavesOut reports whether kube-apiserver decides all requests of a user without Proviso: it calls no door about them, and barriers
	// exempt them. If nil, it leaves out no user.
	LeavesOut func(user.Info) bool
}

// LeftOut returns the indexes of the subjects of a policy whose requests to kube-apiserver are decided without Proviso, as far as their names
// tell. It returns none if all rules are about requests that only this server gets.
func (s Server) LeftOut(spec *policyv1alpha1.AuthorizationPolicySpec) (indexes []int) {
	isElsewhere := func(rule policyv1alpha1.PolicyRule) bool {
		return len(rule.NonResourceURLs) > 0 || slices.ContainsFunc(rule.APIGroups, func(group string) bool { return s.servedElsewhere(group, rule.APIVersions) })
	}
	//guard:status-subjects-left-out
	if s.LeavesOut == nil || !slices.ContainsFunc(spec.Rules, isElsewhere) {
		return nil
	}
	for i, subject := range spec.Subjects {
		if s.leavesOut(subject) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

func (s Server) leavesOut(subject rbacv1.Subject) bool {
	u := &user.DefaultInfo{Name: subject.Name}
	namespace, name, err := serviceaccount.SplitUsername(subject.Name)
	switch {
	case subject.Kind == rbacv1.GroupKind:
		u = &user.DefaultInfo{Groups: []string{subject.Name}}
	case subject.Kind == rbacv1.ServiceAccountKind:
		return s.LeavesOut(serviceaccount.UserInfo(subject.Namespace, subject.Name, ""))
	case err == nil:
		return s.LeavesOut(serviceaccount.UserInfo(namespace, name, ""))
	case strings.HasPrefix(subject.Name, "system:node:"):
		u.Groups = []string{user.NodesGroup}
	}
	return s.LeavesOut(u)
}

// Reads classifies the data that a condition reads. It is Request, Namespace or More, where each value includes the values before it. The
// bit Unseen may be set in addition.
type Reads uint8

const (
	// Request means that the condition reads the request alone, or that there is no condition.
	Request Reads = iota
	// Namespace means that the condition also reads the namespace of the request.
	Namespace
	// More means that the condition also reads other data, such as the object.
	More
	// Unseen means that the condition may read the path or the selectors of the request, which an admission webhook does not receive.
	Unseen Reads = 1 << 7
)

func (r Reads) level() Reads    { return r &^ Unseen }
func (r Reads) hasUnseen() bool { return r&Unseen != 0 }

// ReadsOf returns what a condition depends on, without Unseen.
func ReadsOf(condition interface {
	ReadsOnly(variables ...cel.Variable) bool
}) Reads {
	switch {
	case condition.ReadsOnly(cel.Request):
		return Request
	case condition.ReadsOnly(cel.Request, cel.NamespaceObject):
		return Namespace
	default:
		return More
	}
}

// servedGroups are the groups of which this server serves a version. The group of the demo API counts whether or not it is
// served.
var servedGroups = []string{authorization.GroupName, authorization.ProvisoGroupName, demo.GroupName, policyv1alpha1.GroupName}

// standardVerbs are the verbs that * of a rule is resolved to.
var standardVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// Of is OfPolicy for a policy without a barrier.
func (s Server) Of(spec *policyv1alpha1.AuthorizationPolicySpec, reads Reads) []policyv1alpha1.RuleEnforcement {
	return s.of(spec, reads, nil)
}

// OfPolicy returns what the rules of a stored policy do, in the order of the rules. reads says on what the condition of the policy depends. The number of
// entries is not bounded; see Bounded.
func (s Server) OfPolicy(namespace, name string, spec *policyv1alpha1.AuthorizationPolicySpec, reads Reads) []policyv1alpha1.RuleEnforcement {
	return s.of(spec, reads, s.barrierOf(namespace, name, spec, true))
}

// OfWrite is OfPolicy for a specification that is about to be written.
func (s Server) OfWrite(namespace, name string, spec *policyv1alpha1.AuthorizationPolicySpec, reads Reads) []policyv1alpha1.RuleEnforcement {
	return s.of(spec, reads, s.barrierOf(namespace, name, spec, false))
}

func (s Server) barrierOf(namespace, name string, spec *policyv1alpha1.AuthorizationPolicySpec, isStored bool) *Barrier {
	if s.Barrier == nil || spec.Effect != policyv1alpha1.PolicyEffectDeny {
		return nil
	}
	return s.Barrier(namespace, name, spec, isStored)
}

func (s Server) of(spec *policyv1alpha1.AuthorizationPolicySpec, reads Reads, b *Barrier) []policyv1alpha1.RuleEnforcement {
	var entries []policyv1alpha1.RuleEnforcement
	places := s.places()
	for i := range spec.Rules {
		found := findings{}
		read := spec.Rules[i]
		read.Verbs = policy.VerbsOf(spec.Effect, read.Resources, read.Verbs)
		rule := &read
		for _, path := range rule.NonResourceURLs {
			for _, place := range []policyv1alpha1.EnforcementPlace{policyv1alpha1.EnforcedAtServer, s.others()} {
				found.addAll(path, rule.Verbs, s.outcome(place, spec.Effect, reads, false))
			}
		}
		all := Entry{Effect: spec.Effect, Reads: reads, Verbs: rule.Verbs, Versions: rule.APIVersions, found: found}
		barred, others := s.barred(b, i, rule, reads), s.elsewhere(places)
		for _, group := range rule.APIGroups {
			for _, path := range rule.Resources {
				all.Group, all.Path = group, path
				s.resource(all, barred, others)
			}
		}
		if barred != nil {
			//guard:status-unseen
			for _, e := range barred.notNamed(all) {
				share(others, e)
			}
		}
		for _, outcome := range found.outcomes() {
			for _, part := range found.parts(outcome) {
				entries = append(entries, policyv1alpha1.RuleEnforcement{
					Rule: int32(i), Verbs: part.verbs, Resources: part.resources, //nolint:gosec // a policy has at most 64 rules
					At: outcome.At, Result: outcome.Result, Message: message(outcome, reads),
				})
			}
		}
	}
	if spec.Enforcement == policyv1alpha1.PolicyEnforcementAudit {
		audited(entries)
	}
	if len(spec.Subjects) > 0 && len(s.LeftOut(spec)) == len(spec.Subjects) {
		leftOut(entries)
	}
	return entries
}

const subjectsLeftOut = "kube-apiserver decides all requests of these subjects without Proviso, and barriers exempt them, so that the policy does not apply"

// leftOut changes entries to what they are if kube-apiserver decides all requests of the subjects of a policy without Proviso.
func leftOut(entries []policyv1alpha1.RuleEnforcement) {
	for i := range entries {
		if e := &entries[i]; e.At != policyv1alpha1.EnforcedAtServer && e.At != policyv1alpha1.EnforcedAtReviews {
			e.Result, e.Message = policyv1alpha1.ResultNotEnforced, subjectsLeftOut
		}
	}
}

// The messages of a policy with the enforcement Audit.
const (
	inAudit          = "the requests to which the policy would apply are counted. With the enforcement Enforce: "
	inAuditAtBarrier = "kube-apiserver warns about the requests to which the policy would apply, and annotates their audit events, but no request is counted. With the enforcement Enforce: "
	nothingCounts    = "the front door is disabled, so that no request to other servers is counted"
)

// audited changes entries to what they are with the enforcement Audit: the policy decides nothing.
func audited(entries []policyv1alpha1.RuleEnforcement) {
	for i := range entries {
		e := &entries[i]
		if e.Result == policyv1alpha1.ResultNotEnforced {
			e.Message = nothingCounts
			continue
		}
		prefix := inAudit
		if e.At == policyv1alpha1.EnforcedAtBarrier {
			prefix = inAuditAtBarrier
		}
		e.Result, e.Message = policyv1alpha1.ResultAudited, excerpt.Of(prefix+e.Message, policy.MaxEnforcementMessageBytes)
	}
}

// places returns what is known about other components. Without the front door, they are not asked.
func (s Server) places() *Places {
	if s.Places == nil || !s.FrontDoor {
		return nil
	}
	return s.Places()
}

// AreKnown reports whether the server has read the facts about other components. It may be false for some seconds after the start.
func (s Server) AreKnown() bool {
	return s.places().areKnown() && (s.BarriersAreKnown == nil || s.BarriersAreKnown())
}

// others is the place where requests to other servers are decided.
func (s Server) others() policyv1alpha1.EnforcementPlace {
	//guard:status-no-front-door
	if s.FrontDoor {
		return policyv1alpha1.EnforcedAtFrontDoor
	}
	return policyv1alpha1.EnforcedAtReviews
}

// resource adds what happens to requests for one entry of the resources of a rule in one of its groups.
func (s Server) resource(e Entry, barred *barred, others []Place) {
	if s.servedElsewhere(e.Group, e.Versions) {
		if barred != nil {
			others = append([]Place{barred}, others...)
		}
		share(others, e)
	}
	if e.Group != "*" && !slices.Contains(servedGroups, e.Group) {
		return
	}
	if e.Reads.level() == Request {
		e.Add(e.Verbs, s.outcome(policyv1alpha1.EnforcedAtServer, e.Effect, e.Reads, true))
		return
	}
	enforced, folded := s.coverage(e.Group, e.Path, e.Versions)
	var evaluatedVerbs, foldedVerbs []string
	isServed := false
	for _, verb := range resolved(e.Verbs) {
		isServed = isServed || enforced.Has(verb) || folded.Has(verb)
		if enforced.Has(verb) {
			evaluatedVerbs = append(evaluatedVerbs, verb)
		}
		// What this server does not serve, it may be asked about in reviews, where the condition is folded as well.
		isNamed := e.Group != "*" && !slices.Contains(e.Verbs, "*")
		//guard:status-served-folded
		if folded.Has(verb) || isNamed && !enforced.Has(verb) {
			foldedVerbs = append(foldedVerbs, verb)
		}
	}
	//guard:status-not-served
	if !isServed && e.Group != "*" {
		foldedVerbs = e.Verbs
	}
	e.Add(evaluatedVerbs, s.outcome(policyv1alpha1.EnforcedAtServer, e.Effect, e.Reads, true))
	e.Add(foldedVerbs, s.outcome(policyv1alpha1.EnforcedAtServer, e.Effect, e.Reads, false))
}

// elsewhere returns the places of requests that other servers serve, after the barrier of the policy.
func (s Server) elsewhere(p *Places) []Place {
	if p == nil {
		return []Place{folding{s}}
	}
	var places []Place
	if p.facts.KubeAPIServers != nil && s.Writes != nil {
		places = append(places, handling{p, s.Writes})
	}
	return append(append(places, p.facts.Others...), admission{p, map[*string]map[string][]string{}}, folding{s})
}

// folding is the last place, which leaves nothing: the front door, or reviews.
type folding struct{ Server }

// Share implements Place.
func (f folding) Share(e Entry) []Entry {
	o := f.outcome(f.others(), e.Effect, e.Reads, false)
	if o.Result != policyv1alpha1.ResultEnforced {
		o.Note = e.Note
	}
	e.Add(e.Verbs, o)
	return nil
}

// servedElsewhere reports whether another server serves some of the requests that a rule describes in a group. This server
// serves one version of authorization.k8s.io, the group of reviews, and kube-apiserver the others.
func (s Server) servedElsewhere(group string, versions []string) bool {
	if s.Elsewhere != nil && s.Elsewhere(group, versions) {
		return true
	}
	if group == authorization.GroupName {
		return len(versions) == 0 || slices.ContainsFunc(versions, func(version string) bool { return version != authorizationv1alpha1.SchemeGroupVersion.Version })
	}
	return group == "*" || !slices.Contains(servedGroups, group)
}

// coverage is Coverage for one entry of a rule.
func (s Server) coverage(group, path string, versions []string) (enforced, folded sets.Set[string]) {
	if s.Coverage == nil {
		return nil, nil
	}
	resource, subresource, _ := strings.Cut(path, "/")
	if path == "*" { // subresources, too
		subresource = "*"
	}
	return s.Coverage(authorizer.AttributesRecord{APIGroup: group, Resource: resource, Subresource: subresource, ResourceRequest: true}, versions)
}

// resolved returns the verbs of a rule, with the standard verbs for *.
func resolved(verbs []string) []string {
	if slices.Contains(verbs, "*") {
		return standardVerbs
	}
	return verbs
}

// qualified returns a resource of a rule with its group, as kubectl writes it.
func qualified(group, path string) string {
	resource, subresource, hasSubresource := strings.Cut(path, "/")
	if group != "" {
		resource += "." + group
	}
	if hasSubresource {
		resource += "/" + subresource
	}
	return resource
}

// outcome returns what a policy does in one place. evaluated is true if the place evaluates conditions on objects. A condition
// that reads more than is known at authorization is folded in all other places. The front door knows the namespace as well as
// the request at authorization.
func (s Server) outcome(at policyv1alpha1.EnforcementPlace, effect policyv1alpha1.PolicyEffect, reads Reads, evaluated bool) Outcome {
	switch {
	case at == policyv1alpha1.EnforcedAtReviews:
		return Outcome{At: at, Result: policyv1alpha1.ResultNotEnforced}
	//guard:status-folded-condition
	case evaluated, reads.level() == Request, reads.level() == Namespace && at == policyv1alpha1.EnforcedAtFrontDoor:
		return Outcome{At: at, Result: policyv1alpha1.ResultEnforced}
	case effect == policyv1alpha1.PolicyEffectAllow:
		return Outcome{At: at, Result: policyv1alpha1.ResultGrantsNothing}
	case effect == policyv1alpha1.PolicyEffectNoOpinion:
		return Outcome{At: at, Result: policyv1alpha1.ResultWithholdsUnconditionally}
	default:
		return Outcome{At: at, Result: policyv1alpha1.ResultDeniesUnconditionally}
	}
}

// Bounded returns as many entries as a status may have. The first ones are kept.
func Bounded(entries []policyv1alpha1.RuleEnforcement) []policyv1alpha1.RuleEnforcement {
	return entries[:min(len(entries), policy.MaxRuleEnforcements)]
}
