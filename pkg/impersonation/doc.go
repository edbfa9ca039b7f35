/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package impersonation decides who may make which request as whom (KEP-5284).
//
// The modes are those of the impersonation filter of k8s.io/apiserver, which is asked
// itself: there is no second implementation that could answer otherwise. The mode
// conditional, which no server has, is our own (Conditional); its refusals and implicit
// groups are those of the constrained modes. A review runs
// a filter of its own on a request that it makes up, and writes down what the filter
// asks its authorizer. It leaves no trace: the filter is new, since it remembers the
// last mode of every requester and what it allowed; the context has no values, since
// the filter writes to the audit event in it; and the filter is kept out of the metrics
// of requests.
//
// The package must not import pkg/registry or pkg/apiserver.
package impersonation
