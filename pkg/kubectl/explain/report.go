/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"context"
	"slices"

	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// Report is an explained decision, for other commands.
type Report struct {
	// Decision is the decision of the last phase that is known. AtAuthorization and WithObject are the decisions of both phases; the
	// latter is empty if there is no object.
	Decision        answer.Verdict `json:"decision,omitempty"`
	AtAuthorization answer.Verdict `json:"atAuthorization,omitempty"`
	WithObject      answer.Verdict `json:"withObject,omitempty"`
	// Tree is the explanation as a tree, without values of secrets.
	Tree *Entry `json:"tree,omitempty"`
	// NearMiss is the change that would be allowed, in words. If it is empty, NoNearMiss says why there is none.
	NearMiss   string `json:"nearMiss,omitempty"`
	NoNearMiss string `json:"noNearMiss,omitempty"`
	// NothingAllows says that no authorizer allows or denies the request.
	NothingAllows bool `json:"nothingAllows,omitempty"`
	// Conditions are the conditions on which the request depends at authorization, in the order in which they decide.
	Conditions []answer.Row `json:"conditions,omitempty"`
	Warnings   []string     `json:"warnings,omitempty"`
	// Policies are all policies, in the order of their names.
	Policies []policyfile.Policy `json:"-"`
}

// Documents explains the decision about a request that documents have, with their policies. Nothing else is read: no file, and no
// cluster. It returns all mistakes in the documents. rbacAllows assumes that RBAC allows the request.
func Documents(ctx context.Context, compilers *simulation.Compilers, documents []document.Document, rbacAllows bool) (*Report, []error) {
	in := &input{options: &options{rbacAllows: rbacAllows}, compilers: compilers, isOffline: true}
	if errs := in.load(ctx, documents, nil); len(errs) > 0 {
		return nil, errs
	}
	x, err := in.explainer()
	if err != nil {
		return nil, []error{err}
	}
	e, err := x.explain(ctx)
	if err != nil {
		return nil, []error{err}
	}
	r := &Report{
		Decision: e.Decision, AtAuthorization: e.AtAuthorization, WithObject: e.WithObject, Tree: treeOf(e),
		NoNearMiss: e.NoNearMiss, Policies: in.policies, Warnings: in.warnings,
	}
	r.NothingAllows = e.Decision == answer.No && !slices.ContainsFunc(e.Chain, func(m *member) bool { return m.Decides })
	if e.NearMiss != nil {
		r.NearMiss = e.NearMiss.String()
	}
	conditions, err := compilers.Conditions(ctx, x.source, &x.request)
	if err != nil {
		return nil, []error{err}
	}
	r.Conditions = answer.Rows(conditions)
	return r, nil
}
