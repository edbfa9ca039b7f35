/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	utilexec "k8s.io/utils/exec"

	policyclient "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// codeIncomplete is the exit code if something could not be read.
const codeIncomplete = 1

// options are the options of the command.
type options struct {
	genericiooptions.IOStreams
	question.Question

	flags     *genericclioptions.ConfigFlags
	filenames []string
	recursive bool
	output    string
	// isClusterScoped says that requests for the resource have no namespace.
	isClusterScoped bool
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to a command above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, flags: flags, output: outputTable}
	cmd := &cobra.Command{
		Use:                   "who-can VERB [TYPE | TYPE/NAME | NONRESOURCEURL]",
		DisableFlagsInUseLine: true,
		Short:                 "List who may do an action, and on what conditions",
		Long: `List the users, groups and service accounts that may do an action, by RBAC and by
 policies, with their conditions.

 VERB, TYPE, NAME and NONRESOURCEURL are as for can-i. The list has a row for each
 binding and each policy that decides for a subject, in the order in which they decide.
 The answer is 'yes', 'yes, if' a condition is true, or 'no' for a subject that RBAC or an
 Allow policy allows and another policy does not. A second table has the policies that
 restrict the action.

 The names in bindings and policies are listed. The members of groups are not known to a
 cluster, so that a condition on the groups of a user is shown and not evaluated. Other
 authorizers of kube-apiserver, such as webhooks, are not seen.

 Roles, bindings and policies are read from the cluster with your permissions, or with -f
 from files, without a cluster.

 Exit status: 0 for a complete list, 1 if something could not be read, 2 on an error.`,
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
	fs := cmd.Flags()
	fs.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", o.AllNamespaces, "If true, list who can do the action in all namespaces at once.")
	fs.StringVar(&o.Subresource, "subresource", o.Subresource, "SubResource such as pod/log or deployment/scale")
	fs.StringSliceVarP(&o.filenames, "filename", "f", o.filenames, "Files or directories with roles, bindings and policies, instead of a cluster. - is standard input.")
	fs.BoolVarP(&o.recursive, "recursive", "R", o.recursive, "Read the directories in -f recursively.")
	fs.StringVarP(&o.output, "output", "o", o.output, "Format of the list: 'table' or 'json'.")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// The errors of arguments and flags.
var (
	errArguments = errors.New("you must specify two arguments: verb resource or verb resource/resourceName; see 'kubectl proviso who-can --help'")
	errURLSub    = errors.New("--subresource can not be used with NonResourceURL")
	errNamespace = errors.New("with -f, you must specify --namespace or --all-namespaces: no kubeconfig is read")
	errOutput    = errors.New("--output must be table or json")
)

func (o *options) run(ctx context.Context, args []string) error {
	switch {
	case len(args) != 2 || slices.Contains(args, ""):
		return errArguments
	case question.IsURL(args[1]) && o.Subresource != "":
		return errURLSub
	case len(o.filenames) > 0 && !question.IsURL(args[1]) && *o.flags.Namespace == "" && !o.AllNamespaces:
		return errNamespace
	case o.output != outputTable && o.output != outputJSON:
		return errOutput
	}
	conditions, err := cel.NewCompiler()
	if err != nil {
		return err
	}
	compiler, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		return err
	}
	o.Verb = args[0]
	in, err := o.read(ctx, args[1], compiler)
	if err != nil {
		return err
	}
	resource, path := o.Attributes(o.Resource.Version)
	record := authorization.AttributesOf(nil, resource, path)
	return o.print(reportOf(ctx, in, record, compiler))
}

// read reads the arguments, and the roles, bindings and policies.
func (o *options) read(ctx context.Context, target string, compiler *partial.Compiler) (*input, error) {
	if len(o.filenames) > 0 {
		return o.readFiles(ctx, target, compiler)
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = o
	rbacs, err := rbacclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	policies, err := policyclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespaces, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := o.ask(target); err != nil {
		return nil, err
	}
	terminal.From(ctx).Progress("reading the roles, bindings and policies of the cluster")
	in, err := fromCluster(ctx, rbacs, policies, o.Namespace, o.warn)
	if err != nil {
		return nil, err
	}
	in.isClusterScoped = o.isClusterScoped
	in.namespaces, err = namespacesOf(ctx, namespaces, o.Namespace)
	return in, err
}

// ask reads the arguments with the resources that the server has.
func (o *options) ask(target string) (err error) {
	if !o.AllNamespaces {
		if o.Namespace, _, err = o.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return err
		}
	}
	if question.IsURL(target) {
		o.Namespace = ""
		o.ReadURL(target, o.warn)
		return nil
	}
	mapper, err := o.flags.ToRESTMapper()
	if err != nil {
		return err
	}
	if err := o.ReadResource(mapper, target, o.warn); err != nil {
		return err
	}
	server, err := o.flags.ToDiscoveryClient()
	if err != nil {
		return err
	}
	o.WarnAboutResource(server, o.warn)
	if o.isClusterScoped = o.IsClusterScoped(server); o.isClusterScoped {
		o.Namespace = "" // the request has none
	}
	return nil
}

// readFiles reads everything without a server: the resources are those that Kubernetes has.
func (o *options) readFiles(ctx context.Context, target string, compiler *partial.Compiler) (*input, error) {
	if question.IsURL(target) {
		o.ReadURL(target, o.warn)
	} else {
		if !o.AllNamespaces {
			o.Namespace = *o.flags.Namespace
		}
		o.resourceWithoutServer(target)
	}
	documents, errs := document.Read(o.In, o.filenames, o.recursive)
	if len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	return fromFiles(ctx, documents, *o.flags.Namespace, compiler, o.warn)
}

// resourceWithoutServer sets the resource. If Kubernetes does not have it, it is taken as it is, as RESOURCE.VERSION.GROUP or RESOURCE.GROUP.
func (o *options) resourceWithoutServer(target string) {
	known := question.Question{}
	if err := known.ReadResource(builtin(), target, func(string) {}); err == nil && known.Resource.Version != "" {
		o.Resource, o.Name = known.Resource, known.Name
		return
	}
	resource, name, _ := strings.Cut(target, "/")
	full, partly := schema.ParseResourceArg(strings.ToLower(resource))
	o.Resource, o.Name = partly.WithVersion(""), name
	if full != nil && isVersion(full.Version) {
		o.Resource = *full
	}
	if o.Resource.Version == "" && resource != "*" {
		o.warn("the version of the resource is not known without a cluster: name it, as in deployments.v1.apps, if policies are for certain versions")
	}
}

// isVersion reports whether a text looks like a version: demo in virtualmachines.demo.proviso.dev does not.
func isVersion(text string) bool {
	return len(text) > 1 && text[0] == 'v' && text[1] >= '0' && text[1] <= '9'
}

// builtin returns a mapper of the resources of Kubernetes.
func builtin() meta.RESTMapper {
	versions := scheme.Scheme.PrioritizedVersionsAllGroups()
	mapper := meta.NewDefaultRESTMapper(versions)
	for _, version := range versions {
		for kind := range scheme.Scheme.KnownTypes(version) {
			mapper.Add(version.WithKind(kind), meta.RESTScopeNamespace) // the scope is not used
		}
	}
	return mapper
}

// print prints the report, and the warnings and gaps to standard error.
func (o *options) print(r *report) error {
	for _, text := range r.Warnings {
		o.warn(text)
	}
	if o.IsNameless() {
		o.warn("the list is about no certain object: roles and policies can also depend on its name. Name the object to see the list for it")
	}
	show := printTable
	if o.output == outputJSON {
		show = printJSON
	}
	if err := show(o.Out, r); err != nil {
		return err
	}
	if r.Complete {
		return nil
	}
	for _, gap := range r.Gaps {
		o.warn(gap)
	}
	return utilexec.CodeExitError{Code: codeIncomplete, Err: errors.New("the list may be incomplete: see the warnings")}
}

// warn prints a warning to standard error.
func (o *options) warn(text string) {
	_, _ = fmt.Fprintln(o.ErrOut, "Warning: "+printable.Lines(text))
}

// HandleWarningHeader prints a warning of a server.
func (o *options) HandleWarningHeader(code int, _, text string) {
	if code == 299 && text != "" {
		o.warn(text)
	}
}

var _ rest.WarningHandler = &options{}
