/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package bridge is asked by kube-apiserver. Its front door is an authorization webhook:
// kube-apiserver, which authorizes before it proxies, asks it before RBAC, so that
// policies mean something for requests that pass through kube-apiserver.
//
// Invariants:
//
//   - It decides from policies, and works before kube-apiserver does. It asks kube-apiserver
//     back for one thing only: who may change fields of what Proviso serves, once for a
//     request on which policies have no opinion, and for no request that is itself such a
//     question. No answer in time is no opinion.
//   - It answers Allow to what depends on conditions only where this server decides again
//     and evaluates them. Everywhere else conditions are folded, never to Allow.
//   - What Proviso itself asks kube-apiserver, which is marked, is never answered Allow: no
//     decision is founded on itself.
//   - What it cannot tell is an error, for which the failure policy is kube-apiserver's. A
//     request that kube-apiserver serves does not bring that about by its content, nor by its
//     length or number: a review that is too long, or not decided in time, is denied.
//   - Only clients whose certificate says so are answered.
//
// The package knows nothing of storage and of the main server: package apiserver says what
// this server serves.
package bridge
