/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// shownCharacters is the length to which a table shortens a condition. It is enough to distinguish
// conditions, and leaves room for the other columns.
const shownCharacters = 60

// columns are the columns of the table of policies.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the policy"},
	{Name: "Effect", Type: "string", Description: "Effect of the policy on the requests that match"},
	{Name: "Enforcement", Type: "string", Description: "Whether the policy decides requests (Enforce) or only counts them (Audit)"},
	{Name: "Subjects", Type: "string", Description: "Users and groups whose requests match"},
	{Name: "Resources", Type: "string", Description: "Resources and paths of requests that match"},
	{Name: "Condition", Type: "string", Description: "Condition for the effect, shortened"},
	{Name: "Ready", Type: "string", Description: "Whether the current version of the policy is applied"},
	{Name: "Effective", Type: "string", Description: "Whether the policy decides all requests that its rules describe"},
	{Name: "Audited", Type: "string", Description: "Number of requests that a policy with the enforcement Audit would have decided"},
	{Name: "Warnings", Type: "integer", Description: "Number of mistakes in status.typeChecking"},
	{Name: "Age", Type: "string", Description: "Time since the policy was created"},
	{Name: "Description", Type: "string", Priority: 1, Description: "Purpose of the policy"},
}

func cells(p parts, name, age string) []any {
	return []any{
		name, string(p.Spec.Effect), enforcementOf(p.Spec), subjectsOf(p.Spec), resourcesOf(p.Spec), shorten(p.Spec.Condition),
		stored.ConditionCell(p.Status.Conditions, policy.PolicyReady), stored.ConditionCell(p.Status.Conditions, policy.PolicyEffective), auditedBy(p), warningsOf(p.Status), age,
		stored.LineCell(p.Spec.Description),
	}
}

// enforcementOf returns the enforcement of a policy. A policy that was made without it is enforced.
func enforcementOf(spec *policy.AuthorizationPolicySpec) string {
	return string(cmp.Or(spec.Enforcement, policy.PolicyEnforcementEnforce))
}

// auditedBy returns how many requests a policy with the enforcement Audit would have decided, such as "5", or "5 (1 failed, 2
// undetermined)". Requests that kube-apiserver evaluates by a barrier are not counted: it is "not counted" if kube-apiserver evaluates all. It
// is empty for other policies.
func auditedBy(p parts) string {
	if p.Spec.Enforcement != policy.PolicyEnforcementAudit {
		return ""
	}
	counts := policy.PolicyAuditStatus{}
	if audit := p.Status.Audit; audit != nil && audit.ObservedGeneration == p.Meta.Generation {
		counts = *audit
	}
	all, atBarrier := 0, 0
	for i := range p.Status.Enforcement {
		if e := &p.Status.Enforcement[i]; e.Result == policy.ResultAudited {
			all++
			if e.At == policy.EnforcedAtBarrier {
				atBarrier++
			}
		}
	}
	if atBarrier > 0 && atBarrier == all && counts.Decided == 0 && counts.Undetermined == 0 {
		return "not counted"
	}
	var details []string
	if atBarrier > 0 {
		details = append(details, "others not counted")
	}
	if counts.Errors > 0 {
		details = append(details, fmt.Sprintf("%d failed", counts.Errors))
	}
	if counts.Undetermined > 0 {
		details = append(details, fmt.Sprintf("%d undetermined", counts.Undetermined))
	}
	if len(details) == 0 {
		return strconv.FormatInt(counts.Decided, 10)
	}
	return fmt.Sprintf("%d (%s)", counts.Decided, strings.Join(details, ", "))
}

// warningsOf returns the number of mistakes that were found.
func warningsOf(status *policy.AuthorizationPolicyStatus) int64 {
	if status.TypeChecking == nil {
		return 0
	}
	return int64(len(status.TypeChecking.ExpressionWarnings))
}

// subjectsOf returns the names of the subjects, and <all users> for an omitted list, which means all authenticated users in an
// Allow policy.
func subjectsOf(spec *policy.AuthorizationPolicySpec) string {
	if len(spec.Subjects) == 0 {
		return "<all users>"
	}
	var entries []string
	for _, s := range spec.Subjects {
		name := s.Name
		if s.Namespace != "" {
			name = s.Namespace + "/" + name
		}
		entries = append(entries, s.Kind+":"+name)
	}
	return stored.ListCell(entries)
}

func resourcesOf(spec *policy.AuthorizationPolicySpec) string {
	var entries []string
	seen := sets.New[string]()
	for _, rule := range spec.Rules {
		for _, entry := range slices.Concat(rule.Resources, rule.NonResourceURLs) {
			if !seen.Has(entry) {
				entries = append(entries, entry)
			}
			seen.Insert(entry)
		}
	}
	return stored.ListCell(entries)
}

func shorten(text string) string {
	characters := []rune(stored.LineCell(text))
	if len(characters) <= shownCharacters {
		return string(characters)
	}
	return string(characters[:shownCharacters-1]) + "…"
}
