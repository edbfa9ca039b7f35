/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// tableSet is one set of policies and the requests that it decides. testdata/enforcement.yaml
// says what the fields are.
type tableSet struct {
	Set      string        `json:"set"`
	Policies []tablePolicy `json:"policies"`
	Rows     []*tableRow   `json:"rows"`

	// env is the label of the namespace, if it is not the name of the set.
	env string
}

func (s *tableSet) namespace() string { return "table-" + s.Set }

func (s *tableSet) label() string { return cmp.Or(s.env, s.Set) }

// tablePolicy is a policy, about machines in their only version unless it says otherwise.
type tablePolicy struct {
	Name        string                      `json:"name"`
	Cluster     bool                        `json:"cluster,omitempty"`
	Effect      policyv1alpha1.PolicyEffect `json:"effect"`
	Users       []string                    `json:"users,omitempty"`
	Verbs       []string                    `json:"verbs"`
	Resources   []string                    `json:"resources,omitempty"`
	Versions    []string                    `json:"versions,omitempty"`
	Names       []string                    `json:"names,omitempty"`
	Description string                      `json:"description"`
	Variables   []policyv1alpha1.Variable   `json:"variables,omitempty"`
	Condition   string                      `json:"condition,omitempty"`

	// group is the API group of the resources, if it is not the group of machines.
	group string
}

const (
	machines        = "virtualmachines"
	machinesVersion = "v1alpha1"
)

func (p *tablePolicy) spec() policyv1alpha1.AuthorizationPolicySpec {
	spec := policyv1alpha1.AuthorizationPolicySpec{
		Description: p.Description, Effect: p.Effect, Variables: p.Variables, Condition: p.Condition,
		Rules: []policyv1alpha1.PolicyRule{{
			Verbs: p.Verbs, APIGroups: []string{cmp.Or(p.group, demov1alpha1.GroupName)}, APIVersions: p.Versions, Resources: p.Resources, ResourceNames: p.Names,
		}},
	}
	for _, name := range p.Users {
		spec.Subjects = append(spec.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name})
	}
	return spec
}

// tableRow is one request and what becomes of it.
type tableRow struct {
	Name    string           `json:"name"`
	As      string           `json:"as"`
	By      string           `json:"by,omitempty"`
	Do      string           `json:"do"`
	Sub     string           `json:"sub,omitempty"`
	Prefix  string           `json:"prefix,omitempty"`
	Exact   string           `json:"exact,omitempty"`
	Query   string           `json:"query,omitempty"`
	Old     map[string]any   `json:"old,omitempty"`
	Olds    []map[string]any `json:"olds,omitempty"`
	Body    any              `json:"body,omitempty"`
	Options tableOptions     `json:"options,omitempty"`
	DryRun  bool             `json:"dryRun,omitempty"`
	Stale   bool             `json:"stale,omitempty"`
	// Validation is what becomes of unknown fields; Editor is what sed does to what `kubectl
	// edit` shows.
	Validation string `json:"validation,omitempty"`
	Editor     string `json:"editor,omitempty"`
	Want       string `json:"want"`

	id string
}

// tableOptions are options of the operation.
type tableOptions struct {
	Force              bool   `json:"force,omitempty"`
	FieldManager       string `json:"fieldManager,omitempty"`
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	PropagationPolicy  string `json:"propagationPolicy,omitempty"`
}

// The outcomes of requests.
const (
	outcomeAllowed   = "allowed"
	outcomeForbidden = "forbidden"
)

// wanted splits want into the outcome and the policies that a refusal must name.
func (r *tableRow) wanted() (outcome string, policies []string) {
	outcome, by, named := strings.Cut(r.Want, " by ")
	if named {
		policies = strings.Split(by, ", ")
	}
	return outcome, policies
}

// decides reports whether the outcome is a matter of authorization alone.
func (r *tableRow) decides() bool {
	outcome, _ := r.wanted()
	return outcome == outcomeAllowed || outcome == outcomeForbidden
}

func (r *tableRow) reads() bool { return r.Do == "get" || r.Do == "list" || r.Do == "watch" }

func (r *tableRow) connects() bool { return r.Do == "console" || r.Do == "open" }

// readTable reads the table.
func readTable(t *testing.T) []*tableSet {
	t.Helper()
	var sets []*tableSet
	readYAML(t, "testdata/enforcement.yaml", &sets)
	for _, set := range sets {
		for i := range set.Policies {
			p := &set.Policies[i]
			if len(p.Resources) == 0 {
				p.Resources = []string{machines}
			}
			if len(p.Versions) == 0 {
				p.Versions = []string{machinesVersion}
			}
		}
		for i, row := range set.Rows {
			row.id = fmt.Sprintf("%s-%d", set.Set, i)
		}
	}
	return sets
}

// TestEnforcementTableIsWellFormed finds rows that say nothing, and policies that no row is
// about.
func TestEnforcementTableIsWellFormed(t *testing.T) {
	t.Parallel()
	rows, kubectlRows, parts := 0, 0, 0
	outcomes := []string{outcomeAllowed, outcomeForbidden, "not found", "conflict", "invalid", "exists"}
	for _, set := range readTable(t) {
		names := map[string]bool{}
		refusing := map[string]bool{}
		for _, row := range set.Rows {
			rows++
			if row.By == "kubectl" {
				kubectlRows++
			}
			outcome, policies := row.wanted()
			if names[row.Name] || !slices.Contains(outcomes, outcome) {
				t.Errorf("%s: %q: the name is taken, or there is no outcome %q", set.Set, row.Name, outcome)
			}
			names[row.Name] = true
			for _, name := range policies {
				refusing[name] = true
				if slices.ContainsFunc(set.Policies, func(p tablePolicy) bool {
					return p.Name == name && p.Effect == policyv1alpha1.PolicyEffectAllow && p.Condition != ""
				}) {
					parts++
				}
				if !slices.ContainsFunc(set.Policies, func(p tablePolicy) bool { return p.Name == name }) {
					t.Errorf("%s: %q: there is no policy %q", set.Set, row.Name, name)
				}
			}
		}
		for _, p := range set.Policies {
			if p.Effect == policyv1alpha1.PolicyEffectDeny && !refusing[p.Name] && !neverDenies[p.Name] {
				t.Errorf("%s: no row is refused by %s", set.Set, p.Name)
			}
		}
	}
	if rows < 150 || kubectlRows < 30 || parts < 40 {
		t.Errorf("there are %d rows, %d of them with kubectl, and %d refusals by an Allow policy whose condition does not hold; want at least 150, 30 and 40", rows, kubectlRows, parts)
	}
}

// neverDenies are Deny policies that must not apply to any row.
var neverDenies = map[string]bool{"sealed": true}
