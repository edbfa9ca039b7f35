/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package config

import "time"

// The bounds of a configuration.
const (
	// MaxAuthorizers bounds the authorizers. Each may add a set to an answer, which has at most
	// 32; the other half is left to the authorizers of the servers behind them.
	MaxAuthorizers = 16
	// MaxMatchConditions bounds the match conditions of a webhook, as Kubernetes does.
	MaxMatchConditions = 64
	// MaxTimeout bounds the timeout of a webhook, as Kubernetes does.
	MaxTimeout = 30 * time.Second
	// MaxExcludedIdentities bounds the users, and the groups, that the doors leave out. kube-apiserver compares them with the
	// user and each group of a request, within the cost limit of its expressions.
	MaxExcludedIdentities = 64
	// MaxIdentityBytes bounds the name of one of them.
	MaxIdentityBytes = 512
)
