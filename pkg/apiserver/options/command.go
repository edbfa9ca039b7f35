/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/version"
)

// NewCommand returns the command that runs the server until ctx ends.
func NewCommand(ctx context.Context) *cobra.Command {
	o := NewOptions()
	cmd := &cobra.Command{
		Use:   "proviso-apiserver",
		Short: "Conditional authorization for Kubernetes",
		Long: `proviso-apiserver is an aggregated API server for conditional authorization
(KEP-5681). It serves authorization.k8s.io/v1alpha1: the SubjectAccessReview
family with conditions, and AuthorizationConditionsReview, which evaluates them.
The group authorization.proviso.dev has the same reviews.

It authenticates and authorizes its callers with kube-apiserver, and denies
requests that it cannot check.

The command inner-door-config writes the files that kube-apiserver needs to
enforce conditions on the resources that it serves itself. The command
barrier-guard prints a manifest that protects barriers, and remove-barriers removes
them before Proviso is uninstalled.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.String(),
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return o.Generic.ComponentGlobalsRegistry.Set()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o, cmd)
		},
	}
	cmd.SetContext(ctx)
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")

	sections := o.Flags()
	globalflag.AddGlobalFlags(sections.FlagSet("global"), cmd.Name())
	for _, name := range sections.Order {
		cmd.Flags().AddFlagSet(sections.FlagSets[name])
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, sections, columns)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newInnerDoorConfigCommand(), newBarrierGuardCommand(), newRemoveBarriersCommand())
	return cmd
}

func run(ctx context.Context, o *Options, cmd *cobra.Command) error {
	if err := logsapi.ValidateAndApply(o.Logs, nil); err != nil {
		return fmt.Errorf("logging: %w", err)
	}
	completed, err := o.Complete()
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	klog.FromContext(ctx).Info("Starting proviso-apiserver", "version", version.Get().GitVersion)
	cliflag.PrintFlags(cmd.Flags())
	return completed.Run(ctx)
}
