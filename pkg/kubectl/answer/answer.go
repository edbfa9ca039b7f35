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

	"k8s.io/cli-runtime/pkg/printers"
	utilexec "k8s.io/utils/exec"
	kjson "sigs.k8s.io/json"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
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
		w := printers.GetNewTabWriter(out)
		printable.WriteRow(w, "-", "EFFECT", "CONDITION", "POLICY", "DESCRIPTION")
		for _, row := range a.Conditions {
			printable.WriteRow(w, "-", string(row.Effect), row.Condition, row.Policy, row.Description)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return a.Verdict.Exit()
}
