/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command devcluster starts or stops the dev cluster: etcd, kube-apiserver and proviso-apiserver
// on this machine. They keep running after the command has ended.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 || (args[0] != "up" && args[0] != "down") {
		return fmt.Errorf("usage: devcluster up|down ROOT, where ROOT is the root of the repository")
	}
	root, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "_output", "dev")
	if _, err := os.Stat(dir); args[0] == "down" && os.IsNotExist(err) {
		return nil
	}
	c, err := cluster.New(cluster.Config{
		Dir:       dir,
		Bin:       filepath.Join(root, "_output", "bin"),
		Manifests: filepath.Join(root, "artifacts"),
		Detached:  true,
		// Features that are off by default can be tried in the dev cluster.
		Args: []string{"--feature-gates=FineGrainedAuthorization=true"},
		Log:  func(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	if args[0] == "up" {
		return c.Up(ctx)
	}
	if err := c.Down(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
