/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package render is the command kubectl proviso render: it reads policies from files, compiles the Deny policies to barriers with the
// compiler of the server, prints them as manifests, and reports what has no translation. With --check it compares a cluster with
// them.
//
// Invariants:
//
//   - Nothing of the input is ignored: an unknown field, a duplicate key, a second YAML document that a reader of the first would not
//     see are errors. Documents of other kinds are counted in a warning, and are an error if there is neither a policy nor a mapping.
//   - Policies that the server would refuse are refused. After any error, no manifest is printed.
//   - The same policies give the same manifests, in whatever order and files they are.
//   - Without --check, no server is called and no kubeconfig is read.
//   - Texts of policies, files and servers are shown without control characters.
//
// The package must not import the server, pkg/apiserver.
package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// defaultNamespace is the namespace of Proviso in its manifests.
const defaultNamespace = "proviso-system"

// options are the options of the command.
type options struct {
	command.Options

	files                command.Files
	output, reportFormat command.Format
	report               string
	strict, check, group bool

	exemptUsers, exemptGroups []string
	provisoNamespace          string
	// isSet reports whether a flag was set.
	isSet func(flag string) bool
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to the command or to one above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{
		Options: command.Options{IOStreams: streams, Flags: flags}, provisoNamespace: defaultNamespace,
		output: command.Format{Value: document.YAML}, reportFormat: command.Format{Value: "table"},
	}
	cmd := &cobra.Command{
		Use:   "render -f FILENAME",
		Short: "Render the barriers of policies as manifests",
		Long: `Render the barriers of policies as manifests.

 A barrier is a ValidatingAdmissionPolicy with its binding. It enforces one policy
 with the effect Deny, or the excluded fields of one FieldPermissionMapping, in
 kube-apiserver, on any cluster, without Proviso. render validates policies and mappings
 as the server does, and prints their barriers to standard output. It calls no server.

 Requests that admission does not see, such as reads, have no barrier, and Allow and
 NoOpinion policies have none. A report on standard error says for each rule which
 verbs are translated, and why others are not.

 With --check, render prints no manifests. It compares the barriers with those in a
 cluster, and shows what applying the manifests would change.

 Exit status without --check: 0 if the manifests were printed, 1 if --strict fails, 2 on an
 error.
 Exit status with --check: 0 if there is no difference, 1 if there is, 2 on an error.`,
		Example: `  # Print the barriers of policies
  kubectl proviso render -f artifacts/render/policies

  # Apply them to a cluster, if all rules of all Deny policies can be translated
  kubectl proviso render -f artifacts/render/policies -R --strict | kubectl apply -f -

  # Let policies about the same requests share ValidatingAdmissionPolicies
  kubectl proviso render -f artifacts/render/policies -R --group

  # Show the report alone
  kubectl proviso render -f artifacts/render/policies --report=-

  # Compare a cluster with the policies
  kubectl proviso render -f artifacts/render/policies -R --check --context=admin

  # Let another controller pass, which is neither a node nor in kube-system
  kubectl proviso render -f artifacts/render/policies --exempt-group=system:nodes --exempt-group=system:serviceaccounts:kube-system --exempt-group=system:serviceaccounts:backup`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.isSet = cmd.Flags().Changed
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *options) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	o.files.AddFlags(fs, "Files or directories with policies. - is standard input.", "")
	o.output.AddFlag(cmd, "output", "o", "Format of the manifests: 'yaml' or 'json'.", document.YAML, document.JSON)
	fs.StringVar(&o.report, "report", o.report, "File for the report, instead of standard error. - is standard output; then no manifests are printed.")
	o.reportFormat.AddFlag(cmd, "report-format", "", "Format of the report: 'table' or 'json'.", "table", document.JSON)
	fs.BoolVar(&o.strict, "strict", o.strict, "Fail, and print no manifests, if a part of a Deny policy or of a mapping cannot be translated.")
	fs.BoolVar(&o.check, "check", o.check, "Compare the barriers with those in the cluster instead of printing them.")
	fs.BoolVar(&o.group, "group", o.group, "Let up to 50 policies with the same rules share a ValidatingAdmissionPolicy, which takes less time when there are hundreds.")
	defaults := manifest.DefaultIdentities(defaultNamespace)
	fs.StringArrayVar(&o.exemptUsers, "exempt-user", nil, "User whose requests no barrier refuses. Can be repeated. Default: "+strings.Join(defaults.Users, ", "))
	fs.StringArrayVar(&o.exemptGroups, "exempt-group", nil, "Group whose members' requests no barrier refuses. Can be repeated. Default: "+strings.Join(defaults.Groups, ", ")+". The group system:masters is always exempt.")
	fs.StringVar(&o.provisoNamespace, "proviso-namespace", o.provisoNamespace, "Namespace of Proviso, whose ServiceAccount is exempt by default.")
}

// The errors of flags.
var (
	errNoFiles      = errors.New("must specify a file, a directory or standard input with -f")
	errCheckOutput  = errors.New("--output cannot be used with --check, which prints no manifests")
	errCheckReport  = errors.New("--report=- cannot be used with --check, which prints to standard output")
	errEmptyExempt  = errors.New("--exempt-user and --exempt-group must not be empty")
	errTwoExempt    = errors.New("--proviso-namespace cannot be used with --exempt-user, which replaces the default users")
	errUntranslated = errors.New("is not translated: see the report")
	errNothing      = errors.New("there are no policies in the files")
)

func (o *options) validate() error {
	var errs []error
	fail := func(failed bool, err error) {
		if failed {
			errs = append(errs, err)
		}
	}
	fail(len(o.files.Names) == 0, errNoFiles)
	errs = append(errs, o.output.Validate(), o.reportFormat.Validate()) // an aggregate has no nil
	fail(o.check && o.isSet("output"), errCheckOutput)
	fail(o.check && o.report == document.Stdin, errCheckReport)
	fail(slices.Contains(o.exemptUsers, "") || slices.Contains(o.exemptGroups, ""), errEmptyExempt)
	fail(o.isSet("proviso-namespace") && o.isSet("exempt-user"), errTwoExempt)
	return utilerrors.NewAggregate(errs)
}

func (o *options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	barriers, report, err := o.compile(ctx)
	if err != nil {
		return err
	}
	if err := o.writeReport(report); err != nil {
		return err
	}
	//guard:render-strict
	if n := report.untranslated(); o.strict && n > 0 {
		err := fmt.Errorf("--strict: %s of %s %w", counted(n, "part", "parts"), report.subject(), errUntranslated)
		if o.check { // nothing was compared
			return err
		}
		return command.Found(err)
	}
	objects := objectsOf(barriers)
	if o.group {
		objects = barrier.Group(barriers)
	}
	if o.check {
		return o.compare(ctx, objects)
	}
	if o.report == document.Stdin {
		return nil
	}
	return writeManifests(o.Out, objects, o.output.Value)
}

// objectsOf returns the objects of barriers. Barriers without objects are left out.
func objectsOf(barriers []*barrier.Barrier) (objects []barrier.Objects) {
	for _, b := range barriers {
		if b.Policy != nil {
			objects = append(objects, barrier.Objects{Policy: b.Policy, Binding: b.Binding})
		}
	}
	return objects
}

// exempt returns the identities that no barrier refuses.
func (o *options) exempt() manifest.Identities {
	identities := manifest.DefaultIdentities(o.provisoNamespace)
	if o.isSet("exempt-user") {
		identities.Users = o.exemptUsers
	}
	if o.isSet("exempt-group") {
		identities.Groups = o.exemptGroups
	}
	return identities
}

// compile reads the policies, and compiles those with the effect Deny.
func (o *options) compile(ctx context.Context) ([]*barrier.Barrier, *report, error) {
	compilers, err := simulation.NewCompilers()
	if err != nil {
		return nil, nil, err
	}
	compiler, err := barrier.NewCompiler(barrier.Config{Policies: compilers.Policies, Exempt: o.exempt()})
	if err != nil {
		return nil, nil, err
	}
	l := policyfile.NewLoader(o.NamespaceFlag(), compilers.Policies)
	l.AcceptMappings = true
	documents, errs := o.files.Read(o.In)
	l.Load(ctx, documents...)
	isEmpty := len(l.Sorted())+len(l.SortedMappings()) == 0
	if isEmpty {
		l.RejectOthers("")
	}
	if l.Errs = append(errs, l.Errs...); len(l.Errs) == 0 && isEmpty {
		l.Errs = []error{errNothing}
	}
	report := &report{}
	var barriers []*barrier.Barrier
	for _, p := range l.Sorted() {
		b, err := compilePolicy(compiler, &p)
		if err != nil {
			l.Fail(p.Source, p.Key.String(), err)
			continue
		}
		if b != nil {
			barriers = append(barriers, b)
		}
		report.Policies = append(report.Policies, reportOf(&p, b))
	}
	//guard:render-policies-beside-errors
	if len(l.Errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(l.Errs)
	}
	ofMappings, err := compileMappings(compiler, l.SortedMappings(), report)
	if err != nil {
		return nil, nil, err
	}
	barriers = append(barriers, ofMappings...)
	o.WarnOthers(l.Others)
	for _, warning := range l.Warnings {
		o.Warn(warning)
	}
	return barriers, report, nil
}

// compilePolicy compiles a policy with the effect Deny, and returns nil for another policy.
func compilePolicy(compiler *barrier.Compiler, p *policyfile.Policy) (*barrier.Barrier, error) {
	if p.Spec.Effect != policyv1alpha1.PolicyEffectDeny {
		return nil, nil //nolint:nilnil // absence is a result, and not an error
	}
	return compiler.Compile(p.Key, p.Spec)
}

// compileMappings compiles the exclusions of mappings, which determine them together, and adds the mappings to a report.
func compileMappings(compiler *barrier.Compiler, mappings []policyfile.Mapping, report *report) ([]*barrier.Barrier, error) {
	all := make([]*policyapi.FieldPermissionMapping, 0, len(mappings))
	for _, m := range mappings {
		all = append(all, m.FieldPermissionMapping)
	}
	table := mapping.NewTable(all...)
	barriers := make([]*barrier.Barrier, 0, len(mappings))
	for _, m := range mappings {
		exclusions, err := table.Exclusions(m.Name)
		if err != nil {
			return nil, fmt.Errorf("%v: FieldPermissionMapping %q: %w", m.Source, m.Name, err)
		}
		b := compiler.CompileMapping(m.Name, exclusions)
		barriers, report.Policies = append(barriers, b), append(report.Policies, reportOfMapping(m, b))
	}
	return barriers, nil
}

// writeReport writes the report. With --check there is none, unless a file was named.
func (o *options) writeReport(r *report) error {
	if o.check && o.report == "" {
		return nil
	}
	var text bytes.Buffer
	write := r.print
	if o.reportFormat.Value == document.JSON {
		write = func(out io.Writer) error { return printable.WriteJSON(out, r, "    ") }
	}
	err := write(&text)
	if err != nil {
		return err
	}
	switch o.report {
	case "":
		_, err = text.WriteTo(o.ErrOut)
	case document.Stdin:
		_, err = text.WriteTo(o.Out)
	default:
		if err = os.WriteFile(o.report, text.Bytes(), 0o644); err != nil {
			err = fmt.Errorf("--report: %w", err)
		}
	}
	return err
}

// compare compares barriers with the cluster.
func (o *options) compare(ctx context.Context, objects []barrier.Objects) error {
	clients, err := o.Clients()
	if err != nil {
		return err
	}
	found, err := admissionpolicy.List(ctx, clients.Kube.AdmissionregistrationV1())
	if err != nil {
		return err
	}
	comparisons, err := compare(found, objects)
	if err != nil {
		return err
	}
	if err := printComparisons(o.Out, comparisons); err != nil {
		return err
	}
	if slices.ContainsFunc(comparisons, func(c comparison) bool { return c.status != same }) {
		return command.Found(nil) // as kubectl diff
	}
	return nil
}
