/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package cani is the command kubectl proviso can-i. It has the arguments, the flags, the warnings and the first line of output of kubectl
// auth can-i, and also answers "yes, if" with the conditions, or decides for an object in a file.
//
// Invariants:
//
//   - The answer is "yes" or "yes, if" only if kube-apiserver's own review allows the request, where kube-apiserver answers reviews.
//   - A condition that this process cannot evaluate as the server does is never part of an answer.
//   - An error is never an answer: its exit code is 2.
//   - Of a file, and of stored objects, nothing is printed.
//
// The package must not import the server, pkg/apiserver.
package cani
