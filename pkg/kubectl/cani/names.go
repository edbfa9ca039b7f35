/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
)

const (
	// exampleName is the name of an object that no rule names. Conditions on the name see it.
	exampleName = "kubectl-proviso-can-i-any-name"
	// maxNames bounds the names about which a question without a name asks.
	maxNames = 16

	warningNameless = "policies compare the name of the object, or name more objects than are asked about: name the object to see the answer for it"
)

// answerForNames answers a question about objects of any name, although each request has one: it asks about a name that no rule has, and about those that rules have. If
// the answers differ, it depends on the name.
func (o *options) answerForNames(ctx context.Context) (*answer.Answer, error) {
	_, about, err := o.askProviso(ctx)
	if err != nil {
		return nil, err
	}
	names := about.names
	if err := o.addGranted(ctx, &names); err != nil {
		return nil, err
	}
	a, err := o.withName(exampleName, o.ErrOut).answerForOne(ctx)
	if err != nil {
		return nil, err
	}
	if a.Verdict == answer.Yes && len(names.Names) == 0 && !names.IsOpen {
		// An older Proviso, or one without conditions, warns of no names. About all versions, each Deny on a condition could deny.
		loose, err := o.askKubeAPIServer(ctx, o.Resource.Version)
		if err != nil {
			return nil, err
		}
		names.IsOpen = loose != nil && loose.Denied
	}
	var rows []answer.Row
	for _, name := range names.Names {
		one, err := o.withName(name, io.Discard).answerForOne(ctx)
		if err != nil {
			return nil, err
		}
		if row, differs := rowOf(name, one, a); differs {
			rows = append(rows, row)
		}
	}
	if names.IsOpen {
		o.Warn(warningNameless)
		if a.Verdict != answer.YesIf {
			effect := authorizationv1alpha1.ConditionEffectAllow // the opposite of the answer
			if a.Verdict == answer.Yes {
				effect = authorizationv1alpha1.ConditionEffectDeny
			}
			rows = append(rows, answer.Row{Effect: effect, Condition: "policies compare the name", Policy: names.By})
		}
	}
	if len(rows) == 0 {
		return a, nil
	}
	if a.Verdict == answer.Yes {
		a.Conditions = []answer.Row{{Effect: authorizationv1alpha1.ConditionEffectAllow, Condition: "any other name"}}
	}
	return &answer.Answer{Verdict: answer.YesIf, Conditions: append(rows, a.Conditions...)}, nil
}

// withName returns the question about one name.
func (o *options) withName(name string, errOut io.Writer) *options {
	one := &options{clients: o.clients, subject: o.subject, Question: o.Question}
	one.Name, one.ErrOut = name, errOut
	return one
}

// rowOf returns the row for a name, and whether its answer differs from that for other names.
func rowOf(name string, one, others *answer.Answer) (row answer.Row, differs bool) {
	row = answer.Row{Effect: authorizationv1alpha1.ConditionEffectAllow, Condition: conditionOf(name), Description: one.Why()}
	switch one.Verdict {
	case answer.No:
		row.Effect = authorizationv1alpha1.ConditionEffectDeny
	case answer.YesIf:
		row.Condition += ", and its conditions hold: ask with this name"
		return row, others.Verdict != answer.YesIf || !slices.Equal(one.Conditions, others.Conditions)
	case answer.Yes:
	}
	return row, one.Verdict != others.Verdict
}

// addGranted adds the names in the roles of the user. What kube-apiserver lists is about the user of the client only.
func (o *options) addGranted(ctx context.Context, names *authorization.Names) error {
	if o.granted == nil && o.subject == nil {
		status, err := o.selfRules(ctx, cmp.Or(o.Namespace, metav1.NamespaceDefault)) // one is required; roles of the cluster are in every one
		switch {
		case apierrors.IsNotFound(err): // the server is not kube-apiserver
		case err != nil:
			return err
		default:
			o.granted = granted(status.ResourceRules)
		}
	}
	names.Names = append(names.Names, o.grantedNames()...)
	if o.IsOfNamespaces() && o.Namespace != "" {
		names.Names = append(names.Names, o.Namespace) // roles in it are about it
	}
	slices.Sort(names.Names)
	if names.Names = slices.Compact(names.Names); len(names.Names) > maxNames {
		names.Names, names.IsOpen = names.Names[:maxNames], true
	}
	return nil
}

// grantedNames returns the names in the rules of kube-apiserver for the question.
func (o *options) grantedNames() (names []string) {
	asked := o.rule()
	for _, rule := range o.granted {
		for _, name := range rule.ResourceNames {
			asked.ResourceNames = []string{name}
			if covers, _ := validation.Covers([]rbacv1.PolicyRule{rule}, []rbacv1.PolicyRule{asked}); covers {
				names = append(names, name)
			}
		}
	}
	return names
}

// isOfRoles reports whether an answer depends on the names in roles alone, which a list has in its first table.
func (o *options) isOfRoles(a *answer.Answer) bool {
	granted := o.grantedNames()
	return len(a.Conditions) == len(granted) && !slices.ContainsFunc(granted, func(name string) bool {
		return !slices.ContainsFunc(a.Conditions, func(row answer.Row) bool {
			return row == answer.Row{Effect: authorizationv1alpha1.ConditionEffectAllow, Condition: conditionOf(name)}
		})
	})
}

// conditionOf returns the condition of the row for a name.
func conditionOf(name string) string { return fmt.Sprintf("the name is %q", name) }

// rule returns the question as a rule of RBAC.
func (o *options) rule() rbacv1.PolicyRule {
	resource := strings.TrimSuffix(o.Resource.Resource+"/"+o.Subresource, "/")
	return rbacv1.PolicyRule{Verbs: []string{o.Verb}, APIGroups: []string{o.Resource.Group}, Resources: []string{resource}}
}
