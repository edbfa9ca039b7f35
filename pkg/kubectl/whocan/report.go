/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// kindPrivilegedGroup is the kind of a source that is no object.
const kindPrivilegedGroup = "PrivilegedGroup"

// report is the answer, as --output=json prints it. docs/kubectl-proviso.md describes the fields.
type report struct {
	APIVersion   string           `json:"apiVersion"`
	Kind         string           `json:"kind"`
	Request      question.Request `json:"request"`
	Complete     bool             `json:"complete"`
	Gaps         []string         `json:"gaps"`
	Warnings     []string         `json:"warnings"`
	Subjects     []subjectAnswer  `json:"subjects"`
	Restrictions []restriction    `json:"restrictions"`
	Narrower     []narrowerGrant  `json:"narrower"`

	// The policies and permissions whose rules match the request.
	policies    []*policy
	permissions []permission
}

// permission is a binding that allows the request, or narrower ones.
type permission struct {
	*rbac.Permission
	only narrowing
}

// subjectAnswer is the answer for one subject, with everything that allows or restricts it, in the order in which it decides.
type subjectAnswer struct {
	subjectName
	Answer answer.Verdict `json:"answer"`
	Parts  []part         `json:"parts"`
}

type subjectName struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// source is a binding or a policy.
type source struct {
	Kind      string       `json:"kind"`
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name"`
	Role      *subjectName `json:"role,omitempty"`
}

// part is what one binding or policy does to a request. Without a condition it always does it.
type part struct {
	Effect      policyv1alpha1.PolicyEffect `json:"effect"`
	Condition   string                      `json:"condition,omitempty"`
	Words       string                      `json:"words,omitempty"`
	Source      source                      `json:"source"`
	Description string                      `json:"description,omitempty"`

	// variables are the variables of a policy.
	variables []policyv1alpha1.Variable
	// result is always or onCondition. only is not empty if the part is about narrower requests than the question.
	result result
	only   narrowing
}

// restriction is a Deny or NoOpinion policy about the request, for any users.
type restriction struct {
	part
	AllUsers bool          `json:"allUsers,omitempty"`
	Subjects []subjectName `json:"subjects,omitempty"`
}

// narrowerGrant allows the request with a selector, for certain names of objects, or in one namespace, only.
type narrowerGrant struct {
	Source   source        `json:"source"`
	Subjects []subjectName `json:"subjects"`
}

func nameOf(s rbacv1.Subject) subjectName {
	s = normalized(s)
	return subjectName{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}
}

func namesOf(subjects []rbacv1.Subject) []subjectName {
	names := make([]subjectName, 0, len(subjects))
	for _, s := range subjects {
		names = append(names, nameOf(s))
	}
	return names
}

// input has the permissions and the policies of a cluster, or of files.
type input struct {
	permissions []*rbac.Permission
	policies    map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec
	// stored has the status of each policy of a cluster.
	stored map[engine.Key]*stored
	// gaps say what could not be read.
	gaps []string
	// namespaces has the namespace of the question. It is nil if the namespace is not known: then conditions that read it are shown.
	namespaces authorization.Namespaces
	// isClusterScoped says that the question is about a resource without namespaces: then roles and policies of a namespace say nothing about it.
	isClusterScoped bool
}

// reportOf returns the answer to a question.
func reportOf(ctx context.Context, in *input, record authorizer.AttributesRecord, compiler *partial.Compiler) *report {
	r := &report{
		APIVersion: "report.proviso.dev/v1alpha1", Kind: "WhoCan", Gaps: slices.Clone(in.gaps),
		Request:  question.RequestOf(record),
		Warnings: []string{}, Subjects: []subjectAnswer{}, Restrictions: []restriction{}, Narrower: []narrowerGrant{},
	}
	ctx = authorization.WithNamespaces(ctx, in.namespaces)
	lists := [][]rbacv1.Subject{{{Kind: rbacv1.GroupKind, Name: user.SystemPrivilegedGroup}}}
	for _, p := range in.permissions {
		if in.isClusterScoped && p.Namespace != "" {
			continue
		}
		//guard:who-can-roles-missing
		if p.Unknown && (p.Namespace == "" || p.Namespace == record.Namespace || record.ResourceRequest && record.Namespace == "") {
			r.Gaps = append(r.Gaps, fmt.Sprintf("%v: the %s %q, or its rules, are missing: they could not be read, or are in no file", p, p.Role.Kind, p.Role.Name))
		}
		rules := engine.RulesOf(p.Key(), p.Spec)
		matches := func(record authorizer.AttributesRecord) bool { return len(rules.Matching(record)) > 0 }
		only, isMatched := narrowingOf(p.Key(), p.Spec, record, matches)
		if !isMatched {
			continue
		}
		r.permissions, lists = append(r.permissions, permission{p, only}), append(lists, p.Spec.Subjects)
		if !only.isEmpty() {
			r.Narrower = append(r.Narrower, narrowerGrant{Source: sourceOfPermission(p), Subjects: namesOf(p.Spec.Subjects)})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(in.policies), engine.Key.Compare) {
		spec := in.policies[key]
		if spec.Enforcement == policyv1alpha1.PolicyEnforcementAudit || in.isClusterScoped && key.Namespace != "" {
			continue
		}
		if p := matching(key, spec, record, compiler); p != nil {
			r.policies, lists = append(r.policies, p), append(lists, spec.Subjects)
			r.check(p, in.stored[key])
			if spec.Effect == policyv1alpha1.PolicyEffectAllow && (!p.only.isEmpty() || p.readsMissing() || p.readsSelectors()) {
				r.Narrower = append(r.Narrower, narrowerGrant{Source: sourceOfPolicy(key), Subjects: namesOf(spec.Subjects)})
			}
		}
	}
	requesters := requestersOf(lists...)
	for i, q := range requesters {
		terminal.From(ctx).Progress("%d of %d subjects are decided", i, len(requesters))
		if a := r.answer(ctx, q); a != nil {
			r.Subjects = append(r.Subjects, *a)
		}
	}
	r.addRestrictions()
	if r.Complete = len(r.Gaps) == 0; r.Complete {
		r.Gaps = []string{}
	}
	return r
}

// check adds the gaps and the warnings about a policy, from its compilation and its status. Requests for which the server does not enforce a
// restriction are a gap, because the answer may then be too narrow; for an Allow policy they are a warning. A policy from a file has no status.
func (r *report) check(p *policy, of *stored) {
	if p.failure != nil {
		r.Gaps = append(r.Gaps, fmt.Sprintf("%v does not compile here, so that the server may decide by an earlier version of it: %v", p.key, p.failure))
	}
	if of == nil {
		return
	}
	ready := meta.FindStatusCondition(of.status.Conditions, policyv1alpha1.PolicyReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != of.generation {
		r.Gaps = append(r.Gaps, fmt.Sprintf("%v: the server has not compiled this version of it, and may decide by an earlier one", p.key))
	}
	for i := range of.status.Enforcement {
		e := &of.status.Enforcement[i]
		if verb := r.Request.Verb; verb != "*" && !slices.Contains(e.Verbs, verb) && !slices.Contains(e.Verbs, "*") {
			continue
		}
		text := fmt.Sprintf("%v on %s %s: %s: %s", p.key, strings.Join(e.Verbs, ","), strings.Join(e.Resources, ","), e.Result, e.Message)
		switch {
		case p.spec.Effect != policyv1alpha1.PolicyEffectAllow && (e.Result == policyv1alpha1.ResultNotEnforced || e.Result == policyv1alpha1.ResultPending):
			r.Gaps = append(r.Gaps, text)
		case e.Result != policyv1alpha1.ResultEnforced:
			r.Warnings = append(r.Warnings, text)
		}
	}
}

// answer returns the answer for a requester, or nil if nothing allows the request.
func (r *report) answer(ctx context.Context, q requester) *subjectAnswer {
	a := &subjectAnswer{subjectName: nameOf(q.subject)}
	if slices.Contains(q.user.Groups, user.SystemPrivilegedGroup) {
		a.Answer = answer.Yes
		a.Parts = []part{{Effect: policyv1alpha1.PolicyEffectAllow, Source: source{Kind: kindPrivilegedGroup, Name: user.SystemPrivilegedGroup}, Description: "every request of the group is allowed"}}
		return a
	}
	permissions := r.permissionsOf(q)
	allowed := r.partsOf(ctx, q, policyv1alpha1.PolicyEffectAllow, nil)
	held := r.partsOf(ctx, q, policyv1alpha1.PolicyEffectNoOpinion, allowed)
	denials := r.partsOf(ctx, q, policyv1alpha1.PolicyEffectDeny, slices.Concat(permissions, allowed))
	if len(permissions)+len(allowed) == 0 {
		return nil
	}
	a.Answer, a.Parts = verdictOf(denials, permissions, held, allowed), slices.Concat(denials, permissions, held, allowed)
	return a
}

// verdictOf returns the answer of a chain of authorizers: Deny policies, RBAC, NoOpinion policies, Allow policies.
func verdictOf(denials, permissions, held, allowed []part) answer.Verdict {
	hasAlways := func(parts []part) bool {
		return slices.ContainsFunc(parts, func(p part) bool { return p.result == always })
	}
	// Policies allow the request whatever its conditions are.
	isAllowed := hasAlways(allowed) && len(held) == 0 && len(denials) == 0
	switch {
	case hasAlways(denials):
		return answer.No
	case hasAlways(permissions) && len(denials) > 0:
		return answer.YesIf
	case hasAlways(permissions):
		return answer.Yes
	case len(permissions) > 0 && !isAllowed:
		return answer.YesIf
	//guard:who-can-policies-hold-back
	case hasAlways(held):
		return answer.No
	case isAllowed:
		return answer.Yes
	case len(allowed) > 0:
		return answer.YesIf
	}
	return answer.No
}

// partsOf returns the policies with an effect that apply to a requester. Restrictions apply to grants.
func (r *report) partsOf(ctx context.Context, q requester, effect policyv1alpha1.PolicyEffect, grants []part) (parts []part) {
	for _, p := range r.policies {
		if p.spec.Effect != effect {
			continue
		}
		of, needs := p.of(ctx, q)
		//guard:who-can-restrictions-narrower
		if of != none && effect != policyv1alpha1.PolicyEffectAllow && !p.only.isEmpty() {
			restricts := p.only.restricts(grants, r.Request.Namespace == "" && slices.Contains(selecting, r.Request.Verb))
			if restricts == none || p.isUnconditional() {
				of = restricts
			}
		}
		if of != none {
			made := p.part(needs)
			made.result, made.only = of, p.only
			parts = append(parts, made)
		}
	}
	return parts
}

func (p *policy) part(of needs) part {
	made := part{Effect: p.spec.Effect, Source: sourceOfPolicy(p.key), Condition: of.condition, Words: of.words, Description: p.spec.Description, variables: p.spec.Variables}
	if words := answer.Words(of.condition); made.Words == "" && words != of.condition {
		made.Words = words
	}
	return made
}

// permissionsOf returns the bindings that allow the request of a requester, or narrower ones.
func (r *report) permissionsOf(q requester) (parts []part) {
	for _, p := range r.permissions {
		if len(p.Spec.Subjects) == 0 || !engine.SubjectsOf(p.Spec).Have(q.user) {
			continue
		}
		made := part{Effect: policyv1alpha1.PolicyEffectAllow, Source: sourceOfPermission(p.Permission), result: always, only: p.only}
		if !p.only.isEmpty() {
			of := p.only.needs("", r.Request.Verb)
			made.Condition, made.Words, made.result = of.condition, of.words, onCondition
		}
		parts = append(parts, made)
	}
	return parts
}

func sourceOfPermission(p *rbac.Permission) source {
	return source{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, Role: &subjectName{Kind: p.Role.Kind, Name: p.Role.Name}}
}

func sourceOfPolicy(key engine.Key) source {
	return source{Kind: key.Kind(), Namespace: key.Namespace, Name: key.Name}
}

// addRestrictions adds the policies that restrict the request for some users.
func (r *report) addRestrictions() {
	for _, p := range r.policies {
		if p.spec.Effect == policyv1alpha1.PolicyEffectAllow {
			continue
		}
		of := needs{}
		if p.expression != nil {
			of.condition = p.expression.Text()
		}
		if !p.only.isEmpty() {
			of = p.only.needs(of.condition, p.record.Verb)
		}
		r.Restrictions = append(r.Restrictions, restriction{part: p.part(of), AllUsers: len(p.spec.Subjects) == 0, Subjects: namesOf(p.spec.Subjects)})
	}
}

// canHaveName reports whether requests with these attributes can have the name of an object.
func canHaveName(record authorizer.AttributesRecord) bool {
	return record.ResourceRequest && (record.Verb != "create" && record.Verb != "deletecollection" || record.Subresource != "")
}

// String returns a source as texts show it: the kind, except for policies and groups, and the name.
func (s source) String() string {
	name := cache.NewObjectName(s.Namespace, s.Name).String()
	switch s.Kind {
	case engine.KindCluster, engine.KindNamespaced:
		return "policy " + name
	case kindPrivilegedGroup:
		return "privileged group"
	}
	return s.Kind + " " + name
}

// String returns the kind and the name of a subject.
func (s subjectName) String() string {
	return s.Kind + " " + cache.NewObjectName(s.Namespace, s.Name).String()
}
