/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/apis/authorization"
)

func allowing(ids ...string) []Condition {
	conditions := make([]Condition, 0, len(ids))
	for _, id := range ids {
		conditions = append(conditions, Condition{ID: id, Effect: EffectAllow, Type: ConditionTypeCEL})
	}
	return conditions
}

func numbered(count int) []Condition {
	ids := make([]string, 0, count)
	for i := range count {
		ids = append(ids, fmt.Sprintf("example.com/c%d", i))
	}
	return allowing(ids...)
}

// TestWellFormedConditions asks that those of policies are well-formed, and that nothing is
// that validation refuses.
func TestWellFormedConditions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 63)
	domain := strings.Repeat(long+".", 3) + strings.Repeat("y", 61)
	for _, tc := range []struct {
		name       string
		conditions []Condition
		want       bool
	}{
		{"of a policy", allowing("cluster.policy.proviso.dev/a", "cluster.policy.proviso.dev/b", "n.namespace.policy.proviso.dev/a"), true},
		{"every character", allowing("0-z.a9/A-_.z0"), true},
		{"as long as can be", allowing(domain + "/" + long), true},
		{"as many as fit a review", numbered(authorization.MaxConditionsPerSet), true},
		{"every effect and type", []Condition{
			{ID: "a.b/c", Effect: EffectDeny, Type: ConditionTypeCELBound}, {ID: "a.b/d", Effect: EffectNoOpinion, Type: ConditionTypeCEL}}, true},
		{"more than fit a review", numbered(authorization.MaxConditionsPerSet + 1), true},
		{"more than fit a review, and twice", append(numbered(authorization.MaxConditionsPerSet+1), numbered(1)...), false},
		{"twice", allowing("a.b/c", "a.b/d", "a.b/c"), false},
		{"no ID", allowing(""), false},
		{"no domain", allowing("a"), false},
		{"empty domain", allowing("/a"), false},
		{"empty name", allowing("a.b/"), false},
		{"too long a domain", allowing(domain + "y/a"), false},
		{"too long a name", allowing("a.b/" + long + "x"), false},
		{"two slashes", allowing("a.b/c/d"), false},
		{"empty label", allowing("a..b/c"), false},
		{"label that ends in a dash", allowing("a-.b/c"), false},
		{"label that begins with a dash", allowing("-a.b/c"), false},
		{"upper case domain", allowing("A.b/c"), false},
		{"underscore in a domain", allowing("a_b/c"), false},
		{"name that ends in a dot", allowing("a.b/c."), false},
		{"name that begins with a dash", allowing("a.b/-c"), false},
		{"line feed", allowing("a.b/c\n"), false},
		{"no ASCII", allowing("a.b/cü"), false},
		{"domain of Kubernetes", allowing("k8s.io/c"), false},
		{"below a domain of Kubernetes", allowing("a.kubernetes.io/c"), false},
		{"no effect", []Condition{{ID: "a.b/c", Type: ConditionTypeCEL}}, false},
		{"unknown effect", []Condition{{ID: "a.b/c", Effect: "allow", Type: ConditionTypeCEL}}, false},
		{"no type", []Condition{{ID: "a.b/c", Effect: EffectAllow}}, false},
		{"another type", []Condition{{ID: "a.b/c", Effect: EffectAllow, Type: "k8s.io/other"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := areWellFormed(tc.conditions); got != tc.want {
				t.Errorf("got %t", got)
			}
			if err := validateConditions(tc.conditions); (err == nil) != tc.want {
				t.Errorf("validation says %v", err)
			}
		})
	}
}

// FuzzWellFormedConditions looks for conditions that are well-formed and not valid.
func FuzzWellFormedConditions(f *testing.F) {
	f.Add("a.b/c", "a.b/d", "Allow", ConditionTypeCEL)
	f.Add("a-b.c/D_e", "x.y.k8s.io/z", "Deny", ConditionTypeCELBound)
	f.Fuzz(func(t *testing.T, id, other, effect, kind string) {
		conditions := []Condition{{ID: id, Effect: Effect(effect), Type: kind}, {ID: other, Effect: EffectAllow, Type: ConditionTypeCEL}}
		if areWellFormed(conditions) {
			if err := validateConditions(conditions); err != nil {
				t.Errorf("%q and %q, %q, %q: %v", id, other, effect, kind, err)
			}
		}
	})
}
