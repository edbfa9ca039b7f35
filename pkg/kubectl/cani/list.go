/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// The texts of warnings about lists.
const (
	warningList           = "policies can also depend on names, and on URLs that are no resources: check single actions"
	warningUnenforcedList = "policies of Proviso have conditions about these actions, but kube-apiserver refuses them before any server evaluates the conditions: "
)

// rule is a row of the list: verbs on one resource, on one name of it, or on a URL.
type rule struct {
	Resource string   `json:"resource,omitempty"`
	URL      string   `json:"url,omitempty"`
	Name     string   `json:"name,omitempty"`
	Verbs    []string `json:"verbs"`
}

// runList prints what kube-apiserver allows the user, as kubectl auth can-i does. A second table has what policies of Proviso change: what they allow, with and
// without conditions, and what they refuse.
func (o *options) runList(ctx context.Context) (err error) {
	if o.Namespace, _, err = o.Flags.ToRawKubeConfigLoader().Namespace(); err != nil {
		return err
	}
	status, err := o.selfRules(ctx, o.Namespace)
	if err != nil {
		return err
	}
	if status.Incomplete {
		o.Warn("the list may be incomplete: " + status.EvaluationError)
	}
	rules := rulesOf(status)
	if o.output.Value == "" {
		if err := printRules(o.Out, rules, !o.noHeaders); err != nil {
			return err
		}
	}
	changes, err := o.listChanges(ctx, status.ResourceRules)
	switch {
	case err != nil:
		return err
	case o.output.Value != "":
		report := listReport{head: o.head("CanIList"), Namespace: o.Namespace, Rules: append([]rule{}, rules...), Changes: append([]*change{}, changes...)}
		return o.output.Write(o.Out, report, indent)
	case len(changes) == 0:
		return nil
	}
	if _, err := fmt.Fprintln(o.Out); err != nil {
		return err
	}
	return printChanges(o.Out, changes, !o.noHeaders, terminal.From(ctx))
}

// listChanges returns what policies change, and warns of what the list does not have. There are no changes without Proviso.
func (o *options) listChanges(ctx context.Context, rules []authorizationv1.ResourceRule) ([]*change, error) {
	switch _, err := o.clients.Kube.Discovery().ServerResourcesForGroupVersion("authorization.proviso.dev/v1alpha1"); {
	case apierrors.IsNotFound(err):
		o.Warn(warningWithoutProviso)
		return nil, nil
	case err != nil:
		return nil, err
	}
	o.Warn(warningList)
	changes, unenforced, err := o.changes(ctx, granted(rules))
	if err == nil && len(unenforced) > 0 {
		o.Warn(warningUnenforcedList + strings.Join(unenforced, ", "))
	}
	return changes, err
}

// rulesOf returns one rule for each resource, name and URL, in order.
func rulesOf(status *authorizationv1.SubjectRulesReviewStatus) []rule {
	var rules []rule
	add := func(r rule) {
		i := slices.IndexFunc(rules, func(other rule) bool {
			return other.Resource == r.Resource && other.URL == r.URL && other.Name == r.Name
		})
		if i < 0 {
			rules = append(rules, r)
			return
		}
		for _, verb := range r.Verbs {
			if !slices.Contains(rules[i].Verbs, verb) {
				rules[i].Verbs = append(rules[i].Verbs, verb)
			}
		}
	}
	for _, r := range granted(status.ResourceRules) {
		for _, one := range validation.BreakdownRule(r) {
			add(rule{Resource: question.ResourceText(one.Resources[0], one.APIGroups[0]), Name: strings.Join(one.ResourceNames, ""), Verbs: one.Verbs})
		}
	}
	for _, r := range status.NonResourceRules {
		for _, url := range r.NonResourceURLs {
			add(rule{URL: url, Verbs: slices.Clone(r.Verbs)})
		}
	}
	slices.SortStableFunc(rules, func(a, b rule) int {
		return strings.Compare(a.Resource+"\x00"+a.URL+"\x00"+a.Name, b.Resource+"\x00"+b.URL+"\x00"+b.Name)
	})
	return rules
}

// granted returns the rules for resources as rules of RBAC.
func granted(rules []authorizationv1.ResourceRule) []rbacv1.PolicyRule {
	granted := make([]rbacv1.PolicyRule, 0, len(rules))
	for _, r := range rules {
		granted = append(granted, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
	}
	return granted
}

func printRules(out io.Writer, rules []rule, headers bool) error {
	table := &printable.Table{Headers: []string{"Resources", "Non-Resource URLs", "Resource Names", "Verbs"}, WithoutHeaders: !headers}
	for _, r := range rules {
		table.Add(nil, r.Resource, "["+r.URL+"]", "["+r.Name+"]", fmt.Sprint(r.Verbs))
	}
	return table.Print(out, 0)
}

// reviewsAtOnce is the number of reviews of a list that are on their way at the same time. kube-apiserver and Proviso share the work of many users by
// API Priority and Fairness.
const reviewsAtOnce = 8

// change is an action on which policies decide otherwise than the rules that kube-apiserver lists.
type change struct {
	Resource string   `json:"resource"`
	Verbs    []string `json:"verbs"`
	*answer.Answer
	// rows are the conditions of the answer, or one row with its reason.
	rows []answer.Row
}

// changes asks about each verb of each resource in discovery, and returns the answers that differ from the rules, and those with conditions.
// They are grouped by resource and answer. unenforced are actions with conditions that no server evaluates.
func (o *options) changes(ctx context.Context, granted []rbacv1.PolicyRule) (changes []*change, unenforced []string, err error) {
	actions, err := o.actions()
	if err != nil {
		return nil, nil, err
	}
	answers, isUnenforced := make([]*answer.Answer, len(actions)), make([]bool, len(actions))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	var done atomic.Int64
	for i := range actions {
		group.Go(func() (err error) {
			defer func() { terminal.From(ctx).Progress("%d of %d questions are answered", done.Add(1), len(actions)) }()
			one := &options{clients: o.clients, Question: actions[i], granted: granted}
			one.ErrOut = io.Discard // warnings are about single answers
			if answers[i], isUnenforced[i], err = one.change(ctx, granted); err != nil {
				return fmt.Errorf("may I %s %s: %w", one.Verb, nameOf(&one.Question), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	for i, a := range answers {
		if isUnenforced[i] {
			unenforced = append(unenforced, actions[i].Verb+" "+nameOf(&actions[i]))
		}
		if a == nil {
			continue
		}
		next := &change{Resource: nameOf(&actions[i]), Verbs: []string{actions[i].Verb}, Answer: a, rows: a.Conditions}
		if a.Verdict != answer.YesIf {
			next.rows = []answer.Row{{Description: a.Why()}}
		}
		same := slices.IndexFunc(changes, func(c *change) bool {
			return c.Resource == next.Resource && c.Verdict == next.Verdict && slices.Equal(c.rows, next.rows)
		})
		if same >= 0 {
			changes[same].Verbs = append(changes[same].Verbs, actions[i].Verb)
			continue
		}
		changes = append(changes, next)
	}
	slices.SortStableFunc(changes, func(a, b *change) int { return strings.Compare(a.Resource, b.Resource) })
	return changes, unenforced, nil
}

// change returns the answer to the question, or nil if it says what the rules say. isUnenforced says that policies have conditions and kube-apiserver
// refuses.
func (o *options) change(ctx context.Context, granted []rbacv1.PolicyRule) (a *answer.Answer, isUnenforced bool, err error) {
	isGranted, _ := validation.Covers(granted, []rbacv1.PolicyRule{o.rule()})
	status, about, err := o.askProviso(ctx)
	switch {
	case err != nil:
		return nil, false, err
	case status == nil:
		return nil, false, errNoReviews
	case len(status.ConditionsChain) == 0 && status.Allowed == isGranted && len(about.names.Names) == 0 && !about.names.IsOpen && (!o.IsNameless() || len(o.grantedNames()) == 0):
		return nil, false, nil
	}
	if a, err = o.answer(ctx); err != nil {
		return nil, false, err
	}
	if a.Verdict == answer.No && !isGranted && (!o.IsNameless() || len(o.grantedNames()) == 0) {
		return nil, len(status.ConditionsChain) > 0, nil
	}
	if a.Verdict == answer.Yes && isGranted || a.Verdict == answer.YesIf && o.isOfRoles(a) {
		return nil, false, nil
	}
	return a, false, nil
}

// actions returns the verbs of the resources in discovery, each in the preferred version of its group. Groups that do not answer cause a warning.
func (o *options) actions() ([]question.Question, error) {
	server, err := o.Flags.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	groups, lists, err := server.ServerGroupsAndResources()
	switch {
	case discovery.IsGroupDiscoveryFailedError(err):
		o.Warn("the list may be incomplete: " + err.Error())
	case err != nil:
		return nil, err
	}
	byVersion := make(map[string]*metav1.APIResourceList, len(lists))
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	var actions []question.Question
	seen := sets.New[schema.GroupResource]()
	for _, g := range groups {
		for _, v := range append([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions...) {
			list := byVersion[v.GroupVersion]
			if list == nil {
				continue
			}
			for i := range list.APIResources {
				if r := &list.APIResources[i]; !seen.Has(schema.GroupResource{Group: g.Name, Resource: r.Name}) {
					seen.Insert(schema.GroupResource{Group: g.Name, Resource: r.Name})
					actions = append(actions, o.actionsOn(schema.GroupVersion{Group: g.Name, Version: v.Version}, r)...)
				}
			}
		}
	}
	return actions, nil
}

// actionsOn returns the verbs of a resource.
func (o *options) actionsOn(version schema.GroupVersion, r *metav1.APIResource) (actions []question.Question) {
	var q question.Question
	resource, subresource, _ := strings.Cut(r.Name, "/")
	q.Resource, q.Subresource = version.WithResource(resource), subresource
	if r.Namespaced {
		q.Namespace = o.Namespace
	}
	for _, verb := range r.Verbs {
		q.Verb = verb
		actions = append(actions, q)
	}
	return actions
}

func nameOf(q *question.Question) string {
	return question.ResourceText(q.Resource.Resource+"/"+q.Subresource, q.Resource.Group)
}

func printChanges(out io.Writer, changes []*change, headers bool, screen *terminal.Terminal) error {
	table := &printable.Table{Headers: []string{"RESOURCE", "VERBS", "ANSWER", "EFFECT", "CONDITION", "POLICY", "DESCRIPTION"}, Long: 4, Empty: "-", WithoutHeaders: !headers}
	for _, c := range changes {
		for i := range c.rows {
			row := &c.rows[i]
			table.Add(row.Below(screen), c.Resource, fmt.Sprint(c.Verbs), c.Verdict.Text(), string(row.Effect), row.Condition, row.Policy, row.Description)
		}
	}
	return table.Print(out, screen.Width())
}
