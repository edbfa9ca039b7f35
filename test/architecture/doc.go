/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package architecture checks the structure of the repository.
package architecture
