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
)
