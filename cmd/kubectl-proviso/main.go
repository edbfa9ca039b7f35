/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command kubectl-proviso is a plugin of kubectl: kubectl proviso.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for conditions: Windows has no files of time zones

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/kubectl"
)

func main() {
	// Signals stay caught until the process ends. The program timeout sends two: the second one must not kill a command that is about to end with
	// its own exit code.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	klog.SetLogger(logr.Discard()) // commands print their errors themselves, each once
	os.Exit(kubectl.Run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
}
