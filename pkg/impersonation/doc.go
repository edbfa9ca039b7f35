/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package impersonation decides whether a requester may make a request as another user.
//
// It tries the modes in one order, for requests (NewFilter) and for reviews (Reviewer):
//
//  1. the constrained modes (KEP-5284);
//  2. conditional mode (KEP-5681), which no other server has (Conditional). Conditions on the object remain as residual
//     conditions, which are evaluated at admission;
//  3. legacy mode, the verb impersonate.
//
// The impersonation filter of k8s.io/apiserver decides 1 and 3. It runs once for each of them, with the verbs of the
// other modes masked. The refusals and the implicit groups of conditional mode are the same as in the constrained modes;
// TestConditionalAgreesWithTheFilter compares them.
//
// A review leaves no trace. It creates filters of its own, because a filter remembers the last mode of each requester and
// what the constrained modes have allowed. The context of the filter has only the user and the request info of the
// reviewed request, because the filter would write to an audit event in it. And no metrics of requests are recorded.
//
// The package must not import pkg/registry or pkg/apiserver.
package impersonation
