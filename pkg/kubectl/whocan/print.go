/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

// The formats of the answer.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// printTable prints a row for each binding and policy that decides for a subject, and then the policies that restrict the request.
func printTable(out io.Writer, r *report) error {
	w := printers.GetNewTabWriter(out)
	printable.WriteRow(w, "-", "ANSWER", "SUBJECT", "EFFECT", "CONDITION", "BY", "DESCRIPTION")
	for i := range r.Subjects {
		s := &r.Subjects[i]
		for _, p := range s.Parts {
			printable.WriteRow(w, "-", s.Answer.Text(), s.String(), string(p.Effect), p.text(), p.Source.String(), p.Description)
		}
	}
	if err := w.Flush(); err != nil || len(r.Restrictions) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	w = printers.GetNewTabWriter(out) // a writer keeps the widths of its columns
	printable.WriteRow(w, "-", "RESTRICTED BY", "EFFECT", "SUBJECTS", "CONDITION", "DESCRIPTION")
	for i := range r.Restrictions {
		x := &r.Restrictions[i]
		subjects := make([]string, 0, len(x.Subjects))
		for _, s := range x.Subjects {
			subjects = append(subjects, s.String())
		}
		if x.AllUsers {
			subjects = append(subjects, "all users")
		}
		printable.WriteRow(w, "-", x.Source.String(), string(x.Effect), strings.Join(subjects, ", "), x.text(), x.Description)
	}
	return w.Flush()
}

// text returns the condition in words, or as it is.
func (p *part) text() string {
	switch {
	case p.Words != "":
		return p.Words
	case p.Condition != "":
		return p.Condition
	}
	return "always"
}
