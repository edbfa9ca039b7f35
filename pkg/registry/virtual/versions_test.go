/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package virtual_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// byVersion returns a decision for each version, and denies all others.
type byVersion map[string]authorization.Decision

func (b byVersion) Decide(_ context.Context, attributes authorizer.Attributes) authorization.Decision {
	return b[attributes.GetAPIVersion()]
}

// pinned decides from the state that the context is pinned to. Each new pin is another state.
type pinned struct {
	pins int
	seen map[int]bool
}

type pinKey struct{}

func (p *pinned) Pin(ctx context.Context) context.Context {
	if ctx.Value(pinKey{}) != nil {
		return ctx
	}
	p.pins++
	return context.WithValue(ctx, pinKey{}, p.pins)
}

func (p *pinned) Decide(ctx context.Context, _ authorizer.Attributes) authorization.Decision {
	p.seen[ctx.Value(pinKey{}).(int)] = true
	return authorization.Allow("", nil)
}

func reviewerOf(t *testing.T, decider authorization.Decider, versions ...string) *virtual.Reviewer {
	t.Helper()
	chain, err := authorization.NewChain(authorization.Member{Name: "a", Decider: decider})
	if err != nil {
		t.Fatal(err)
	}
	return &virtual.Reviewer{
		Chain: chain, Conditional: true, Enforced: func(authorizer.Attributes) bool { return true },
		Versions: func(a authorizer.Attributes) []string {
			if a.GetResource() != "things" {
				return nil
			}
			return versions
		},
	}
}

func withMode(mode authorizationapi.ConditionsMode) *authorizationapi.ConditionalAuthorizationConfiguration {
	return &authorizationapi.ConditionalAuthorizationConfiguration{Mode: mode}
}

// results names what a review may be answered.
func resultOf(status authorizationapi.SubjectAccessReviewStatus) string {
	switch {
	case len(status.ConditionsChain) > 0 && !status.Allowed && !status.Denied:
		return "conditions"
	case status.Allowed && !status.Denied:
		return "allowed"
	case status.Denied && !status.Allowed:
		return "denied"
	case !status.Allowed && !status.Denied:
		return "no opinion"
	}
	return "contradiction"
}

var versionDecisions = map[string]authorization.Decision{
	"allowed": authorization.Allow("yes", nil), "denied": authorization.Deny("no", nil), "no opinion": authorization.NoOpinion("who knows", nil),
	"allowed on conditions": allowIf, "denied on conditions": denyIf,
	"allowed unless denied": authorization.Chained(
		authorization.Set{AuthorizerName: "d", Decision: denyIf}, authorization.Set{AuthorizerName: "x", Decision: authorization.Allow("", nil)},
	),
}

// TestReviewsOfVersions combines the answers of two versions. The combination is as closed as the more closed of them.
func TestReviewsOfVersions(t *testing.T) {
	t.Parallel()
	folded := map[string]string{"allowed on conditions": "no opinion", "denied on conditions": "denied", "allowed unless denied": "denied"}
	for one, first := range versionDecisions {
		for two, second := range versionDecisions {
			t.Run(one+"/"+two, func(t *testing.T) {
				t.Parallel()
				reviewer := reviewerOf(t, byVersion{"v1": first, "v2": second}, "v1", "v2")
				of := func(name string) string {
					if f, conditional := folded[name]; conditional {
						return f
					}
					return name
				}
				want := "no opinion"
				switch {
				case one == two && folded[one] != "":
					want = "conditions"
				case of(one) == "denied" || of(two) == "denied":
					want = "denied"
				case of(one) == "allowed" && of(two) == "allowed":
					want = "allowed"
				}
				for _, version := range []string{"", "*"} {
					record := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", APIVersion: version, Resource: "things"}
					status, warnings := reviewer.Review(t.Context(), record, withMode("HumanReadable"))
					if got := resultOf(status); got != want {
						t.Errorf("got %s, want %s: %+v", got, want, status)
					}
					if len(warnings) != 1 || !strings.Contains(warnings[0], "the served versions (v1, v2)") {
						t.Errorf("got warnings %q", warnings)
					}
					if differ := one != two && (of(one) != of(two) || folded[one] != folded[two]); differ && (!strings.Contains(status.Reason, "v1: "+of(one)) || !strings.Contains(status.Reason, "v2: "+of(two))) {
						t.Errorf("got the reason %s, want the answer of each version", status.Reason)
					}
				}
			})
		}
	}
}

// TestReviewsOfOneVersion looks at reviews without a version about what is served in one, and at those that stay folded.
func TestReviewsOfOneVersion(t *testing.T) {
	t.Parallel()
	decider := byVersion{"v1": allowIf, "*": denyIf, "": denyIf, "v7": authorization.Allow("", nil)}
	things := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", APIVersion: "*", Resource: "things"}
	change := func(change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		changed := things
		change(&changed)
		return changed
	}
	for _, tc := range []struct {
		name   string
		record authorizer.AttributesRecord
		mode   authorizationapi.ConditionsMode
		want   string
	}{
		{"conditions", things, "HumanReadable", "conditions"},
		{"bound conditions", things, "Optimized", "conditions"},
		{"no mode", things, "", "denied"},
		{"a version that is not served", change(func(a *authorizer.AttributesRecord) { a.APIVersion = "v7" }), "HumanReadable", "allowed"},
		{"another resource", change(func(a *authorizer.AttributesRecord) { a.Resource = "others" }), "HumanReadable", "denied"},
		{"every verb", change(func(a *authorizer.AttributesRecord) { a.Verb = "*" }), "HumanReadable", "denied"},
		{"every subresource", change(func(a *authorizer.AttributesRecord) { a.Subresource = "*" }), "HumanReadable", "denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			status, _ := reviewerOf(t, decider, "v1").Review(t.Context(), tc.record, withMode(tc.mode))
			if got := resultOf(status); got != tc.want {
				t.Errorf("got %s, want %s: %+v", got, tc.want, status)
			}
		})
	}
	t.Run("the feature is off", func(t *testing.T) {
		t.Parallel()
		reviewer := reviewerOf(t, decider, "v1")
		reviewer.Conditional = false
		if status, _ := reviewer.Review(t.Context(), things, withMode("HumanReadable")); resultOf(status) != "denied" {
			t.Errorf("got %+v, want that it is folded", status)
		}
	})
}

// TestVersionsAreDecidedFromOneState asks that policies that change meanwhile do not make versions differ.
func TestVersionsAreDecidedFromOneState(t *testing.T) {
	t.Parallel()
	decider := &pinned{seen: map[int]bool{}}
	record := authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", Resource: "things"}
	if status, _ := reviewerOf(t, decider, "v1", "v2", "v3").Review(t.Context(), record, withMode("HumanReadable")); !status.Allowed || len(decider.seen) != 1 {
		t.Errorf("got %+v from %d states, want one", status, len(decider.seen))
	}
}
