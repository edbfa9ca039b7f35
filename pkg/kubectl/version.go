/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/version"
)

// newVersionCommand returns the command that prints the version of the plugin. It calls no server.
func newVersionCommand(streams genericiooptions.IOStreams) *cobra.Command {
	output := command.Format{}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of the plugin",
		Long:  "Print the version of the plugin. No server is called.",
		Example: `  # Print the version of the plugin
  kubectl proviso version

  # Print it as JSON
  kubectl proviso version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := output.Validate(); err != nil {
				return err
			}
			if output.Value == "" {
				_, err := fmt.Fprintln(streams.Out, version.String())
				return err
			}
			return output.Write(streams.Out, version.Get(), "  ")
		},
	}
	output.AddFlag(cmd, "output", "o", "One of 'json' and 'yaml'.", document.JSON, document.YAML)
	return cmd
}
