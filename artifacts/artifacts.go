/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package artifacts has the files of the examples and of the templates whose tests need no cluster.
package artifacts

import "embed"

// Files are the files, each example and each template in its directory.
//
//go:embed examples/*/README.md examples/*/test.yaml examples/*/policy.yaml examples/*/review.yaml examples/*/passes.yaml examples/*/fails.yaml
//go:embed templates/*/README.md templates/*/test.yaml templates/*/policy.yaml
var Files embed.FS
