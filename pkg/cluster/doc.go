/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package cluster finds the kube-apiservers of a cluster, and finds out what each of them does. Every few seconds, each replica of Proviso sends
// canaries to each kube-apiserver: dry-run requests whose refusals show what the server does.
//
//	canary        sends                                   a refusal shows                                in
//	conditions    an update of a ConfigMap, which the     whether the review of the request had the      Conditions
//	              front door denies                       options for conditions
//	inner door    writes to a ConfigMap, which the inner  that the server calls the inner door, and      pkg/innerdoor/probe
//	              door refuses                            with which manifest
//	barriers      the creation of a Lease with a number,  which number of the sentinel the server has    pkg/barrier/rollout
//	              which the sentinel refuses              loaded
//
// To add a canary:
//
//   - Write a Canary: its Servers says which servers it is sent to, and its Probe sends it to one of them and keeps the answer. Its Run calls Cluster.Round
//     again and again, by a Loop. Type Conditions is an example.
//   - Write its request, and the function that knows it again, beside those in innerdoor/canary.go.
//   - Have frontdoor.Decider.canary answer it: with Allow if admission refuses it, and with Deny otherwise. It knows canaries that admission refuses by
//     place.Table.IsCanary, which calls the function Canary of a place: apiserver/otherservers.go sets it for the inner door, apiserver/rollout.go for barriers.
//   - Make it in apiserver/otherservers.go, and start it in apiserver/cluster.go. Its result is an argument of a place, and of the status.
//   - Give Proviso the permission for its request, in artifacts. Proviso sends canaries as itself or, if admission refuses them, as system:proviso:canary.
//
// Invariants:
//
//   - One server does not count as two because its address is written in two ways.
//   - If the list or the Leases cannot be read, the last ones stay, with their time. After three intervals they count as not known.
//   - kube-apiservers are said to handle conditions only if the last canary at each listed server says so, and if no kube-apiserver is missing in
//     the list. A server that does not answer, or answers otherwise, is not known to handle conditions from then on. Nothing that a client sends
//     makes a server known: the nonces are random, and each is used once.
//
// The package decides nothing about requests, and must not import the front door, which answers each review by the options of that review alone.
// Package registration says which server serves a version.
package cluster
