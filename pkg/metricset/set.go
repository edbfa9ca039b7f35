/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package metricset has Set, with which each package declares its metrics and registers them for /metrics.
package metricset

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Set has the metrics of one package, which are all alpha. The package declares each metric as a variable, by a method of its Set. The zero value
// is an empty Set.
type Set []metrics.Registerable

// Register registers the metrics. It must be called once, before a metric is used: registering a metric that is in use is a race.
func (s *Set) Register() { legacyregistry.MustRegister(*s...) }

// LatencyBuckets are the buckets of a histogram in seconds: from a microsecond, which a decision from memory takes, to ten seconds, after which
// every call has timed out.
var LatencyBuckets = []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, .1, .2, .5, 1, 2, 5, 10}

// Counter adds a counter without labels.
func (s *Set) Counter(name, help string) *metrics.Counter {
	return add(s, metrics.NewCounter(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}))
}

// CounterVec adds a counter with labels.
func (s *Set) CounterVec(name string, labels []string, help string) *metrics.CounterVec {
	return add(s, metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels))
}

// Gauge adds a gauge without labels.
func (s *Set) Gauge(name, help string) *metrics.Gauge {
	return add(s, metrics.NewGauge(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}))
}

// GaugeVec adds a gauge with labels.
func (s *Set) GaugeVec(name string, labels []string, help string) *metrics.GaugeVec {
	return add(s, metrics.NewGaugeVec(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels))
}

// Histogram adds a histogram without labels.
func (s *Set) Histogram(name string, buckets []float64, help string) *metrics.Histogram {
	return add(s, metrics.NewHistogram(&metrics.HistogramOpts{Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}))
}

// HistogramVec adds a histogram with labels.
func (s *Set) HistogramVec(name string, labels []string, buckets []float64, help string) *metrics.HistogramVec {
	return add(s, metrics.NewHistogramVec(&metrics.HistogramOpts{Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}, labels))
}

func add[M metrics.Registerable](s *Set, metric M) M {
	*s = append(*s, metric)
	return metric
}
