/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mappingcontroller

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The states of a mapping.
const (
	stateReady         = "ready"
	stateContradicting = "contradicting" // a part of it contradicts another mapping
	stateBroken        = "broken"        // it is not valid
)

var mappings = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "proviso", Subsystem: "policy", Name: "field_permission_mappings", StabilityLevel: metrics.ALPHA,
	Help: "Number of mappings of fields by state: ready, contradicting (some of it contradicts another one, and covers nothing) or broken (not valid, covers nothing).",
}, []string{"state"})

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(mappings) })
