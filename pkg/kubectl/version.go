/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/version"
)

// newVersionCommand returns the command that prints the version of the plugin. It calls no server.
func newVersionCommand(streams genericiooptions.IOStreams) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of the plugin",
		Long:  "Print the version of the plugin. No server is called.",
		Example: `  # Print the version of the plugin
  kubectl proviso version

  # Print it as JSON
  kubectl proviso version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return printVersion(streams, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "One of 'json' and 'yaml'.")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func printVersion(streams genericiooptions.IOStreams, output string) error {
	var text []byte
	var err error
	switch output {
	case "":
		text = []byte(version.String() + "\n")
	case "json":
		text, err = json.MarshalIndent(version.Get(), "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(version.Get())
	default:
		return fmt.Errorf("--output must be json or yaml, not %q", output)
	}
	if err != nil {
		return err
	}
	_, err = streams.Out.Write(text)
	return err
}
