/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest

import (
	"context"
	"slices"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// clauseCoverage says which values a clause of a condition has had in the tests.
type clauseCoverage struct {
	Clause   string `json:"clause"`
	HasTrue  bool   `json:"true"`
	HasFalse bool   `json:"false"`

	// source has a policy that allows what the policy matches, if the clause is true.
	source *engine.Source
}

// policyCoverage says what the tests have reached of a policy.
type policyCoverage struct {
	Policy string `json:"policy"`
	// Matched says that a request of a test was one of those that the policy is about.
	Matched bool              `json:"matched"`
	Clauses []*clauseCoverage `json:"clauses,omitempty"`

	source *engine.Source
}

// newCoverage returns the coverage of a policy before the first test. The engine itself says whether a policy matches, and whether a clause is true:
// it decides for a copy of the policy with the effect Allow, and with the clause as its condition.
func newCoverage(c *simulation.Compilers, p *policyfile.Policy) (*policyCoverage, error) {
	copyWith := func(condition string) (*engine.Source, error) {
		spec := p.Spec.DeepCopy()
		spec.Effect, spec.Enforcement, spec.Condition = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEnforcementEnforce, condition
		return c.SourceOf(map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{p.Key: spec})
	}
	coverage := &policyCoverage{Policy: p.Key.String()}
	var err error
	if coverage.source, err = copyWith(""); err != nil {
		return nil, err
	}
	for _, text := range clausesOf(p.Spec.Condition) {
		clause := &clauseCoverage{Clause: text}
		if clause.source, err = copyWith(text); err != nil {
			// The text stands for the clause as it is parsed. If it does not compile alone, the condition counts as a whole.
			clause = &clauseCoverage{Clause: p.Spec.Condition}
			if clause.source, err = copyWith(p.Spec.Condition); err != nil {
				return nil, err
			}
			coverage.Clauses = []*clauseCoverage{clause}
			return coverage, nil
		}
		coverage.Clauses = append(coverage.Clauses, clause)
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
	p.Matched = true
	for _, clause := range p.Clauses {
		d, err := decide(clause.source)
		if err != nil {
			return err
		}
		clause.HasTrue = clause.HasTrue || d.Last() == answer.Yes
		clause.HasFalse = clause.HasFalse || d.Last() == answer.No && !d.Failed()
	}
	return nil
}

// newAdmissionCoverage returns the coverage of ValidatingAdmissionPolicies before the first test.
func newAdmissionCoverage(set *admissionpolicy.Set) (all []*policyCoverage) {
	for _, trace := range set.Traces() {
		coverage := &policyCoverage{Policy: trace.Policy}
		for _, clause := range trace.Clauses {
			coverage.Clauses = append(coverage.Clauses, &clauseCoverage{Clause: clause.Text})
		}
		all = append(all, coverage)
	}
	return all
}

// addTraces adds a decision of the ValidatingAdmissionPolicies to their coverage. It may be nil.
func addTraces(all []*policyCoverage, d *admissionpolicy.Result) {
	if d == nil {
		return
	}
	for i, trace := range d.Traces {
		all[i].Matched = all[i].Matched || trace.IsMatched
		for j, clause := range trace.Clauses {
			covered := all[i].Clauses[j]
			covered.HasTrue, covered.HasFalse = covered.HasTrue || clause.IsTrue, covered.HasFalse || clause.IsFalse
		}
	}
}

// clausesOf returns the operands of the outermost && and || of a condition, each once. A condition without them is one clause.
func clausesOf(condition string) (clauses []string) {
	if condition == "" {
		return nil
	}
	p, err := parser.NewParser(parser.Macros(parser.AllMacros...), parser.EnableOptionalSyntax(true), parser.PopulateMacroCalls(true))
	if err != nil {
		return []string{condition}
	}
	tree, errs := p.Parse(common.NewTextSource(condition))
	if len(errs.GetErrors()) > 0 {
		return []string{condition}
	}
	for _, e := range operands(tree.Expr()) {
		text, err := parser.Unparse(e, tree.SourceInfo())
		if err != nil {
			return []string{condition}
		}
		if !slices.Contains(clauses, text) {
			clauses = append(clauses, text)
		}
	}
	return clauses
}

func operands(e ast.Expr) (found []ast.Expr) {
	if e.Kind() == ast.CallKind && slices.Contains([]string{operators.LogicalAnd, operators.LogicalOr}, e.AsCall().FunctionName()) {
		for _, argument := range e.AsCall().Args() {
			found = append(found, operands(argument)...)
		}
		return found
	}
	return []ast.Expr{e}
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
		add(p.Matched)
		for _, clause := range p.Clauses {
			add(clause.HasTrue)
			add(clause.HasFalse)
		}
	}
	if all == 0 {
		return 100
	}
	return 100 * float64(count) / float64(all)
}
