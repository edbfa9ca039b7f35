/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package installation loads the configuration of the inner door from a file, writes the files that kube-apiserver needs for both
// doors, and compares them with installed ones.
//
// Invariants:
//
//   - All files are written from one configuration, so that both doors leave out the same identities.
//   - A file is replaced by a rename. kube-apiserver takes a manifest that is empty or truncated for one without webhooks.
//   - The files have no secrets: certificates and keys are named by their paths.
//
// The package must import nothing of the server.
package installation
