/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"sync"
	"time"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/door"
	"github.com/proviso-authz/proviso/pkg/metricset"
)

// The values of the label decision.
const (
	decisionAllowed = "allowed"
	decisionDenied  = "denied"
)

// Values of the label answer, beside those of the label decision.
const (
	answerNoOpinion = "no_opinion"
	answerRefused   = "refused"
)

// The values of the label cause.
const (
	causeOtherManifest = "other_manifest"
	causeOtherWrite    = "other_write"
	causeNoMemory      = "no_memory"
	causeNoSlot        = "no_slot"
	causeTooLate       = "too_late"
	causePanic         = "panic"
)

var (
	metricSet metricset.Set

	requests = metricSet.CounterVec("proviso_webhook_admit_requests_total", []string{"decision"},
		"Number of AdmissionReviews that the inner door decided, by decision: allowed or denied.")
	refusals = metricSet.CounterVec("proviso_webhook_admit_refusals_total", []string{"code"},
		"Number of requests to the inner door that are not answered with an AdmissionReview, by HTTP status code. kube-apiserver then refuses the write.")
	undecided = metricSet.CounterVec("proviso_webhook_admit_undecided_total", []string{"cause"},
		"Number of writes that the inner door refused without a decision, by cause: other_manifest (kube-apiserver has a manifest that was written from another configuration), other_write (a write that the manifest does not send), no_memory (too many long reviews at the same time), no_slot (too many writes at the same time), too_late, or panic (a mistake in Proviso, which its log shows).")
	conditionsAnswers = metricSet.CounterVec("proviso_webhook_conditions_answers_total", []string{"answer"},
		"Number of AuthorizationConditionsReviews of kube-apiservers that handle conditional decisions, by answer: allowed, denied, no_opinion or refused (without a decision, so that kube-apiserver refuses the write).")
	duration = metricSet.HistogramVec("proviso_webhook_admit_duration_seconds", []string{"decision"}, door.CallBuckets,
		"Time to read and decide an AdmissionReview at the inner door, by decision, in seconds.")
)

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(metricSet.Register)

func observe(allowed bool, took time.Duration) {
	decision := decisionDenied
	if allowed {
		decision = decisionAllowed
	}
	requests.WithLabelValues(decision).Inc()
	duration.WithLabelValues(decision).Observe(took.Seconds())
}

// answerOf returns the value of the label answer for a decision.
func answerOf(decision authorization.Decision) string {
	switch {
	case decision.IsAllow():
		return decisionAllowed
	case decision.IsNoOpinion():
		return answerNoOpinion
	default:
		return decisionDenied
	}
}
