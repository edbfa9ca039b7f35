/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// stale is collected from the controller of each name whose objects were loaded last.
var stale = metrics.NewDesc("proviso_policy_stale",
	"Whether stored objects may be out of date, so that they grant nothing: 1 or 0, by the check of /readyz that then fails: policies, field-permission-mappings or enforcement-configurations.",
	[]string{"check"}, nil, metrics.ALPHA, "")

// collector collects stale.
type collector struct {
	metrics.BaseStableCollector

	mu sync.Mutex
	// reasons has the functions Stale of the controllers whose objects are loaded, by their names.
	reasons map[string]func() string
}

var collected = collector{reasons: map[string]func() string{}}

// add adds the function Stale of a controller, in place of an earlier one of the same name.
func (c *collector) add(name string, reason func() string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reasons[name] = reason
}

// DescribeWithStability implements metrics.StableCollector.
func (*collector) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- stale }

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, reason := range c.reasons {
		ch <- metrics.NewLazyConstMetric(stale, metrics.GaugeValue, float64(min(len(reason()), 1)), name)
	}
}

var registerMetrics = sync.OnceFunc(func() { legacyregistry.CustomMustRegister(&collected) })
