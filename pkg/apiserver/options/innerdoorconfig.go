/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/term"

	"github.com/proviso-authz/proviso/pkg/innerdoor/installation"
)

// innerDoorConfigOptions are the options of the command inner-door-config.
type innerDoorConfigOptions struct {
	config, output, kubeconfig string
	check                      bool
}

// newInnerDoorConfigCommand returns the command that writes kube-apiserver's files for both doors, or compares them.
func newInnerDoorConfigCommand() *cobra.Command {
	o := &innerDoorConfigOptions{}
	cmd := &cobra.Command{
		Use:   "inner-door-config",
		Short: "Write the configuration of kube-apiserver for the inner door",
		Long: `inner-door-config writes the files that kube-apiserver needs to call the front
door and the inner door: its AuthorizationConfiguration, its
AdmissionConfiguration, the manifest of static webhooks, two kubeconfigs, and a
README with the commands for certificates.

It reads one file and writes into one directory. It calls no server, except with
--kubeconfig.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	sections := cliflag.NamedFlagSets{}
	fs := sections.FlagSet("inner door")
	fs.StringVar(&o.config, "config", "", "File with the InnerDoorConfiguration (config.proviso.dev/v1alpha1). Required.")
	fs.StringVar(&o.output, "output", "", "Directory of the files. With --check, the directory with the files to compare. Required.")
	fs.BoolVar(&o.check, "check", false, "Write nothing, print each difference between the files in --output and those that would be written, and exit with 1 if there is one.")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "With --check, a kubeconfig file for a kube-apiserver: also compare what it has loaded, by its metrics. The user needs permission to get /metrics.")
	cmd.Flags().AddFlagSet(fs)
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, sections, columns)
	return cmd
}

var (
	errFiles     = errors.New("--config and --output are required")
	errDifferent = errors.New("the installed files differ")
	errUnchecked = errors.New("--kubeconfig needs --check")
)

func (o *innerDoorConfigOptions) run(cmd *cobra.Command) error {
	if o.config == "" || o.output == "" {
		return errFiles
	}
	if o.kubeconfig != "" && !o.check {
		return errUnchecked
	}
	configuration, err := installation.Load(o.config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if o.check {
		return o.compare(cmd, configuration)
	}
	if err := configuration.Write(o.output); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote the files to %s; the manifest has the digest %s\n", o.output, configuration.Digest())
	return err
}

func (o *innerDoorConfigOptions) compare(cmd *cobra.Command, configuration *installation.Configuration) error {
	differences, err := configuration.Check(o.output)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if o.kubeconfig != "" {
		metrics, err := metricsOf(cmd.Context(), o.kubeconfig)
		if err != nil {
			return fmt.Errorf("--kubeconfig: %w", err)
		}
		atServer, err := configuration.CheckServer(metrics)
		if err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		differences = append(differences, atServer...)
	}
	for _, difference := range differences {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), difference); err != nil {
			return err
		}
	}
	if len(differences) > 0 {
		return fmt.Errorf("%w in %d places", errDifferent, len(differences))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "the files in %s are as they should be; the manifest has the digest %s\n", o.output, configuration.Digest())
	return err
}

// metricsOf returns the metrics of the kube-apiserver of a kubeconfig.
func metricsOf(ctx context.Context, kubeconfig string) ([]byte, error) {
	config, err := loadClientConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = lookupTimeout
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
}
