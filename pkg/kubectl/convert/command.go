/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package convert is the command kubectl proviso convert rbac. It writes Roles, ClusterRoles and their bindings as Allow policies that decide
// alike.
//
// Invariants:
//
//   - No policy allows a request that its binding does not allow: an entry that a policy cannot have is left out, and a rule whose list loses
//     all entries is left out as a whole.
//   - Whatever is left out is in the report, with a reason, and the exit code is 1.
//   - Every policy passes the validation of the server.
//
// The package must not import the server, pkg/apiserver.
package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// options are the options of the command.
type options struct {
	command.Options

	files  command.Files
	output command.Format
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to a command above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert",
		Short: "Convert permissions of other authorizers to policies",
		Long:  "Convert permissions of other authorizers to policies.",
		Example: `  # Print the roles and bindings in files as policies
  kubectl proviso convert rbac -f artifacts/templates/ci-bot/role.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRBACCommand(flags, streams))
	return cmd
}

func newRBACCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Options: command.Options{IOStreams: streams, Flags: flags}, output: command.Format{Value: document.YAML}}
	cmd := &cobra.Command{
		Use:   "rbac [-f FILENAME]",
		Short: "Convert roles and bindings to policies",
		Long: `Convert Roles, ClusterRoles and their bindings to Allow policies that decide alike.

 A ClusterRoleBinding becomes a ClusterAuthorizationPolicy, and a RoleBinding an
 AuthorizationPolicy, with the rules of the role; one with many rules or subjects becomes
 several. The rules of aggregated ClusterRoles in files are computed. The policies are
 printed to standard output. A report on standard error has a row for each binding.

 No policy allows more than its binding. What a policy cannot express is left out, and the
 report says why.

 Without -f, roles and bindings are read from the cluster: ClusterRoles, their bindings,
 and the Roles and RoleBindings of all namespaces, or of the one of --namespace. Nothing
 is written to the cluster.

 Exit status: 0 if everything is converted, 1 if something is left out, 2 on an error.`,
		Example: `  # Print the roles and bindings in files as policies
  kubectl proviso convert rbac -f artifacts/templates/ci-bot/role.yaml

  # Print the roles and bindings of the cluster
  kubectl proviso convert rbac

  # Convert what kubectl prints
  kubectl get clusterroles,clusterrolebindings -o yaml | kubectl proviso convert rbac -f -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.files.AddFlags(cmd.Flags(), "Files or directories with roles and bindings, instead of a cluster. - is standard input.", "Read the directories in -f recursively.")
	o.output.AddFlag(cmd, "output", "o", "Format of the policies: 'yaml' or 'json'.", document.YAML, document.JSON)
	return cmd
}

var (
	errArguments = errors.New("convert rbac has no arguments: name files with -f")
	errEmpty     = errors.New("there are no roles and bindings in the files")
)

func (o *options) run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return errArguments
	}
	if err := o.output.Validate(); err != nil {
		return err
	}
	objects, gaps, err := o.read(ctx)
	if err != nil {
		return err
	}
	policies, results := Policies(objects.Permissions())
	if err := write(o.Out, policies, o.output.Value); err != nil {
		return err
	}
	if err := printReport(o.ErrOut, results, unbound(objects)); err != nil {
		return err
	}
	leftOut := len(gaps) > 0
	for _, gap := range gaps {
		o.Warn(gap.Error())
	}
	for i := range results {
		leftOut = leftOut || len(results[i].LeftOut) > 0
	}
	//guard:convert-exit-code-parts-left-out
	if leftOut {
		return command.Found(errors.New("the policies do not allow all that the bindings allow: see the report"))
	}
	return nil
}

// read reads roles and bindings. gaps say what of a cluster could not be read.
func (o *options) read(ctx context.Context) (objects *rbac.Objects, gaps []error, err error) {
	if len(o.files.Names) > 0 {
		documents, errs := o.files.Read(o.In)
		if len(errs) > 0 {
			return nil, nil, utilerrors.NewAggregate(errs)
		}
		objects, others, errs := rbac.Load(documents, o.NamespaceFlag())
		if len(errs) > 0 {
			return nil, nil, utilerrors.NewAggregate(errs)
		}
		if objects.IsEmpty() {
			return nil, nil, errEmpty
		}
		o.WarnOthers(others)
		return objects, nil, nil
	}
	clients, err := o.Clients()
	if err != nil {
		return nil, nil, err
	}
	terminal.From(ctx).Progress("reading the roles and bindings of the cluster")
	objects, gaps = rbac.Read(ctx, clients.Kube.RbacV1(), o.NamespaceFlag())
	if len(objects.ClusterRoleBindings)+len(objects.RoleBindings) == 0 && len(gaps) > 0 {
		return nil, nil, gaps[0]
	}
	return objects, gaps, nil
}

// write writes policies for kubectl apply, in the form in which users write them.
func write(out io.Writer, policies []Policy, format string) error {
	objects := make([]map[string]any, 0, len(policies))
	for _, p := range policies {
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.Spec)
		if err != nil {
			return err
		}
		metadata := map[string]any{"name": p.Key.Name}
		if p.Key.Namespace != "" {
			metadata["namespace"] = p.Key.Namespace
		}
		objects = append(objects, map[string]any{"apiVersion": policyv1alpha1.SchemeGroupVersion.String(), "kind": p.Key.Kind(), "metadata": metadata, "spec": spec})
	}
	return document.WriteManifests(out, objects, format)
}

// unbound returns the roles to which no binding refers.
func unbound(o *rbac.Objects) (names []string) {
	bound := map[string]bool{}
	for _, p := range o.Permissions() {
		if p.Role.Kind == rbac.KindRole {
			bound[p.Namespace+"/"+p.Role.Name] = true
		} else {
			bound[p.Role.Name] = true
		}
	}
	for i := range o.ClusterRoles {
		if name := o.ClusterRoles[i].Name; !bound[name] {
			names = append(names, fmt.Sprintf("%s %q", rbac.KindClusterRole, name))
		}
	}
	for i := range o.Roles {
		if name := o.Roles[i].Namespace + "/" + o.Roles[i].Name; !bound[name] {
			names = append(names, fmt.Sprintf("%s %q", rbac.KindRole, name))
		}
	}
	return names
}

// printReport prints a row for each binding, and for each role without a binding.
func printReport(out io.Writer, results []Result, unbound []string) error {
	table := &printable.Table{Headers: []string{"SOURCE", "CONVERTED", "POLICIES", "REMARK"}, Empty: "-"}
	for i := range results {
		r := &results[i]
		converted := "yes"
		switch {
		case len(r.LeftOut) > 0 && len(r.Policies) > 0:
			converted = "in part"
		case len(r.LeftOut) > 0:
			converted = "no"
		case len(r.Policies) == 0:
			converted = "allows nothing"
		}
		var remarks []string
		for _, text := range r.LeftOut {
			remarks = append(remarks, "left out: "+text)
		}
		table.Add(nil, r.Source, converted, strings.Join(r.Policies, ", "), strings.Join(append(remarks, r.Remarks...), "; "))
	}
	for _, name := range unbound {
		table.Add(nil, name, "allows nothing", "", "no binding refers to it")
	}
	return table.Print(out, 0)
}
