/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
	utilexec "k8s.io/utils/exec"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

// print prints an answer, and returns its exit code.
func (o *options) print(a *answer) error {
	switch a.verdict {
	case yes:
		_, err := fmt.Fprintln(o.Out, "yes")
		return err
	case yesIf:
		if err := printConditions(o.Out, a.conditions); err != nil {
			return err
		}
		return utilexec.CodeExitError{Code: codeYesIf}
	case no:
	}
	line := "no"
	for _, text := range []string{a.reason, a.evaluationError} {
		if text != "" {
			line += " - " + printable.Text(text)
		}
	}
	if _, err := fmt.Fprintln(o.Out, line); err != nil {
		return err
	}
	return utilexec.CodeExitError{Code: codeNo}
}

// printConditions prints the conditions in the order in which they decide.
func printConditions(out io.Writer, chain []authorizationv1alpha1.SubjectAccessReviewConditionSet) error {
	if _, err := fmt.Fprintln(out, "yes, if"); err != nil {
		return err
	}
	w := printers.GetNewTabWriter(out)
	writeRow(w, "EFFECT", "CONDITION", "POLICY", "DESCRIPTION")
	writeSets(w, chain)
	return w.Flush()
}

// effects are in the order in which a set decides.
var effects = []authorizationv1alpha1.ConditionEffect{
	authorizationv1alpha1.ConditionEffectDeny, authorizationv1alpha1.ConditionEffectNoOpinion, authorizationv1alpha1.ConditionEffectAllow,
}

func writeSets(w io.Writer, chain []authorizationv1alpha1.SubjectAccessReviewConditionSet) {
	for i := range chain {
		set := &chain[i]
		conditions := slices.Clone(set.Conditions)
		slices.SortStableFunc(conditions, func(a, b authorizationv1alpha1.SubjectAccessReviewCondition) int {
			return slices.Index(effects, a.Effect) - slices.Index(effects, b.Effect)
		})
		for _, c := range conditions {
			text := c.Condition
			if c.Type == authorization.ConditionTypeCEL {
				text = words(c.Condition)
			}
			writeRow(w, string(c.Effect), text, policyOf(c.ID), c.Description)
		}
		writeSets(w, set.ConditionsChain)
		switch {
		case set.Allowed:
			writeRow(w, string(authorizationv1alpha1.ConditionEffectAllow), "always", set.AuthorizerName, "")
		case set.Denied:
			writeRow(w, string(authorizationv1alpha1.ConditionEffectDeny), "always", set.AuthorizerName, "")
		}
	}
}

// policyOf returns the policy of a condition, or for a condition of another authorizer its ID.
func policyOf(id string) string {
	domain, name, _ := strings.Cut(id, "/")
	if domain == authorization.ClusterPolicyDomain {
		return name
	}
	if namespace, ok := strings.CutSuffix(domain, authorization.NamespacedPolicyDomain); ok {
		return namespace + "/" + name
	}
	return id
}

func writeRow(w io.Writer, cells ...string) {
	for i := range cells {
		if cells[i] = printable.Text(cells[i]); cells[i] == "" {
			cells[i] = "-"
		}
	}
	_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
}
