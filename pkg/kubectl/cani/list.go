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

const warningList = "the list has no permission that depends on a policy of Proviso, and no restriction by one: check single actions"

// rule is a row of the list: verbs on one resource, on one name of it, or on a URL.
type rule struct {
	resource, url, name string
	verbs               []string
}

// runList prints what kube-apiserver allows the user without conditions.
func (o *options) runList(ctx context.Context) error {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: o.Namespace}}
	answer, err := o.clients.kube.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if answer.Status.Incomplete {
		o.warn("the list may be incomplete: " + answer.Status.EvaluationError)
	}
	switch _, err := o.clients.kube.Discovery().ServerResourcesForGroupVersion("authorization.proviso.dev/v1alpha1"); {
	case err == nil:
		o.warn(warningList)
	case apierrors.IsNotFound(err):
		o.warn(warningWithoutProviso)
	default:
		return err
	}
	return printRules(o.Out, rulesOf(&answer.Status), !o.noHeaders)
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
