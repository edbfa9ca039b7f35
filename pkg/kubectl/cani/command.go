/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package cani is the command kubectl proviso can-i. It has the arguments, the flags, the warnings and the first line of output of kubectl
// auth can-i, and also answers "yes, if" with the conditions, or decides for an object in a file.
//
// Invariants:
//
//   - The answer is "yes" or "yes, if" only if kube-apiserver's own review allows the request, where kube-apiserver answers reviews.
//   - A condition that this process cannot evaluate as the server does is never part of an answer.
//   - An error is never an answer: its exit code is 2.
//   - Of a file, and of stored objects, nothing is printed.
//
// The package must not import the server, pkg/apiserver.
package cani

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// options are the options of the command.
type options struct {
	command.Options

	quiet, list, noHeaders bool
	filename               string
	output                 command.Format

	// The request that the arguments and the file describe.
	question.Question
	object *unstructured.Unstructured
	// subject is the user of --as if the caller asks about it with a file. If nil, the question is about the user of the client.
	subject *authenticationv1.UserInfo
	// granted are the rules of kube-apiserver for the user of the client in the namespace of the question, once they were read.
	granted []rbacv1.PolicyRule

	clients *command.Clients
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to a command above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Options: command.Options{IOStreams: streams, Flags: flags}}
	cmd := &cobra.Command{
		Use:                   "can-i VERB [TYPE | TYPE/NAME | NONRESOURCEURL]",
		DisableFlagsInUseLine: true,
		Short:                 "Check whether an action is allowed, and on what conditions",
		Long: `Check whether an action is allowed, and on what conditions.

 VERB is a logical Kubernetes API verb like 'get', 'list', 'watch', 'delete', etc.
 TYPE is a Kubernetes resource. Shortcuts and groups will be resolved.
 NONRESOURCEURL is a partial URL that starts with "/".
 NAME is the name of a particular Kubernetes resource.

 It has the arguments and flags of 'kubectl auth can-i'. The answer is 'yes', 'no',
 or 'yes, if' with a table of conditions on the object. The first condition that is true
 decides; if none is true, the answer is no. Simple conditions are shown in words, and
 all others as CEL expressions.

 With -f, can-i decides for an object in a file. TYPE may be omitted. For update and
 patch, the file has the new object, and for delete the stored one. Defaults that the
 server sets, and changes by admission, are not in the file and do not count. With -f and
 --as, you need the ClusterRole proviso:reviewer, and the other user needs no permission.

 With --list, a second table has what policies change, for all objects of each resource:
 what they allow, on what conditions, and what they refuse.

 A cluster without Proviso answers with authorization.k8s.io/v1, without conditions.

 Exit status: 0 for yes, 1 for no, 2 on an error, 3 for 'yes, if'.`,
		Example: `  # May I create pods in any namespace?
  kubectl proviso can-i create pods --all-namespaces

  # On what conditions may alice create machines in the namespace demo?
  # You must be allowed to use impersonation for the global option "--as"
  kubectl proviso can-i create virtualmachines.demo.proviso.dev -n demo --as=alice

  # May alice create this machine?
  kubectl proviso can-i create -f artifacts/enforcement/dev.yaml --as=alice

  # May I list the pods of a team?
  kubectl proviso can-i list pods -l team=a

  # May I read pod logs?
  kubectl proviso can-i get pods --subresource=log

  # May I access the URL /logs/?
  kubectl proviso can-i get /logs/

  # On what conditions may I patch Secrets? Print JSON, for a program
  kubectl proviso can-i patch secrets -n demo -o json

  # List what I may do in the namespace demo, and what policies change
  kubectl proviso can-i --list --namespace=demo`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	fs := cmd.Flags()
	o.AddFlags(fs, "If true, check the specified action in all namespaces.")
	o.AddSelectorFlags(fs)
	fs.BoolVarP(&o.quiet, "quiet", "q", o.quiet, "If true, suppress output and just return the exit code.")
	fs.BoolVar(&o.list, "list", o.list, "If true, prints all allowed actions.")
	fs.BoolVar(&o.noHeaders, "no-headers", o.noHeaders, "If true, prints allowed actions without headers")
	fs.StringVarP(&o.filename, "filename", "f", o.filename, "File with the object to decide for. - is standard input.")
	o.output.AddFlag(cmd, "output", "o", "Format of the answer for programs: 'json' or 'yaml'.", document.JSON, document.YAML)
	return cmd
}

// The errors of arguments and flags.
var (
	errArguments = errors.New("you must specify two arguments: verb resource or verb resource/resourceName; see 'kubectl proviso can-i --help'")
	errListArgs  = errors.New("list option must be specified with no arguments")
	errListFlags = errors.New("list option can't be specified with neither quiet, all-namespaces, filename nor subresource options")
	errNoHeaders = errors.New("--no-headers cannot be set without --list specified")
)

func (o *options) run(ctx context.Context, args []string) error {
	if o.quiet {
		o.Out = io.Discard
	}
	if err := o.validate(args); err != nil {
		return err
	}
	var err error
	if o.clients, err = o.newClients(); err != nil {
		return err
	}
	if o.list {
		return o.runList(ctx)
	}
	o.Verb = args[0]
	if err := o.Read(&o.Options, strings.Join(args[1:], ""), o.readObject); err != nil {
		return err
	}
	a, err := o.answer(ctx)
	if err != nil {
		return err
	}
	if o.output.Value == "" {
		return a.Print(o.Out, terminal.From(ctx))
	}
	if err := o.output.Write(o.Out, answerReport{o.head("CanI"), question.RequestOf(o.Record()), a}, indent); err != nil {
		return err
	}
	return a.Verdict.Exit()
}

// validate checks what can be checked without a server.
func (o *options) validate(args []string) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	switch {
	case o.list && len(args) != 0:
		return errListArgs
	case o.list && (o.quiet || o.AllNamespaces || o.Subresource != "" || o.filename != ""):
		return errListFlags
	case o.list:
		return nil
	case len(args) != 2 && (o.filename == "" || len(args) != 1):
		return errArguments
	case o.noHeaders:
		return errNoHeaders
	}
	return o.Check(args, o.filename != "")
}

// indent is the indent of reports in JSON.
const indent = "    "

// head is the begin of every report. docs/kubectl-proviso.md describes the fields.
type head struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Warnings   []string `json:"warnings"`
}

type answerReport struct {
	head
	Request question.Request `json:"request"`
	*answer.Answer
}

type listReport struct {
	head
	Namespace string    `json:"namespace,omitempty"`
	Rules     []rule    `json:"rules"`
	Changes   []*change `json:"changes"`
}

// head returns the begin of a report, with the warnings until now.
func (o *options) head(kind string) head {
	return head{APIVersion: "report.proviso.dev/v1alpha1", Kind: kind, Warnings: o.Warnings()}
}
