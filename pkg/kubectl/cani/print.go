/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"fmt"
	"io"

	utilexec "k8s.io/utils/exec"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/conditiontable"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// exits has the exit codes of verdicts.
var exits = map[verdict]error{no: utilexec.CodeExitError{Code: codeNo}, yesIf: utilexec.CodeExitError{Code: codeYesIf}}

// print prints an answer, and returns its exit code.
func (o *options) print(screen *terminal.Terminal, a *answer) error {
	if o.output != "" {
		if err := o.write(o.Out, answerReport{o.head("CanI"), o.Request(), a.outcome()}); err != nil {
			return err
		}
		return exits[a.verdict]
	}
	switch a.verdict {
	case yes:
		_, err := fmt.Fprintln(o.Out, screen.Answer("yes"))
		return err
	case yesIf:
		if err := printConditions(screen, o.Out, a.conditions); err != nil {
			return err
		}
		return exits[yesIf]
	case no:
	}
	line := screen.Answer("no")
	for _, text := range []string{a.reason, a.evaluationError} {
		if text != "" {
			line += " - " + printable.Text(text)
		}
	}
	if _, err := fmt.Fprintln(o.Out, line); err != nil {
		return err
	}
	return exits[no]
}

// printConditions prints the conditions in the order in which they decide.
func printConditions(screen *terminal.Terminal, out io.Writer, chain []authorizationv1alpha1.SubjectAccessReviewConditionSet) error {
	if _, err := fmt.Fprintln(out, screen.Answer("yes, if")); err != nil {
		return err
	}
	return conditiontable.Print(out, chain)
}
