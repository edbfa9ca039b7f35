/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
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
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to a command above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Options: command.Options{IOStreams: streams, Flags: flags}, output: command.Format{Value: "text"}}
	cmd := &cobra.Command{
		Use:                   "explain (-f FILENAME | --audit-log FILENAME)",
		DisableFlagsInUseLine: true,
		Short:                 "Explain why a request is refused, and what would be allowed",
		Long: `Explain why a request is refused, and what would be allowed.

 The files of -f have the request: a SubjectAccessReview, and an
 AuthorizationConditionsReview with the object. With --test, they have a PolicyTest
 instead. With --audit-log, the request is the last one that was refused in an audit log
 of kube-apiserver or of Proviso.

 The policies are read from the files of -f. If the files have none, all policies of the
 cluster are read. They are compiled and evaluated as by the server. The explanation shows
 each authorizer in its order, the policies that match the request, and the parts of the
 conditions that decide, with their values.

 The near miss is a change of one field of the object with which the request would be
 allowed: it has been evaluated with all policies. It is checked against the schema of the
 object, if --openapi names the schema or if the policies are read from the cluster.

 explain does not know what RBAC allows, and assumes that it allows nothing: see
 --rbac-allows. ValidatingAdmissionPolicies are evaluated only if they are part of a
 PolicyTest: explain does not read the ValidatingAdmissionPolicies of a cluster, which can
 still refuse the request. Values of Secrets and of tokens are not shown.

 Exit status: 0 for yes, 1 for no, 2 on an error, 3 if the answer depends on data that
 the files do not have.`,
		Example: `  # Why may alice not create this claim?
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
	o.files.AddFlags(fs, "Files or directories with the request and with policies. - is standard input.", "Process the directories of -f recursively.")
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
	errArguments = errors.New("takes no arguments: name files with -f")
	errNothing   = errors.New("must specify a request with -f or --audit-log")
	errAuditID   = errors.New("--audit-id cannot be set without --audit-log")
	errBoth      = errors.New("--test cannot be set together with --audit-log")
)

func (o *options) run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0:
		return errArguments
	case len(o.files.Names) == 0 && o.auditLog == "":
		return errNothing
	case o.auditID != "" && o.auditLog == "":
		return errAuditID
	case o.test != "" && o.auditLog != "":
		return errBoth
	}
	if err := o.output.Validate(); err != nil {
		return err
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
