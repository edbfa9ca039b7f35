/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// Counts are the numbers of cases by the classes that occur in them.
type Counts map[string]int

// Add counts the classes of a case, each once.
func (c Counts) Add(codes *Codes) {
	seen := map[string]bool{}
	add := func(prefix string, classes ...string) {
		for _, class := range classes {
			if !strings.HasPrefix(class, "policy=") && !strings.HasPrefix(class, "condition=") {
				seen[prefix+class] = true
			}
		}
	}
	if door := codes.FrontDoor; door != nil {
		add("answer ", door.Decision)
		add("reason ", door.Why...)
		for _, counted := range door.Counted {
			series, _, _ := strings.Cut(counted, " ")
			add("metric ", series)
		}
	}
	for i := range codes.Policies {
		p := &codes.Policies[i]
		add("effective ", p.Effective)
		for _, e := range p.Entries {
			add("status ", e.At+" "+e.Result)
			add("note ", e.Why...)
		}
		if p.Audit != nil {
			add("audit ", p.Audit.class())
		}
		for _, warned := range p.Warned {
			if at := strings.Index(warned, Unclassified); at >= 0 {
				add("author ", warned[at:])
				continue
			}
			add("author ", strings.Split(warned, ": ")[1:]...)
		}
	}
	add("review ", codes.Review.Decision)
	add("review why ", codes.Review.Why...)
	add("warning ", codes.Review.Warnings...)
	for class := range seen {
		c[class]++
	}
}

// String lists the classes with their counts, one a line.
func (c Counts) String() string {
	var text strings.Builder
	for _, class := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&text, "%5d %s\n", c[class], class)
	}
	return text.String()
}

// class says which of the counts are not zero.
func (a *AuditCounted) class() string {
	switch {
	case a.Undetermined > 0:
		return "undetermined"
	case a.Decided > 0 && a.Errors > 0:
		return "error of a restriction"
	case a.Errors > 0:
		return "error of a permission"
	case a.Decided > 0:
		return "decided"
	}
	return "nothing"
}

// Unclassified returns the texts without a phrase of the table.
func (c Counts) Unclassified() (texts []string) {
	for class := range c {
		if _, text, found := strings.Cut(class, Unclassified); found {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return texts
}

// Problems returns the classes that occur in too few cases, and those that must occur in none and do.
func (c Counts) Problems(enough int) (problems []string) {
	for _, class := range required() {
		if c[class] < enough {
			problems = append(problems, fmt.Sprintf("%q occurs in %d cases, want %d", class, c[class], enough))
		}
	}
	for _, class := range slices.Sorted(maps.Keys(impossible)) {
		if c[class] > 0 {
			problems = append(problems, fmt.Sprintf("%q occurs in %d cases, although it cannot: %s", class, c[class], impossible[class]))
		}
	}
	return problems
}

// required returns the classes that must occur: each answer of the front door, each obstacle, each metric label, each place with each result that
// it can have, each explanation, each warning and each result of Audit.
func required() []string {
	classes := slices.Clone(requiredOthers)
	for at, results := range resultsAt {
		for _, result := range results {
			classes = append(classes, fmt.Sprintf("status %s %s", at, result))
		}
	}
	for _, p := range phrases {
		prefix := "note "
		switch first, _, _ := strings.Cut(p.class, "-"); first {
		case "door", "obstacle":
			prefix = "reason "
		case "warning", "problem":
			prefix = "warning "
		case "review", "others", "fields", "mistake", "evaluation", "webhook":
			continue // not about places
		}
		if impossible[prefix+p.class] == "" && !slices.Contains(requiredOthers, "author "+p.class) {
			classes = append(classes, prefix+p.class)
		}
	}
	slices.Sort(classes)
	return classes
}

// resultsAt has the results that each place can have. Only a barrier is pending, and only the inner door is unknown. A place that evaluates conditions
// gives no policy its effect without the condition, except for the inner door, which does not see paths and selectors.
var resultsAt = map[policyv1alpha1.EnforcementPlace][]policyv1alpha1.EnforcementResult{
	policyv1alpha1.EnforcedAtServer: {
		policyv1alpha1.ResultEnforced, policyv1alpha1.ResultGrantsNothing, policyv1alpha1.ResultWithholdsUnconditionally, policyv1alpha1.ResultDeniesUnconditionally, policyv1alpha1.ResultAudited,
	},
	policyv1alpha1.EnforcedAtFrontDoor: {
		policyv1alpha1.ResultEnforced, policyv1alpha1.ResultGrantsNothing, policyv1alpha1.ResultWithholdsUnconditionally, policyv1alpha1.ResultDeniesUnconditionally, policyv1alpha1.ResultAudited,
	},
	policyv1alpha1.EnforcedAtInnerDoor: {
		policyv1alpha1.ResultEnforced, policyv1alpha1.ResultInnerDoorUnknown, policyv1alpha1.ResultGrantsNothing, policyv1alpha1.ResultWithholdsUnconditionally, policyv1alpha1.ResultAudited,
	},
	policyv1alpha1.EnforcedAtAggregatedServer: {policyv1alpha1.ResultEnforced, policyv1alpha1.ResultAudited},
	policyv1alpha1.EnforcedAtKubeAPIServer:    {policyv1alpha1.ResultEnforced, policyv1alpha1.ResultAudited},
	policyv1alpha1.EnforcedAtBarrier:          {policyv1alpha1.ResultEnforced, policyv1alpha1.ResultPending, policyv1alpha1.ResultNotEnforced, policyv1alpha1.ResultAudited},
	policyv1alpha1.EnforcedAtReviews:          {policyv1alpha1.ResultNotEnforced},
}

// requiredOthers are the required classes that are no phrases.
var requiredOthers = []string{
	"answer allowed", "answer denied", "answer no_opinion", "answer conditional", "answer 503",
	"metric conditional_answers:allowed_on_conditions", "metric conditional_answers:allowed_on_fields", "metric conditional_answers:folded_to_denied",
	"metric conditional_answers:folded_to_no_opinion", "metric conditional_answers:left_to_barrier", "metric conditional_answers:left_to_kube_apiserver",
	"metric conditional_answers:left_to_server",
	"metric inner_door_answers:passed", "metric inner_door_answers:left_out", "metric inner_door_answers:not_local", "metric inner_door_answers:not_known",
	"metric inner_door_answers:restricted", "metric inner_door_answers:unreadable", "metric inner_door_answers:webhooks", "metric inner_door_answers:unseen",
	"metric after_policies:allowed", "metric after_policies:denied", "metric after_policies:no_opinion",
	"metric granular_checks:allowed", "metric granular_checks:refused", "metric granular_checks:error",
	"metric inner_door_read_checks:allowed", "metric inner_door_read_checks:refused", "metric inner_door_read_checks:error",
	"effective Enforced", "effective Audit", "effective Pending", "effective NotEnforced", "effective InnerDoorUnknown", "effective GrantsNothing",
	"effective WithholdsUnconditionally", "effective DeniesUnconditionally",
	"audit nothing", "audit decided", "audit undetermined", "audit error of a restriction", "audit error of a permission",
	"review allowed", "review denied", "review no_opinion", "review conditional",
	"warning note-configuration", "warning note-deny", "warning obstacle-left-out", "warning obstacle-not-local", "warning obstacle-restricted", "warning obstacle-unreadable", "warning obstacle-webhooks",
}

// impossible are the classes that cannot occur, with the reasons.
var impossible = map[string]string{
	"note barrier-earlier-text":         "the controller and the rollout hear of a change at different times, and a case waits for both",
	"note barrier-not-read":             "the state of a barrier is known to the controller before it is to the rollout, and a case waits for both, or the rollout has no policy",
	"note barrier-not-written":          "as for barrier-not-read",
	"note barrier-another-text":         "as for barrier-earlier-text",
	"note barrier-not-probed":           "a round probes each server that it has found",
	"note barrier-no-barrier":           "the rollout calls a barrier that does not exist absent before",
	"note untranslated-resource-names":  "validation refuses a restriction with resourceNames and the verb create",
	"note untranslated-update-or-patch": "a Deny of one of update and patch is read as a Deny of both",
	"metric undecided:too_long":         "a request of a case is short",
	"metric undecided:too_late":         "time stands still while a case is decided",
	"metric undecided:no_slot":          "a case asks one question at a time",
	"metric undecided:panic":            "a panic is a bug",
	"metric unaudited":                  "a case asks one question at a time",
}
