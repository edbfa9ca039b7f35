/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// The domains of the IDs of conditions. The ID of a condition is its domain, a slash and the name of its policy. For a
// namespaced policy the domain is the namespace followed by namespacedDomain.
const (
	clusterDomain    = authorization.ClusterPolicyDomain
	namespacedDomain = authorization.NamespacedPolicyDomain
)

// Key identifies a policy. The namespace of a ClusterAuthorizationPolicy is empty.
type Key struct {
	Namespace string
	Name      string
}

// ConditionID returns the ID of the condition that comes from the policy.
func (k Key) ConditionID() string {
	if k.Namespace == "" {
		return clusterDomain + "/" + k.Name
	}
	return k.Namespace + namespacedDomain + "/" + k.Name
}

// The kinds of policies.
const (
	KindCluster    = "ClusterAuthorizationPolicy"
	KindNamespaced = "AuthorizationPolicy"
)

// Kind returns the kind of the policy.
func (k Key) Kind() string {
	if k.Namespace == "" {
		return KindCluster
	}
	return KindNamespaced
}

// String returns the kind and the name of the policy, with its namespace if it has one, for messages.
func (k Key) String() string {
	if k.Namespace == "" {
		return fmt.Sprintf("%s %q", k.Kind(), k.Name)
	}
	return fmt.Sprintf("%s \"%s/%s\"", k.Kind(), k.Namespace, k.Name)
}

// Compare orders keys by namespace and name.
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, other.Name)
}

// Policy is a compiled policy. It is immutable.
type Policy struct {
	key         Key
	id          string
	effect      policyv1alpha1.PolicyEffect
	description string
	subjects    []subject // empty means everybody
	rules       []rule
	condition   *condition // nil if the effect is unconditional
	// reason is the text for users in the decisions that the policy makes.
	reason string
	// failure is the error of a policy that could not be compiled. It is nil if the policy was compiled.
	failure error
	// tally counts evaluations. Builder.Apply sets it.
	tally *tally
	// audit counts what the policy would have done. It is nil for a policy that decides requests.
	audit *AuditCounts
}

// New compiles a policy. It returns an error for an unknown effect, and an error that wraps
// cel.ErrCompile for expressions that cannot be used. Broken makes a policy that fails closed
// from such a specification.
func New(key Key, spec *policyv1alpha1.AuthorizationPolicySpec, compiler *partial.Compiler) (*Policy, error) {
	p, _, err := NewWithCost(key, spec, compiler)
	return p, err
}

// NewWithCost is New. It also returns what compiling the expressions costs, in the units of cel.CostLimit, also if they
// cannot be used.
func NewWithCost(key Key, spec *policyv1alpha1.AuthorizationPolicySpec, compiler *partial.Compiler) (*Policy, uint64, error) {
	p := newPolicy(key, spec)
	switch spec.Effect {
	case policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny, policyv1alpha1.PolicyEffectNoOpinion:
	default:
		return nil, 0, fmt.Errorf("effect %q is not known", spec.Effect)
	}
	if spec.Condition == "" {
		return p, 0, nil
	}
	variables := make([]cel.NamedExpression, 0, len(spec.Variables))
	for _, v := range spec.Variables {
		variables = append(variables, cel.NamedExpression{Name: v.Name, Expression: v.Expression})
	}
	expression, cost, err := compiler.CompileWithCost(variables, spec.Condition)
	if err != nil {
		return nil, cost, err
	}
	p.condition, err = newCondition(expression, p.rules)
	return p, cost, err
}

// ErrPending means that a policy waits to be compiled.
var ErrPending = errors.New("it has not been compiled yet")

// Broken makes a policy that could not be compiled and has no earlier compilation. With the effect Deny or NoOpinion it
// denies all requests that its subjects and rules match, and with the effect Allow it grants nothing. With the enforcement Audit it
// denies nothing. If a subject has an
// unknown kind, the policy is about all users.
func Broken(key Key, spec *policyv1alpha1.AuthorizationPolicySpec, failure error) *Policy {
	p := newPolicy(key, spec)
	if slices.ContainsFunc(spec.Subjects, hasUnknownKind) {
		p.subjects = nil // whom it was meant for is not known: it denies everybody
	}
	p.failure = failure
	// The error quotes the condition, which the users that it denies may not read. The status of the policy has it.
	text := "its condition does not compile"
	if errors.Is(failure, ErrPending) {
		text = ErrPending.Error()
	}
	p.reason = p.explain(authorization.WordError, text)
	return p
}

func newPolicy(key Key, spec *policyv1alpha1.AuthorizationPolicySpec) *Policy {
	p := &Policy{
		key: key, id: key.ConditionID(), effect: spec.Effect, description: spec.Description,
		subjects: subjectsOf(spec), rules: rulesOf(spec),
	}
	if isAudit(spec) {
		p.audit = &AuditCounts{}
	}
	p.reason = p.explain(map[policyv1alpha1.PolicyEffect]authorization.Word{
		policyv1alpha1.PolicyEffectAllow: authorization.WordAllowed, policyv1alpha1.PolicyEffectDeny: authorization.WordDenied,
		policyv1alpha1.PolicyEffectNoOpinion: authorization.WordHeldBack,
	}[spec.Effect])
	return p
}

// explain returns the reason that the policy gives for a decision.
func (p *Policy) explain(word authorization.Word, texts ...string) string {
	return authorization.Explain(p.id, word, append([]string{p.description}, texts...)...)
}

// explainError returns the reason for a decision because the condition has failed. It quotes no data.
func (p *Policy) explainError(err error) string {
	class := cel.FailureClass(err)
	if class == cel.ErrEvaluation.Error() { // says no more
		class = ""
	}
	return p.explain(authorization.WordError, "its condition could not be evaluated", class)
}

// Key identifies the policy.
func (p *Policy) Key() Key { return p.key }

// Expression returns the compiled condition, or nil if the effect is unconditional or nothing could be compiled.
func (p *Policy) Expression() *partial.Expression {
	if p.condition == nil {
		return nil
	}
	return p.condition.expression
}

// restricts reports whether the policy decides in the place Restricting: it is a Deny policy, or a NoOpinion policy that could
// not be compiled.
func (p *Policy) restricts() bool {
	return p.effect == policyv1alpha1.PolicyEffectDeny || (p.failure != nil && p.effect != policyv1alpha1.PolicyEffectAllow)
}

// grantsNothing reports whether the policy is an Allow policy that could not be compiled. No snapshot needs it.
func (p *Policy) grantsNothing() bool {
	return p.failure != nil && p.effect == policyv1alpha1.PolicyEffectAllow
}

// conditionEffect is the effect of the policy's condition.
func (p *Policy) conditionEffect() authorization.Effect {
	switch p.effect {
	case policyv1alpha1.PolicyEffectAllow:
		return authorization.EffectAllow
	case policyv1alpha1.PolicyEffectNoOpinion:
		return authorization.EffectNoOpinion
	default:
		return authorization.EffectDeny
	}
}

// subject is a user or a group that a policy names. A service account is the user with the username of the service account.
type subject struct {
	group bool
	name  string
}

// Subjects are the users that a policy is about.
type Subjects struct{ subjects []subject }

// SubjectsOf returns the subjects of a specification, for code that must match users as policies do.
func SubjectsOf(spec *policyv1alpha1.AuthorizationPolicySpec) Subjects {
	return Subjects{subjectsOf(spec)}
}

// Have reports whether the policy is about a user. It returns false for nil.
func (s Subjects) Have(u user.Info) bool {
	if u == nil {
		return false
	}
	return len(s.subjects) == 0 || slices.ContainsFunc(s.subjects, func(of subject) bool {
		//guard:engine-subjects-groups
		return !of.group && of.name == u.GetName() || of.group && slices.Contains(u.GetGroups(), of.name)
	})
}

func hasUnknownKind(s rbacv1.Subject) bool {
	return s.Kind != rbacv1.UserKind && s.Kind != rbacv1.GroupKind && s.Kind != rbacv1.ServiceAccountKind
}

// subjectsOf returns the subjects of a policy, sorted. A policy without subjects is about all authenticated users if its
// effect is Allow; otherwise it is about all users, and the result is nil. A subject of a kind that RBAC does not have,
// which validation refuses, counts as a user.
func subjectsOf(spec *policyv1alpha1.AuthorizationPolicySpec) []subject {
	if len(spec.Subjects) == 0 {
		if spec.Effect == policyv1alpha1.PolicyEffectAllow {
			return []subject{{group: true, name: user.AllAuthenticated}}
		}
		return nil
	}
	subjects := make([]subject, 0, len(spec.Subjects))
	for _, s := range spec.Subjects {
		switch s.Kind {
		case rbacv1.GroupKind:
			subjects = append(subjects, subject{group: true, name: s.Name})
		case rbacv1.ServiceAccountKind:
			subjects = append(subjects, subject{name: serviceaccount.MakeUsername(s.Namespace, s.Name)})
		default:
			subjects = append(subjects, subject{name: s.Name})
		}
	}
	slices.SortFunc(subjects, func(a, b subject) int {
		switch {
		case a == b:
			return 0
		case a.group != b.group && b.group, a.group == b.group && a.name < b.name:
			return -1
		}
		return 1
	})
	return slices.Compact(subjects)
}
