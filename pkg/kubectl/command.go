/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package kubectl is the kubectl plugin, kubectl proviso. It builds the tree of commands and turns the error of a command into an
// exit code. Each command is a package of its own.
//
// Invariants:
//
//   - Errors are printed to the error stream only, each on lines of its own, without control characters.
//   - A command that fails exits with the code 2, and each of its errors is one line. All other codes are answers.
//
// The package must not import the server, pkg/apiserver.
package kubectl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	utilexec "k8s.io/utils/exec"

	"github.com/proviso-authz/proviso/pkg/kubectl/cani"
	"github.com/proviso-authz/proviso/pkg/kubectl/canimpersonate"
	"github.com/proviso-authz/proviso/pkg/kubectl/convert"
	"github.com/proviso-authz/proviso/pkg/kubectl/explain"
	"github.com/proviso-authz/proviso/pkg/kubectl/lint"
	"github.com/proviso-authz/proviso/pkg/kubectl/playground"
	"github.com/proviso-authz/proviso/pkg/kubectl/policytest"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/render"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
	"github.com/proviso-authz/proviso/pkg/kubectl/whocan"
)

// codeFailure is the exit code of errors that carry none. It differs from 1, which is an answer: no, different, or something was found.
const codeFailure = 2

// Run runs the plugin with arguments until it is done or ctx ends, and returns its exit code.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	screen, streams := terminal.New(streams, os.Getenv)
	defer screen.Close()
	cmd := NewCommand(streams)
	cmd.SetArgs(args)
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	err := cmd.ExecuteContext(screen.With(ctx))
	if err == nil {
		return 0
	}
	code := codeFailure
	if exit, ok := errors.AsType[utilexec.CodeExitError](err); ok {
		code, err = exit.Code, exit.Err
	}
	for _, mistake := range each(err) {
		_, _ = fmt.Fprintln(streams.ErrOut, "error: "+printable.Lines(suggestions.Replace(messageOf(mistake))))
	}
	return code
}

// suggestions puts the commands that cobra suggests on the line of its error.
var suggestions = strings.NewReplacer("\n\nDid you mean this?\n\t", "; did you mean: ", "\n\t", ", ")

// each returns the errors in an aggregate, or the error alone. An error that was reported already is left out.
func each(err error) []error {
	if err == nil {
		return nil
	}
	if aggregate, ok := err.(utilerrors.Aggregate); ok { //nolint:errorlint // of an aggregate within another error, the message of the latter counts
		return utilerrors.Flatten(aggregate).Errors()
	}
	return []error{err}
}

// messageOf returns the message of an error. If a server cannot be reached, it names the server instead of one of its URLs.
func messageOf(err error) string {
	call, isCall := errors.AsType[*url.Error](err)
	if !isCall {
		return err.Error()
	}
	network, isNetwork := errors.AsType[*net.OpError](call.Err)
	if !call.Timeout() && (!isNetwork || network.Op != "dial") {
		return err.Error()
	}
	server := call.URL
	if u, err := url.Parse(server); err == nil {
		server = u.Scheme + "://" + u.Host
	}
	return strings.Replace(err.Error(), call.Error(), fmt.Sprintf("the server %s cannot be reached: %v; see --server, --context and --kubeconfig", server, call.Err), 1)
}

// NewCommand returns the tree of commands.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "kubectl-proviso",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl proviso"},
		Short:       "Work with the policies of Proviso",
		Long: `Work with the policies of Proviso, conditional authorization for Kubernetes.

 Find more information in docs/kubectl-proviso.md of the project. The examples in the help
 of all commands name files of the project: run them in its root directory.`,
		Example: `  # What may I do in the namespace demo, and on what conditions?
  kubectl proviso can-i --list --namespace=demo

  # Why is a request refused?
  kubectl proviso explain -f artifacts/examples/required-labels/test.yaml --test="A Deployment without labels"

  # Run the tests of policies
  kubectl proviso test artifacts/examples`,
		SilenceUsage:  true, // Args stays nil: then cobra suggests a command before it reads flags
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())
	})
	flags := genericclioptions.NewConfigFlags(true)
	flags.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().Lookup("cache-dir").DefValue = "$HOME/.kube/cache" // the help is the same for all users
	linter, withoutCluster := lint.NewCommand(flags, streams), []*cobra.Command{playground.NewCommand(streams), policytest.NewCommand(streams), newVersionCommand(streams)}
	cmd.AddCommand(cani.NewCommand(flags, streams), canimpersonate.NewCommand(flags, streams), convert.NewCommand(flags, streams), explain.NewCommand(flags, streams), linter, render.NewCommand(flags, streams), whocan.NewCommand(flags, streams))
	cmd.AddCommand(withoutCluster...)
	for _, c := range withoutCluster {
		hideInHelp(c, func(*pflag.Flag) bool { return true })
	}
	hideInHelp(linter, func(f *pflag.Flag) bool { return f.Name != "namespace" && !linter.Flags().Changed("cluster") })
	return cmd
}

// hideInHelp leaves flags of the commands above out of the help of a command: those for clients, if it calls no server.
func hideInHelp(cmd *cobra.Command, isHidden func(*pflag.Flag) bool) {
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || isHidden(f) })
		cmd.Parent().HelpFunc()(cmd, args)
	})
}
