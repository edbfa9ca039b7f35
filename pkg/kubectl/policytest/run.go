/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
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
	for i := range s.policies {
		coverage, err := newCoverage(c, &s.policies[i])
		if err != nil {
			return nil, err
		}
		result.Coverage = append(result.Coverage, coverage)
	}
	source, err := c.SourceOf(policyfile.SpecsOf(s.policies))
	if err != nil {
		return nil, err
	}
	for _, trace := range s.admission.Traces() {
		result.Coverage = append(result.Coverage, &policyCoverage{Trace: trace})
	}
	for i := range s.Tests {
		t := &s.Tests[i]
		start := time.Now()
		d, err := s.admission.Decide(ctx, c, source, t.asked())
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.path, t.Name, err)
		}
		if d.Admission != nil {
			for i := range d.Admission.Traces {
				result.Coverage[len(s.policies)+i].Add(&d.Admission.Traces[i])
			}
		}
		difference := differenceTo(&t.Expect, d)
		result.Tests = append(result.Tests, testResult{Name: t.Name, Passed: difference == "", Difference: difference, Seconds: time.Since(start).Seconds()})
		for _, coverage := range result.Coverage[:len(s.policies)] {
			if err := coverage.add(ctx, c, source, t); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", s.path, t.Name, err)
			}
		}
	}
	result.Percent, result.Seconds = percent(result.Coverage), time.Since(began).Seconds()
	return result, nil
}

// differenceTo returns what differs from an expectation, in lines, or an empty string.
func differenceTo(want *expectation, d *admissionpolicy.Decisions) string {
	var lines []string
	if d.Decision != want.Decision {
		lines = append(lines, fmt.Sprintf("at authorization: want %s, got %s", want.Decision, d.Decision))
	}
	if d.Outcome != want.Outcome {
		lines = append(lines, fmt.Sprintf("with the object: want %s, got %s", want.Outcome, d.Outcome))
	}
	policies := d.Policies()
	if len(want.Policies) > 0 && !sameNames(want.Policies, policies) {
		lines = append(lines, fmt.Sprintf("policies: want %s, got %s", list(want.Policies), list(policies)))
	}
	lines = append(lines, want.admissionDifference(d.Admission)...)
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

// admissionDifference returns what differs from the expectation about ValidatingAdmissionPolicies. A request that does not reach admission has
// no result.
func (e *admissionExpectation) admissionDifference(got *admissionpolicy.Result) (lines []string) {
	if got == nil {
		got = &admissionpolicy.Result{}
	}
	if messages := got.Messages(); !strings.Contains(messages, e.Message) {
		lines = append(lines, fmt.Sprintf("message: want %q, got %q", e.Message, messages))
	}
	if e.Warnings != nil && !haveParts(got.Warnings, e.Warnings) {
		lines = append(lines, fmt.Sprintf("warnings: want %q, got %q", e.Warnings, got.Warnings))
	}
	if e.Audited != nil && !sameNames(e.Audited, got.Audited) {
		lines = append(lines, fmt.Sprintf("audited: want %s, got %s", list(e.Audited), list(got.Audited)))
	}
	for _, key := range slices.Sorted(maps.Keys(e.AuditAnnotations)) {
		if value, ok := got.AuditAnnotations[key]; !ok {
			lines = append(lines, fmt.Sprintf("audit annotation %s: want %q, got none", key, e.AuditAnnotations[key]))
		} else if value != e.AuditAnnotations[key] {
			lines = append(lines, fmt.Sprintf("audit annotation %s: want %q, got %q", key, e.AuditAnnotations[key], value))
		}
	}
	return lines
}

// haveParts reports whether each text has a part of its own, and each part a text.
func haveParts(texts, parts []string) bool {
	partOf := map[int]int{} // the part that each text has, by their numbers
	var find func(part int, tried map[int]bool) bool
	find = func(part int, tried map[int]bool) bool {
		for i, text := range texts {
			if tried[i] || !strings.Contains(text, parts[part]) {
				continue
			}
			tried[i] = true
			if other, isTaken := partOf[i]; !isTaken || find(other, tried) {
				partOf[i] = part
				return true
			}
		}
		return false
	}
	for part := range parts {
		if !find(part, map[int]bool{}) {
			return false
		}
	}
	return len(texts) == len(parts)
}

func list(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
