/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package costbound computes an upper bound of what the expressions of a ValidatingAdmissionPolicy cost kube-apiserver for one request,
// before there is a request. kube-apiserver limits the cost of an evaluation only while it runs, for each policy apart.
//
// The bound is a function of the size of the object: a number of units, and a number of units for each byte of the object as JSON. The
// object and the stored object may both have that size. Where the cost may grow faster, it counts as the limit of kube-apiserver for one
// expression. The bound is never below the cost that cel-go counts, and includes the work that cel-go does not count, such as comparing
// the parts of two objects. A call whose work the limit cannot end is not bounded at all: see Bound.Unbounded.
//
// The analysis knows the Go types of built-in resources. Elements of their lists have a least size, so that fewer fit into an object.
//
// It assumes that the identity of a user has at most 128 groups, unless the caller says more, and names of at most 256 bytes.
package costbound
