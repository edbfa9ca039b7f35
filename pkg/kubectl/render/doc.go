/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package render is the command kubectl proviso render: it reads policies from files, compiles the Deny policies to barriers with the
// compiler of the server, prints them as manifests, and reports what has no translation. With --check it compares a cluster with
// them.
//
// Invariants:
//
//   - Nothing of the input is ignored: an unknown field, a duplicate key, an object of another kind, a second YAML document that a
//     reader of the first would not see are errors.
//   - Policies that the server would refuse are refused. After any error, no manifest is printed.
//   - The same policies give the same manifests, in whatever order and files they are.
//   - Without --check, no server is called and no kubeconfig is read.
//   - Texts of policies, files and servers are shown without control characters.
//
// The package must not import the server, pkg/apiserver.
package render
