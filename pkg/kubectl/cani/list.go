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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

// The texts of warnings about lists.
const (
	warningList           = "policies can also depend on names, and on URLs that are no resources: check single actions"
	warningUnenforcedList = "policies of Proviso have conditions about these actions, but kube-apiserver refuses them before any server evaluates the conditions: "
)

// rule is a row of the list: verbs on one resource, on one name of it, or on a URL.
type rule struct {
	resource, url, name string
	verbs               []string
}

// runList prints what kube-apiserver allows the user, as kubectl auth can-i does. A second table has what policies of Proviso change: what they allow, with and
// without conditions, and what they refuse.
func (o *options) runList(ctx context.Context) error {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: o.Namespace}}
	answer, err := o.clients.kube.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if answer.Status.Incomplete {
		o.warn("the list may be incomplete: " + answer.Status.EvaluationError)
	}
	if err := printRules(o.Out, rulesOf(&answer.Status), !o.noHeaders); err != nil {
		return err
	}
	switch _, err := o.clients.kube.Discovery().ServerResourcesForGroupVersion("authorization.proviso.dev/v1alpha1"); {
	case apierrors.IsNotFound(err):
		o.warn(warningWithoutProviso)
		return nil
	case err != nil:
		return err
	}
	o.warn(warningList)
	changes, unenforced, err := o.changes(ctx, answer.Status.ResourceRules)
	if err != nil {
		return err
	}
	if len(unenforced) > 0 {
		o.warn(warningUnenforcedList + strings.Join(unenforced, ", "))
	}
	if len(changes) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(o.Out); err != nil {
		return err
	}
	return printChanges(o.Out, changes, !o.noHeaders)
}

// rulesOf returns one rule for each resource, name and URL, in order.
func rulesOf(status *authorizationv1.SubjectRulesReviewStatus) []rule {
	var rules []rule
	add := func(r rule) {
		i := slices.IndexFunc(rules, func(other rule) bool {
			return other.resource == r.resource && other.url == r.url && other.name == r.name
		})
		if i < 0 {
			rules = append(rules, r)
			return
		}
		for _, verb := range r.verbs {
			if !slices.Contains(rules[i].verbs, verb) {
				rules[i].verbs = append(rules[i].verbs, verb)
			}
		}
	}
	for _, r := range status.ResourceRules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, name := range names {
					add(rule{resource: resourceOf(resource, group), name: name, verbs: slices.Clone(r.Verbs)})
				}
			}
		}
	}
	for _, r := range status.NonResourceRules {
		for _, url := range r.NonResourceURLs {
			add(rule{url: url, verbs: slices.Clone(r.Verbs)})
		}
	}
	slices.SortStableFunc(rules, func(a, b rule) int {
		return strings.Compare(a.resource+"\x00"+a.url+"\x00"+a.name, b.resource+"\x00"+b.url+"\x00"+b.name)
	})
	return rules
}

// resourceOf returns a resource with its group, as in deployments.apps/scale.
func resourceOf(resource, group string) string {
	resource, subresource, has := strings.Cut(resource, "/")
	if group != "" {
		resource += "." + group
	}
	if has {
		resource += "/" + subresource
	}
	return resource
}

func printRules(out io.Writer, rules []rule, headers bool) error {
	w := printers.GetNewTabWriter(out)
	if headers {
		_, _ = fmt.Fprintln(w, "Resources\tNon-Resource URLs\tResource Names\tVerbs")
	}
	for _, r := range rules {
		cells := []string{r.resource, "[" + r.url + "]", "[" + r.name + "]", fmt.Sprint(r.verbs)}
		for i := range cells {
			cells[i] = printable.Text(cells[i])
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}
