/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package playground

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	answers "github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/explain"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/render"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// question is the body of a request for a decision: the texts of the editors.
type question struct {
	// Policies has policies. Request has a SubjectAccessReview.
	Policies string `json:"policies"`
	Request  string `json:"request"`
	// Object has an AuthorizationConditionsReview, or plain objects. It may be empty.
	Object string `json:"object"`
	// RBACAllows assumes that RBAC allows the request.
	RBACAllows bool `json:"rbacAllows"`
}

// answer is the answer to a question. It has either errors or a decision.
type answer struct {
	Errors []mistake `json:"errors,omitempty"`

	explain.Report
	Barriers []render.Rendered `json:"barriers,omitempty"`
}

// The names of the editors. Sources of documents have them instead of a path.
const (
	editorPolicies = "policies"
	editorRequest  = "request"
	editorObject   = "object"
)

// The kinds of reviews.
const (
	kindRequest = "SubjectAccessReview"
	kindData    = "AuthorizationConditionsReview"
)

// The errors of editors.
var (
	errNoPolicies = errors.New("write a policy")
	errOneRequest = fmt.Errorf("write one %s", kindRequest)
	errInPolicies = errors.New("only policies can be here")
	errObjects    = fmt.Errorf("write one %s, or the object of the request and, for an update, also the object that is stored", kindData)
)

// maxMistakes bounds the mistakes in an answer.
const maxMistakes = 20

// decide answers a question.
func decide(ctx context.Context, compilers *simulation.Compilers, q *question) *answer {
	documents, mistakes := q.documents()
	if len(mistakes) > 0 {
		return &answer{Errors: mistakes}
	}
	report, errs := explain.Documents(ctx, compilers, documents, q.RBACAllows)
	if len(errs) > 0 {
		return &answer{Errors: q.mistakesOf("", errs)}
	}
	barriers, err := render.Policies(compilers.Policies, report.Policies)
	if err != nil {
		return &answer{Errors: q.mistakesOf(editorPolicies, []error{err})}
	}
	a := &answer{Report: *report, Barriers: barriers}
	a.NearMiss = printable.Text(a.NearMiss)
	for i := range a.Conditions {
		row := &a.Conditions[i]
		nameVariables(row, report.Policies)
		row.Condition, row.Expression, row.Description = printable.Lines(row.Condition), printable.Lines(row.Expression), printable.Text(row.Description)
	}
	for i, warning := range a.Warnings {
		a.Warnings[i] = printable.Text(warning)
	}
	return a
}

// conditionWidth is the length from which a condition is shown with the variables of its policy.
const conditionWidth = 60

// nameVariables puts the variables of its policy into a condition, which has their expressions in place of them.
func nameVariables(row *answers.Row, policies []policyfile.Policy) {
	if row.Condition != row.Expression {
		return // it is in words
	}
	for i := range policies {
		if key := policies[i].Key; strings.TrimPrefix(key.Namespace+"/"+key.Name, "/") == row.Policy {
			row.Condition = strings.Join(answers.Named(row.Expression, policies[i].Spec.Variables, conditionWidth), "\n")
			row.Expression = row.Condition
		}
	}
}

// documents returns the documents in the editors, or all mistakes in them.
func (q *question) documents() (documents []document.Document, mistakes []mistake) {
	read := func(editor, text string, check func([]document.Document) ([]document.Document, error)) {
		found, err := document.ReadText(editor, text)
		if err == nil {
			found, err = check(found)
		}
		if err != nil {
			mistakes = append(mistakes, q.mistakesOf(editor, []error{err})...)
		}
		documents = append(documents, found...)
	}
	read(editorPolicies, q.Policies, checkPolicies)
	var request []document.Document
	read(editorRequest, q.Request, func(found []document.Document) (_ []document.Document, err error) {
		request, err = checkRequest(found)
		return request, err
	})
	read(editorObject, q.Object, func(found []document.Document) ([]document.Document, error) { return checkObject(found, request) })
	return documents, mistakes
}

// kindOf returns the kind of a document, or an empty string.
func kindOf(d document.Document) string {
	meta, _ := d.TypeMeta()
	return meta.Kind
}

func checkPolicies(documents []document.Document) ([]document.Document, error) {
	for _, d := range documents {
		if kind := kindOf(d); kind == kindRequest || kind == kindData {
			return nil, &document.Error{Source: d.Source, Err: errInPolicies}
		}
	}
	if len(documents) == 0 {
		return nil, errNoPolicies
	}
	return documents, nil
}

func checkRequest(documents []document.Document) ([]document.Document, error) {
	for _, d := range documents {
		if kindOf(d) != kindRequest {
			return nil, &document.Error{Source: d.Source, Err: errOneRequest}
		}
	}
	if len(documents) != 1 {
		return nil, errOneRequest
	}
	return documents, nil
}

// checkObject returns the data of a request as one document.
func checkObject(documents, request []document.Document) ([]document.Document, error) {
	switch {
	case len(documents) == 0:
		return nil, nil
	case len(documents) == 1 && kindOf(documents[0]) == kindData:
		return documents, nil
	case len(request) == 0:
		return nil, nil // the mistake is in the request
	}
	objects := make([]*runtime.RawExtension, 0, len(documents))
	for _, d := range documents {
		if kind := kindOf(d); kind == kindData || kind == "" {
			return nil, &document.Error{Source: d.Source, Err: errObjects}
		}
		objects = append(objects, &runtime.RawExtension{Raw: d.JSON})
	}
	data, err := simulation.DataOf(verbOf(request[0]), objects...)
	switch {
	case errors.Is(err, simulation.ErrObjects), err == nil && data.Operation == authorizationv1alpha1.OperationUpdate && data.OldObject == nil:
		return nil, errObjects
	case err != nil:
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"apiVersion": authorizationv1alpha1.SchemeGroupVersion.String(), "kind": kindData, "request": data})
	if err != nil {
		return nil, err
	}
	return []document.Document{{Source: document.Named(editorObject), JSON: text}}, nil
}

// verbOf returns the verb of a request about a resource, and an empty string for another request.
func verbOf(request document.Document) string {
	review := &authorizationv1alpha1.SubjectAccessReview{}
	if kjson.UnmarshalCaseSensitivePreserveInts(request.JSON, review) != nil || review.Spec.ResourceAttributes == nil {
		return ""
	}
	return review.Spec.ResourceAttributes.Verb
}
