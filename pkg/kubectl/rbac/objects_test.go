/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rbac_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
)

// permissionsOf returns the permissions of documents, a line for each: its subjects, its verbs, and its remarks.
func permissionsOf(t *testing.T, text string) (lines []string) {
	t.Helper()
	documents, errs := document.Read(strings.NewReader(text), []string{document.Stdin}, false)
	objects, _, more := rbac.Load(documents, "blue")
	if errs = append(errs, more...); len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, p := range objects.Permissions() {
		line := p.String()
		for _, s := range p.Spec.Subjects {
			line += fmt.Sprintf(" %s:%s/%s", s.Kind, s.Namespace, s.Name)
		}
		for _, r := range p.Spec.Rules {
			line += fmt.Sprint(" ", r.Verbs)
		}
		if p.Unknown {
			line += " unknown"
		}
		lines = append(lines, strings.Join(append([]string{line}, p.Remarks...), "; "))
	}
	return lines
}

// TestPermissions returns what RBAC makes of bindings.
func TestPermissions(t *testing.T) {
	t.Parallel()
	const rules = `rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]`
	role := func(name, rest string) string {
		return fmt.Sprintf("---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s, labels: {name: %s}}, %s}\n", name, name, rest)
	}
	aggregated := func(name, of, rest string) string {
		return role(name, "aggregationRule: {clusterRoleSelectors: [{matchLabels: {name: "+of+"}}]}, "+rest)
	}
	binding := func(kind, roleKind, name, subjects string) string {
		return fmt.Sprintf("---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: %s, metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}, subjects: [%s]}\n", kind, roleKind, name, subjects)
	}
	const alice = "{kind: User, name: alice}"
	cluster := func(name string) string { return binding("ClusterRoleBinding", "ClusterRole", name, alice) }
	for _, tc := range []struct {
		name, text, want string
	}{
		{"a role", role("a", rules) + cluster("a"), `ClusterRoleBinding "b" User:/alice [get]`},
		{"a missing role", cluster("a"), `ClusterRoleBinding "b" User:/alice unknown; the ClusterRole "a", or its rules, are missing: they could not be read, or are in no file`},
		{"an aggregated role", role("a", rules) + aggregated("b", "a", "rules: []") + aggregated("c", "b", "rules: null") + cluster("c"), `ClusterRoleBinding "b" User:/alice [get]`},
		{"an aggregated role before the role that it selects", role("r", rules) + aggregated("q", "r", "rules: []") + aggregated("p", "q", "rules: []") + cluster("p"), `ClusterRoleBinding "b" User:/alice [get]`},
		{"an aggregated role without the roles that it selects", aggregated("b", "a", "rules: []") + cluster("b"), `ClusterRoleBinding "b" User:/alice unknown; the ClusterRole "b", or its rules, are missing: they could not be read, or are in no file`},
		{"an aggregated role of a cluster", aggregated("b", "a", rules) + cluster("b"), `ClusterRoleBinding "b" User:/alice [get]`},
		{"a role that selects itself", aggregated("b", "b", "rules: []") + cluster("b"), `ClusterRoleBinding "b" User:/alice unknown; the ClusterRole "b", or its rules, are missing: they could not be read, or are in no file`},
		{"a service account without a namespace", role("a", rules) + binding("RoleBinding", "ClusterRole", "a", "{kind: ServiceAccount, name: ci}"), `RoleBinding "blue/b" ServiceAccount:blue/ci [get]`},
		{"a service account that is no user", role("a", rules) + binding("ClusterRoleBinding", "ClusterRole", "a", "{kind: ServiceAccount, name: ci}"), `ClusterRoleBinding "b" [get]; the service account "ci" has no namespace: it is no user`},
		{"an unknown kind", role("a", rules) + binding("ClusterRoleBinding", "ClusterRole", "a", "{kind: Robot, name: alice}, {kind: User, namespace: x, name: alice}, "+alice),
			`ClusterRoleBinding "b" User:/alice [get]; the subject "alice" has the kind "Robot", which RBAC does not have: it is no user`},
		{"a Role in a ClusterRoleBinding", role("a", rules) + binding("ClusterRoleBinding", "Role", "a", alice), `ClusterRoleBinding "b" User:/alice; the Role "a" does not exist: the binding grants nothing`},
		{"URLs in a RoleBinding", role("a", "rules: [{verbs: [get], nonResourceURLs: [/a]}]") + binding("RoleBinding", "ClusterRole", "a", alice),
			`RoleBinding "blue/b" User:/alice; the URLs ["/a"] match no request: a RoleBinding is about resources in its namespace`},
		{"both in one rule", role("a", `rules: [{verbs: [get], nonResourceURLs: [/a], apiGroups: [""], resources: [pods]}]`) + cluster("a"), `ClusterRoleBinding "b" User:/alice [get] [get]`},
		{"a rule without verbs", role("a", `rules: [{verbs: [], apiGroups: [""], resources: [pods]}]`) + cluster("a"),
			`ClusterRoleBinding "b" User:/alice; a rule without verbs, or without resources and API groups, matches no request`},
	} {
		if diff := cmp.Diff([]string{tc.want}, permissionsOf(t, tc.text)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.name, diff)
		}
	}
}
