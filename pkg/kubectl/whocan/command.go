/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package whocan is the command kubectl proviso who-can. It lists the users, groups and service accounts that may make a request, by RBAC and
// by policies, with their conditions.
//
// Invariants:
//
//   - A subject that may make the request is in the list, by its name or by its most special group, if everything could be read. So is one that may make it with a
//     selector, a name or a namespace that the question does not have.
//   - The answer "yes" depends on no condition. Conditions that need more of a user than the list knows, such as the groups of a user, are shown
//     and not evaluated.
//   - If something could not be read, or the server does not enforce a restriction, the report says so, and the exit code is 1.
//
// The package must not import the server, pkg/apiserver.
package whocan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// options are the options of the command.
type options struct {
	command.Options
	question.Question

	files  command.Files
	output command.Format
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to a command above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Options: command.Options{IOStreams: streams, Flags: flags}, output: command.Format{Value: "table"}}
	cmd := &cobra.Command{
		Use:                   "who-can VERB [TYPE | TYPE/NAME | NONRESOURCEURL]",
		DisableFlagsInUseLine: true,
		Short:                 "List who may do an action, and on what conditions",
		Long: `List the users, groups and service accounts that may do an action, by RBAC and by
 policies, with their conditions.

 VERB, TYPE, NAME and NONRESOURCEURL are as for can-i. The list has a row for each
 binding and each policy that decides for a subject, in the order in which they decide.
 The answer is 'yes', 'yes, if' a condition is true, or 'no' for a subject that RBAC or an
 Allow policy allows and another policy does not. The row of a policy that denies on a
 condition says 'no, if'. A second table has the policies that restrict the action.

 The names in bindings and policies are listed. The members of groups are not known to a
 cluster, so that a condition on the groups of a user is shown and not evaluated. Other
 authorizers of kube-apiserver, such as webhooks, are not seen.

 Roles, bindings and policies are read from the cluster with your permissions, or with -f
 from files, without a cluster.

 Exit status: 0 for a complete list, 1 if it may be incomplete, 2 on an error.`,
		Example: `  # Who can create machines in the namespace demo?
  kubectl proviso who-can create virtualmachines.demo.proviso.dev -n demo

  # Who can read the secret db?
  kubectl proviso who-can get secrets/db -n demo

  # Who can list pods in all namespaces?
  kubectl proviso who-can list pods --all-namespaces

  # Who can read pod logs? Print JSON, for an audit
  kubectl proviso who-can get pods --subresource=log -n demo -o json

  # Who can access the URL /metrics?
  kubectl proviso who-can get /metrics

  # Who could create ConfigMaps, by the roles and policies in files? Without a cluster, name the version: here v1 of the core group
  kubectl proviso who-can create configmaps.v1. -n shared -f artifacts/templates/names-by-prefix/role.yaml -f artifacts/templates/names-by-prefix/policy.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.AddFlags(cmd.Flags(), "If true, list who can do the action in all namespaces at once.")
	o.files.AddFlags(cmd.Flags(), "Files or directories with roles, bindings and policies, instead of a cluster. - is standard input.", "Read the directories in -f recursively.")
	o.output.AddFlag(cmd, "output", "o", "Format of the list: 'table' or 'json'.", "table", document.JSON)
	return cmd
}

var errArguments = errors.New("you must specify two arguments: verb resource or verb resource/resourceName; see 'kubectl proviso who-can --help'")

func (o *options) run(ctx context.Context, args []string) error {
	switch {
	case len(args) != 2 || slices.Contains(args, ""):
		return errArguments
	case question.IsURL(args[1]) && o.Subresource != "":
		return question.ErrURLSubresource
	case len(o.files.Names) > 0 && !question.IsURL(args[1]) && o.NamespaceFlag() == "" && !o.AllNamespaces:
		return question.ErrNamespace
	}
	if err := o.output.Validate(); err != nil {
		return err
	}
	compilers, err := simulation.NewCompilers()
	if err != nil {
		return err
	}
	o.Verb = args[0]
	in, err := o.read(ctx, args[1], compilers.Policies)
	if err != nil {
		return err
	}
	return o.print(terminal.From(ctx), reportOf(ctx, in, o.Record(), compilers.Policies))
}

// print prints the report, and the warnings and gaps to standard error.
func (o *options) print(screen *terminal.Terminal, r *report) error {
	for _, text := range r.Warnings {
		o.Warn(text)
	}
	if o.IsNameless() {
		o.Warn("the list is about no certain object: roles and policies can also depend on its name. Name the object to see the list for it")
	}
	var err error
	if o.output.Value == document.JSON {
		err = printable.WriteJSON(o.Out, r, "    ")
	} else {
		err = printTable(o.Out, r, screen)
	}
	if err != nil {
		return err
	}
	if r.Complete {
		return nil
	}
	for _, gap := range r.Gaps {
		o.Warn(gap)
	}
	return command.Found(errors.New("the list may be incomplete: see the warnings"))
}

// printTable prints a row for each binding and policy that decides for a subject, and then the policies that restrict the request.
func printTable(out io.Writer, r *report, screen *terminal.Terminal) error {
	table := &printable.Table{Headers: []string{"ANSWER", "SUBJECT", "EFFECT", "CONDITION", "BY", "DESCRIPTION"}, Long: 3, Empty: "-"}
	for i := range r.Subjects {
		s := &r.Subjects[i]
		for k := range s.Parts {
			p := &s.Parts[k]
			is := s.Answer.Text()
			if s.Answer == answer.YesIf && p.Effect == policyv1alpha1.PolicyEffectDeny {
				is = "no, if"
			}
			table.Add(p.below(screen), is, s.String(), string(p.Effect), p.text(), p.Source.String(), p.Description)
		}
	}
	if err := table.Print(out, screen.Width()); err != nil || len(r.Restrictions) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	table = &printable.Table{Headers: []string{"RESTRICTED BY", "EFFECT", "SUBJECTS", "CONDITION", "DESCRIPTION"}, Long: 3, Empty: "-"}
	for i := range r.Restrictions {
		x := &r.Restrictions[i]
		subjects := make([]string, 0, len(x.Subjects))
		for _, s := range x.Subjects {
			subjects = append(subjects, s.String())
		}
		if x.AllUsers {
			subjects = append(subjects, "all users")
		}
		table.Add(x.below(screen), x.Source.String(), string(x.Effect), strings.Join(subjects, ", "), x.text(), x.Description)
	}
	return table.Print(out, screen.Width())
}

// below returns the lines of a condition that is printed below its row, with the names of variables.
func (p *part) below(screen *terminal.Terminal) func() []string {
	return func() []string { return answer.Named(p.text(), p.variables, screen.Width()) }
}

// text returns the condition in words, or as it is.
func (p *part) text() string {
	return cmp.Or(p.Words, p.Condition, "always")
}
