/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// Shell returns a bash that runs a script as the administrator, in the root of the repository, with the binaries on the path. The script ends with the first command that fails.
func (c *Cluster) Shell(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-o", "errexit", "-o", "nounset", "-o", "pipefail", "-c", script)
	cmd.Dir = filepath.Join(c.Bin, "..", "..")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "PATH="+c.Bin+":"+os.Getenv("PATH"), "HOME="+c.Dir)
	return cmd
}
