/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// testResult is the result of one test.
type testResult struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Difference says what is expected and what was decided. It is empty for a test that passes.
	Difference string  `json:"difference,omitempty"`
	Seconds    float64 `json:"seconds"`
}

// suiteResult is the result of one suite.
type suiteResult struct {
	Suite    string            `json:"suite"`
	Path     string            `json:"path"`
	Tests    []testResult      `json:"tests"`
	Coverage []*policyCoverage `json:"coverage"`
	Percent  float64           `json:"percent"`
	Seconds  float64           `json:"seconds"`
}

func (r *suiteResult) failed() (count int) {
	for _, t := range r.Tests {
		if !t.Passed {
			count++
		}
	}
	return count
}

// run runs a suite.
func run(ctx context.Context, c *simulation.Compilers, s *suite) (*suiteResult, error) {
	began := time.Now()
	result := &suiteResult{Suite: s.Metadata.Name, Path: s.path}
	specs := map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}
	for i := range s.policies {
		p := &s.policies[i]
		specs[p.Key] = p.Spec
		coverage, err := newCoverage(c, p)
		if err != nil {
			return nil, err
		}
		result.Coverage = append(result.Coverage, coverage)
	}
	source, err := c.SourceOf(specs)
	if err != nil {
		return nil, err
	}
	for i := range s.Tests {
		t := &s.Tests[i]
		start := time.Now()
		d, err := c.Decide(ctx, source, t.asked())
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.path, t.Name, err)
		}
		difference := differenceTo(&t.Expect, d)
		result.Tests = append(result.Tests, testResult{Name: t.Name, Passed: difference == "", Difference: difference, Seconds: time.Since(start).Seconds()})
		for _, coverage := range result.Coverage {
			if err := coverage.add(ctx, c, source, t); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", s.path, t.Name, err)
			}
		}
	}
	result.Percent, result.Seconds = percent(result.Coverage), time.Since(began).Seconds()
	return result, nil
}

// differenceTo returns what differs from an expectation, in lines, or an empty string.
func differenceTo(want *expectation, d *simulation.Decisions) string {
	var lines []string
	if verdict(d.Decision) != want.Decision {
		lines = append(lines, fmt.Sprintf("at authorization: want %s, got %s", want.Decision, d.Decision))
	}
	if verdict(d.Outcome) != want.Outcome {
		lines = append(lines, fmt.Sprintf("with the object: want %s, got %s", want.Outcome, d.Outcome))
	}
	policies := d.Policies()
	if len(want.Policies) > 0 && !sameNames(want.Policies, policies) {
		lines = append(lines, fmt.Sprintf("policies: want %s, got %s", strings.Join(want.Policies, ", "), cmp.Or(strings.Join(policies, ", "), "none")))
	}
	if len(lines) == 0 {
		return ""
	}
	if d.Conditions != "" {
		lines = append(lines, "conditions: "+d.Conditions)
	}
	reason := d.Reason
	if d.Err != nil {
		reason = strings.TrimPrefix(reason+"; "+d.Err.Error(), "; ")
	}
	if reason != "" {
		lines = append(lines, "reason: "+reason)
	}
	return strings.Join(lines, "\n")
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
