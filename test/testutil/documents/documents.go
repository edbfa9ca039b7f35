/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package documents runs the commands that documents show.
package documents

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

var (
	// blocks are the parts of a document that a reader is meant to type.
	blocks = regexp.MustCompile("(?s)```sh\n(.*?)```")
	// devCluster is the line with which a reader chooses the cluster of make demo. Tests use their own.
	devCluster = regexp.MustCompile(`(?m)^export KUBECONFIG=.*$`)
	// refusals are the commands that must fail, one to a line. bash alone would go on if they pass.
	refusals = regexp.MustCompile(`(?m)^! (.*)$`)
)

// Blocks returns the number of blocks in a document that a reader is meant to type.
func Blocks(document string) int { return len(blocks.FindAllString(document, -1)) }

// Script returns the blocks of a document as one script, so that what a block changes, such as the directory, holds for those
// after it. A command after "! " must fail.
func Script(document string) string {
	var script strings.Builder
	for i, block := range blocks.FindAllStringSubmatch(document, -1) {
		text := devCluster.ReplaceAllString(block[1], "")
		text = refusals.ReplaceAllString(text, "if $1; then echo 'this must be refused'; exit 1; fi")
		fmt.Fprintf(&script, "echo '--- block %d'\n%s", i+1, text)
	}
	return script.String()
}

// Console returns the commands of a document that follow the comment with a mark, and end with the comment "end". They are in a block console, one to a line after "$ ".
func Console(document, mark string) (string, error) {
	_, after, found := strings.Cut(document, "<!-- "+mark+" -->\n")
	commands, _, ended := strings.Cut(after, "<!-- end -->")
	if !found || !ended {
		return "", fmt.Errorf("the document has no commands %q", mark)
	}
	return strings.NewReplacer("```console\n$ ", "", "\n$ ", "\n", "```", "").Replace(commands), nil
}

// Run runs the blocks of a document as the administrator of a cluster, in the root of the repository. The error has what they print.
func Run(ctx context.Context, c *cluster.Cluster, document string) error {
	script := Script(document)
	cmd := c.Shell(ctx, script)
	for _, name := range []string{"GOPATH", "GOCACHE"} { // not below HOME
		value, err := exec.CommandContext(ctx, "go", "env", name).Output()
		if err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s\nprinted\n%s", err, script, out)
	}
	return nil
}
