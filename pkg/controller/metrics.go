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

// stale is collected from the controller of each name that was started last.
var stale = metrics.NewDesc("proviso_policy_stale",
	"Whether stored objects are not loaded, or may be out of date, so that they grant nothing: 1 or 0, by the check of /readyz that then fails: policies, field-permission-mappings or enforcement-configurations.",
	[]string{"check"}, nil, metrics.ALPHA, "")

// collector collects stale.
type collector struct {
	metrics.BaseStableCollector

	mu sync.Mutex
	// started has the controllers by their names.
	started map[string]Stored
}

var collected = collector{started: map[string]Stored{}}

// add adds a controller, in place of an earlier one of the same name.
func (c *collector) add(name string, of Stored) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started[name] = of
}

// DescribeWithStability implements metrics.StableCollector.
func (*collector) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- stale }

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, of := range c.started {
		value := 0.0
		//guard:stale-not-loaded
		if !of.IsLoaded() || of.Stale() != "" {
			value = 1
		}
		ch <- metrics.NewLazyConstMetric(stale, metrics.GaugeValue, value, name)
	}
}

var registerMetrics = sync.OnceFunc(func() { legacyregistry.CustomMustRegister(&collected) })
