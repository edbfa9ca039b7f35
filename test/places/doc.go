/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package places is an oracle for one question: which component evaluates a condition, and can it now? It generates cases from a seed. A case
// has policies, a request, and the facts of a cluster: its kube-apiservers with what each does, the APIServices, and the configuration of
// Proviso. The answers of one commit are recorded as codes, so that another commit can be compared with it case by case:
//
//   - what the front door answers to kube-apiserver, why, and what its metrics count;
//   - what status.enforcement says of each policy, and what its author is warned of;
//   - what a SubjectAccessReview about the request is answered, with which warnings;
//   - what policies with the enforcement Audit count for the request.
//
// The package has the generator, the stand-in for the cluster, the codes and the comparison. It uses the types of the API and k8s.io alone, so that
// it compiles at other commits. An Adapter asks the code of one commit. It is one file, pkg/apiserver/places_oracle_internal_test.go, in the
// package that composes the server, and the only part that changes together with the code. Each case runs in a bubble of testing/synctest, so
// that clocks and the order of goroutines do not matter.
//
// The test of the adapter compares digests of the answers with testdata/digests.txt. hack/oracle-places.sh builds the oracle at another commit
// and shows each case that differs.
//
// One difference is intended. A Deny rule that names only one of update and patch is read as naming both, so that the other verb may be denied where an
// earlier commit allowed it. The comparison marks such cases. A difference in any other case is a mistake.
package places
