/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular

import (
	"cmp"
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
	"github.com/proviso-authz/proviso/pkg/freshness"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

const (
	// ConditionType is the type of the conditions of this package. Their text is opaque: only the
	// authorizer that made one can evaluate it.
	ConditionType = "proviso.dev/granular"
	// IncludeID is the ID of the Allow condition that NewInclude's authorizer returns.
	IncludeID = "granular.proviso.dev/include"
	// ExcludeID is the ID of the Deny condition that NewExclude's authorizer returns.
	ExcludeID = "granular.proviso.dev/exclude"

	modeInclude = "include"
	modeExclude = "exclude"

	// maxConditionBytes bounds the text of a condition, which contains the user name, the name of the object and
	// other names of one request.
	maxConditionBytes = 4096
)

// wildcard stands for every verb, API group or resource in a request.
const wildcard = "*"

var writes = []string{"create", "update", "patch"}

// Config configures both authorizers.
type Config struct {
	// Authorizer decides whether a user has the verb granular, or the verb of a field, such as granular:labels. It is
	// required. It may be the chain that contains the authorizers of this package: they return NoOpinion for these
	// verbs.
	Authorizer authorizer.UnconditionalAuthorizer
	// Types are the schemas of kinds. If nil, all objects are compared without a schema.
	Types changes.Types
	// Mappings hold the permissions of fields. It is required. Until mappings are published, NewExclude's authorizer
	// denies every write, and NewInclude's allows none. While the mappings may be out of date, NewInclude's authorizer
	// allows nothing, and NewExclude's uses the last mappings. Both authorizers of a chain must have the same Source.
	Mappings *mapping.Source
}

var errConfig = errors.New("fine-grained authorization needs an authorizer and mappings")

// fieldAuthorizer is the authorizer that NewInclude or NewExclude returns, depending on its mode.
type fieldAuthorizer struct {
	Config
	mode string // modeInclude or modeExclude
}

// NewInclude makes the authorizer for users without permission on the whole object: if a user has the
// verb granular, it allows writes on the condition that a permission covers each field that changes. It
// belongs after every authorizer that could give the general permission.
func NewInclude(config Config) (authorization.Decider, error) {
	return newAuthorizer(modeInclude, config)
}

// NewExclude makes the authorizer that denies changes of excluded fields by users without the permission
// on them, even if they have permission on the whole object. It never allows. It belongs before every authorizer
// whose permissions on whole objects must not include the excluded fields.
func NewExclude(config Config) (authorization.Decider, error) {
	return newAuthorizer(modeExclude, config)
}

func newAuthorizer(mode string, config Config) (authorization.Decider, error) {
	if config.Authorizer == nil || config.Mappings == nil {
		return nil, errConfig
	}
	RegisterMetrics()
	return &fieldAuthorizer{Config: config, mode: mode}, nil
}

var (
	_ authorization.ConditionsAuthor = &fieldAuthorizer{}
	_ authorization.Pinner           = &fieldAuthorizer{}
)

// Pin returns a context in which the mappings do not change, so that both authorizers decide one request by the same
// mappings. Otherwise, while new mappings are published, a user could change a field that no exclusion protects in the
// old mappings, and that a more general permission covers in the new mappings only.
//
//guard:granular-mappings-two-times
func (a *fieldAuthorizer) Pin(ctx context.Context) context.Context { return a.Mappings.Pin(ctx) }

// Decide returns a condition on the fields that a write changes, or an unconditional decision.
//
//   - In modeExclude it returns a Deny condition. It returns NoOpinion if the request is no write or if no field of the
//     resource is excluded, and Deny if the mappings are not loaded or if no condition can be made.
//   - In modeInclude it returns an Allow condition if the user has the verb granular, and NoOpinion otherwise. It also
//     returns NoOpinion if the mappings are not loaded or may be out of date, or if no condition can be made.
func (a *fieldAuthorizer) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	if !attributes.IsResourceRequest() || attributes.GetUser() == nil {
		return authorization.NoOpinion("", nil)
	}
	if a.mode == modeExclude {
		return a.exclude(ctx, attributes)
	}
	return a.include(ctx, attributes)
}

func (a *fieldAuthorizer) exclude(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	table := a.Mappings.StateOf(ctx).Value
	isWrite := attributes.GetVerb() == wildcard || slices.Contains(writes, attributes.GetVerb())
	if isWrite && table == nil {
		return authorization.Deny("", errNotLoaded)
	}
	resource := schema.GroupVersionResource{Group: attributes.GetAPIGroup(), Version: attributes.GetAPIVersion(), Resource: attributes.GetResource()}
	if !isWrite || !table.Excludes(resource) {
		return authorization.NoOpinion("", nil)
	}
	return a.conditional(table, attributes, authorization.Condition{
		ID: ExcludeID, Effect: authorization.EffectDeny,
		Description: "a field that is excluded from general permission changes without its own",
	})
}

func (a *fieldAuthorizer) include(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	state := a.Mappings.StateOf(ctx)
	check, ok := GranularCheck(attributes)
	if state.Value == nil || !ok {
		return authorization.NoOpinion("", nil)
	}
	if err := a.stale(state); err != nil {
		return authorization.NoOpinion(err.Error(), nil)
	}
	decision, _, err := a.Authorizer.Authorize(ctx, check)
	switch {
	case err != nil:
		return authorization.NoOpinion("", fmt.Errorf("%w about the verb %q", errCheckFailed, mapping.Verb))
	case decision != authorizer.DecisionAllow:
		return authorization.NoOpinion("", nil)
	}
	return a.conditional(state.Value, attributes, authorization.Condition{
		ID: IncludeID, Effect: authorization.EffectAllow,
		Description: fmt.Sprintf("the user has the verb %q, and permission on every field that changes", mapping.Verb),
	})
}

// stale returns an error with the reason if the mappings may have been out of date when the context was pinned, or if the
// mappings of the source may be out of date now. Otherwise it returns nil.
func (a *fieldAuthorizer) stale(pinned freshness.State[mapping.Table]) error {
	//guard:granular-mappings-were-stale
	if reason := cmp.Or(pinned.Stale, a.Mappings.Stale()); reason != "" {
		return fmt.Errorf("%w: %s", errStale, reason)
	}
	return nil
}

// GranularCheck returns the check that NewInclude's authorizer makes for a request before its fields are known:
// whether the user has the verb granular on the same object (KEP-3617, "API Server Additional Plumbing and
// Checks", step 2). It returns false if the authorizer makes no check, because it returns NoOpinion for every such
// request: a request without a user or for no resource, a request that is no create, update or patch, and a request
// for all resources or API groups.
func GranularCheck(attributes authorizer.Attributes) (check authorizer.Attributes, ok bool) {
	if !attributes.IsResourceRequest() || attributes.GetUser() == nil || !slices.Contains(writes, attributes.GetVerb()) ||
		attributes.GetResource() == wildcard || attributes.GetAPIGroup() == wildcard {
		return nil, false
	}
	return authorization.WithVerb(attributes, mapping.Verb), true
}

func (a *fieldAuthorizer) conditional(table *mapping.Table, attributes authorizer.Attributes, c authorization.Condition) authorization.Decision {
	text, err := json.Marshal(subjectOf(a.mode, table, attributes))
	if err == nil && len(text) > maxConditionBytes {
		err = errTooLong
	}
	if err != nil {
		if a.mode == modeExclude {
			return authorization.Deny("", err)
		}
		return authorization.NoOpinion("", err)
	}
	c.Type, c.Text = ConditionType, string(text)
	c.EvaluateFunc = func(ctx context.Context, data authorizer.ConditionsData) authorization.Outcome {
		result := a.check(ctx, table, attributes, data)
		r := recordersOf(ctx)
		r.trail.add(a.mode, result)
		//guard:granular-check-condition-process
		r.last.set(a, result)
		return a.outcome(result)
	}
	return authorization.Conditions(c)
}

// outcome returns the outcome of the condition for the result of a check. In modeInclude the condition, which has the
// effect Allow, is true if the result is allowed. In modeExclude the condition, which has the effect Deny, is true if
// the result is not allowed, also if the check failed.
func (a *fieldAuthorizer) outcome(result Result) authorization.Outcome {
	if a.mode == modeExclude {
		return authorization.Bool(!result.Allowed).Because(result.Reason)
	}
	return authorization.Bool(result.Allowed).Because(result.Reason)
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

// check compares the old and the new object, and checks the permissions on the fields that changed. If that fails or
// panics, the result is not allowed and has the error. Operations other than create and update are not allowed either,
// except connections and deletions in modeExclude, which change no field.
func (a *fieldAuthorizer) check(ctx context.Context, table *mapping.Table, attributes authorizer.Attributes, data authorizer.ConditionsData) (result Result) {
	start := time.Now()
	defer func() {
		if recover() != nil {
			result = failed(errUnexpected)
		}
		measure(ctx, start, a.mode, result)
	}()
	switch operation := data.GetOperation(); {
	case operation == admission.Create:
	case operation == admission.Update && changes.IsNil(data.GetOldObject()):
		return failed(errNoOld)
	case operation == admission.Update:
	case a.mode == modeExclude && (operation == admission.Connect || operation == admission.Delete):
		// A connection is authorized by the verb create, too, and changes no field.
		return Result{Allowed: true}
	default:
		return failed(errOperation)
	}
	if err := a.stale(a.Mappings.StateOf(ctx)); err != nil && a.mode == modeInclude {
		return failed(err)
	}
	changed, err := changes.Differ{Types: a.Types}.Changes(ctx, data.GetKind(), data.GetOldObject(), data.GetObject())
	if err != nil {
		return failed(err)
	}
	//guard:granular-subresources-do-not-show-field
	rules, checker := table.ForSubresource(data.GetResource(), data.GetSubresource()), Checker{Authorizer: a.Authorizer}
	if a.mode == modeExclude {
		return checker.Exclude(ctx, rules, changed, attributes)
	}
	if err := changed.CheckWriter(writerOf(data)); err != nil {
		return Result{Reason: err.Error()}
	}
	return checker.Include(ctx, rules, changed, attributes)
}

// writerOf returns the field manager, version and subresource of the request, as an entry of metadata.managedFields
// records them. The options of a request are a typed struct, and in a review they are unstructured.
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

// EvaluateConditions evaluates a condition that Decide returned. The authorizer of NewInclude returns Allow if the
// condition is true, and NoOpinion if it is false or fails. The authorizer of NewExclude returns Deny if the condition is
// true or fails, and NoOpinion if it is false.
//
// A condition that has not left the process is evaluated for the request and with the mappings of Decide. The caller must
// give the data of this request. A condition that went over the wire fails in four cases: another authorizer made it; the
// request or the name or UID of the user in it differs from data; it was made from other mappings than those to which the
// context is pinned (for a context that is not pinned, the current mappings); or there are no such mappings. The groups of
// the user are not in the condition. They are taken from data, so callers must have the permission to ask about any user.
//
// An unconditional NoOpinion stays NoOpinion, and an unconditional Deny stays Deny. An unconditional Allow becomes Deny,
// because Decide never returns it. So does an Allow that comes from the condition of another authorizer.
func (a *fieldAuthorizer) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	last, recorders := &lastCheck{by: a}, recordersOf(ctx)
	recorders.last = last
	evaluated := authorizer.PartiallyEvaluateConditionsAwareDecision(recorders.in(ctx), decision, data,
		func(ctx context.Context, c authorizer.Condition, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			table := a.Mappings.StateOf(ctx).Value
			if table == nil {
				last.set(a, failed(errNotLoaded))
				return authorizer.ConditionEvaluationResultError(errNotLoaded)
			}
			attributes, err := a.parse(c, table, data)
			if err != nil {
				last.set(a, failed(err))
				return authorizer.ConditionEvaluationResultError(err)
			}
			result := a.check(ctx, table, attributes, data)
			last.set(a, result)
			return authorizer.ConditionEvaluationResultBoolean(a.outcome(result).IsTrue())
		})
	switch {
	//guard:granular-allow-without-check
	case evaluated.IsAllow() && a.mode == modeInclude && last.result.Allowed:
		return authorizer.DecisionAllow, evaluated.Reason(), nil
	case evaluated.IsNoOpinion():
		return authorizer.DecisionNoOpinion, last.result.Reason, last.result.Err
	case last.result.Reason == "":
		return authorizer.DecisionDeny, evaluated.Reason(), errNotOurs
	default:
		return authorizer.DecisionDeny, last.result.Reason, last.result.Err
	}
}

// lastCheck is the result of the last check that an authorizer has made in one call of EvaluateConditions. A condition that
// has not left the process is evaluated by its own function, which finds the lastCheck in its context.
type lastCheck struct {
	by     *fieldAuthorizer
	result Result // the zero Result if no condition of the authorizer has been evaluated
}

// set records the result of a check by an authorizer. It does nothing if l is nil or belongs to another authorizer.
func (l *lastCheck) set(by *fieldAuthorizer, result Result) {
	if l != nil && l.by == by {
		l.result = result
	}
}

// subject is the text of a condition, in JSON. It identifies the request that the condition is about, and the mappings.
type subject struct {
	Mode        string `json:"side"`
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

func subjectOf(mode string, table *mapping.Table, a authorizer.Attributes) subject {
	return subject{
		Mode: mode, Mappings: table.Digest(), User: a.GetUser().GetName(), UID: a.GetUser().GetUID(),
		APIGroup: a.GetAPIGroup(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
		Namespace: a.GetNamespace(), Name: a.GetName(), Verb: a.GetVerb(),
	}
}

// parse reads the text of a condition, and returns the attributes of the request that the condition is about. It returns
// an error if the condition is not of this authorizer, if it was made from other mappings than table, or if data belongs
// to another request.
func (a *fieldAuthorizer) parse(c authorizer.Condition, table *mapping.Table, data authorizer.ConditionsData) (authorizer.Attributes, error) {
	var about subject
	if c.GetType() != ConditionType || len(c.GetCondition()) > maxConditionBytes {
		return nil, errNotOurs
	}
	if err := json.Unmarshal([]byte(c.GetCondition()), &about); err != nil || about.Mode != a.mode {
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

// isSame reports whether the API group or resource in a condition is that of the request. The wildcard in a condition
// stands for every group or resource.
func isSame(inCondition, ofRequest string) bool {
	return inCondition == wildcard || inCondition == ofRequest
}
