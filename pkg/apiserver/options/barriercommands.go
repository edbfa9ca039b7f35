/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/term"

	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/pkg/barrier/guard"
)

// newBarrierGuardCommand returns the command that prints the guard of barriers.
func newBarrierGuardCommand() *cobra.Command {
	namespace := defaultNamespace
	cmd := &cobra.Command{
		Use:   "barrier-guard",
		Short: "Print the manifest of the guard of barriers",
		Long: `barrier-guard prints a static ValidatingAdmissionPolicy and its binding, with
which kube-apiserver refuses changes of barriers by all users but Proviso, cluster
administrators included. Write it to a file in the directory staticManifestsDir of
kube-apiserver's ValidatingAdmissionPolicyConfiguration, by renaming a complete
file. Kubernetes 1.37 or later is needed.

It calls no server.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifest, err := guard.Manifest(namespace)
			if err != nil {
				return fmt.Errorf("--namespace: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(manifest)
			return err
		},
	}
	sections := cliflag.NamedFlagSets{}
	fs := sections.FlagSet("guard")
	fs.StringVar(&namespace, "namespace", namespace, "The namespace of Proviso. Its service account proviso-apiserver may change barriers.")
	addSections(cmd, sections)
	return cmd
}

// removeBarriersOptions are the options of the command remove-barriers.
type removeBarriersOptions struct {
	kubeconfig, namespace string
	withoutPolicies       bool
}

// newRemoveBarriersCommand returns the command that removes all barriers.
func newRemoveBarriersCommand() *cobra.Command {
	o := &removeBarriersOptions{namespace: defaultNamespace}
	cmd := &cobra.Command{
		Use:   "remove-barriers",
		Short: "Remove all barriers, before Proviso is uninstalled",
		Long: `remove-barriers removes the ValidatingAdmissionPolicies and the bindings that Proviso
has written, and then the finalizers of policies, so that they can be deleted. kube-apiserver
enforces no Deny policy any more.

No replica may write barriers meanwhile: turn the flag --barriers off first. The
command can be repeated. Its user needs permission to delete and update
ValidatingAdmissionPolicies and their bindings, to get the Lease of Proviso, and to
update all policies.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	sections := cliflag.NamedFlagSets{}
	fs := sections.FlagSet("barriers")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file for kube-apiserver. If not set, the file that kubectl uses.")
	fs.StringVar(&o.namespace, "namespace", o.namespace, "The namespace of Proviso.")
	fs.BoolVar(&o.withoutPolicies, "without-policies", false, "Leave the finalizers of policies. For clusters where Proviso does not run any more.")
	addSections(cmd, sections)
	return cmd
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

// addSections adds the flags of sections to a command, and prints them by section in its help.
func addSections(cmd *cobra.Command, sections cliflag.NamedFlagSets) {
	for _, name := range sections.Order {
		cmd.Flags().AddFlagSet(sections.FlagSets[name])
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, sections, columns)
}
