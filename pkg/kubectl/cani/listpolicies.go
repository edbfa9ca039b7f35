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
	rbacv1 "k8s.io/api/rbac/v1"
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

// reviewsAtOnce is the number of reviews of a list that are on their way at the same time. kube-apiserver and Proviso share the work of many users by
// API Priority and Fairness.
const reviewsAtOnce = 8

// change is an action on which policies decide otherwise than the rules that kube-apiserver lists.
type change struct {
	resource string
	verbs    []string
	answer   *answer.Answer
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
		next := &change{resource: nameOf(&actions[i]), verbs: []string{actions[i].Verb}, answer: a, rows: a.Conditions}
		if a.Verdict != answer.YesIf {
			next.rows = []answer.Row{{Description: a.Why()}}
		}
		if same := slices.IndexFunc(changes, next.isAlike); same >= 0 {
			changes[same].verbs = append(changes[same].verbs, actions[i].Verb)
			continue
		}
		changes = append(changes, next)
	}
	slices.SortStableFunc(changes, func(a, b *change) int { return strings.Compare(a.resource, b.resource) })
	return changes, unenforced, nil
}

// change returns the answer to the question, or nil if it says what the rules say. isUnenforced says that policies have conditions and kube-apiserver
// refuses.
func (o *options) change(ctx context.Context, granted []rbacv1.PolicyRule) (a *answer.Answer, isUnenforced bool, err error) {
	isGranted, _ := validation.Covers(granted, []rbacv1.PolicyRule{o.rule()})
	status, names, err := o.askProviso(ctx)
	switch {
	case err != nil:
		return nil, false, err
	case status == nil:
		return nil, false, errNoReviews
	case len(status.ConditionsChain) == 0 && status.Allowed == isGranted && len(names.Names) == 0 && !names.IsOpen && (!o.IsNameless() || len(o.grantedNames()) == 0):
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
	return resourceOf(q.Resource.Resource+"/"+q.Subresource, q.Resource.Group)
}

// isAlike reports whether two changes differ in the verb alone.
func (c *change) isAlike(other *change) bool {
	return c.resource == other.resource && c.answer.Verdict == other.answer.Verdict &&
		slices.Equal(c.rows, other.rows)
}

func printChanges(out io.Writer, changes []*change, headers bool, screen *terminal.Terminal) error {
	table := &printable.Table{Headers: []string{"RESOURCE", "VERBS", "ANSWER", "EFFECT", "CONDITION", "POLICY", "DESCRIPTION"}, Long: 4, Empty: "-", WithoutHeaders: !headers}
	for _, c := range changes {
		for i := range c.rows {
			row := &c.rows[i]
			table.Add(row.Below(screen), c.resource, fmt.Sprint(c.verbs), c.answer.Verdict.Text(), string(row.Effect), row.Condition, row.Policy, row.Description)
		}
	}
	return table.Print(out, screen.Width())
}
