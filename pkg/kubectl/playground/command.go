/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package playground is the command kubectl proviso playground. It serves a page on which policies, a request and an object are edited,
// and that shows the decision, what would be allowed, the conditions and the barriers.
//
// Invariants:
//
//   - The decision is the one of package explain, with its rule for secrets. No file is read, and no network is used.
//   - The server listens on 127.0.0.1 only. It answers requests to its own address only, and decides for pages of its own only.
//   - A request is bounded in size and time, and decisions in number. No error has a stack.
//   - The page uses nothing but its own assets, and its link is never sent to the server.
//
// The package must not import the server, pkg/apiserver.
package playground

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl/command"
)

// address is the only address on which the server listens: the page is for users of this machine.
const address = "127.0.0.1"

// The bounds of the server. A page sends one small request at a time.
const (
	readTimeout     = 10 * time.Second
	writeTimeout    = decideTimeout + 10*time.Second
	idleTimeout     = time.Minute
	shutdownTimeout = 2 * time.Second
	maxHeaderBytes  = 16 << 10
	maxPort         = 65535
)

// options are the options of the command.
type options struct {
	command.Options

	files command.Files
	port  int
}

var errPort = fmt.Errorf("--port must be a number from 0 to %d", maxPort)

// NewCommand returns the command.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Options: command.Options{IOStreams: streams}}
	cmd := &cobra.Command{
		Use:   "playground",
		Short: "Try policies on a local page",
		Long: `Try policies on a local page.

 playground serves a page on 127.0.0.1, and prints its address. The page has editors for
 policies, a request and an object, and examples. It shows the decision authorizer by
 authorizer, the near miss, the conditions of the request, and the barriers to which Deny
 policies compile.

 With -f, the page begins with your files: with the policies in them, and with requests.
 The requests are the tests of a PolicyTest. Without tests they are the reviews, and without
 reviews the creations of the objects. The page shows the files only at the address that the
 command prints, because other users of this machine can open the page, too.

 Policies are compiled and evaluated as by the server and by explain. The page needs no
 cluster and no network. Its link has all that is in the editors; the link is not sent to
 the server. The command ends on Ctrl-C.`,
		Example: `  # Serve the page until Ctrl-C
  kubectl proviso playground

  # Begin with policies and an object of yours
  kubectl proviso playground -f artifacts/demo/policy-claims.yaml -f artifacts/demo/claim-gold.yaml

  # Serve it on a certain port
  kubectl proviso playground --port=18421`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.files.AddFlags(cmd.Flags(), "Files or directories with policies, and with tests, requests or objects. - is standard input.", "Process the directories of -f recursively.")
	cmd.Flags().IntVar(&o.port, "port", o.port, "Port of the page. With 0, a free port is chosen.")
	return cmd
}

// run serves the page until ctx ends.
func (o *options) run(ctx context.Context) error {
	if o.port < 0 || o.port > maxPort {
		return errPort
	}
	var files *example
	if len(o.files.Names) > 0 {
		var err error
		if files, err = readFiles(&o.files, &o.Options); err != nil {
			return err
		}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", net.JoinHostPort(address, strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	handler, fragment, err := newHandler(listener.Addr().String(), files)
	if err != nil {
		_ = listener.Close()
		return err
	}
	server := &http.Server{
		Handler: handler, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	if _, err := fmt.Fprintf(o.Out, "The playground is at http://%s/%s\nPress Ctrl-C to stop.\n", listener.Addr(), fragment); err != nil {
		_ = listener.Close()
		return err
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if server.Shutdown(within) != nil {
			_ = server.Close()
		}
		stopped <- nil
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
