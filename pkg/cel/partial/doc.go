/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package partial evaluates CEL expressions while some of their variables are known and others are not.
// The result is true, false, an error, or a residual: an expression over the unknown variables only.
//
// With request known, {"verb": "create", "userInfo": {"username": "alice", "groups": ["devs"]}}, and
// object unknown:
//
//	expression                                               result
//	request.verb == "create"                                 true
//	request.verb == "get" && object.spec.size < 10           false
//	request.verb == "create" && object.spec.size < 10        object.spec.size < 10
//	object.metadata.name == request.userInfo.username        object.metadata.name == "alice"
//	request.userInfo.groups.exists(g, g == object.group)     "devs" == object.group
//	request.userInfo.uid == "" || object.open                object.open || dyn({}["error"])
//
// The last residual is an error unless object.open is true, because the user has no uid.
//
// A Compiler turns an expression into a tree with unexpanded macros (package syntax). A Plan decides
// which parts of the tree are known when certain variables are known; all plans of an expression share the
// instructions that evaluate these parts (plan.go). An evaluation replaces the known parts by their values
// and simplifies the rest (evaluation.go, macro.go). The rest is the residual, which is printed
// and compiled again (operand.go, result.go).
//
// Invariants:
//
//   - Two stages equal one: the residual, evaluated with the remaining variables, has the same result as the
//     whole expression evaluated with all variables. An error stays an error, though perhaps with another text.
//   - No part of a known value can become syntax of the residual.
//   - A residual that has no text, or is longer than cel.MaxExpressionBytes, is an error, and the caller
//     must fail closed.
//   - A partial evaluation costs at most cel.CostLimit, counts the cost of planning and writing, and ends
//     with its context.
//
// TestOracle checks the first invariant on random expressions, and TestMutants checks that TestOracle
// notices each missing rule. The package knows nothing of policies, decisions and explanations. Of Proviso it
// imports package cel, packages below it, and packages memo and suggestion only.
package partial
