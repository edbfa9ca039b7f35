/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// Result is the decision of all policies of a set about a request.
type Result struct {
	// Refusals say which policies refuse the request, and why.
	Refusals []Refusal
	// Warnings are the warnings for the client.
	Warnings []string
	// Audited are the names of the policies with a validation that fails, and that a binding only records.
	Audited []string
	// AuditAnnotations are the annotations of the audit event, by POLICY/KEY.
	AuditAnnotations map[string]string
	// Traces say what the request reached of each policy.
	Traces []Trace
}

// Trace says what a request reached of a policy.
type Trace struct {
	Policy string `json:"policy"`
	// IsMatched says that the policy and a binding match the request, and that all match conditions are true.
	IsMatched bool `json:"matched"`
	// Clauses are the match conditions and the validations, in this order.
	Clauses []Clause `json:"clauses,omitempty"`
}

// Add adds what another request reached of the policy.
func (t *Trace) Add(other *Trace) {
	t.IsMatched = t.IsMatched || other.IsMatched
	for i, clause := range other.Clauses {
		t.Clauses[i].IsTrue, t.Clauses[i].IsFalse = t.Clauses[i].IsTrue || clause.IsTrue, t.Clauses[i].IsFalse || clause.IsFalse
	}
}

// Clause is an expression of a policy with the values that it had. It has none if the expression was not evaluated, or failed.
type Clause struct {
	Text    string `json:"clause"`
	IsTrue  bool   `json:"true"`
	IsFalse bool   `json:"false"`
}

// Messages returns the messages of the policies that refuse the request.
func (r *Result) Messages() string {
	var messages []string
	for _, refusal := range r.Refusals {
		messages = append(messages, refusal.Message)
	}
	return strings.Join(messages, "; ")
}

// Traces returns the traces of a request that no policy matches.
func (s *Set) Traces() (traces []Trace) {
	for _, p := range s.policies {
		traces = append(traces, p.trace())
	}
	return traces
}

func (p *policy) trace() Trace {
	trace := Trace{Policy: p.title()}
	for _, c := range p.Spec.MatchConditions {
		trace.Clauses = append(trace.Clauses, Clause{Text: strings.TrimSpace(c.Expression)})
	}
	for _, v := range p.Spec.Validations {
		trace.Clauses = append(trace.Clauses, Clause{Text: strings.TrimSpace(v.Expression)})
	}
	return trace
}

// Validate returns the first mistake in a request with data that the policies cannot decide about.
func (s *Set) Validate(r *simulation.Request) error {
	_, _, err := s.read(r)
	return err
}

// Admit decides a request that is valid and authorized. checks answers the checks of expressions.
func (s *Set) Admit(ctx context.Context, r *simulation.Request, checks authorizer.UnconditionalAuthorizer) (*Result, error) {
	a, known, err := s.read(r)
	if err != nil {
		return nil, err
	}
	result := &Result{AuditAnnotations: a.annotations}
	ctx = warning.WithWarningRecorder(ctx, (*recorder)(result))
	for _, p := range s.policies {
		e := &evaluation{policy: p, trace: p.trace(), namespaces: &namespaceLister{known: known}}
		if !slices.Contains(excluded, a.GetResource().GroupResource()) {
			if err := e.run(ctx, s, a, checks, result); err != nil {
				return nil, fmt.Errorf("%s: %w", p.title(), err)
			}
		}
		result.Traces = append(result.Traces, e.trace)
	}
	return result, nil
}

// excluded are the resources that admission policies of the API do not decide about, as kube-apiserver has them.
var excluded = []schema.GroupResource{
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"},
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
	{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
}

// recorder records warnings.
type recorder Result

// AddWarning adds a warning.
func (r *recorder) AddWarning(_, text string) { r.Warnings = append(r.Warnings, text) }

// evaluation is one decision of one policy. It observes the plugin: what matches, which values expressions have, and what is not known.
type evaluation struct {
	generic.PolicyMatcher
	validating.Validator
	// ObjectInterfaces is nil, because only kube-apiserver can convert objects. The methods for equivalent resources are below.
	admission.ObjectInterfaces

	policy     *policy
	trace      Trace
	failed     []Failed
	namespaces *namespaceLister
	// unknown says why a server is needed to decide. The decision does not count then.
	unknown error
}

// run has the plugin decide by one policy, and adds to the result.
func (e *evaluation) run(ctx context.Context, s *Set, a *attributes, checks authorizer.UnconditionalAuthorizer, result *Result) error {
	p := e.policy
	e.PolicyMatcher, e.Validator = generic.NewPolicyMatcher(matching.NewMatcher(e.namespaces, nil)), p.validator
	hook := validating.PolicyHook{Policy: p.ValidatingAdmissionPolicy, Evaluator: e}
	for _, b := range p.bindings {
		hook.Bindings = append(hook.Bindings, b.ValidatingAdmissionPolicyBinding)
	}
	if kind := paramKindOf(p.ValidatingAdmissionPolicy); kind != nil {
		hook.ParamInformer, hook.ParamScope = s.parameters[*kind], s.parameters[*kind].scope()
	}
	a.isAudited = false
	err := validating.NewDispatcher(checks, e).Dispatch(ctx, a, e, []validating.PolicyHook{hook})
	if e.unknown != nil {
		return e.unknown
	}
	if a.isAudited {
		result.Audited = append(result.Audited, p.Name)
	}
	if refusal, ok := errors.AsType[*apierrors.StatusError](err); ok {
		result.Refusals = append(result.Refusals, Refusal{Policy: p.Name, Message: refusal.Error(), ParamKind: p.Spec.ParamKind, Failed: e.failed})
		return nil
	}
	return err
}

// DefinitionMatches reports whether the policy matches.
func (e *evaluation) DefinitionMatches(a admission.Attributes, o admission.ObjectInterfaces, definition generic.PolicyAccessor) (bool, schema.GroupVersionResource, schema.GroupVersionKind, error) {
	e.namespaces.isMissed = false
	matches, resource, kind, err := e.PolicyMatcher.DefinitionMatches(a, o, definition)
	e.note(err)
	return matches, resource, kind, err
}

// BindingMatches reports whether a binding matches.
func (e *evaluation) BindingMatches(a admission.Attributes, o admission.ObjectInterfaces, binding generic.BindingAccessor) (bool, error) {
	e.namespaces.isMissed = false
	matches, err := e.PolicyMatcher.BindingMatches(a, o, binding)
	e.note(err)
	return matches, err
}

// note keeps an error of a selector that needs a Namespace that is not known.
func (e *evaluation) note(err error) {
	if err != nil && e.namespaces.isMissed {
		e.unknown = errNamespace
	}
}

// GetNamespace returns the Namespace of the request. If it is not known, an expression must not read it.
func (e *evaluation) GetNamespace(_ context.Context, name string) (*corev1.Namespace, error) {
	if namespace := e.namespaces.known[name]; namespace != nil {
		return namespace, nil
	}
	if e.policy.reads("namespaceObject") {
		e.unknown = errNamespace
	}
	return &corev1.Namespace{}, nil
}

// Validate evaluates the policy with one parameter.
func (e *evaluation) Validate(ctx context.Context, resource schema.GroupVersionResource, a *admission.VersionedAttributes, parameter runtime.Object, namespace *corev1.Namespace, budget int64, checks authorizer.UnconditionalAuthorizer) validating.ValidateResult {
	if a.GetOperationOptions() == nil && e.policy.reads("request.options") {
		e.unknown = errOptions
	}
	conditions := e.trace.Clauses[:len(e.policy.Spec.MatchConditions)]
	hasMatchError := false
	if e.policy.matcher == nil {
		e.trace.IsMatched = true
	} else {
		match := e.policy.matcher.Match(ctx, a, parameter, checks)
		hasMatchError = match.Error != nil
		e.trace.IsMatched = e.trace.IsMatched || match.Matches && match.Error == nil
		for i, c := range e.policy.Spec.MatchConditions {
			conditions[i].IsTrue = conditions[i].IsTrue || match.Matches && match.Error == nil
			conditions[i].IsFalse = conditions[i].IsFalse || match.FailedConditionName != "" && c.Name == match.FailedConditionName
		}
	}
	result := e.Validator.Validate(ctx, resource, a, parameter, namespace, budget, checks)
	if !hasMatchError { // otherwise there is one decision, about the match conditions
		e.failed = append(e.failed, e.policy.failedOf(result.Decisions, parameter)...)
	}
	for i, decision := range result.Decisions {
		if decision.Evaluation == validating.EvalError {
			continue // there may be one decision about the policy as a whole
		}
		clause := &e.trace.Clauses[len(conditions)+i]
		clause.IsTrue = clause.IsTrue || decision.Evaluation == validating.EvalAdmit
		clause.IsFalse = clause.IsFalse || decision.Evaluation == validating.EvalDeny
	}
	return result
}

// The errors of decisions that depend on data that are not known.
var (
	errNamespace = errors.New("the decision depends on the Namespace of the request: set data.namespaceObject, or name a file with the Namespace in objects of the suite")
	errOptions   = errors.New("the decision depends on the options of the request, which every request to a server has: set data.options")
)

// namespaceLister lists the known Namespaces.
type namespaceLister struct {
	corelisters.NamespaceLister // nil: the plugin calls Get only

	known map[string]*corev1.Namespace
	// isMissed says that a Namespace was needed that is not known.
	isMissed bool
}

// Get returns a Namespace. Its error is not NotFound: whether there is such a Namespace is not known.
func (l *namespaceLister) Get(name string) (*corev1.Namespace, error) {
	if namespace := l.known[name]; namespace != nil {
		return namespace, nil
	}
	l.isMissed = true
	return nil, errNamespace
}

// read returns the attributes of a request, and the Namespaces that are known for it: the Namespaces of the set, data.namespaceObject, and, if the
// request changes or deletes a Namespace, the old object.
func (s *Set) read(r *simulation.Request) (a *attributes, known map[string]*corev1.Namespace, err error) {
	if a, err = attributesOf(r); err != nil {
		return nil, nil, err
	}
	known = maps.Clone(s.namespaces)
	if stored, ok := a.GetOldObject().(*corev1.Namespace); ok {
		known[stored.Name] = stored
	}
	if r.Data.NamespaceObject == nil {
		return a, known, nil
	}
	object, err := decode(r.Data.NamespaceObject.Raw)
	if err != nil {
		return nil, nil, fmt.Errorf("data.namespaceObject: %w", err)
	}
	namespace, ok := object.(*corev1.Namespace)
	if !ok || namespace.Name != a.GetNamespace() {
		return nil, nil, fmt.Errorf("data.namespaceObject: must be the Namespace %q of v1", a.GetNamespace())
	}
	known[namespace.Name] = namespace
	return a, known, nil
}

var _ runtime.EquivalentResourceMapper = &evaluation{}

// GetEquivalentResourceMapper returns the evaluation itself.
func (e *evaluation) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper { return e }

// EquivalentResourcesFor returns the resources that may be the same objects in another API version: those with the group and the name of the
// resource, in versions that the policy or a binding names. Events are the only objects of two groups.
func (e *evaluation) EquivalentResourcesFor(resource schema.GroupVersionResource, _ string) (found []schema.GroupVersionResource) {
	all := []*admissionregistrationv1.MatchResources{e.policy.Spec.MatchConstraints}
	for _, b := range e.policy.bindings {
		if b.Spec.MatchResources != nil {
			all = append(all, b.Spec.MatchResources)
		}
	}
	groups := []string{resource.Group}
	if resource.Resource == "events" && slices.Contains(eventGroups, resource.Group) {
		groups = eventGroups
	}
	for _, m := range all {
		for _, rule := range slices.Concat(m.ResourceRules, m.ExcludeResourceRules) {
			for _, version := range rule.APIVersions {
				for _, group := range groups {
					if other := (schema.GroupVersionResource{Group: group, Version: version, Resource: resource.Resource}); other != resource {
						found = append(found, other)
					}
				}
			}
		}
	}
	return found
}

var eventGroups = []string{"", "events.k8s.io"}

// KindFor is called if a rule matches an equivalent resource only. Whether a server has this resource is not known.
func (e *evaluation) KindFor(resource schema.GroupVersionResource, _ string) schema.GroupVersionKind {
	e.unknown = fmt.Errorf("the decision depends on whether a server has the objects as %s of %s, too, which a rule names (matchPolicy Equivalent): write the version of the request into the rule, or set matchPolicy to Exact",
		resource.Resource, resource.GroupVersion())
	return schema.GroupVersionKind{}
}

// Decisions are the decisions about a request, with the one of the policies of a set.
type Decisions struct {
	*simulation.Decisions

	// Admission is nil if the request does not reach admission.
	Admission *Result
}

// Decide decides a request in both phases. The policies of the set decide about requests that the policies of source allow.
func (s *Set) Decide(ctx context.Context, c *simulation.Compilers, source *engine.Source, r *simulation.Request) (*Decisions, error) {
	authorized, err := c.Decide(ctx, source, r)
	d := &Decisions{Decisions: authorized}
	if err != nil || d.Outcome != answer.Yes || s.IsEmpty() {
		return d, err
	}
	checks, err := simulation.ChainOf(source, r, nil)
	if err != nil {
		return nil, err
	}
	d.Admission, err = s.Admit(authorization.WithPolicyBudgets(authorization.WithBudget(checks.Pin(ctx))), r, checks)
	if err == nil && len(d.Admission.Refusals) > 0 {
		d.Outcome, d.Reason = answer.No, d.Admission.Messages()
	}
	return d, err
}

// Policies returns the names of the policies in the reason of the last decision.
func (d *Decisions) Policies() (names []string) {
	if d.Admission == nil || len(d.Admission.Refusals) == 0 {
		return d.Decisions.Policies()
	}
	for _, refusal := range d.Admission.Refusals {
		names = append(names, refusal.Policy)
	}
	return names
}
