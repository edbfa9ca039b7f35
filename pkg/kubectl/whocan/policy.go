/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
)

// policy is a policy that can decide for users of any name. For its record, its rules match.
type policy struct {
	key      engine.Key
	spec     *policyv1alpha1.AuthorizationPolicySpec
	subjects engine.Subjects
	// evaluated decides by the condition. assumed decides as if the data that the condition needs were not known.
	evaluated, assumed *engine.Authorizer
	expression         *partial.Expression
	record             authorizer.AttributesRecord
	// only is not empty if the rules match narrower requests than the question.
	only narrowing
	// failure says why the policy does not compile.
	failure error
}

// result is what a policy does to the request of one user.
type result uint8

const (
	none result = iota
	// onCondition means that the policy applies if its condition is true.
	onCondition
	always
)

// unknownCondition reads data that no server knows at authorization.
const unknownCondition = "dryRun"

// matching returns a policy for a request that its rules match, or for the narrower ones that they match, and nil for others.
func matching(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec, record authorizer.AttributesRecord, compiler *partial.Compiler) *policy {
	p := &policy{key: key, spec: spec, subjects: engine.SubjectsOf(spec), record: record}
	bare := *spec
	bare.Condition, bare.Variables = "", nil
	bare.Subjects = nil // for all users: the subjects are matched apart
	if spec.Effect == policyv1alpha1.PolicyEffectAllow {
		bare.Subjects = []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: user.AllAuthenticated}}
	} else {
		bare.Effect = policyv1alpha1.PolicyEffectDeny // matches, and fails, in the same way, and its result shows
	}
	rules, _, err := authorizerOf(key, &bare, compiler)
	if err != nil {
		p.failure = err
		return p
	}
	matches := func(record authorizer.AttributesRecord) bool {
		return !p.decide(context.Background(), rules, record, "").IsNoOpinion()
	}
	var isMatched bool
	if p.only, isMatched = narrowingOf(key, spec, record, matches); !isMatched {
		return nil
	}
	if p.evaluated, p.assumed = rules, rules; spec.Condition == "" {
		return p
	}
	conditional := bare
	conditional.Condition = unknownCondition
	if p.assumed, _, p.failure = authorizerOf(key, &conditional, compiler); p.failure == nil {
		conditional.Condition, conditional.Variables = spec.Condition, spec.Variables
		p.evaluated, p.expression, p.failure = authorizerOf(key, &conditional, compiler)
	}
	return p
}

// authorizerOf returns an authorizer with one policy, and the condition of the policy.
func authorizerOf(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec, compiler *partial.Compiler) (*engine.Authorizer, *partial.Expression, error) {
	compiled, err := engine.New(key, spec, compiler)
	if err != nil {
		return nil, nil, err
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{key: compiled}))
	part := engine.Restricting
	if spec.Effect == policyv1alpha1.PolicyEffectAllow {
		part = engine.Granting
	}
	return &engine.Authorizer{Source: source, Part: part}, compiled.Expression(), nil
}

// decide returns the decision of an authorizer about the request of a user, of whom only the name counts.
func (p *policy) decide(ctx context.Context, by *engine.Authorizer, record authorizer.AttributesRecord, username string) authorization.Decision {
	record.User = &user.DefaultInfo{Name: username, Groups: []string{user.AllAuthenticated}}
	ctx = authorization.WithPolicyBudgets(authorization.WithBudget(ctx))
	return by.Decide(ctx, authorization.Request{Attributes: record, Mode: authorizationapi.ConditionsModeHumanReadable})
}

// needsMore reports whether the condition reads data of the user that is not known.
func (p *policy) needsMore(r requester) bool {
	if p.expression == nil {
		return false
	}
	for _, field := range []string{"groups", "uid", "extra"} {
		if p.expression.ReadsRequestField("userInfo", field) {
			return true
		}
	}
	// The names of the members of a group are not known.
	//guard:who-can-names-members
	return r.subject.Kind == rbacv1.GroupKind && p.expression.ReadsRequestField("userInfo")
}

// isUnconditional reports whether the policy applies to each request that its rules match.
func (p *policy) isUnconditional() bool { return p.expression == nil && p.failure == nil }

// needs is what a policy needs of a request to apply: a condition, and how to meet it in words, if it is known.
type needs struct{ condition, words string }

// of returns the result of the policy for a requester, and what it needs.
func (p *policy) of(ctx context.Context, r requester) (result, needs) {
	switch {
	case !p.subjects.Have(r.user):
		return none, needs{}
	case p.failure != nil && p.spec.Effect == policyv1alpha1.PolicyEffectAllow:
		return none, needs{}
	//guard:who-can-certain-names
	case !p.only.isEmpty():
		text := ""
		if p.expression != nil {
			text = p.expression.Text()
		}
		return onCondition, p.only.needs(text, p.record.Verb)
	case p.failure != nil:
		return always, needs{}
	}
	by := p.evaluated
	//guard:who-can-data-users-not-known
	if p.needsMore(r) || p.readsMissing() {
		by = p.assumed
	}
	decision, result := p.decide(ctx, by, p.record, r.user.Name), onCondition
	switch {
	case decision.IsNoOpinion():
		result = none
	case decision.IsUnconditional():
		result = always
	}
	// Without a selector an Allow policy may allow less than with one, and a restriction may restrict more.
	//guard:who-can-selectors
	if p.readsSelectors() && (result == none) == (p.spec.Effect == policyv1alpha1.PolicyEffectAllow) {
		return onCondition, needs{p.expression.Text(), p.selectors(ctx, r)}
	}
	if result == onCondition {
		return result, needs{condition: p.condition(decision)}
	}
	return result, needs{}
}

// readsMissing reports whether the condition reads the name of an object, or the namespace, which the question does not have.
func (p *policy) readsMissing() bool {
	if p.expression == nil || !p.record.ResourceRequest {
		return false
	}
	readsNamespace := p.expression.ReadsRequestField("namespace") || p.expression.Program().Reads(cel.NamespaceObject)
	//guard:who-can-conditions-names
	return p.record.Name == "" && canHaveName(p.record) && p.expression.ReadsRequestField("name") || p.record.Namespace == "" && readsNamespace
}

// readsSelectors reports whether the condition reads the selectors of a request, which no question has.
func (p *policy) readsSelectors() bool {
	return p.expression != nil && slices.Contains(selecting, p.record.Verb) &&
		(p.expression.ReadsRequestField("labelSelector") || p.expression.ReadsRequestField("fieldSelector"))
}

// selectors returns the flags of kubectl with which an Allow policy allows the request, or "". The condition must need nothing else that is not known.
func (p *policy) selectors(ctx context.Context, r requester) string {
	if p.spec.Effect != policyv1alpha1.PolicyEffectAllow {
		return ""
	}
	record := p.record
	record.User = &user.DefaultInfo{Name: r.user.Name, Groups: []string{user.AllAuthenticated}}
	ctx = authorization.WithPolicyBudgets(authorization.WithBudget(ctx))
	byLabels, byFields, _ := p.evaluated.SelectorsFor(ctx, authorization.Request{Attributes: record})
	return question.SelectorFlags(byLabels, byFields)
}

// condition returns the text of the condition that a decision depends on.
func (p *policy) condition(decision authorization.Decision) string {
	if p.spec.Condition == "" {
		return fmt.Sprintf("request.apiVersion in [%s]", strings.Join(p.versions(), ", "))
	}
	if conditions := decision.Conditions(); !authorization.HasWildcards(p.record) && len(conditions) == 1 && conditions[0].TextFunc != nil {
		if text, err := conditions[0].TextFunc(); err == nil && text != unknownCondition {
			return text
		}
	}
	return p.expression.Text()
}

// versions returns the versions that the rules name, in quotes.
func (p *policy) versions() (versions []string) {
	for i := range p.spec.Rules {
		for _, version := range p.spec.Rules[i].APIVersions {
			if quoted := fmt.Sprintf("%q", version); !slices.Contains(versions, quoted) {
				versions = append(versions, quoted)
			}
		}
	}
	return versions
}
