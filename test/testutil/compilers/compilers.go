/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package compilers has the compilers of conditions and policies that tests need.
package compilers

import (
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// Conditions returns a compiler of conditions.
func Conditions(tb testing.TB) *cel.Compiler {
	tb.Helper()
	conditions, err := cel.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	return conditions
}

// Policies returns a compiler of the conditions of policies.
func Policies(tb testing.TB) *partial.Compiler {
	tb.Helper()
	policies, err := partial.NewPolicyCompiler(Conditions(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return policies
}

// Compiled returns a text as a compiler compiles it.
func Compiled[Program any](tb testing.TB, compiler interface {
	Compile(text string) (Program, error)
}, text string) Program {
	tb.Helper()
	program, err := compiler.Compile(text)
	if err != nil {
		tb.Fatalf("%.200s: %v", text, err)
	}
	return program
}
