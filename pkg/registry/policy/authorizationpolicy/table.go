/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// shownCharacters is the length to which a table shortens a condition. It is enough to distinguish
// conditions, and leaves room for the other columns.
const shownCharacters = 60

// table prints policies.
var table = stored.Table{
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the policy"},
		{Name: "Effect", Type: "string", Description: "Effect of the policy on the requests that match"},
		{Name: "Subjects", Type: "string", Description: "Users and groups whose requests match"},
		{Name: "Resources", Type: "string", Description: "Resources and paths of requests that match"},
		{Name: "Condition", Type: "string", Description: "Condition for the effect, shortened"},
		{Name: "Ready", Type: "string", Description: "Whether the current version of the policy is applied"},
		{Name: "Effective", Type: "string", Description: "Whether the policy decides all requests that its rules describe"},
		{Name: "Warnings", Type: "integer", Description: "Number of mistakes in status.typeChecking"},
		{Name: "Age", Type: "string", Description: "Time since the policy was created"},
		{Name: "Description", Type: "string", Priority: 1, Description: "Purpose of the policy"},
	},
	Cells: func(obj runtime.Object, name, age string) ([]any, error) {
		p, err := partsOf(obj)
		if err != nil {
			return nil, err
		}
		return []any{
			name, string(p.Spec.Effect), subjectsOf(p.Spec), resourcesOf(p.Spec), shorten(p.Spec.Condition),
			stored.ConditionCell(p.Status.Conditions, policy.PolicyReady), stored.ConditionCell(p.Status.Conditions, policy.PolicyEffective), warningsOf(p.Status), age,
			stored.LineCell(p.Spec.Description),
		}, nil
	},
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
		for _, entry := range append(append([]string{}, rule.Resources...), rule.NonResourceURLs...) {
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
