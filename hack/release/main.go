/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command release writes the image of the server, or the files that install it, or all files of a release, and verifies these. It needs Go and
// git. For tests, it also renders the variants of the chart, and the chart of a release with the values on its standard input.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/proviso-authz/proviso/hack/release/binary"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: "+err.Error())
		os.Exit(1)
	}
}

var errCommand = errors.New("want a command, image, server, write, verify, render or template, and its flags")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errCommand
	}
	s := source{}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("dir", "", "the directory of the files")
	flags.StringVar(&s.root, "root", "../..", "the root of the repository")
	flags.StringVar(&s.Tag, "tag", "", "the version, which is a tag for a release")
	flags.StringVar(&s.Repository, "image", "", "the name of the image without a tag")
	flags.StringVar(&s.LinkerFlags, "ldflags", "", "the flags for the linker, which stamp the version and the commit")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 || *dir == "" {
		return errCommand
	}
	build := binary.Go(s.root, s.LinkerFlags)
	switch args[0] {
	case "image":
		digest, err := s.writeImage(ctx, *dir, build)
		if err == nil {
			fmt.Println(digest)
		}
		return err
	case "server":
		return s.writeServer(ctx, *dir, build)
	case "write":
		if err := s.write(ctx, *dir, build); err != nil {
			return err
		}
		return verify(ctx, *dir)
	case "verify":
		return verify(ctx, *dir)
	case "render":
		return render(s.root, *dir)
	case "template":
		return template(*dir, s.Tag, os.Stdin, os.Stdout)
	default:
		return errCommand
	}
}
