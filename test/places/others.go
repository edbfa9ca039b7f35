/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/legacyregistry"
)

var errOthers = errors.New("kube-apiserver does not answer")

// OthersDecide is the decision of the other authorizers of kube-apiserver: they may allow reads and the verb granular, and have no opinion on
// anything else.
func (c *Case) OthersDecide(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	answer := AnswerNo
	switch a.GetVerb() {
	case "get", "list":
		answer = c.Facts.OthersAllow.Reads
	case "granular":
		answer = c.Facts.OthersAllow.Fields
	}
	switch answer {
	case AnswerAllow:
		return authorizer.DecisionAllow, "RBAC", nil
	case AnswerError:
		return authorizer.DecisionNoOpinion, "", errOthers
	default:
		return authorizer.DecisionNoOpinion, "", nil
	}
}

// NamespaceObject returns a namespace in its JSON form.
func NamespaceObject(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"team": "a", "kubernetes.io/metadata.name": name}}}
}

// measured are the metrics of the front door that tell the places of conditions apart.
var measured = []string{
	"proviso_webhook_authorize_conditional_answers_total", "proviso_webhook_authorize_inner_door_answers_total", "proviso_webhook_authorize_after_policies_total",
	"proviso_webhook_authorize_granular_checks_total", "proviso_webhook_authorize_inner_door_read_checks_total",
	"proviso_webhook_authorize_refusals_total", "proviso_webhook_authorize_undecided_total", "proviso_webhook_authorize_unaudited_total",
}

// Counted returns the series of metrics of the front door that a function has changed. Calls are not concurrent.
func Counted(f func()) (series []string) {

	before := counters()
	f()
	for name, value := range counters() {
		if n := value - before[name]; n > 0 {
			series = append(series, fmt.Sprintf("%s %v", name, n))
		}
	}
	slices.Sort(series)
	return series
}

func counters() map[string]float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if !slices.Contains(measured, family.GetName()) {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(family.GetName(), "proviso_webhook_authorize_"), "_total")
		for _, metric := range family.GetMetric() {
			labels := ""
			for _, label := range metric.GetLabel() {
				labels += ":" + label.GetValue()
			}
			values[name+labels] = metric.GetCounter().GetValue()
		}
	}
	return values
}
