/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

const (
	// ConditionType is the type of the conditions of this package. Their text is opaque:
	// who has one evaluated asks its authorizer.
	ConditionType = "proviso.dev/granular"
	// IncludeID is the ID of the condition that allows.
	IncludeID = "granular.proviso.dev/include"
	// ExcludeID is the ID of the condition that denies.
	ExcludeID = "granular.proviso.dev/exclude"

	sideInclude = "include"
	sideExclude = "exclude"

	// maxConditionBytes bounds the text of a condition: it names one request, whose names
	// are not longer than this together.
	maxConditionBytes = 4096
)

// wildcard stands for every verb, API group or resource in a request.
const wildcard = "*"

var writes = []string{"create", "update", "patch"}

// Config is what the authorizers decide from.
type Config struct {
	// Authorizer answers for verbs, without conditions. It may be the chain that the
	// authorizers are in: they have no opinion on the verbs that they ask for.
	Authorizer authorizer.UnconditionalAuthorizer
	// Types are the schemas; they may be nil.
	Types changes.Types
	// Table returns the mappings that are in force. Nil means that they are not loaded yet.
	Table func() *mapping.Table
	// Stale returns why the mappings may be out of date, empty if they are not: nothing is
	// included then, and what was excluded last stays so. Nil means that they never are.
	Stale func() string
}

var errConfig = errors.New("fine-grained authorization needs an authorizer and mappings")

// side is one of the two authorizers.
type side struct {
	Config
	name string
}

// NewInclude makes the authorizer for those without permission on the whole object: who has
// the verb granular is allowed on the condition that a permission covers each field that
// changes. It belongs after every authorizer that could give the general permission.
func NewInclude(config Config) (authorizer.Authorizer, error) { return newSide(sideInclude, config) }

// NewExclude makes the authorizer that denies changes of excluded fields without their
// permission, whatever else the user may do. It only denies, and belongs before every
// authorizer that could allow.
func NewExclude(config Config) (authorizer.Authorizer, error) { return newSide(sideExclude, config) }

func newSide(name string, config Config) (authorizer.Authorizer, error) {
	if config.Authorizer == nil || config.Table == nil {
		return nil, errConfig
	}
	RegisterMetrics()
	return &side{Config: config, name: name}, nil
}

var _ authorizer.Authorizer = &side{}

// ConditionsAwareAuthorize answers with a condition on the fields of a write, or not at all.
func (s *side) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if !attributes.IsResourceRequest() || attributes.GetUser() == nil {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	if s.name == sideExclude {
		return s.exclude(attributes)
	}
	return s.include(ctx, attributes)
}

func (s *side) exclude(attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	table := s.Table()
	isWrite := attributes.GetVerb() == wildcard || slices.Contains(writes, attributes.GetVerb())
	if isWrite && table == nil {
		return authorizer.ConditionsAwareDecisionDeny("", errNotLoaded)
	}
	resource := schema.GroupResource{Group: attributes.GetAPIGroup(), Resource: attributes.GetResource()}
	if !isWrite || !table.Excludes(resource) {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	return s.conditional(table, attributes, authorization.Condition{
		ID: ExcludeID, Effect: authorization.EffectDeny,
		Description: "a field that is excluded from general permission changes without its own",
	})
}

func (s *side) include(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	table := s.Table()
	question, ok := Question(attributes)
	if table == nil || !ok {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	if err := s.stale(); err != nil {
		return authorizer.ConditionsAwareDecisionNoOpinion(err.Error(), nil)
	}
	decision, _, err := s.Authorizer.Authorize(ctx, question)
	switch {
	case err != nil:
		return authorizer.ConditionsAwareDecisionNoOpinion("", fmt.Errorf("%w about the verb %q", errCheckFailed, mapping.Verb))
	case decision != authorizer.DecisionAllow:
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	return s.conditional(table, attributes, authorization.Condition{
		ID: IncludeID, Effect: authorization.EffectAllow,
		Description: fmt.Sprintf("the user has the verb %q, and permission on every field that changes", mapping.Verb),
	})
}

// stale says why the mappings may be out of date, nil if they are not.
func (s *side) stale() error {
	if s.Stale != nil {
		if reason := s.Stale(); reason != "" {
			return fmt.Errorf("%w: %s", errStale, reason)
		}
	}
	return nil
}

// Question returns what NewInclude's authorizer asks about a request before anything is known
// of its fields: whether the user has the verb granular on the same object (KEP-3617, "API
// Server Additional Plumbing and Checks", step 2). It is false if the authorizer has no
// opinion on the request, whatever the answer.
func Question(attributes authorizer.Attributes) (question authorizer.Attributes, ok bool) {
	if !attributes.IsResourceRequest() || attributes.GetUser() == nil || !slices.Contains(writes, attributes.GetVerb()) ||
		attributes.GetResource() == wildcard || attributes.GetAPIGroup() == wildcard {
		return nil, false
	}
	return withVerb{attributes, mapping.Verb}, true
}

func (s *side) conditional(table *mapping.Table, attributes authorizer.Attributes, c authorization.Condition) authorizer.ConditionsAwareDecision {
	text, err := json.Marshal(subjectOf(s.name, table, attributes))
	if err == nil && len(text) > maxConditionBytes {
		err = errTooLong
	}
	if err != nil {
		if s.name == sideExclude {
			return authorizer.ConditionsAwareDecisionDeny("", err)
		}
		return authorizer.ConditionsAwareDecisionNoOpinion("", err)
	}
	c.Type, c.Text = ConditionType, string(text)
	c.EvaluateFunc = func(ctx context.Context, data authorizer.ConditionsData) authorization.Outcome {
		result := s.check(ctx, table, attributes, data)
		trailFrom(ctx).add(s.name, result)
		return s.outcome(result)
	}
	return authorization.ToUpstream(authorization.Conditions(c))
}

// outcome is what a result means for the condition: the Allow holds if the fields are
// covered, the Deny if one is not.
func (s *side) outcome(result Result) authorization.Outcome {
	if s.name == sideExclude {
		return authorization.Bool(!result.Allowed).Because(result.Reason)
	}
	return authorization.Bool(result.Allowed).Because(result.Reason)
}

// Authorize decides for who does not know conditions.
func (s *side) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorization.FromUpstream("", s.ConditionsAwareAuthorize(ctx, attributes)).Fold().Concrete()
}

var (
	errOperation  = errors.New("only creations and updates change fields")
	errTooLong    = fmt.Errorf("the request has names that are too long for a condition of %d bytes", maxConditionBytes)
	errNotOurs    = errors.New("not a condition of this authorizer")
	errNotLoaded  = errors.New("the mappings of fields are not loaded yet")
	errStale      = errors.New("permission on fields gives nothing, since the mappings may be out of date")
	errOther      = errors.New("the condition is about another request")
	errNewTable   = errors.New("the mappings of fields have changed since the decision was made; ask again")
	errNoOld      = errors.New("there is no old object that the update could be compared with")
	errUnexpected = errors.New("checking the fields failed")
)

// check compares the objects and checks what changed. It never panics, and what it cannot
// tell is not allowed.
func (s *side) check(ctx context.Context, table *mapping.Table, attributes authorizer.Attributes, data authorizer.ConditionsData) (result Result) {
	start := time.Now()
	defer func() {
		if recover() != nil {
			result = failed(errUnexpected)
		}
		measure(ctx, start, s.name, result)
	}()
	switch operation := data.GetOperation(); {
	case operation == admission.Create:
	case operation == admission.Update && changes.IsNil(data.GetOldObject()):
		return failed(errNoOld)
	case operation == admission.Update:
	case s.name == sideExclude && (operation == admission.Connect || operation == admission.Delete):
		// A connection is authorized by the verb create, too, and changes no field.
		return Result{Allowed: true}
	default:
		return failed(errOperation)
	}
	if err := s.stale(); err != nil && s.name == sideInclude {
		return failed(err)
	}
	changed, err := changes.Differ{Types: s.Types}.Changes(ctx, data.GetKind(), data.GetOldObject(), data.GetObject())
	if err != nil {
		return failed(err)
	}
	rules, checker := table.For(data.GetResource()), Checker{Authorizer: s.Authorizer}
	if s.name == sideExclude {
		return checker.Exclude(ctx, rules, changed, attributes)
	}
	if err := changed.CheckWriter(writerOf(data)); err != nil {
		return Result{Reason: err.Error()}
	}
	return checker.Include(ctx, rules, changed, attributes)
}

// writerOf returns the request as metadata.managedFields records it. Options are typed in
// requests, and decoded from JSON in reviews.
func writerOf(data authorizer.ConditionsData) changes.Writer {
	w := changes.Writer{APIVersion: data.GetKind().GroupVersion().String(), Subresource: data.GetSubresource()}
	switch options := data.GetOperationOptions().(type) {
	case *metav1.CreateOptions:
		w.FieldManager = options.FieldManager
	case *metav1.UpdateOptions:
		w.FieldManager = options.FieldManager
	case *metav1.PatchOptions:
		w.FieldManager = options.FieldManager
	case runtime.Unstructured:
		w.FieldManager, _, _ = unstructured.NestedString(options.UnstructuredContent(), "fieldManager")
	}
	return w
}

func failed(err error) Result { return Result{Reason: err.Error(), Err: err} }

// EvaluateConditions evaluates conditions that ConditionsAwareAuthorize made, also after
// they went over the wire. It compares with the mappings of today, and refuses if they have
// changed. The user must be the one whom the condition is about; groups are those of the
// data, so that callers must be trusted with permission to ask about anybody.
func (s *side) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	var last Result
	evaluated := authorizer.PartiallyEvaluateConditionsAwareDecision(ctx, decision, data,
		func(ctx context.Context, c authorizer.Condition, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			table := s.Table()
			if table == nil {
				last = failed(errNotLoaded)
				return authorizer.ConditionEvaluationResultError(errNotLoaded)
			}
			attributes, err := s.parse(c, table, data)
			if err != nil {
				last = failed(err)
				return authorizer.ConditionEvaluationResultError(err)
			}
			last = s.check(ctx, table, attributes, data)
			return authorizer.ConditionEvaluationResultBoolean(s.outcome(last).IsTrue())
		})
	switch {
	case evaluated.IsAllow() && s.name == sideInclude:
		return authorizer.DecisionAllow, evaluated.Reason(), nil
	case evaluated.IsNoOpinion():
		return authorizer.DecisionNoOpinion, last.Reason, last.Err
	case last.Reason == "":
		return authorizer.DecisionDeny, evaluated.Reason(), errNotOurs
	default:
		return authorizer.DecisionDeny, last.Reason, last.Err
	}
}

// subject is the text of a condition: what it was made about.
type subject struct {
	Side        string `json:"side"`
	Mappings    string `json:"mappings"`
	User        string `json:"user"`
	UID         string `json:"uid,omitempty"`
	APIGroup    string `json:"apiGroup,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	Verb        string `json:"verb"`
}

func subjectOf(name string, table *mapping.Table, a authorizer.Attributes) subject {
	return subject{
		Side: name, Mappings: table.Digest(), User: a.GetUser().GetName(), UID: a.GetUser().GetUID(),
		APIGroup: a.GetAPIGroup(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
		Namespace: a.GetNamespace(), Name: a.GetName(), Verb: a.GetVerb(),
	}
}

// parse reads the text of a condition, and returns the request that it is about if the data
// is of that request.
func (s *side) parse(c authorizer.Condition, table *mapping.Table, data authorizer.ConditionsData) (authorizer.Attributes, error) {
	var about subject
	if c.GetType() != ConditionType || len(c.GetCondition()) > maxConditionBytes {
		return nil, errNotOurs
	}
	if err := json.Unmarshal([]byte(c.GetCondition()), &about); err != nil || about.Side != s.name {
		return nil, errNotOurs
	}
	resource, user := data.GetResource(), data.GetUserInfo()
	switch {
	case about.Mappings != table.Digest():
		return nil, errNewTable
	case user == nil || user.GetName() != about.User || user.GetUID() != about.UID,
		!isSame(about.APIGroup, resource.Group), !isSame(about.Resource, resource.Resource), data.GetSubresource() != about.Subresource,
		data.GetNamespace() != about.Namespace, about.Name != "" && data.GetName() != about.Name:
		return nil, errOther
	}
	return authorizer.AttributesRecord{
		User: user, Verb: about.Verb, APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource,
		Subresource: about.Subresource, Namespace: about.Namespace, Name: about.Name, ResourceRequest: true,
	}, nil
}

// isSame reports whether a question was about this, or about everything.
func isSame(asked, got string) bool { return asked == wildcard || asked == got }
