/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package explain is the command kubectl proviso explain. It shows what each authorizer decides about a request, the part of a condition that
// decides, its values, and a change of one field of the object with which the request would be allowed.
//
// Invariants:
//
//   - Package simulation makes the decision, and the engine of the server evaluates the conditions. A change is shown only if package simulation
//     allows the request with it.
//   - Values of fields that may hold secrets are in no output, also if they are part of other values or of errors.
//   - Values, trees and searches are bounded. Texts of files and servers are printed without control characters.
//
// The package must not import the server, pkg/apiserver.
package explain

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// options are the options of the command.
type options struct {
	command.Options

	files                   command.Files
	rbacAllows              bool
	test, auditLog, auditID string
	hide, openAPI           []string
	output                  command.Format

	// The request in the arguments: args as they are, the verb in asked, and target, which is TYPE, TYPE/NAME, a URL or empty.
	args   []string
	asked  question.Question
	target string
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to a command above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Options: command.Options{IOStreams: streams, Flags: flags}, output: command.Format{Value: "text"}}
	cmd := &cobra.Command{
		Use:                   "explain (VERB [TYPE | TYPE/NAME | NONRESOURCEURL] [-f FILENAME] | -f FILENAME | --audit-log FILENAME)",
		DisableFlagsInUseLine: true,
		Short:                 "Explain why a request is refused, and what would be allowed",
		Long: `Explain why a request is refused, and what would be allowed.

 VERB, TYPE, NAME and NONRESOURCEURL are the request, as for can-i, and --as and
 --as-group its user. The files of -f have its object: a plain manifest, the new one for an
 update. For an update without a cluster, the stored object can follow.

 Without VERB, the files have the request: a SubjectAccessReview, and an
 AuthorizationConditionsReview with the object. With --test, they have a PolicyTest
 instead. With --audit-log, the request is the last one that was refused in an audit log
 of kube-apiserver or of Proviso.

 The policies are read from the files of -f, and then no cluster is needed for a request in
 arguments. If the files have none, all policies of the cluster are read. They are compiled
 and evaluated as by the server. The explanation shows each authorizer in its order, the
 policies that match the request, and the parts of the conditions that decide, with their
 values.

 The near miss is a change of one field of the object with which the request would be
 allowed: it has been evaluated with all policies. It is checked against the schema of the
 object, if --openapi names the schema or if the policies are read from the cluster. For a
 list, it is the selector with which the list is allowed.

 If the policies are read from the cluster, explain asks it what RBAC allows, and evaluates
 its ValidatingAdmissionPolicies, as far as you may read them; notes say what it does not
 know. Otherwise it assumes that RBAC allows nothing: see --rbac-allows, and evaluates
 ValidatingAdmissionPolicies only if they are part of a PolicyTest. Values of Secrets and of
 tokens are not shown.

 Exit status: 0 for yes, 1 for no, 2 on an error, 3 if the answer depends on data that
 the files do not have.`,
		Example: `  # May alice create this machine, and why? Ask the cluster for policies and permissions
  kubectl proviso explain create -f artifacts/enforcement/dev.yaml --as=alice

  # Why may alice not create this claim? Without a cluster
  kubectl proviso explain create -f artifacts/demo/claim-gold.yaml -f artifacts/demo/policy-claims.yaml --as=alice

  # The same as reviews
  kubectl proviso explain -f artifacts/examples/storage-class/review.yaml -f artifacts/examples/storage-class/fails.yaml -f artifacts/examples/storage-class/policy.yaml

  # Explain a test of policies
  kubectl proviso explain -f artifacts/examples/required-labels/test.yaml --test="A Deployment without labels"

  # Draw the explanation as a picture
  kubectl proviso explain -f artifacts/examples/required-labels/test.yaml --test="A Deployment without labels" -o svg

  # Explain the last refusal in an audit log. Without -f, the policies of the cluster are read
  kubectl proviso explain --audit-log=artifacts/explain/audit.log -f artifacts/examples/storage-class/policy.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	fs := cmd.Flags()
	o.asked.AddFlags(fs, "If true, explain the action in all namespaces.")
	o.asked.AddSelectorFlags(fs)
	o.files.AddFlags(fs, "Files or directories with the object or the request, and with policies. - is standard input.", "Process the directories of -f recursively.")
	fs.StringVar(&o.test, "test", o.test, "Explain the test with this name in a PolicyTest.")
	fs.StringVar(&o.auditLog, "audit-log", o.auditLog, "Explain the last refused request in this audit log. - is standard input.")
	fs.StringVar(&o.auditID, "audit-id", o.auditID, "Explain the request with this ID in the audit log.")
	fs.BoolVar(&o.rbacAllows, "rbac-allows", o.rbacAllows, "Assume that RBAC allows the request.")
	fs.StringSliceVar(&o.hide, "hide", o.hide, "Fields of the object whose values are not shown, such as spec.password.")
	fs.StringSliceVar(&o.openAPI, "openapi", o.openAPI, "Files with the schemas of objects, for near misses: documents of OpenAPI v3, such as the output of 'kubectl get --raw /openapi/v3/api/v1'.")
	o.output.AddFlag(cmd, "output", "o", "Format of the explanation: 'text', 'json', 'dot' or 'svg'.", "text", "json", "dot", "svg")
	return cmd
}

// The errors of flags.
var (
	errArguments = errors.New("want at most two arguments: verb resource or verb resource/resourceName; see 'kubectl proviso explain --help'")
	errNothing   = errors.New("must specify a request by its verb, with -f or with --audit-log")
	errSeveral   = errors.New("a request in arguments cannot be given together with --test or --audit-log")
	errNoVerb    = errors.New("--all-namespaces and --subresource cannot be set without a verb in the arguments")
	errAuditID   = errors.New("--audit-id cannot be set without --audit-log")
	errBoth      = errors.New("--test cannot be set together with --audit-log")
)

func (o *options) run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 2:
		return errArguments
	case len(args) > 0 && (o.test != "" || o.auditLog != ""):
		return errSeveral
	case len(args) == 0 && (o.asked.AllNamespaces || o.asked.Subresource != ""):
		return errNoVerb
	case len(args) == 0 && len(o.files.Names) == 0 && o.auditLog == "":
		return errNothing
	case o.auditID != "" && o.auditLog == "":
		return errAuditID
	case o.test != "" && o.auditLog != "":
		return errBoth
	}
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.args = args; len(args) > 0 {
		if err := o.asked.Check(args, false); err != nil {
			return err
		}
		o.asked.Verb, o.target = args[0], strings.Join(args[1:], "")
	}
	compilers, err := simulation.NewCompilers()
	if err != nil {
		return err
	}
	in := &input{options: o, compilers: compilers}
	if errs := in.read(ctx); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	for _, warning := range in.warnings {
		o.Warn(warning)
	}
	x, err := in.explainer()
	if err != nil {
		return err
	}
	terminal.From(ctx).Progress("looking for a near miss")
	e, err := x.explain(ctx)
	if err != nil {
		return err
	}
	if e.NearMiss != nil && !e.isSchemaKnown {
		in.notes = append(in.notes, noteNoSchema)
	}
	e.Recorded, e.Notes = in.recorded, in.notes
	switch o.output.Value {
	case "json":
		err = printable.WriteJSON(o.Out, e, "  ")
	case "dot":
		err = printDOT(o.Out, e)
	case "svg":
		err = printSVG(o.Out, e)
	default:
		err = printText(terminal.From(ctx), o.Out, e)
	}
	if err != nil {
		return err
	}
	return e.Decision.Exit()
}
