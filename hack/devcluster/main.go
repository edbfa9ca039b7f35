/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command devcluster starts or stops the dev cluster: etcd, kube-apiserver and proviso-apiserver
// on this machine. They keep running after the command has ended.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

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

const usage = "usage: devcluster up|down ROOT [managed-newest|managed-oldest], where ROOT is the root of the repository"

// run starts the dev cluster, or the managed one, or stops both.
func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "up":
		return up(ctx, args[1], "")
	case len(args) == 3 && args[0] == "up" && (args[2] == "managed-newest" || args[2] == "managed-oldest"):
		return up(ctx, args[1], args[2])
	case len(args) == 2 && args[0] == "down":
		return errors.Join(down(args[1], ""), down(args[1], "managed-newest"))
	}
	return errors.New(usage)
}

// listed are the resources for which the dev cluster's kube-apiserver calls the inner door.
const listed = `resources:
- resource: pods
- resource: configmaps
- resource: secrets
- resource: persistentvolumeclaims
- {group: apps, resource: deployments}
- {group: apps, resource: deployments, subresource: scale}
- {group: shop.example.com, resource: databases}`

// newCluster prepares the dev cluster, or the managed one if mode is not empty.
func newCluster(root, mode string) (*cluster.Cluster, error) {
	config := cluster.Config{
		Dir:        directory(root, mode),
		Bin:        filepath.Join(root, "_output", "bin"),
		Manifests:  filepath.Join(root, "artifacts"),
		Detached:   true,
		Managed:    mode != "",
		Kubernetes: strings.TrimPrefix(mode, "managed-"),
		Log:        func(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) },
	}
	if mode == "" {
		// The dev cluster has what is off by default.
		config.Args = []string{"--feature-gates=FineGrainedAuthorization=true", "--barriers"}
		config.InnerDoor = &cluster.InnerDoor{Configuration: listed}
	}
	return cluster.New(config)
}

func directory(root, mode string) string {
	if mode == "" {
		return filepath.Join(root, "_output", "dev")
	}
	return filepath.Join(root, "_output", "managed")
}

func up(ctx context.Context, root, mode string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	// A kube-apiserver cannot read what a newer one has stored.
	file := filepath.Join(directory(root, mode), "mode")
	if before, err := os.ReadFile(file); err == nil && string(before) != mode {
		return fmt.Errorf("%s is of the mode %s: run make down before", filepath.Dir(file), before)
	}
	c, err := newCluster(root, mode)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(mode), 0o600); err != nil {
		return err
	}
	if err := c.Up(ctx); err != nil || mode != "" {
		return err
	}
	return awaitInnerDoor(ctx, c)
}

// known matches the metric of a kube-apiserver that is known to call the inner door.
var known = regexp.MustCompile(`(?m)^proviso_inner_door_known\{.*\} 1$`)

// awaitInnerDoor waits until writes pass on conditions.
func awaitInnerDoor(ctx context.Context, c *cluster.Cluster) error {
	const patience = 30 * time.Second
	started := time.Now()
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		metrics, err := c.Kubectl(ctx, "", "--context", cluster.Admin+"-direct", "get", "--raw", "/metrics")
		return err == nil && known.MatchString(metrics), nil
	})
	if err != nil {
		return fmt.Errorf("the inner door: %w", err)
	}
	c.Log("%-24s ready after %s", "the inner door", time.Since(started).Round(100*time.Millisecond))
	return nil
}

func down(root, mode string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	dir := directory(root, mode)
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil
	}
	c, err := newCluster(root, mode)
	if err != nil {
		return err
	}
	if err := c.Down(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
