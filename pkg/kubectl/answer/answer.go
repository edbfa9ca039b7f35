/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package answer has the answers of commands to whether a request is allowed: yes, no, or yes if one of some conditions is true. It shows conditions as a
// table in the order in which they decide, and simple ones in plain words.
//
// The package must not import the server, pkg/apiserver.
package answer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	utilexec "k8s.io/utils/exec"
	kjson "sigs.k8s.io/json"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// Verdict is a decision about a request. Everything but Yes and YesIf is no.
type Verdict string

// The verdicts. YesIf is for a decision that depends on conditions, and can become Yes.
const (
	Yes   Verdict = "yes"
	No    Verdict = "no"
	YesIf Verdict = "yes-if"
)

// The exit codes, beside 0 for Yes.
const (
	codeNo    = 1
	codeYesIf = 3
)

// Text returns a verdict as commands print it.
func (v Verdict) Text() string { return strings.ReplaceAll(string(v), "-", ", ") }

// Exit returns the exit code of a verdict.
func (v Verdict) Exit() error {
	switch v {
	case Yes:
		return nil
	case YesIf:
		return utilexec.CodeExitError{Code: codeYesIf}
	case No:
	}
	return utilexec.CodeExitError{Code: codeNo}
}

var errVerdict = errors.New("want yes, no or yes-if")

// UnmarshalJSON reads a verdict. YAML reads yes and no without quotes as booleans.
func (v *Verdict) UnmarshalJSON(text []byte) error {
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &value); err != nil {
		return err
	}
	switch value := value.(type) {
	case bool:
		*v = No
		if value {
			*v = Yes
		}
	case string:
		*v = Verdict(value)
	default:
		return errVerdict
	}
	return nil
}

// Answer is an answer, as reports have it.
type Answer struct {
	Verdict Verdict `json:"answer"`
	// Reason and EvaluationError say why the answer is no.
	Reason          string `json:"reason,omitempty"`
	EvaluationError string `json:"evaluationError,omitempty"`
	// Conditions are the conditions of YesIf, in the order in which they decide.
	Conditions []Row `json:"conditions"`
}

// Of returns an answer without conditions.
func Of(allowed bool, reason, evaluationError string) *Answer {
	if allowed {
		return &Answer{Verdict: Yes, Conditions: []Row{}}
	}
	return &Answer{Verdict: No, Reason: reason, EvaluationError: evaluationError, Conditions: []Row{}}
}

// If returns an answer that depends on conditions.
func If(chain []authorizationv1alpha1.SubjectAccessReviewConditionSet) *Answer {
	return &Answer{Verdict: YesIf, Conditions: append([]Row{}, Rows(chain)...)}
}

// Why returns why the answer is no, or an empty text.
func (a *Answer) Why() string {
	return strings.Join(slices.DeleteFunc([]string{a.Reason, a.EvaluationError}, func(text string) bool { return text == "" }), " - ")
}

// Print prints an answer, and returns its exit code.
func (a *Answer) Print(out io.Writer, screen *terminal.Terminal) error {
	line := screen.Answer(cmp.Or(a.Verdict, No).Text())
	if why := a.Why(); why != "" {
		line += " - " + printable.Text(why)
	}
	if _, err := fmt.Fprintln(out, line); err != nil {
		return err
	}
	if a.Verdict == YesIf {
		table := &printable.Table{Headers: []string{"EFFECT", "CONDITION", "POLICY", "DESCRIPTION"}, Long: 1, Empty: "-"}
		for i := range a.Conditions {
			row := &a.Conditions[i]
			table.Add(row.Below(screen), string(row.Effect), row.Condition, row.Policy, row.Description)
		}
		if err := table.Print(out, screen.Width()); err != nil {
			return err
		}
	}
	return a.Verdict.Exit()
}

// Row is a condition in a table.
type Row struct {
	Effect authorizationv1alpha1.ConditionEffect `json:"effect"`
	// Condition is the condition in plain words if it is simple, and Expression is its text.
	Condition  string `json:"condition"`
	Expression string `json:"expression,omitempty"`
	// Policy is the policy, or the authorizer that decides without a condition.
	Policy      string `json:"policy"`
	Description string `json:"description,omitempty"`
}

// Below returns the lines of a condition that is printed below its row.
func (r *Row) Below(screen *terminal.Terminal) func() []string {
	return func() []string { return Named(r.Condition, nil, screen.Width()) }
}

// effects are in the order in which a set decides.
var effects = []authorizationv1alpha1.ConditionEffect{
	authorizationv1alpha1.ConditionEffectDeny, authorizationv1alpha1.ConditionEffectNoOpinion, authorizationv1alpha1.ConditionEffectAllow,
}

// Rows returns the conditions of sets in the order in which they decide.
func Rows(chain []authorizationv1alpha1.SubjectAccessReviewConditionSet) (rows []Row) {
	for i := range chain {
		set := &chain[i]
		conditions := slices.Clone(set.Conditions)
		slices.SortStableFunc(conditions, func(a, b authorizationv1alpha1.SubjectAccessReviewCondition) int {
			return slices.Index(effects, a.Effect) - slices.Index(effects, b.Effect)
		})
		for _, c := range conditions {
			text := c.Condition
			if c.Type == authorization.ConditionTypeCEL {
				text = Words(c.Condition)
			}
			rows = append(rows, Row{Effect: c.Effect, Condition: text, Expression: c.Condition, Policy: policyOf(c.ID), Description: c.Description})
		}
		rows = append(rows, Rows(set.ConditionsChain)...)
		switch {
		case set.Allowed:
			rows = append(rows, Row{Effect: authorizationv1alpha1.ConditionEffectAllow, Condition: always, Policy: set.AuthorizerName})
		case set.Denied:
			rows = append(rows, Row{Effect: authorizationv1alpha1.ConditionEffectDeny, Condition: always, Policy: set.AuthorizerName})
		}
	}
	return rows
}

// always stands for the condition of a decision without one.
const always = "always"

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
