/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command compare prints the cases whose codes differ in two files of package places.
package main

import (
	"fmt"
	"os"

	"github.com/proviso-authz/proviso/test/places"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: compare BEFORE AFTER")
		os.Exit(2)
	}
	differences, err := places.CompareFiles(os.Args[1], os.Args[2], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if differences > 0 {
		os.Exit(1)
	}
}
