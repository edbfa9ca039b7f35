/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mappingcontroller

import (
	"sync"

	"github.com/proviso-authz/proviso/pkg/metricset"
)

// The states of a mapping.
const (
	stateReady         = "ready"
	stateContradicting = "contradicting" // a part of it contradicts another mapping
	stateBroken        = "broken"        // it is not valid
)

var metricSet metricset.Set

var mappings = metricSet.GaugeVec("proviso_policy_field_permission_mappings", []string{"state"},
	"Number of mappings of fields by state: ready, contradicting (some of it contradicts another one or a schema, and covers nothing) or broken (not valid, covers nothing).")

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(metricSet.Register)
