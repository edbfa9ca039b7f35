/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"context"
	"fmt"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/proviso-authz/proviso/apis/policy"
)

const (
	// shownCharacters is how much of a condition a table shows: enough to tell conditions
	// apart, and to leave room for the other columns.
	shownCharacters = 60
	// shownEntries is how many subjects or resources a table shows.
	shownEntries = 3
)

// tableConvertor renders policies as kubectl prints them.
type tableConvertor struct{}

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the policy"},
	{Name: "Effect", Type: "string", Description: "What the policy does to the requests that it is about"},
	{Name: "Subjects", Type: "string", Description: "Whose requests the policy is about"},
	{Name: "Resources", Type: "string", Description: "What the requests are about"},
	{Name: "Condition", Type: "string", Description: "What must hold for the effect, shortened"},
	{Name: "Ready", Type: "string", Description: "Whether the policy as it is written is in force"},
	{Name: "Age", Type: "string", Description: "Time since the policy was created"},
	{Name: "Effective", Type: "string", Priority: 1, Description: "Whether something can come of the policy"},
	{Name: "Description", Type: "string", Priority: 1, Description: "What the policy is for"},
}

func (tableConvertor) ConvertToTable(_ context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if options, ok := tableOptions.(*metav1.TableOptions); !ok || !options.NoHeaders {
		table.ColumnDefinitions = columns
	}
	if list, err := apimeta.ListAccessor(object); err == nil {
		table.ResourceVersion, table.Continue, table.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	} else if single, err := apimeta.Accessor(object); err == nil {
		table.ResourceVersion = single.GetResourceVersion()
	}
	add := func(obj runtime.Object) error {
		p, err := partsOf(obj)
		if err != nil {
			return err
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cellsOf(p), Object: runtime.RawExtension{Object: obj}})
		return nil
	}
	if apimeta.IsListType(object) {
		return table, apimeta.EachListItem(object, add)
	}
	return table, add(object)
}

func cellsOf(p parts) []any {
	return []any{
		p.meta.Name, string(p.spec.Effect), subjectsOf(p.spec), resourcesOf(p.spec), shorten(p.spec.Condition),
		statusOf(p, policy.PolicyReady), metatable.ConvertToHumanReadableDateType(p.meta.CreationTimestamp),
		statusOf(p, policy.PolicyEffective), oneLine(p.spec.Description),
	}
}

// subjectsOf names the subjects. Those of an omitted list depend on the effect.
func subjectsOf(spec *policy.AuthorizationPolicySpec) string {
	if len(spec.Subjects) == 0 {
		if spec.Effect == policy.PolicyEffectAllow {
			return "Group:system:authenticated"
		}
		return "<everybody>"
	}
	var entries []string
	for _, s := range spec.Subjects {
		name := s.Name
		if s.Namespace != "" {
			name = s.Namespace + "/" + name
		}
		entries = append(entries, s.Kind+":"+name)
	}
	return some(entries)
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
	return some(entries)
}

func some(entries []string) string {
	if n := len(entries) - shownEntries; n > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(entries[:shownEntries], ","), n)
	}
	return strings.Join(entries, ",")
}

func statusOf(p parts, condition string) string {
	if found := apimeta.FindStatusCondition(p.status.Conditions, condition); found != nil {
		return string(found.Status)
	}
	return string(metav1.ConditionUnknown)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func shorten(text string) string {
	characters := []rune(oneLine(text))
	if len(characters) <= shownCharacters {
		return string(characters)
	}
	return string(characters[:shownCharacters-1]) + "…"
}
