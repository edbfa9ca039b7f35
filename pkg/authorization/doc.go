/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package authorization is the algebra of conditional decisions (KEP-5681): what an
// authorizer may answer, what a chain of authorizers answers together, and what an
// answer becomes once the data that it depends on is known.
//
// Invariants:
//
//   - The zero value of every type denies or is refused. Values are immutable; their
//     constructors copy what they are given.
//   - Nothing that is wrong, unknown or missing ever evaluates to Allow.
//   - A decision has one meaning in its three forms: the Decision of this package, the
//     conditionsChain on the wire (SetsToWire, SetsFromWire) and the
//     ConditionsAwareDecision of k8s.io/apiserver (ToUpstream, FromUpstream).
//
// The package evaluates no language: evaluators of conditions implement ConditionEvaluator, and the
// one for CEL is in celeval. From pkg/cel it has only the budgets of requests and the classes of
// failures. It must not import policies, storage or anything of the server.
package authorization
