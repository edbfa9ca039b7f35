/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package e2e tests what users run: proviso-apiserver as its Deployment says, behind a
// real kube-apiserver, with kubectl and client certificates.
package e2e
