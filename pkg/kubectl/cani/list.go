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

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
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
		report := listReport{head: o.head("CanIList"), Namespace: o.Namespace, Rules: append([]rule{}, rules...), Changes: []changeReport{}}
		for _, c := range changes {
			report.Changes = append(report.Changes, changeReport{c.resource, c.verbs, c.answer})
		}
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
			add(rule{Resource: resourceOf(one.Resources[0], one.APIGroups[0]), Name: strings.Join(one.ResourceNames, ""), Verbs: one.Verbs})
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

// resourceOf returns a resource with its group, as in deployments.apps/scale.
func resourceOf(resource, group string) string {
	resource, subresource, _ := strings.Cut(resource, "/")
	return strings.TrimSuffix(strings.TrimSuffix(resource+"."+group, ".")+"/"+subresource, "/")
}

func printRules(out io.Writer, rules []rule, headers bool) error {
	table := &printable.Table{Headers: []string{"Resources", "Non-Resource URLs", "Resource Names", "Verbs"}, WithoutHeaders: !headers}
	for _, r := range rules {
		table.Add(nil, r.Resource, "["+r.URL+"]", "["+r.Name+"]", fmt.Sprint(r.Verbs))
	}
	return table.Print(out, 0)
}
