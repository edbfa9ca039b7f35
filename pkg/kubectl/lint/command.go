/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package lint is the command kubectl proviso lint. It finds mistakes in policies that are valid: conditions that are never true, fields
// that do not exist, and policies that change no decision.
//
// Invariants:
//
//   - Mistakes in conditions are found by the packages of the server, which warn of the same.
//   - A policy is reported as shadowed only if the engine of the server decides each request of the policy without it, for all objects.
//   - Without --cluster no server is called.
//
// The package must not import the server, pkg/apiserver.
package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/openapi"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// finding is a mistake in a policy.
type finding struct {
	// Source is the file, and the document in it.
	Source string `json:"source"`
	Policy string `json:"policy"`
	// Message begins with the field.
	Message string `json:"message"`
}

// options are the options of the command.
type options struct {
	command.Options

	files   command.Files
	openAPI []string
	cluster bool
	output  command.Format
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to a command above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Options: command.Options{IOStreams: streams, Flags: flags}, output: command.Format{Value: "text"}}
	cmd := &cobra.Command{
		Use:                   "lint -f FILENAME",
		DisableFlagsInUseLine: true,
		Short:                 "Find mistakes in policies that are valid",
		Long: `Find mistakes in policies that are valid.

 lint finds what the server warns of when a policy is stored: subjects and names that
 match nothing, and conditions that are never true for the requests of a rule. It also
 finds policies that change no decision, because other policies of the input without
 conditions decide all their requests.

 With --openapi or --cluster, the conditions are checked against the schemas of the
 resources in the rules: fields that do not exist, comparisons with values of another
 type, and accesses that fail if a field is missing. With --cluster, the names of
 resources and verbs are checked, too, and lint finds what apply warns of: the server is
 asked by a dry run, for which you need permission to write the policies.
 'kubectl proviso lint --cluster --help' shows the flags for clients.

 Documents of other kinds, such as roles and tests in the same folder, are ignored.

 Exit status: 0 if nothing was found, 1 if something was found, or if a server with
 Proviso and the namespace of the policy could not be asked, 2 on an error.`,
		Example: `  # Check policies without a cluster
  kubectl proviso lint -f artifacts/render/policies

  # Check them against the resources and the schemas of a cluster
  kubectl proviso lint -f artifacts/render/policies --cluster --context=admin`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	fs := cmd.Flags()
	o.files.AddFlags(fs, "Files or directories with policies. - is standard input.", "Process the directories of -f recursively.")
	fs.StringSliceVar(&o.openAPI, "openapi", o.openAPI, "Files with schemas: documents of OpenAPI v3, such as the output of 'kubectl get --raw /openapi/v3/api/v1'.")
	fs.BoolVar(&o.cluster, "cluster", o.cluster, "Check the policies against the resources and the schemas of the cluster.")
	o.output.AddFlag(cmd, "output", "o", "Format of the findings: 'text' or 'json'.", "text", document.JSON)
	return cmd
}

// The errors of flags and of input.
var (
	errArguments = errors.New("takes no arguments: name files with -f")
	errNoFiles   = errors.New("must specify a file, a directory or standard input with -f")
	errBoth      = errors.New("--openapi and --cluster cannot be set together")
	errNone      = errors.New("the files have no policy")
)

func (o *options) run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0:
		return errArguments
	case len(o.files.Names) == 0:
		return errNoFiles
	case len(o.openAPI) > 0 && o.cluster:
		return errBoth
	}
	if err := o.output.Validate(); err != nil {
		return err
	}
	compilers, err := simulation.NewCompilers()
	if err != nil {
		return err
	}
	loader := policyfile.NewLoader(o.NamespaceFlag(), compilers.Policies)
	documents, errs := o.files.Read(o.In)
	loader.Load(ctx, documents...)
	policies := loader.Sorted()
	if len(policies) == 0 {
		loader.RejectOthers("")
	}
	if errs = append(errs, loader.Errs...); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	if len(policies) == 0 {
		return errNone
	}
	o.WarnOthers(loader.Others)
	l := &linter{options: o, compilers: compilers, policies: policies}
	if err := l.readSchemas(ctx); err != nil {
		return err
	}
	findings, err := l.lint(ctx)
	if err != nil {
		return err
	}
	if o.output.Value == document.JSON {
		err = printable.WriteJSON(o.Out, append([]finding{}, findings...), "  ")
	} else {
		err = printText(o.Out, findings)
	}
	switch {
	case err != nil:
		return err
	case len(findings) > 0 || l.isIncomplete:
		return command.Found(nil)
	}
	return nil
}

// linter finds mistakes.
type linter struct {
	*options

	compilers *simulation.Compilers
	policies  []policyfile.Policy
	// types is nil without schemas, and clients without --cluster.
	types   *typechecking.Checker
	clients *command.Clients
	// isIncomplete says that the server was not asked about some policies, although it has Proviso and their namespaces.
	isIncomplete bool
}

// readSchemas reads the schemas of the cluster, or of files.
func (l *linter) readSchemas(ctx context.Context) (err error) {
	switch {
	case l.cluster:
		if l.clients, err = l.Clients(); err != nil {
			return err
		}
		server := l.clients.Kube.Discovery()
		if err := server.RESTClient().Get().AbsPath("/openapi/v3").Do(ctx).Error(); err != nil { // the checker would not say why
			return fmt.Errorf("the schemas of the cluster cannot be read: %w", err)
		}
		found := typechecking.NewDiscovery(server)
		types, err := typechecking.New(found, found)
		if err != nil {
			return err
		}
		l.types = types.WithResources(found.Published)
	case len(l.openAPI) > 0:
		found, errs := openapi.Read(l.openAPI)
		if len(errs) > 0 {
			return utilerrors.NewAggregate(errs)
		}
		l.types, err = typechecking.New(found, found)
	}
	return err
}

func (l *linter) lint(ctx context.Context) (findings []finding, err error) {
	for i := range l.policies {
		terminal.From(ctx).Progress("%d of %d policies are checked", i, len(l.policies))
		p, first := &l.policies[i], len(findings)
		add := func(format string, args ...any) {
			findings = append(findings, finding{Source: p.Source.String(), Policy: p.Key.String(), Message: fmt.Sprintf(format, args...)})
		}
		for _, mistake := range p.Mistakes {
			add("%s", mistake)
		}
		if l.types != nil {
			found, err := l.types.Check(p.Key.Namespace, p.Spec)
			if err != nil {
				return nil, fmt.Errorf("%v: %v: %s", p.Source, p.Key, strings.ReplaceAll(err.Error(), "\n", "; "))
			}
			for _, w := range found.ExpressionWarnings {
				add("%s: %s", w.FieldRef, w.Warning)
			}
		}
		if err := l.ask(ctx, p, findings[first:], func(text string) { add("%s", text) }); err != nil {
			return nil, err
		}
		by, err := l.find(ctx, p)
		if err != nil {
			return nil, err
		}
		if len(by) > 0 {
			add("spec: the policy changes no decision: all its requests are decided without conditions by %s", strings.Join(by, ", "))
		}
	}
	return findings, nil
}

// ask adds what the server warns of, except for what was found before.
func (l *linter) ask(ctx context.Context, p *policyfile.Policy, found []finding, add func(string)) error {
	if l.clients == nil {
		return nil
	}
	warnings, obstacle, err := l.warningsOf(ctx, p)
	if obstacle != nil {
		// Pipelines check policies before they install Proviso, and before they create the namespace. A 404 means that the namespace is missing.
		l.isIncomplete = l.isIncomplete || !errors.Is(obstacle, errNotServed) && !apierrors.IsNotFound(obstacle)
		l.WarnOnce(fmt.Sprintf("what the server warns of is not known: %v", obstacle))
	}
	for _, text := range warnings {
		if !slices.ContainsFunc(found, func(f finding) bool { return says(text, f.Message) }) {
			add(text)
		}
	}
	return err
}

func printText(out io.Writer, findings []finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintf(out, "%s: %s: %s\n", printable.Text(f.Source), printable.Text(f.Policy), printable.Text(f.Message)); err != nil {
			return err
		}
	}
	return nil
}

var errNotServed = errors.New("the cluster does not serve policy.proviso.dev/v1alpha1")

// warningsOf returns what the server warns of if a policy is created, by a dry run. It also warns if the policy exists. An error says that the server refuses
// the policy, and obstacle that the server has not checked it.
func (l *linter) warningsOf(ctx context.Context, p *policyfile.Policy) (warnings []string, obstacle, err error) {
	ctx = command.WithWarnings(ctx, func(text string) bool {
		warnings = append(warnings, text)
		return true
	})
	options, meta := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ObjectMeta{Name: p.Key.Name, Namespace: p.Key.Namespace}
	client := l.clients.Proviso.PolicyV1alpha1()
	if p.Key.Namespace == "" {
		_, err = client.ClusterAuthorizationPolicies().Create(ctx, &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: meta, Spec: *p.Spec}, options)
	} else {
		_, err = client.AuthorizationPolicies(p.Key.Namespace).Create(ctx, &policyv1alpha1.AuthorizationPolicy{ObjectMeta: meta, Spec: *p.Spec}, options)
	}
	switch {
	case apierrors.IsInvalid(err):
		return nil, nil, fmt.Errorf("%v: %v: the server refuses the policy: %w", p.Source, p.Key, err)
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, errNotServed, nil
	case err != nil && !apierrors.IsAlreadyExists(err):
		return nil, err, nil
	}
	return warnings, nil, nil
}

// says reports whether a warning of the server, which may be cut, has a text.
func says(warning, text string) bool {
	begin, isCut := strings.CutSuffix(warning, "…")
	text = strings.Join(strings.Fields(text), " ")
	begin = strings.Join(strings.Fields(begin), " ")
	return begin == text || isCut && strings.HasPrefix(text, begin)
}
