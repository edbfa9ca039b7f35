/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/door"
	"github.com/proviso-authz/proviso/pkg/metricset"
)

// The values of the label decision.
const (
	decisionAllowed     = "allowed"
	decisionDenied      = "denied"
	decisionNoOpinion   = "no_opinion"
	decisionConditional = "conditional"
)

// The values of the label answer.
const (
	answerAllowedOnConditions = "allowed_on_conditions"
	answerAllowedOnFields     = "allowed_on_fields"
	answerLeft                = "left_to_server"
	answerLeftToBarrier       = "left_to_barrier"
	answerDenied              = "folded_to_denied"
	answerNoOpinion           = "folded_to_no_opinion"
	answerConditions          = "left_to_kube_apiserver"
)

// Values of the label answer of the inner door. Each obstacle has another one.
const (
	answerPassed = "passed"
	answerUnseen = "unseen"
)

var (
	metricSet metricset.Set

	requests = metricSet.CounterVec("proviso_webhook_authorize_requests_total", []string{"decision"},
		"Number of reviews that the front door answered, by decision: allowed, denied, no_opinion or conditional (the answer has the conditions).")
	refusals = metricSet.CounterVec("proviso_webhook_authorize_refusals_total", []string{"code"},
		"Number of requests that the front door did not answer with a decision, by HTTP status code. kube-apiserver then applies its failure policy.")
	denials = metricSet.CounterVec("proviso_webhook_authorize_undecided_total", []string{"cause"},
		"Number of reviews that the front door denied without a decision of the policies, by cause: too_long, no_slot (too many reviews at the same time), too_late, or panic (a mistake in Proviso, which its log shows).")
	unevaluated = metricSet.CounterVec("proviso_webhook_authorize_namespaces_unevaluated_total", []string{"cause"},
		"Number of times that policies of a namespace were not all evaluated for a review, by cause: no_slot (too many reviews about the namespace at the same time) or too_late. They then count as over their budget.")
	unaudited = metricSet.Counter("proviso_webhook_authorize_unaudited_total",
		"Number of reviews that match policies with the enforcement Audit and are not counted for them, because too many others are evaluated at the same time.")
	checks = metricSet.CounterVec("proviso_webhook_authorize_granular_checks_total", []string{"result"},
		"Number of checks of the front door for the verb granular, answered by kube-apiserver or from its cached answers, by result: allowed, refused or error.")
	conditionalAnswers = metricSet.CounterVec("proviso_webhook_authorize_conditional_answers_total", []string{"answer"},
		"Number of reviews of users whose answer depends on conditions or fields, which a review of authorization.k8s.io/v1 cannot show, by answer: allowed_on_conditions (Proviso or the server of the resource evaluates the conditions at admission), allowed_on_fields (Proviso checks the fields at admission), left_to_server (no opinion: if another authorizer allows, one of these servers evaluates the conditions), left_to_barrier (kube-apiserver enforces all conditions, by ValidatingAdmissionPolicies), left_to_kube_apiserver (the answer has the conditions, and kube-apiserver enforces them), folded_to_denied or folded_to_no_opinion (no server evaluates the conditions).")
	innerDoorAnswers = metricSet.CounterVec("proviso_webhook_authorize_inner_door_answers_total", []string{"answer"},
		"Number of reviews of writes that the inner door decides, and that could pass on conditions of policies or on permission on fields, by answer: passed (the inner door decides again), or why they did not pass: left_out (the inner door does not decide for the user), not_local (kube-apiserver is not known to serve the version itself), not_known (the kube-apiserver is not known to call the inner door), restricted (policies could deny what looks the same at admission), unreadable (the user may not read what the answer may show), webhooks (a webhook could deny what kube-apiserver lets pass without a call of the inner door), or unseen (the condition reads the path or a selector).")
	reads = metricSet.CounterVec("proviso_webhook_authorize_inner_door_read_checks_total", []string{"result"},
		"Number of checks of the front door whether a user may read what the answer to a write shows, answered by kube-apiserver or from its cached answers, by result: allowed, refused or error.")
	afterPoliciesAnswers = metricSet.CounterVec("proviso_webhook_authorize_after_policies_total", []string{"decision"},
		"Number of decisions of the authorizers after the policies, such as webhooks, about requests that policies do not deny, by decision: allowed, denied or no_opinion.")
	busy = metricSet.Counter("proviso_webhook_authorize_webhooks_busy_total",
		"Number of times that the front door did not ask a webhook, because too many others were being asked. The webhook denies then, whatever its failure policy is.")
	duration = metricSet.HistogramVec("proviso_webhook_authorize_duration_seconds", []string{"decision"}, door.CallBuckets,
		"Time to read and decide a review at the front door, by decision, in seconds.")
)

// RegisterMetrics registers the metrics of the package, once.
var RegisterMetrics = sync.OnceFunc(func() {
	metricSet.Register()
	requests.WithLabelValues(decisionNoOpinion).Add(0) // so that a front door that is never called has a series
})

func observeCheck(decision authorizer.Decision, err error) { observeAnswer(checks, decision, err) }

func observeRead(decision authorizer.Decision, err error) { observeAnswer(reads, decision, err) }

func observeAnswer(counter *metrics.CounterVec, decision authorizer.Decision, err error) {
	result := "refused"
	switch {
	case err != nil:
		result = "error"
	case decision == authorizer.DecisionAllow:
		result = decisionAllowed
	}
	counter.WithLabelValues(result).Inc()
}

// observeConditional counts the answer to which a conditional decision was converted. left is the decision without the conditions that
// barriers enforce.
func observeConditional(decision authorization.Decision, enforced bool, left authorization.Decision) {
	answer := answerNoOpinion
	switch {
	case left.IsUnconditional() && !left.IsDeny():
		answer = answerLeftToBarrier
	case decision.IsAllow():
		answer = answerAllowedOnConditions
	case decision.IsDeny():
		answer = answerDenied
	case enforced:
		answer = answerLeft
	}
	conditionalAnswers.WithLabelValues(answer).Inc()
}

// observeAfterPolicies counts an unconditional decision of the authorizers after the policies.
func observeAfterPolicies(decision authorization.Decision) {
	label := decisionNoOpinion
	switch {
	case decision.IsAllow():
		label = decisionAllowed
	case decision.IsDeny():
		label = decisionDenied
	}
	afterPoliciesAnswers.WithLabelValues(label).Inc()
}

func observe(status *answerStatus, took time.Duration) {
	decision := decisionNoOpinion
	switch {
	case status.ConditionalDecision != nil:
		decision = decisionConditional
	case status.Denied:
		decision = decisionDenied
	case status.Allowed:
		decision = decisionAllowed
	}
	requests.WithLabelValues(decision).Inc()
	duration.WithLabelValues(decision).Observe(took.Seconds())
}
