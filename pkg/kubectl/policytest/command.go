/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package policytest is the command kubectl proviso test. It runs suites of tests of policies offline: a suite names policies,
// requests with the data of admission, and the expected decisions of both phases.
//
// Invariants:
//
//   - Policies are loaded, compiled and evaluated by the packages of the server, and ValidatingAdmissionPolicies by packages of kube-apiserver.
//   - A suite that cannot be read completely is an error, and none of its tests count as passed.
//   - No server is called, and no kubeconfig is read.
//
// The package must not import the server, pkg/apiserver.
package policytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// options are the options of the command.
type options struct {
	command.Options

	output    command.Format
	verbose   bool
	threshold float64
}

// NewCommand returns the command.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Options: command.Options{IOStreams: streams}, output: command.Format{Value: "text"}}
	cmd := &cobra.Command{
		Use:   "test DIR",
		Short: "Test policies without a cluster",
		Long: `Test policies without a cluster.

 A suite is a document of kind PolicyTest in a file below DIR, or in the file DIR. It names
 files with policies, and has requests with the expected decisions: at authorization
 (yes, no or yes-if), and with the object (yes or no). The policies are compiled and
 evaluated as by the server. Files with policies may have ValidatingAdmissionPolicies
 and their bindings, too: they are compiled and evaluated as by kube-apiserver, with
 parameters and Namespaces from files. No server is called.

 A suite:

  apiVersion: test.proviso.dev/v1alpha1
  kind: PolicyTest
  metadata: {name: claims}
  policies: [policy.yaml]
  tests:
  - name: alice creates a claim of the class dev
    request:
      user: alice
      resourceAttributes: {verb: create, version: v1, resource: persistentvolumeclaims, namespace: shop}
    data:
      operation: CREATE
      object: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {storageClassName: dev}}
    expect: {decision: yes-if, outcome: yes}

 The field request has the same fields as the spec of a SubjectAccessReview, and the field
 data the same as the request of an AuthorizationConditionsReview. A test of a delete needs
 operation and oldObject.

 The coverage is the part of the policies that match a request of a test, and of the
 clauses of their conditions that are true in one test and false in another. Clauses are
 what && and || join. ValidatingAdmissionPolicies have a clause for each match condition
 and each validation.

 Exit status: 0 if all tests pass, 1 if not, or if the coverage is below the threshold,
 2 if a suite cannot be read.`,
		Example: `  # Run the suites of the examples
  kubectl proviso test artifacts/examples

  # Show each test, and fail if a clause of a condition is not covered
  kubectl proviso test artifacts/examples/storage-class -v --coverage-threshold=100

  # Test ValidatingAdmissionPolicies
  kubectl proviso test artifacts/examples/admission-policies -v

  # Write a report for a pipeline
  kubectl proviso test artifacts/examples -o junit`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	fs := cmd.Flags()
	o.output.AddFlag(cmd, "output", "o", "Format of the results: 'text', 'json' or 'junit'.", "text", document.JSON, "junit")
	fs.BoolVarP(&o.verbose, "verbose", "v", o.verbose, "Show tests that pass, too.")
	fs.Float64Var(&o.threshold, "coverage-threshold", o.threshold, "Fail if the coverage of a suite is below this percentage.")
	return cmd
}

var (
	errArguments = errors.New("must specify one directory or file with suites")
	errThreshold = errors.New("--coverage-threshold must be between 0 and 100")
)

func (o *options) run(ctx context.Context, args []string) error {
	screen := terminal.From(ctx)
	if len(args) != 1 {
		return errArguments
	}
	if err := o.output.Validate(); err != nil {
		return err
	}
	if !(o.threshold >= 0 && o.threshold <= 100) { // also if it is not a number
		return errThreshold
	}
	c, err := simulation.NewCompilers()
	if err != nil {
		return err
	}
	screen.Progress("the suites are read")
	suites, errs := readSuites(ctx, args[0], c.Policies)
	if len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	results := make([]*suiteResult, 0, len(suites))
	failed := false
	for i, s := range suites {
		screen.Progress("%d of %d suites are run", i, len(suites))
		for _, warning := range s.warnings {
			o.Warn(warning)
		}
		r, err := run(ctx, c, s)
		if err != nil {
			return err
		}
		results, failed = append(results, r), failed || r.failed() > 0
	}
	switch o.output.Value {
	case document.JSON:
		err = printable.WriteJSON(o.Out, map[string][]*suiteResult{"suites": results}, "  ")
	case "junit":
		err = printJUnit(o.Out, results)
	default:
		err = printText(screen, o.Out, results, o.verbose)
	}
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Percent < o.threshold {
			return command.Found(fmt.Errorf("%s: the coverage is %.1f%%, below the threshold of %.1f%%", r.Path, r.Percent, o.threshold))
		}
	}
	if failed {
		return command.Found(nil)
	}
	return nil
}
