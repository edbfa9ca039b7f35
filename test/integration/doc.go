/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package integration tests the server inside one process.
package integration
