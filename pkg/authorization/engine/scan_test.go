/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// randomChange adds, replaces or removes a policy.
func randomChange(tb testing.TB, r *rand.Rand, compiler *partial.Compiler, current map[engine.Key]spec, changes map[engine.Key]*engine.Policy) {
	tb.Helper()
	key := engine.Key{Namespace: oneOf(r, someNamespaces...), Name: fmt.Sprintf("p%02d", r.IntN(60))}
	if r.IntN(3) == 0 {
		delete(current, key)
		changes[key] = nil
		return
	}
	s := randomSpec(r)
	p, err := engine.New(key, &s, compiler)
	if err != nil {
		tb.Fatal(err)
	}
	current[key], changes[key] = s, p
}

func randomRequest(r *rand.Rand) authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{
		User: &user.DefaultInfo{
			Name:   oneOf(r, "alice", "bob", "devs", "system:serviceaccount:n:robot"),
			Groups: oneOf(r, nil, []string{"devs"}, []string{"alice", user.AllAuthenticated}, []string{"devs", "devs", user.AllAuthenticated}),
		},
		Verb: oneOf(r, "get", "create", "list"),
	}
	if r.IntN(8) == 0 {
		a.Path = oneOf(r, "/a", "/a/b", "/b")
		return a
	}
	a.ResourceRequest = true
	a.APIGroup, a.APIVersion = oneOf(r, "", "apps", "batch"), oneOf(r, "v1", "v2", "v3")
	a.Resource, a.Subresource = oneOf(r, "pods", "deployments", "jobs"), oneOf(r, "", "", "exec", "scale")
	a.Namespace, a.Name = oneOf(r, "", "n", "m", "o"), oneOf(r, "", "p", "q")
	return a
}

// scanned is a policy that a scan finds, and whether its condition counts.
type scanned struct {
	key         engine.Key
	spec        spec
	conditional bool
}

// scan decides by looking at every policy.
func scan(specs map[engine.Key]spec, a authorizer.AttributesRecord) string {
	var found []scanned
	for key, s := range specs {
		if !scanSubjects(s, a.User) || (key.Namespace != "" && (!a.ResourceRequest || key.Namespace != a.Namespace)) {
			continue
		}
		matched, within := false, false
		for _, r := range s.Rules {
			m, w := scanRule(r, a)
			matched, within = matched || (m && (w || s.Effect != allow)), within || (m && w)
		}
		if matched {
			found = append(found, scanned{key, s, within && s.Condition != ""})
		}
	}
	sort.Slice(found, func(i, j int) bool {
		x, y := found[i].key, found[j].key
		return x.Namespace < y.Namespace || (x.Namespace == y.Namespace && x.Name < y.Name)
	})
	return scanRestricting(found) + ", " + scanGranting(found)
}

func scanSubjects(s spec, u user.Info) bool {
	if len(s.Subjects) == 0 {
		return s.Effect != allow || slices.Contains(u.GetGroups(), user.AllAuthenticated)
	}
	return slices.ContainsFunc(s.Subjects, func(subject rbacv1.Subject) bool {
		switch subject.Kind {
		case "Group":
			return slices.Contains(u.GetGroups(), subject.Name)
		case "ServiceAccount":
			return u.GetName() == "system:serviceaccount:"+subject.Namespace+":"+subject.Name
		}
		return u.GetName() == subject.Name
	})
}

// scanRule says whether a rule matches, and whether it does so within its versions.
func scanRule(r rule, a authorizer.AttributesRecord) (matched, within bool) {
	has := func(values []string, value string) bool {
		return slices.Contains(values, value) || slices.Contains(values, "*")
	}
	if !has(r.Verbs, a.Verb) {
		return false, false
	}
	if !a.ResourceRequest {
		matched = slices.ContainsFunc(r.NonResourceURLs, func(pattern string) bool {
			return pattern == a.Path || (strings.HasSuffix(pattern, "*") && strings.HasPrefix(a.Path, strings.TrimSuffix(pattern, "*")))
		})
		return matched, matched
	}
	resources := []string{a.Resource, "*"}
	if a.Subresource != "" {
		resources = []string{a.Resource + "/" + a.Subresource, "*/" + a.Subresource, "*"}
	}
	named := slices.ContainsFunc(r.Resources, func(resource string) bool { return slices.Contains(resources, resource) })
	matched = named && has(r.APIGroups, a.APIGroup) && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
	return matched, matched && (len(r.APIVersions) == 0 || has(r.APIVersions, a.APIVersion))
}

func scanRestricting(found []scanned) string {
	conditions, certain := scanEffect(found, "Deny")
	switch {
	case certain != "":
		return "Deny"
	case len(conditions) == 0:
		return "NoOpinion"
	}
	return "[" + strings.Join(conditions, "; ") + "]"
}

func scanGranting(found []scanned) string {
	held, heldBack := scanEffect(found, "NoOpinion")
	allowing, allowed := scanEffect(found, "Allow")
	switch {
	case heldBack != "" || (allowed == "" && len(allowing) == 0):
		return "NoOpinion"
	case allowed != "" && len(held) == 0:
		return "Allow"
	case allowed != "":
		allowing = []string{"Allow " + allowed + ": true"}
	}
	return "[" + strings.Join(append(held, allowing...), "; ") + "]"
}

// scanEffect returns the conditions of an effect, and the first policy that has it
// whatever its condition says.
func scanEffect(found []scanned, effect string) (conditions []string, certain string) {
	for _, f := range found {
		switch {
		case string(f.spec.Effect) != effect:
		case f.conditional:
			conditions = append(conditions, effect+" "+f.key.Name+": object.a == 1")
		case certain == "":
			certain = f.key.Name
		}
	}
	return conditions, certain
}
