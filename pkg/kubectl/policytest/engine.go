/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// The names of the authorizers that are not policies, as in a server.
const (
	privilegedName    = "kubernetes.io/always-allow-groups"
	kubeAPIServerName = "kube-apiserver"
)

// compilers are the compilers of a server.
type compilers struct {
	conditions *cel.Compiler
	bound      *bound.Compiler
	policies   *partial.Compiler
}

func newCompilers() (*compilers, error) {
	conditions, err := cel.NewCompiler()
	if err != nil {
		return nil, err
	}
	policies, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		return nil, err
	}
	inBound, err := bound.NewCompiler()
	return &compilers{conditions: conditions, bound: inBound, policies: policies}, err
}

// sourceOf publishes policies.
func (c *compilers) sourceOf(specs map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec) (*engine.Source, error) {
	compiled := map[engine.Key]*engine.Policy{}
	for key, spec := range specs {
		p, err := engine.New(key, spec, c.policies)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", key, err)
		}
		compiled[key] = p
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	return source, nil
}

// chainOf returns the authorizers of a server that can decide in a test, in their order. checks answers the checks of conditions; if it is
// nil, the chain itself does.
func chainOf(source *engine.Source, t *test, checks *authorization.Chain) (*authorization.Chain, error) {
	parts := []*engine.Authorizer{
		{Source: source, Part: engine.Restricting}, {Source: source, Part: engine.GrantingCluster}, {Source: source, Part: engine.GrantingNamespaced},
	}
	chain, err := authorization.NewChain(
		authorization.Member{Name: privilegedName, Decider: privileged{}},
		authorization.Member{Name: engine.RestrictingName, Decider: parts[0]},
		authorization.Member{Name: kubeAPIServerName, Decider: permissions{user: t.user().GetName(), rules: t.Permissions}},
		authorization.Member{Name: engine.GrantingName, Decider: parts[1]},
		authorization.Member{Name: engine.NamespacedName, Decider: parts[2]},
	)
	if checks == nil {
		checks = chain
	}
	for _, part := range parts {
		part.Checks = checks
	}
	return chain, err
}

// decisions are the decisions of both phases of a request.
type decisions struct {
	decision, outcome verdict
	// reason is the reason of the last decision, and conditions names the conditions of the first.
	reason, conditions string
	policies           []string
	// failed says that a condition could not be evaluated.
	failed bool
}

// decide decides a test in both phases.
func (c *compilers) decide(ctx context.Context, source *engine.Source, t *test) (*decisions, error) {
	chain, err := chainOf(source, t, nil)
	if err != nil {
		return nil, err
	}
	return c.decideBy(ctx, chain, chain, t)
}

// decideBy decides a test by a chain, and the checks of its conditions by another one.
func (c *compilers) decideBy(ctx context.Context, chain, checks *authorization.Chain, t *test) (*decisions, error) {
	ctx = authorization.WithPolicyBudgets(authorization.WithBudget(chain.Pin(ctx)))
	record := authorization.AttributesOf(t.user(), t.Request.ResourceAttributes, t.Request.NonResourceAttributes)
	decision := chain.Decide(ctx, authorization.Attributes{AttributesRecord: record, Mode: authorizationapi.ConditionsModeHumanReadable})
	result := &decisions{decision: verdictOf(decision), conditions: decision.DependsOn()}
	if t.Data != nil {
		data, err := dataOf(t, record)
		if err != nil {
			return nil, err
		}
		evaluator := &celeval.DataEvaluator{Compiler: c.conditions, Bound: c.bound, Checks: checks, Data: data}
		decision = decision.Evaluate(ctx, authorization.EvaluatorFor(data, evaluator))
		result.outcome = verdictOf(decision)
	}
	result.reason = decision.Reason()
	if err := decision.Err(); err != nil {
		result.reason = strings.TrimPrefix(result.reason+"; "+err.Error(), "; ")
	}
	for _, entry := range authorization.ReasonEntries(decision.Reason()) {
		result.failed = result.failed || entry.Word == authorization.WordError
		if _, name, _ := strings.Cut(entry.Name, "="); !slices.Contains(result.policies, name) {
			result.policies = append(result.policies, name)
		}
	}
	return result, nil
}

// verdictOf returns no for conditions that can only deny: the server refuses such a request at authorization.
func verdictOf(d authorization.Decision) verdict {
	switch {
	case d.IsAllow():
		return yes
	case !d.IsUnconditional() && d.CanBecomeAllowed():
		return yesIf
	}
	return no
}

// user returns the user of the request. Groups that every user of its kind has are added.
func (t *test) user() user.Info {
	u := &user.DefaultInfo{Name: t.Request.User, UID: t.Request.UID, Groups: slices.Clone(t.Request.Groups), Extra: map[string][]string{}}
	for key, values := range t.Request.Extra {
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

// privileged allows everything to system:masters.
type privileged struct{}

// Decide allows requests of the group, and has no opinion about others.
func (privileged) Decide(_ context.Context, a authorizer.Attributes) authorization.Decision {
	if slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorization.Allow("", nil)
	}
	return authorization.NoOpinion("", nil)
}

// permissions stands for the other authorizers of a cluster: it allows one user what rules like those of RBAC say.
type permissions struct {
	user  string
	rules []rbacv1.PolicyRule
}

// Decide allows what a rule has, and has no opinion about other requests.
func (p permissions) Decide(_ context.Context, a authorizer.Attributes) authorization.Decision {
	if a.GetUser().GetName() == p.user && slices.ContainsFunc(p.rules, func(r rbacv1.PolicyRule) bool { return matches(&r, a) }) {
		return authorization.Allow("a permission of the test", nil)
	}
	return authorization.NoOpinion("", nil)
}

func matches(r *rbacv1.PolicyRule, a authorizer.Attributes) bool {
	has := func(values []string, value string) bool {
		return slices.Contains(values, "*") || slices.Contains(values, value)
	}
	if !has(r.Verbs, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(r.NonResourceURLs, func(url string) bool {
			prefix, isPrefix := strings.CutSuffix(url, "*")
			return url == a.GetPath() || isPrefix && strings.HasPrefix(a.GetPath(), prefix)
		})
	}
	resource := a.GetResource()
	isResource := has(r.Resources, resource)
	if a.GetSubresource() != "" {
		isResource = has(r.Resources, resource+"/"+a.GetSubresource()) || slices.Contains(r.Resources, "*/"+a.GetSubresource())
	}
	return isResource && has(r.APIGroups, a.GetAPIGroup()) && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.GetName()))
}

// data is what admission knows about a request.
type data struct {
	record               authorizer.AttributesRecord
	request              *authorizationv1alpha1.AuthorizationConditionsRequest
	object, old, options runtime.Object
	namespace            map[string]any
}

var (
	_ authorizer.ConditionsData   = &data{}
	_ authorization.NamespaceData = &data{}
)

func dataOf(t *test, record authorizer.AttributesRecord) (d *data, err error) {
	d = &data{record: record, request: t.Data}
	for _, part := range []struct {
		raw  *runtime.RawExtension
		into *runtime.Object
	}{{t.Data.Object, &d.object}, {t.Data.OldObject, &d.old}, {t.Data.Options, &d.options}} {
		if part.raw == nil {
			continue
		}
		content := map[string]any{}
		if err := json.Unmarshal(part.raw.Raw, &content); err != nil {
			return nil, err
		}
		read := &unstructured.Unstructured{}
		if err := read.UnmarshalJSON(part.raw.Raw); err != nil {
			return nil, err
		}
		*part.into = read
	}
	if t.Data.NamespaceObject != nil {
		err = json.Unmarshal(t.Data.NamespaceObject.Raw, &d.namespace)
	}
	return d, err
}

// GetNamespaceObject returns the namespace, or nil.
func (d *data) GetNamespaceObject() (map[string]any, error) { return d.namespace, nil }

// The following methods return the request.

func (d *data) GetName() string      { return firstOf(d.request.Name, d.record.Name) }
func (d *data) GetNamespace() string { return d.record.Namespace }
func (d *data) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: d.record.APIGroup, Version: d.record.APIVersion, Resource: d.record.Resource}
}
func (d *data) GetSubresource() string { return d.record.Subresource }
func (d *data) GetOperation() authorizer.AdmissionOperation {
	return authorizer.AdmissionOperation(d.request.Operation)
}
func (d *data) GetOperationOptions() runtime.Object { return d.options }
func (d *data) IsDryRun() bool                      { return d.request.DryRun }
func (d *data) GetObject() runtime.Object           { return d.object }
func (d *data) GetOldObject() runtime.Object        { return d.old }
func (d *data) GetUserInfo() user.Info              { return d.record.User }
func (d *data) GetKind() schema.GroupVersionKind {
	if d.object != nil {
		return d.object.GetObjectKind().GroupVersionKind()
	}
	if d.old != nil {
		return d.old.GetObjectKind().GroupVersionKind()
	}
	return schema.GroupVersionKind{}
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
