/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
)

// wantErrors compares errors with fragments of their texts, one for each, in order.
func wantErrors(t *testing.T, got field.ErrorList, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d errors, want %d:\n%v", len(got), len(want), got.ToAggregate())
	}
	for i := range want {
		if !strings.Contains(got[i].Error(), want[i]) {
			t.Errorf("error %d is %q, want %q in it", i, got[i], want[i])
		}
	}
}

func TestValidateSubjectAccessReview(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*authorization.SubjectAccessReview)
		want   []string
	}{
		{"a valid review", func(*authorization.SubjectAccessReview) {}, nil},
		{"a path instead of a resource", func(r *authorization.SubjectAccessReview) {
			r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes = nil, &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"}
		}, nil},
		{"groups instead of a user", func(r *authorization.SubjectAccessReview) { r.Spec.User, r.Spec.Groups = "", []string{"g"} }, nil},
		{"managed fields, which the server adds", func(r *authorization.SubjectAccessReview) {
			r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		}, nil},
		{"both kinds of attributes", func(r *authorization.SubjectAccessReview) {
			r.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{}
		}, []string{"spec.nonResourceAttributes: Forbidden: exactly one of"}},
		{"no attributes", func(r *authorization.SubjectAccessReview) { r.Spec.ResourceAttributes = nil }, []string{"spec.resourceAttributes: Required value: exactly one of"}},
		{"nobody", func(r *authorization.SubjectAccessReview) { r.Spec.User = "" }, []string{"spec.user: Required value: at least one of user or groups"}},
		{"a name", func(r *authorization.SubjectAccessReview) { r.Name = "x" }, []string{"metadata: Forbidden: must be empty"}},
		{"an unknown mode", func(r *authorization.SubjectAccessReview) {
			r.Spec.ConditionalAuthorization = &authorization.ConditionalAuthorizationConfiguration{Mode: "Fast"}
		}, []string{`spec.conditionalAuthorization.mode: Unsupported value: "Fast": supported values: "", "HumanReadable", "Optimized"`}},
		{"selectors in two forms", func(r *authorization.SubjectAccessReview) {
			r.Spec.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: "a", Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Exists"}}}
			r.Spec.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: "a=b", Requirements: []metav1.FieldSelectorRequirement{{Key: "a", Operator: "Exists"}}}
		}, []string{"spec.resourceAttributes.fieldSelector.rawSelector: Forbidden", "spec.resourceAttributes.labelSelector.rawSelector: Forbidden"}},
		{"selectors in no form", func(r *authorization.SubjectAccessReview) {
			r.Spec.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{}
			r.Spec.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{}
		}, []string{"fieldSelector.requirements: Required", "labelSelector.requirements: Required"}},
		{"a requirement without key", func(r *authorization.SubjectAccessReview) {
			r.Spec.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Operator: "Exists"}}}
			r.Spec.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Operator: "Exists"}}}
		}, []string{"fieldSelector.requirements[0].key", "labelSelector.requirements[0].key", "labelSelector.requirements[0].key"}},
		{"an operator of the future", func(r *authorization.SubjectAccessReview) {
			r.Spec.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
				User: "alice", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
			}}
			tc.change(review)
			wantErrors(t, validation.ValidateSubjectAccessReview(review), tc.want...)
		})
	}
}

func TestValidateSelfSubjectAccessReview(t *testing.T) {
	t.Parallel()
	path := &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"}
	wantErrors(t, validation.ValidateSelfSubjectAccessReview(&authorization.SelfSubjectAccessReview{
		Spec: authorization.SelfSubjectAccessReviewSpec{NonResourceAttributes: path}}))
	wantErrors(t, validation.ValidateSelfSubjectAccessReview(&authorization.SelfSubjectAccessReview{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec: authorization.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{}, NonResourceAttributes: path,
			ConditionalAuthorization: &authorization.ConditionalAuthorizationConfiguration{Mode: "?"},
		}}), "spec.nonResourceAttributes: Forbidden", "spec.conditionalAuthorization.mode: Unsupported", "metadata: Forbidden")
}

func TestValidateLocalSubjectAccessReview(t *testing.T) {
	t.Parallel()
	review := func(namespace string) *authorization.LocalSubjectAccessReview {
		return &authorization.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n"},
			Spec:       authorization.SubjectAccessReviewSpec{User: "u", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace}},
		}
	}
	wantErrors(t, validation.ValidateLocalSubjectAccessReview(review("n")))
	wantErrors(t, validation.ValidateLocalSubjectAccessReview(review("other")), "spec.resourceAttributes.namespace: Invalid")
	wantErrors(t, validation.ValidateLocalSubjectAccessReview(review("")), "spec.resourceAttributes.namespace: Invalid")
	path := review("n")
	path.Spec.ResourceAttributes, path.Spec.NonResourceAttributes = nil, &authorizationv1.NonResourceAttributes{Path: "/x"}
	wantErrors(t, validation.ValidateLocalSubjectAccessReview(path), "spec.nonResourceAttributes: Forbidden: paths have no namespace")
}

func validCondition(id int) authorization.SubjectAccessReviewCondition {
	return authorization.SubjectAccessReviewCondition{ID: fmt.Sprintf("example.com/c%d", id), Effect: "Allow", Type: "k8s.io/authorization-cel", Condition: "true"}
}

func validConditions(n int) []authorization.SubjectAccessReviewCondition {
	var conditions []authorization.SubjectAccessReviewCondition
	for i := range n {
		conditions = append(conditions, validCondition(i))
	}
	return conditions
}

type conditionSet = authorization.SubjectAccessReviewConditionSet

func setsOf(n, conditions int) []conditionSet {
	var sets []conditionSet
	for i := range n {
		sets = append(sets, conditionSet{AuthorizerName: fmt.Sprintf("a%d", i), Conditions: validConditions(conditions)})
	}
	return sets
}

func nested(depth int) []conditionSet {
	sets := setsOf(1, 1)
	for range depth - 1 {
		sets = []conditionSet{{AuthorizerName: "outer", ConditionsChain: sets}}
	}
	return sets
}

func TestValidateConditionSets(t *testing.T) {
	t.Parallel()
	one := func(change func(*authorization.SubjectAccessReviewCondition)) []conditionSet {
		sets := setsOf(1, 1)
		change(&sets[0].Conditions[0])
		return sets
	}
	for _, tc := range []struct {
		name string
		sets []conditionSet
		want []string
	}{
		{"none", nil, nil},
		{"one", setsOf(1, 1), nil},
		{"as many sets as possible", setsOf(32, 1), nil},
		{"too many sets", setsOf(33, 1), []string{"sets: Too many: 33: must have at most 32 items"}},
		{"as many conditions in a set as possible", setsOf(1, 128), nil},
		{"129 conditions", setsOf(1, 129), []string{"sets[0].conditions: Too many: 129: must have at most 128 items"}},
		{"as many conditions in all as possible", setsOf(4, 128), nil},
		{"too many conditions in all", setsOf(5, 128), []string{"at most 512 conditions in all, but has 640"}},
		{"as deep as possible", nested(8), nil},
		{"too deep", nested(9), []string{"nested at most 8 deep"}},
		{"no name", []conditionSet{{Allowed: true}}, []string{"sets[0].authorizerName: Required"}},
		{"a long name", []conditionSet{{AuthorizerName: strings.Repeat("x", 254)}}, []string{"sets[0].authorizerName: Too long"}},
		{"a name with a control character", []conditionSet{{AuthorizerName: "a\nb"}}, []string{"sets[0].authorizerName: Invalid"}},
		{"a name that is not UTF-8", []conditionSet{{AuthorizerName: "a\xff"}}, []string{"sets[0].authorizerName: Invalid"}},
		{"the same name twice", []conditionSet{{AuthorizerName: "a"}, {AuthorizerName: "a"}}, []string{"sets[1].authorizerName: Duplicate"}},
		{"the same name on two levels", []conditionSet{{AuthorizerName: "a", ConditionsChain: setsOf(1, 1)}, {AuthorizerName: "b", ConditionsChain: setsOf(1, 1)}}, nil},
		{"an unknown failure mode", []conditionSet{{AuthorizerName: "a", FailureMode: "Allow"}}, []string{"sets[0].failureMode: Unsupported"}},
		{"allowed and denied and conditions", []conditionSet{{AuthorizerName: "a", Allowed: true, Denied: true, Conditions: validConditions(1)}},
			[]string{"sets[0]: Invalid value: at most one of allowed, denied, conditions and conditionsChain may be set, but allowed, conditions, denied are"}},
		{"conditions and a chain", []conditionSet{{AuthorizerName: "a", Conditions: validConditions(1), ConditionsChain: setsOf(1, 1)}}, []string{"conditions, conditionsChain are"}},
		{"an error deep inside", []conditionSet{{AuthorizerName: "a", ConditionsChain: []conditionSet{{AuthorizerName: "b", ConditionsChain: []conditionSet{{Denied: true}}}}}},
			[]string{"sets[0].conditionsChain[0].conditionsChain[0].authorizerName: Required"}},
		{"the same ID twice", []conditionSet{{AuthorizerName: "a", Conditions: []authorization.SubjectAccessReviewCondition{validCondition(1), validCondition(1)}}}, []string{"conditions[1].id: Duplicate"}},
		{"no ID", one(func(c *authorization.SubjectAccessReviewCondition) { c.ID = "" }), []string{"conditions[0].id: Required"}},
		{"an ID without domain", one(func(c *authorization.SubjectAccessReviewCondition) { c.ID = "mine" }), []string{"must be qualified by a domain"}},
		{"an ID that is no label key", one(func(c *authorization.SubjectAccessReviewCondition) { c.ID = "example.com/-x" }), []string{"conditions[0].id: Invalid"}},
		{"an ID of Kubernetes", one(func(c *authorization.SubjectAccessReviewCondition) { c.ID = "k8s.io/x" }), []string{`the domain "k8s.io" is reserved`}},
		{"an ID below Kubernetes", one(func(c *authorization.SubjectAccessReviewCondition) { c.ID = "a.kubernetes.io/x" }), []string{`the domain "a.kubernetes.io" is reserved`}},
		{"an ID that only looks like Kubernetes", one(func(c *authorization.SubjectAccessReviewCondition) { c.ID = "notk8s.io/x" }), nil},
		{"no type", one(func(c *authorization.SubjectAccessReviewCondition) { c.Type = "" }), []string{"conditions[0].type: Required"}},
		{"the node authorizer's type", one(func(c *authorization.SubjectAccessReviewCondition) { c.Type = "k8s.io/node-authorizer" }), nil},
		{"the other name of CEL", one(func(c *authorization.SubjectAccessReviewCondition) { c.Type = "authorizer.kubernetes.io/cel" }), nil},
		{"a type of Kubernetes that no KEP names", one(func(c *authorization.SubjectAccessReviewCondition) { c.Type = "k8s.io/magic" }), []string{"is reserved"}},
		{"an unknown effect", one(func(c *authorization.SubjectAccessReviewCondition) { c.Effect = "Maybe" }), []string{"conditions[0].effect: Unsupported"}},
		{"no effect", one(func(c *authorization.SubjectAccessReviewCondition) { c.Effect = "" }), []string{"conditions[0].effect: Unsupported"}},
		{"no text, which an opaque type may not need", one(func(c *authorization.SubjectAccessReviewCondition) { c.Condition = "" }), nil},
		{"the longest text", one(func(c *authorization.SubjectAccessReviewCondition) { c.Condition = strings.Repeat("x", 10240) }), nil},
		{"a text over 10240 bytes", one(func(c *authorization.SubjectAccessReviewCondition) { c.Condition = strings.Repeat("x", 10241) }), []string{"conditions[0].condition: Too long"}},
		{"a long description", one(func(c *authorization.SubjectAccessReviewCondition) { c.Description = strings.Repeat("x", 1025) }), []string{"conditions[0].description: Too long"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			wantErrors(t, validation.ValidateConditionSets(tc.sets, field.NewPath("sets")), tc.want...)
		})
	}
}

func raw(json string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(json)} }

func TestValidateAuthorizationConditionsReview(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*authorization.AuthorizationConditionsRequest)
		want   []string
	}{
		{"a create", func(*authorization.AuthorizationConditionsRequest) {}, nil},
		{"a create with null", func(r *authorization.AuthorizationConditionsRequest) { r.OldObject = raw("null") }, nil},
		{"a create with an old object", func(r *authorization.AuthorizationConditionsRequest) { r.OldObject = raw("{}") }, []string{`request.oldObject: Forbidden: must be absent when operation is "CREATE"`}},
		{"an update", func(r *authorization.AuthorizationConditionsRequest) {
			r.Operation, r.OldObject, r.Options = "UPDATE", raw("{}"), raw("{}")
		}, nil},
		{"a delete with an object", func(r *authorization.AuthorizationConditionsRequest) { r.Operation = "DELETE" }, []string{"request.object: Forbidden"}},
		{"a connect with too much", func(r *authorization.AuthorizationConditionsRequest) {
			r.Operation, r.OldObject, r.Options = "CONNECT", raw("{}"), raw("{}")
		}, []string{"request.oldObject: Forbidden", "request.options: Forbidden"}},
		{"no operation", func(r *authorization.AuthorizationConditionsRequest) { r.Operation = "" }, []string{"request.operation: Required"}},
		{"an operation in small letters", func(r *authorization.AuthorizationConditionsRequest) { r.Operation = "create" }, []string{"request.operation: Unsupported"}},
		{"impersonation before there is an object", func(r *authorization.AuthorizationConditionsRequest) {
			r.Operation, r.Object = "", nil
			r.Impersonation = &authorization.ImpersonationData{Request: authorization.ImpersonatedRequest{Verb: "get"}}
		}, nil},
		{"impersonation before there is an object, with one", func(r *authorization.AuthorizationConditionsRequest) {
			r.Operation, r.DryRun, r.NamespaceObject = "", true, raw("{}")
			r.Impersonation = &authorization.ImpersonationData{Request: authorization.ImpersonatedRequest{Verb: "get"}}
		}, []string{"request.object: Forbidden", "request.namespaceObject: Forbidden", "request.dryRun: Forbidden"}},
		{"impersonation without a verb", func(r *authorization.AuthorizationConditionsRequest) {
			r.Impersonation = &authorization.ImpersonationData{}
		}, []string{"request.impersonation.request.verb: Required"}},
		{"objects that are not objects", func(r *authorization.AuthorizationConditionsRequest) {
			r.Operation = "UPDATE"
			r.Object, r.OldObject, r.Options, r.NamespaceObject = raw(`"text"`), raw(`[1]`), raw(` 7`), raw(`{`)
		}, []string{"request.object: Invalid value: must be a JSON object or null", "request.oldObject: Invalid", "request.options: Invalid", "request.namespaceObject: Invalid"}},
		{"invalid sets", func(r *authorization.AuthorizationConditionsRequest) { r.ConditionSets = []conditionSet{{}} }, []string{"request.conditionSets[0].authorizerName: Required"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request := &authorization.AuthorizationConditionsRequest{Operation: "CREATE", Object: raw(" {}")}
			tc.change(request)
			wantErrors(t, validation.ValidateAuthorizationConditionsReview(&authorization.AuthorizationConditionsReview{Request: request}), tc.want...)
		})
	}
	wantErrors(t, validation.ValidateAuthorizationConditionsReview(&authorization.AuthorizationConditionsReview{ObjectMeta: metav1.ObjectMeta{Name: "x"}}),
		"metadata: Forbidden", "request: Required")
}
