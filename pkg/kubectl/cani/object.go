/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// readObject reads the file, if there is one.
func (o *options) readObject(mapper meta.RESTMapper) (err error) {
	if o.filename == "" {
		return nil
	}
	documents, errs := document.Read(o.In, []string{o.filename}, false)
	if len(errs) > 0 {
		return errs[0]
	}
	if len(documents) != 1 {
		return fmt.Errorf("%s has %d objects: want one", o.filename, len(documents))
	}
	o.object, err = o.ReadObject(documents[0], mapper, o.NamespaceFlag())
	return err
}

// decide evaluates conditions on the object.
func (o *options) decide(ctx context.Context, chain []authorizationv1alpha1.SubjectAccessReviewConditionSet) (*answer.Answer, error) {
	user, err := o.user(ctx)
	if err != nil {
		return nil, err
	}
	objects, err := o.objects(ctx, chain)
	if err != nil {
		return nil, err
	}
	request, err := question.DataOf(o.Verb, objects...)
	if err != nil {
		return nil, err
	}
	kind := metav1.GroupVersionKind(o.object.GroupVersionKind())
	request.ConditionSets, request.UserInfo, request.Kind = chain, user, &kind
	request.Resource = &metav1.GroupVersionResource{Group: o.Resource.Group, Version: o.Resource.Version, Resource: o.Resource.Resource}
	request.SubResource, request.Name, request.Namespace = o.Subresource, o.Name, o.Namespace
	namespace, err := question.Namespace(ctx, o.clients.Kube.CoreV1(), o.Namespace)
	if err == nil && namespace != nil {
		request.NamespaceObject, err = question.Raw(namespace)
	}
	if err != nil {
		return nil, err
	}
	review := &authorizationv1alpha1.AuthorizationConditionsReview{Request: request.DeepCopy()}
	review, err = o.clients.Proviso.AuthorizationProvisoV1alpha1().AuthorizationConditionsReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err) && o.subject == nil:
		return o.evaluate(ctx, request)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w: to decide for another user, you need the ClusterRole proviso:reviewer", err)
	case err != nil:
		return nil, err
	case review.Response == nil:
		return nil, errors.New("the server did not answer the AuthorizationConditionsReview")
	}
	return answer.Of(review.Response.Allowed, review.Response.Reason, review.Response.EvaluationError), nil
}

// evaluate evaluates the conditions in this process, for a user who may not have the server evaluate them. It returns an error if the answer could depend on a
// condition that only the server can evaluate.
func (o *options) evaluate(ctx context.Context, request *authorizationv1alpha1.AuthorizationConditionsRequest) (*answer.Answer, error) {
	compilers, err := simulation.NewCompilers()
	if err != nil {
		return nil, err
	}
	spec := &authorizationv1alpha1.SubjectAccessReviewSpec{}
	spec.ResourceAttributes, _ = o.Attributes(o.Resource.Version)
	decision, err := compilers.Evaluate(ctx, request.ConditionSets, &simulation.Request{Spec: spec, Data: request})
	if err != nil {
		return nil, fmt.Errorf("%w: to have the server evaluate it, you need the ClusterRole proviso:reviewer", err)
	}
	status := authorization.Status(decision)
	return answer.Of(status.Allowed, status.Reason, status.EvaluationError), nil
}

// user returns who makes the request.
func (o *options) user(ctx context.Context) (*authenticationv1.UserInfo, error) {
	if o.subject != nil {
		return o.subject, nil
	}
	user, err := question.Self(ctx, o.clients.Kube.AuthenticationV1())
	if apierrors.IsNotFound(err) { // Proviso's own port. Conditions that check the permissions of the user will fail
		return nil, nil //nolint:nilnil // absence is a result, and not an error
	}
	return user, err
}

// objects returns the object in the file, and for an update also the stored one.
func (o *options) objects(ctx context.Context, chain []authorizationv1alpha1.SubjectAccessReviewConditionSet) ([]*unstructured.Unstructured, error) {
	if simulation.Operations[o.Verb] != authorizationv1alpha1.OperationUpdate {
		return []*unstructured.Unstructured{o.object}, nil
	}
	stored, err := o.clients.Dynamic.Resource(o.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return []*unstructured.Unstructured{o.object, stored}, nil
	case apierrors.IsForbidden(err) && !readsStored(chain):
		// No condition reads the stored object. The review needs one.
		return []*unstructured.Unstructured{o.object, o.object}, nil
	}
	return nil, fmt.Errorf("the conditions read the stored object: %w", err)
}

// readsStored reports whether a condition may read the stored object.
func readsStored(chain []authorizationv1alpha1.SubjectAccessReviewConditionSet) bool {
	compiler, err := cel.NewCompiler()
	if err != nil {
		return true
	}
	for i := range chain {
		if readsStored(chain[i].ConditionsChain) {
			return true
		}
		for _, c := range chain[i].Conditions {
			program, err := compiler.Compile(c.Condition)
			if err != nil || program.Reads(cel.OldObject) {
				return true
			}
		}
	}
	return false
}
