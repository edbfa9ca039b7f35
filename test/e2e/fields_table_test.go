/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// fieldTable is the table of TestFields. testdata/fields.yaml says what the fields are.
type fieldTable struct {
	Mappings []*fieldMapping `json:"mappings"`
	Sets     []*fieldSet     `json:"sets"`
}

type fieldMapping struct {
	Name string `json:"name"`
	policyv1alpha1.FieldPermissionMappingSpec
}

type fieldSet struct {
	Set   string       `json:"set"`
	Roles []*fieldRole `json:"roles"`
	Rows  []*fieldRow  `json:"rows"`
}

// fieldRole is what a user may do, with machines and their status unless it says otherwise.
type fieldRole struct {
	User      string   `json:"user"`
	Resources []string `json:"resources,omitempty"`
	Verbs     []string `json:"verbs"`
	Keys      int      `json:"keys,omitempty"`
}

// fieldRow is one request and what becomes of it.
type fieldRow struct {
	tableRow
	Of    string `json:"of,omitempty"`
	Field string `json:"field,omitempty"`
	Says  string `json:"says,omitempty"`
	Keys  int    `json:"keys,omitempty"`
}

// has reports whether a user of the set has a verb, by RBAC.
func (s *fieldSet) has(user, resource, verb string) bool {
	return slices.ContainsFunc(s.Roles, func(r *fieldRole) bool {
		return r.User == user && slices.Contains(r.Resources, resource) && (slices.Contains(r.Verbs, verb) || slices.Contains(r.Verbs, "*"))
	})
}

// otherResources are what rows are about that are not about machines. kube-apiserver serves
// them.
var otherResources = map[string]*tableResource{
	"pods": {
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, kind: "Pod",
		spec: map[string]any{"containers": []any{map[string]any{"name": "a", "image": "i"}}},
	},
	"widgets": {
		GroupVersionResource: schema.GroupVersionResource{Group: "fields.example.com", Version: "v1", Resource: "widgets"}, kind: "Widget",
		spec: map[string]any{"size": 1},
	},
}

// domain is the domain of the nth of many labels.
func domain(n int) string { return fmt.Sprintf("d%d.example.com", n) }

// readFieldTable reads the table.
func readFieldTable(t *testing.T) *fieldTable {
	t.Helper()
	table := &fieldTable{}
	readYAML(t, "testdata/fields.yaml", table)
	for _, set := range table.Sets {
		for _, role := range set.Roles {
			if len(role.Resources) == 0 {
				role.Resources = []string{machines, machines + "/status"}
			}
			for i := range role.Keys {
				role.Verbs = append(role.Verbs, "granular:label("+domain(i)+")")
			}
		}
		for i, row := range set.Rows {
			row.complete(fmt.Sprintf("%s-%d", set.Set, i))
		}
	}
	return table
}

func (r *fieldRow) complete(id string) {
	r.id = id
	if r.Keys > 0 {
		labels := map[string]any{}
		for i := range r.Keys {
			labels[domain(i)+"/x"] = "y"
		}
		r.Body = mergeJSON(r.Body, map[string]any{"metadata": map[string]any{"labels": labels}})
	}
}

// TestFieldTableIsWellFormed finds rows that say nothing, and permissions that no row is
// about.
func TestFieldTableIsWellFormed(t *testing.T) {
	t.Parallel()
	rows, kubectlRows, others, outcomes := 0, 0, 0, map[string]int{}
	for _, set := range readFieldTable(t).Sets {
		names, users := map[string]bool{}, map[string]bool{}
		for _, row := range set.Rows {
			rows++
			outcomes[row.Want]++
			if row.By == "kubectl" {
				kubectlRows++
			}
			if row.Of != "" {
				others++
			}
			users[row.As] = true
			key := row.As + ", " + row.Name
			if names[key] || row.Want == "" || row.Field != "" && row.Want != outcomeForbidden || row.Of != "" && otherResources[row.Of] == nil {
				t.Errorf("%s: %q: the name is taken, or it makes no sense", set.Set, row.Name)
			}
			names[key] = true
		}
		for _, role := range set.Roles {
			if !users[role.User] {
				t.Errorf("%s: no row is about %s", set.Set, role.User)
			}
		}
	}
	t.Logf("%d rows, %d with kubectl, %d about pods and widgets: %v", rows, kubectlRows, others, outcomes)
	if rows < 200 || kubectlRows < 50 || others < 40 || outcomes[outcomeForbidden] < 100 || outcomes[outcomeAllowed] < 80 {
		t.Errorf("%d rows, %d with kubectl, %d about pods and widgets, and outcomes %v: the table proves little", rows, kubectlRows, others, outcomes)
	}
}
