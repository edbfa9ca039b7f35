/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command man writes the manual pages of kubectl proviso into a directory.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "error: want one argument, the directory of the pages")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error: "+err.Error())
		os.Exit(1)
	}
}

// write writes a page for each command. Its date is the one of the environment variable SOURCE_DATE_EPOCH, so that the same commands give the
// same pages.
func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	command := kubectl.NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	command.DisableAutoGenTag = true
	return doc.GenManTree(command, &doc.GenManHeader{Section: "1", Source: "Proviso", Manual: "kubectl proviso"}, dir)
}
