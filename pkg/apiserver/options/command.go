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
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/pkg/barrier/guard"
	"github.com/proviso-authz/proviso/pkg/innerdoor/installation"
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
them before Proviso is uninstalled. The commands backup and restore are for the
embedded etcd.`,
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
	addSections(cmd, sections)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newInnerDoorConfigCommand(), newBarrierGuardCommand(), newRemoveBarriersCommand(), newBackupCommand(), newRestoreCommand())
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

// innerDoorConfigOptions are the options of the command inner-door-config.
type innerDoorConfigOptions struct {
	config, output, kubeconfig string
	check                      bool
}

// newInnerDoorConfigCommand returns the command that writes kube-apiserver's files for both doors, or compares them.
func newInnerDoorConfigCommand() *cobra.Command {
	o := &innerDoorConfigOptions{}
	return subcommand(&cobra.Command{
		Use:   "inner-door-config",
		Short: "Write the configuration of kube-apiserver for the inner door",
		Long: `inner-door-config writes the files that kube-apiserver needs to call the front
door and the inner door: its AuthorizationConfiguration, its
AdmissionConfiguration, the manifest of static webhooks, two kubeconfigs, and a
README with the commands for certificates.

It reads one file and writes into one directory. It calls no server, except with
--kubeconfig.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}, "inner door", func(fs *pflag.FlagSet) {
		fs.StringVar(&o.config, "config", "", "File with the InnerDoorConfiguration (config.proviso.dev/v1alpha1). Required.")
		fs.StringVar(&o.output, "output", "", "Directory of the files. With --check, the directory with the files to compare. Required.")
		fs.BoolVar(&o.check, "check", false, "Write nothing, print each difference between the files in --output and those that would be written, and exit with 1 if there is one.")
		fs.StringVar(&o.kubeconfig, "kubeconfig", "", "With --check, a kubeconfig file for a kube-apiserver: also compare what it has loaded, by its metrics. The user needs permission to get /metrics.")
	})
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

// newBarrierGuardCommand returns the command that prints the guard of barriers.
func newBarrierGuardCommand() *cobra.Command {
	namespace := defaultNamespace
	return subcommand(&cobra.Command{
		Use:   "barrier-guard",
		Short: "Print the manifest of the guard of barriers",
		Long: `barrier-guard prints a static ValidatingAdmissionPolicy and its binding, with
which kube-apiserver refuses changes of barriers by all users but Proviso, cluster
administrators included. Write it to a file in the directory staticManifestsDir of
kube-apiserver's ValidatingAdmissionPolicyConfiguration, by renaming a complete
file. Kubernetes 1.37 or later is needed.

It calls no server.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifest, err := guard.Manifest(namespace)
			if err != nil {
				return fmt.Errorf("--namespace: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(manifest)
			return err
		},
	}, "guard", func(fs *pflag.FlagSet) {
		fs.StringVar(&namespace, "namespace", namespace, "The namespace of Proviso. Its service account proviso-apiserver may change barriers.")
	})
}

// removeBarriersOptions are the options of the command remove-barriers.
type removeBarriersOptions struct {
	kubeconfig, namespace string
	withoutPolicies       bool
}

// newRemoveBarriersCommand returns the command that removes all barriers.
func newRemoveBarriersCommand() *cobra.Command {
	o := &removeBarriersOptions{namespace: defaultNamespace}
	return subcommand(&cobra.Command{
		Use:   "remove-barriers",
		Short: "Remove all barriers, before Proviso is uninstalled",
		Long: `remove-barriers removes the ValidatingAdmissionPolicies and the bindings that Proviso
has written, and then the finalizers of policies, so that they can be deleted. kube-apiserver
enforces no Deny policy any more.

No replica may write barriers meanwhile: turn the flag --barriers off first. The
command can be repeated. Its user needs permission to delete and update
ValidatingAdmissionPolicies and their bindings, to get the Lease of Proviso, and to
update all policies.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}, "barriers", func(fs *pflag.FlagSet) {
		fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file for kube-apiserver. If not set, the file that kubectl uses.")
		fs.StringVar(&o.namespace, "namespace", o.namespace, "The namespace of Proviso.")
		fs.BoolVar(&o.withoutPolicies, "without-policies", false, "Leave the finalizers of policies. For clusters where Proviso does not run any more.")
	})
}

func (o *removeBarriersOptions) run(cmd *cobra.Command) error {
	config, err := o.clientConfig()
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.Timeout = lookupTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	remover := &barriercontroller.Remover{KubeAPIServer: client, Namespace: o.namespace, Log: func(format string, args ...any) {
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	}}
	if !o.withoutPolicies {
		if remover.Policies, err = versioned.NewForConfig(config); err != nil {
			return err
		}
	}
	return remover.Remove(cmd.Context())
}

// clientConfig returns the client configuration that kubectl would have.
func (o *removeBarriersOptions) clientConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
}

// subcommand completes a command without arguments whose flags are in one section.
func subcommand(cmd *cobra.Command, section string, addFlags func(*pflag.FlagSet)) *cobra.Command {
	cmd.Args, cmd.SilenceUsage, cmd.SilenceErrors = cobra.NoArgs, true, true
	sections := cliflag.NamedFlagSets{}
	addFlags(sections.FlagSet(section))
	addSections(cmd, sections)
	return cmd
}

// addSections adds the flags of sections to a command, and prints them by section in its help.
func addSections(cmd *cobra.Command, sections cliflag.NamedFlagSets) {
	for _, name := range sections.Order {
		cmd.Flags().AddFlagSet(sections.FlagSets[name])
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, sections, columns)
}
