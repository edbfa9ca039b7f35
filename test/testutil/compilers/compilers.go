/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package compilers has the compiler of policies that tests need.
package compilers

import (
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// Policies returns a compiler of the conditions of policies.
func Policies(tb testing.TB) *partial.Compiler {
	tb.Helper()
	residuals, err := cel.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	policies, err := partial.NewPolicyCompiler(residuals)
	if err != nil {
		tb.Fatal(err)
	}
	return policies
}
