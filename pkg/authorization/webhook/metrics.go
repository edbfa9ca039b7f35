/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/component-base/metrics"

	"github.com/proviso-authz/proviso/pkg/metricset"
)

// The results of a call, named as in the metrics of Kubernetes.
const (
	resultSuccess  = "success"
	resultError    = "error" // includes invalid answers
	resultTimeout  = "timeout"
	resultCanceled = "canceled" // by the end of the request, not by a timeout
)

// buckets range from a webhook on the same machine to the longest timeout.
var buckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

var (
	metricSet metricset.Set

	evaluations = metricSet.CounterVec("proviso_authorization_webhook_evaluations_total", []string{"name", "result", "form"},
		"Number of round trips to authorization webhooks, by name, result (success, error, timeout or canceled), and the form in which conditions are requested: kep, upstream or none.")
	durations = metricSet.HistogramVec("proviso_authorization_webhook_duration_seconds", []string{"name", "result"}, buckets,
		"Latency of round trips to authorization webhooks in seconds, by name and result.")
	failOpen = metricSet.CounterVec("proviso_authorization_webhook_evaluations_fail_open_total", []string{"name", "result"},
		"Number of NoOpinion results because of a failure of an authorization webhook, by name and result: error or timeout.")
	cacheHits = metricSet.CounterVec("proviso_authorization_webhook_cache_hits_total", []string{"name"},
		"Number of decisions of authorization webhooks that came from the cache, by name.")
	conditionsEvaluations = metricSet.CounterVec("proviso_authorization_webhook_conditions_evaluations_total", []string{"name", "result", "form"},
		"Number of round trips to authorization webhooks for the evaluation of conditions that cannot be evaluated in process, by name, result and form: kep or upstream.")
	conditionsDurations = metricSet.HistogramVec("proviso_authorization_webhook_conditions_duration_seconds", []string{"name", "result"}, buckets,
		"Latency of round trips to authorization webhooks for the evaluation of conditions in seconds, by name and result.")
	reloads = metricSet.CounterVec("proviso_authorization_config_controller_automatic_reloads_total", []string{"status"},
		"Number of attempts to reload the authorization configuration, by status: success or failure.")
	lastReload = metricSet.GaugeVec("proviso_authorization_config_controller_automatic_reload_last_timestamp_seconds", []string{"status"},
		"Time of the last attempt to reload the authorization configuration in seconds since the epoch, by status: success or failure.")
	pendingReviews = metricSet.GaugeVec("proviso_authorization_kube_apiserver_checks", []string{"state"},
		"Number of SubjectAccessReviews to kube-apiserver at the moment, by state: in_flight, or waiting for their turn.")
	refusals = metricSet.CounterVec("proviso_authorization_kube_apiserver_refusals_total", []string{"reason"},
		"Number of SubjectAccessReviews that were not sent to kube-apiserver, and counted as Deny, because too many others were in flight, by reason: user (too many of the same user waited), all (too many of all users waited) or timeout (waited too long).")
)

// The values of the labels state and reason.
const (
	stateInFlight  = "in_flight"
	stateWaiting   = "waiting"
	refusalUser    = "user"
	refusalAll     = "all"
	refusalTimeout = "timeout"
)

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(func() {
	metricSet.Register()
	for _, reason := range []string{refusalUser, refusalAll, refusalTimeout} {
		refusals.WithLabelValues(reason).Add(0) // so that a rate has the first one
	}
})

// roundTrips has the metrics of the calls with one kind of review.
type roundTrips struct {
	total    *metrics.CounterVec
	duration *metrics.HistogramVec
}

func (m roundTrips) record(name, result string, in form, elapsed time.Duration) {
	m.total.WithLabelValues(name, result, string(in)).Inc()
	m.duration.WithLabelValues(name, result).Observe(elapsed.Seconds())
}

// resultOf returns the result of a webhook call that was made with ctx, the context of the
// request.
func resultOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return resultSuccess
	case errors.Is(ctx.Err(), context.Canceled):
		return resultCanceled
	case utilnet.IsTimeout(err), errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err):
		return resultTimeout
	default:
		return resultError
	}
}

func recordReload(err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	reloads.WithLabelValues(status).Inc()
	lastReload.WithLabelValues(status).SetToCurrentTime()
}
