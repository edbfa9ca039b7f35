/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package examples has the files of the examples whose tests need no cluster.
package examples

import "embed"

// Files are the files of the examples, each in its directory.
//
//go:embed */README.md */test.yaml */policy.yaml */review.yaml */passes.yaml */fails.yaml
var Files embed.FS
