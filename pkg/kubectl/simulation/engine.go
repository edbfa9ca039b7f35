/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package simulation decides requests without a cluster: at authorization, and with the data of admission.
//
// Invariants:
//
//   - Policies are compiled and evaluated by the packages of the server, in a chain with the names and the order of the server's.
//   - No server is called. What other authorizers, such as RBAC, allow is part of the request.
//
// The package must not import the server, pkg/apiserver.
package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/order"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
)

// Request is a request that is decided without a cluster.
type Request struct {
	// Spec is the specification of a SubjectAccessReview: the user and the request.
	Spec *authorizationv1alpha1.SubjectAccessReviewSpec
	// Data is the request of an AuthorizationConditionsReview without condition sets. It is nil if only authorization is decided.
	Data *authorizationv1alpha1.AuthorizationConditionsRequest
	// Permissions are what other authorizers, such as RBAC, allow the user.
	Permissions []rbacv1.PolicyRule
	// Refusal is the reason for which kube-apiserver denies the request, if it is known that it does.
	Refusal string
	// Absent are variables of conditions whose values Data should have, and does not. If a condition depends on them, the request is
	// decided without Data.
	Absent []cel.Variable
}

// The errors of requests.
var (
	errObject     = errors.New("data: an object must have apiVersion and kind")
	errSets       = errors.New("data.conditionSets: must not be given: the policies decide which conditions there are")
	errOperation  = errors.New("data.operation: must be CREATE, UPDATE, DELETE or CONNECT")
	errPath       = errors.New("data: admission decides about resources only: data must not be given for a path")
	errUser       = errors.New("request: a user or a group is required")
	errAttributes = errors.New("request: exactly one of resourceAttributes and nonResourceAttributes is required")
)

// Validate returns the mistakes in a request.
func (r *Request) Validate() (errs []error) {
	fail := func(failed bool, err error) {
		if failed {
			errs = append(errs, err)
		}
	}
	if r.Spec != nil {
		fail(r.Spec.User == "" && len(r.Spec.Groups) == 0, errUser)
		fail((r.Spec.ResourceAttributes == nil) == (r.Spec.NonResourceAttributes == nil), errAttributes)
	}
	if r.Data != nil {
		fail(len(r.Data.ConditionSets) > 0, errSets)
		fail(!slices.ContainsFunc(operations, func(o operation) bool { return o.name == r.Data.Operation }), errOperation)
	}
	if len(errs) == 0 && r.Spec != nil && r.Data != nil {
		err := r.checkOperation()
		fail(err != nil, err)
	}
	return errs
}

// Operations are the operations of requests about one object that exists, or that is created, by their verbs.
var Operations = map[string]authorizationv1alpha1.Operation{
	"create": authorizationv1alpha1.OperationCreate, "update": authorizationv1alpha1.OperationUpdate, "patch": authorizationv1alpha1.OperationUpdate, "delete": authorizationv1alpha1.OperationDelete,
}

// operation is an operation of admission, with the verbs of the requests that have it.
type operation struct {
	name  authorizationv1alpha1.Operation
	verbs []string
}

// operations are all operations. A PUT or a patch of an object that does not exist creates it.
var operations = []operation{
	{authorizationv1alpha1.OperationCreate, []string{"create", "update", "patch"}},
	{authorizationv1alpha1.OperationUpdate, []string{"update", "patch"}},
	{authorizationv1alpha1.OperationDelete, []string{"delete", "deletecollection"}},
	{authorizationv1alpha1.OperationConnect, []string{"get", "create", "update", "patch", "delete"}},
}

// checkOperation checks that the request is one that admission decides about, and can have the operation of its data. A request that no
// server makes would prove nothing.
func (r *Request) checkOperation() error {
	if r.Spec.ResourceAttributes == nil {
		return errPath
	}
	verb := r.Spec.ResourceAttributes.Verb
	var possible []string
	for _, o := range operations {
		if !slices.Contains(o.verbs, verb) {
			continue
		}
		if o.name == r.Data.Operation {
			return nil
		}
		possible = append(possible, string(o.name))
	}
	if len(possible) == 0 {
		return fmt.Errorf("data: admission does not decide about requests with the verb %s", verb)
	}
	return fmt.Errorf("data.operation: a request with the verb %s has the operation %s, and not %s", verb, strings.Join(possible, " or "), r.Data.Operation)
}

// Compilers are the compilers of a server.
type Compilers struct {
	// Policies compiles the conditions of policies.
	Policies *partial.Compiler

	conditions *cel.Compiler
	bound      *bound.Compiler
}

// NewCompilers returns new compilers.
func NewCompilers() (*Compilers, error) {
	conditions, err := cel.NewCompiler()
	if err != nil {
		return nil, err
	}
	policies, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		return nil, err
	}
	inBound, err := bound.NewCompiler()
	return &Compilers{Policies: policies, conditions: conditions, bound: inBound}, err
}

// SourceOf returns a source with a snapshot of policies.
func (c *Compilers) SourceOf(specs map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec) (*engine.Source, error) {
	compiled := map[engine.Key]*engine.Policy{}
	for key, spec := range specs {
		p, err := engine.New(key, spec, c.Policies)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", key, err)
		}
		compiled[key] = p
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	return source, nil
}

// Chain is the chain of the authorizers of a server that can decide without a cluster, in their order.
type Chain struct {
	*authorization.Chain

	members []authorization.Member
	// checks answers the checks of conditions.
	checks *authorization.Chain
}

// ChainOf returns the chain for a request. checks answers the checks of conditions; if it is nil, the chain itself does.
func ChainOf(source *engine.Source, r *Request, checks *Chain) (*Chain, error) {
	parts := map[string]*engine.Authorizer{
		engine.RestrictingName: {Source: source, Part: engine.Restricting},
		engine.GrantingName:    {Source: source, Part: engine.GrantingCluster},
		engine.NamespacedName:  {Source: source, Part: engine.GrantingNamespaced},
	}
	chain := &Chain{}
	for _, name := range order.Members(order.InReviews) {
		member := authorization.Member{Name: name}
		switch name {
		case order.PrivilegedGroupsName:
			member.Decider = authorization.DeciderOf(authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup))
		case order.DenialsName:
			if r.Refusal == "" {
				continue
			}
			member.Decider = refusal{user: r.User().GetName(), reason: r.Refusal}
		case order.KubeAPIServerName:
			member.Decider = permissions{user: r.User().GetName(), rules: rbac.RulesOf(r.Permissions)}
		default:
			if parts[name] == nil {
				continue // it needs a cluster, or an option of the server
			}
			member.Decider = parts[name]
		}
		chain.members = append(chain.members, member)
	}
	var err error
	if chain.Chain, err = authorization.NewChain(chain.members...); err != nil {
		return nil, err
	}
	chain.checks = chain.Chain
	if checks != nil {
		chain.checks = checks.Chain
	}
	for _, part := range parts {
		part.Checks = chain.checks
	}
	return chain, nil
}

// Decisions are the decisions about a request in both phases.
type Decisions struct {
	// Decision is the decision at authorization. Outcome is the decision with the data; it is empty if there are none.
	Decision, Outcome answer.Verdict
	// Reason is the reason of the last decision, and Entries are the policies in it. Conditions names the conditions of the first.
	Reason, Conditions string
	Entries            []authorization.ReasonEntry
	// Err is the error of the last decision. It may quote the data.
	Err error
}

// Last returns the decision of the last phase.
func (d *Decisions) Last() answer.Verdict { return cmp.Or(d.Outcome, d.Decision) }

// Failed reports whether the condition of a policy could not be evaluated in the last phase.
func (d *Decisions) Failed() bool {
	return slices.ContainsFunc(d.Entries, func(e authorization.ReasonEntry) bool { return e.Word == authorization.WordError })
}

// Policies returns the names of the policies in the reason, each once.
func (d *Decisions) Policies() (names []string) {
	for _, entry := range d.Entries {
		if _, name, _ := strings.Cut(entry.Name, "="); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Decide decides a request in both phases.
func (c *Compilers) Decide(ctx context.Context, source *engine.Source, r *Request) (*Decisions, error) {
	chain, err := ChainOf(source, r, nil)
	if err != nil {
		return nil, err
	}
	return c.DecideBy(ctx, chain, r)
}

// DecideBy decides a request by a chain.
func (c *Compilers) DecideBy(ctx context.Context, chain *Chain, r *Request) (*Decisions, error) {
	s, err := c.situationOf(ctx, chain, r)
	if err != nil {
		return nil, err
	}
	if len(r.Absent) > 0 && s.data != nil {
		steps, err := c.stepsOf(ctx, chain, r)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(steps, Step.IsUnknown) {
			s.data = nil
		}
	}
	decision := chain.Decide(s.ctx, s.attributes)
	result := &Decisions{Decision: verdictOf(decision), Conditions: decision.DependsOn()}
	if s.data != nil {
		decision = s.evaluate(decision)
		result.Outcome = verdictOf(decision)
	}
	result.Reason, result.Err = decision.Reason(), decision.Err()
	result.Entries = authorization.ReasonEntries(result.Reason)
	return result, nil
}

// Step is the opinion of one authorizer of the chain about a request.
type Step struct {
	// Name is the name of the authorizer.
	Name string
	// Decision is the decision of the last phase. It is conditional if the request has no data, or if a condition needs data that are absent.
	Decision authorization.Decision
	// Policies are the policies of the authorizer that match the request.
	Policies []engine.PolicyTrace
}

// Steps returns the opinion of each authorizer about a request, in the order of the chain, and also of the authorizers after the one that decides.
func (c *Compilers) Steps(ctx context.Context, source *engine.Source, r *Request) ([]Step, error) {
	chain, err := ChainOf(source, r, nil)
	if err != nil {
		return nil, err
	}
	return c.stepsOf(ctx, chain, r)
}

func (c *Compilers) stepsOf(ctx context.Context, chain *Chain, r *Request) ([]Step, error) {
	s, err := c.situationOf(ctx, chain, r)
	if err != nil {
		return nil, err
	}
	steps := make([]Step, 0, len(chain.members))
	for _, member := range chain.members {
		step := Step{Name: member.Name, Decision: member.Decider.Decide(s.ctx, s.attributes)}
		if a, ok := member.Decider.(*engine.Authorizer); ok {
			if s.data == nil {
				step.Policies, err = a.Trace(s.ctx, s.attributes, nil)
			} else {
				step.Policies, err = a.Trace(s.ctx, s.attributes, s.data, r.Absent...)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", member.Name, err)
			}
		}
		steps = append(steps, step)
	}
	if s.data == nil || len(r.Absent) > 0 && slices.ContainsFunc(steps, Step.IsUnknown) {
		return steps, nil
	}
	for i := range steps {
		steps[i].Decision = s.evaluate(steps[i].Decision)
	}
	return steps, nil
}

// IsUnknown reports whether the condition of a policy depends on data that are not known.
func (s Step) IsUnknown() bool {
	return slices.ContainsFunc(s.Policies, func(p engine.PolicyTrace) bool {
		return !p.IsUnconditional && (p.Condition == nil || p.Condition.IsUnknown)
	})
}

// situation is what is known about a request while a chain decides it.
type situation struct {
	//nolint:containedctx // lives for one decision
	ctx        context.Context
	attributes authorization.Request
	// data and evaluator are nil if only authorization is decided.
	data      *data
	evaluator *celeval.DataEvaluator
}

func (c *Compilers) situationOf(ctx context.Context, chain *Chain, r *Request) (*situation, error) {
	record := authorization.AttributesOf(r.User(), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	s := &situation{
		ctx:        authorization.WithPolicyBudgets(authorization.WithBudget(chain.Pin(ctx))),
		attributes: authorization.Request{Attributes: record, Mode: authorizationapi.ConditionsModeHumanReadable},
	}
	if r.Data == nil {
		return s, nil
	}
	var err error
	if s.data, err = dataOf(r, record); err != nil {
		return nil, err
	}
	s.evaluator = &celeval.DataEvaluator{Compiler: c.conditions, Bound: c.bound, Checks: chain.checks, Data: s.data}
	return s, nil
}

func (s *situation) evaluate(d authorization.Decision) authorization.Decision {
	return d.Evaluate(s.ctx, authorization.EvaluatorFor(s.data, s.evaluator))
}

// verdictOf returns No for conditions that can only deny: the server refuses such a request at authorization.
func verdictOf(d authorization.Decision) answer.Verdict {
	switch {
	case d.IsAllow():
		return answer.Yes
	case !d.IsUnconditional() && d.CanBecomeAllowed():
		return answer.YesIf
	}
	return answer.No
}

// User returns the user of the request. Groups that every user of its kind has are added.
func (r *Request) User() user.Info {
	u := &user.DefaultInfo{Name: r.Spec.User, UID: r.Spec.UID, Groups: slices.Clone(r.Spec.Groups), Extra: map[string][]string{}}
	for key, values := range r.Spec.Extra {
		u.Extra[key] = values
	}
	add := func(group string) {
		if !slices.Contains(u.Groups, group) {
			u.Groups = append(u.Groups, group)
		}
	}
	if namespace, _, err := serviceaccount.SplitUsername(u.Name); err == nil {
		for _, group := range serviceaccount.MakeGroupNames(namespace) {
			add(group)
		}
	}
	if u.Name != user.Anonymous && !slices.Contains(u.Groups, user.AllUnauthenticated) {
		add(user.AllAuthenticated)
	}
	return u
}

// permissions stands for the other authorizers of a cluster: it allows one user what rules like those of RBAC say.
type permissions struct {
	user  string
	rules engine.Rules
}

// Decide allows what a rule has, and has no opinion about other requests.
func (p permissions) Decide(_ context.Context, a authorizer.Attributes) authorization.Decision {
	if a.GetUser().GetName() == p.user && len(p.rules.Matching(a)) > 0 {
		return authorization.Allow("allowed by a permission that the request comes with", nil)
	}
	return authorization.NoOpinion("", nil)
}

// refusal denies the requests of a user, as kube-apiserver does.
type refusal struct{ user, reason string }

// Decide denies the requests of the user, and has no opinion about checks for others.
func (r refusal) Decide(_ context.Context, a authorizer.Attributes) authorization.Decision {
	if a.GetUser().GetName() == r.user {
		return authorization.Deny(r.reason, nil)
	}
	return authorization.NoOpinion("", nil)
}

// DataOf returns the data of a request with a verb about plain objects: the new object of a create, the stored one of a delete, and the new and then the stored
// one of an update, which may be missing.
func DataOf(verb string, objects ...*runtime.RawExtension) (*authorizationv1alpha1.AuthorizationConditionsRequest, error) {
	data := &authorizationv1alpha1.AuthorizationConditionsRequest{Operation: Operations[verb]}
	switch {
	case data.Operation == "":
		return nil, errNoObject
	case data.Operation == authorizationv1alpha1.OperationUpdate && len(objects) == 2:
		data.Object, data.OldObject = objects[0], objects[1]
	case len(objects) != 1:
		return nil, ErrObjects
	case data.Operation == authorizationv1alpha1.OperationDelete:
		data.OldObject = objects[0]
	default:
		data.Object = objects[0]
	}
	return data, nil
}

// ErrObjects is the error of another number of plain objects than a request has.
var ErrObjects = errors.New("want the object of the request and, for an update, also the object that is stored")

var errNoObject = errors.New("an object is read for create, update, patch and delete of a resource: for another request, write an AuthorizationConditionsReview")

// data is what admission knows about a request.
type data struct {
	admission.Attributes
	namespace map[string]any
}

var (
	_ authorizer.ConditionsData   = &data{}
	_ authorization.NamespaceData = &data{}
)

func dataOf(r *Request, record authorizer.AttributesRecord) (d *data, err error) {
	var object, old, options runtime.Object
	var kind schema.GroupVersionKind
	for _, part := range []struct {
		raw  *runtime.RawExtension
		into *runtime.Object
	}{{r.Data.Options, &options}, {r.Data.OldObject, &old}, {r.Data.Object, &object}} {
		if part.raw == nil {
			continue
		}
		read := &unstructured.Unstructured{}
		if read.UnmarshalJSON(part.raw.Raw) != nil { // the error quotes the object, which may have secrets
			return nil, errObject
		}
		if *part.into = read; part.into != &options {
			kind = read.GroupVersionKind()
		}
	}
	resource := schema.GroupVersionResource{Group: record.APIGroup, Version: record.APIVersion, Resource: record.Resource}
	d = &data{Attributes: admission.NewAttributesRecord(object, old, kind, record.Namespace, cmp.Or(r.Data.Name, record.Name), resource, record.Subresource,
		admission.Operation(r.Data.Operation), options, r.Data.DryRun, record.User)}
	if r.Data.NamespaceObject != nil {
		err = json.Unmarshal(r.Data.NamespaceObject.Raw, &d.namespace)
	}
	return d, err
}

// GetNamespaceObject returns the namespace, or nil.
func (d *data) GetNamespaceObject() (map[string]any, error) { return d.namespace, nil }
