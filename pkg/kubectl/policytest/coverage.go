/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest

import (
	"context"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// policyCoverage says what the tests have reached of a policy.
type policyCoverage struct {
	admissionpolicy.Trace

	// source has a policy that allows what the policy matches, and sources have one for each clause, that allows it if the clause is true.
	source  *engine.Source
	sources []*engine.Source
}

// newCoverage returns the coverage of a policy before the first test. The engine itself says whether a policy matches, and whether a clause is true:
// it decides for a copy of the policy with the effect Allow, and with the clause as its condition.
func newCoverage(c *simulation.Compilers, p *policyfile.Policy) (*policyCoverage, error) {
	copiesWith := func(conditions ...string) (sources []*engine.Source, err error) {
		for _, condition := range conditions {
			spec := p.Spec.DeepCopy()
			spec.Effect, spec.Enforcement, spec.Condition = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEnforcementEnforce, condition
			source, err := c.SourceOf(map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{p.Key: spec})
			if err != nil {
				return nil, err
			}
			sources = append(sources, source)
		}
		return sources, nil
	}
	clauses := answer.Clauses(p.Spec.Condition)
	sources, err := copiesWith(append([]string{""}, clauses...)...)
	if err != nil {
		// The text stands for a clause as it is parsed. If it does not compile alone, the condition counts as a whole.
		clauses = []string{p.Spec.Condition}
		if sources, err = copiesWith("", p.Spec.Condition); err != nil {
			return nil, err
		}
	}
	coverage := &policyCoverage{Trace: admissionpolicy.Trace{Policy: p.Key.String()}, source: sources[0], sources: sources[1:]}
	for _, text := range clauses {
		coverage.Clauses = append(coverage.Clauses, admissionpolicy.Clause{Text: text})
	}
	return coverage, nil
}

// add adds a test to the coverage. A copy of the policy decides alone, without the permissions of the test. The policies of the suite answer the
// checks of its conditions.
func (p *policyCoverage) add(ctx context.Context, c *simulation.Compilers, all *engine.Source, t *test) error {
	checks, err := simulation.ChainOf(all, t.asked(), nil)
	if err != nil {
		return err
	}
	alone := t.asked()
	alone.Permissions = nil
	decide := func(source *engine.Source) (*simulation.Decisions, error) {
		chain, err := simulation.ChainOf(source, alone, checks)
		if err != nil {
			return nil, err
		}
		return c.DecideBy(ctx, chain, alone)
	}
	d, err := decide(p.source)
	if err != nil || d.Decision != answer.Yes || len(d.Entries) == 0 {
		return err
	}
	p.IsMatched = true
	for i, source := range p.sources {
		d, err := decide(source)
		if err != nil {
			return err
		}
		clause := &p.Clauses[i]
		clause.IsTrue = clause.IsTrue || d.Last() == answer.Yes
		clause.IsFalse = clause.IsFalse || d.Last() == answer.No && !d.Failed()
	}
	return nil
}

// percent returns how much is covered. Each policy counts once for being matched, and each clause for being true and for being false.
func percent(policies []*policyCoverage) float64 {
	count, all := 0, 0
	add := func(covered bool) {
		all++
		if covered {
			count++
		}
	}
	for _, p := range policies {
		add(p.IsMatched)
		for _, clause := range p.Clauses {
			add(clause.IsTrue)
			add(clause.IsFalse)
		}
	}
	if all == 0 {
		return 100
	}
	return 100 * float64(count) / float64(all)
}
