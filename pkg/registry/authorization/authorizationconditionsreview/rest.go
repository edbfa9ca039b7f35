/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package authorizationconditionsreview serves AuthorizationConditionsReview, which evaluates
// conditions with the data in the review (KEP-5681, "Supporting webhooks through the
// AuthorizationConditionsReview API").
//
// Evaluation reads only the review, with two exceptions. If the caller may create
// subjectaccessreviews, conditions can make secondary checks, and conditions of unknown types are
// evaluated by the authorizer of this server that returned them, which the name of their set
// identifies (KEP-5681, "Authorizer requirements").
package authorizationconditionsreview

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/authorization/validation"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/bound"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

// REST evaluates conditions.
type REST struct {
	virtual.Resource
	compilers Compilers
	chain     *authorization.Chain
	kinds     servedKinds
	upstream  bool
}

// Compilers compile conditions.
type Compilers struct {
	// Conditions compiles CEL conditions, and Bound compiles bound conditions.
	Conditions *cel.Compiler
	Bound      *bound.Compiler
	// Partial compiles before there is an object.
	Partial *partial.Compiler
}

var _ rest.Creater = &REST{}

// NewREST returns the storage. The chain answers the secondary checks of conditions. Its members
// evaluate the condition sets of their own that cannot be evaluated here. Objects of kinds in
// scheme have the same types as in a request to this server. upstream accepts reviews in the form that is proposed for
// Kubernetes; it is the feature gate UpstreamConditionalDecisions.
func NewREST(compilers Compilers, chain *authorization.Chain, scheme *runtime.Scheme, upstream bool) *REST {
	return &REST{
		Resource: virtual.Resource{
			Singular: "authorizationconditionsreview",
			NewFunc:  func() runtime.Object { return &authorizationapi.AuthorizationConditionsReview{} },
		},
		compilers: compilers,
		chain:     chain,
		kinds:     newServedKinds(scheme),
		upstream:  upstream,
	}
}

// Create evaluates the condition sets of the review and fills in its response.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authorizationapi.AuthorizationConditionsReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not an AuthorizationConditionsReview: %T", obj))
	}
	caller, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if err := r.checkForm(review.Request); err != nil {
		return nil, err
	}
	errs := validation.ValidateAuthorizationConditionsReview(review)
	if err := virtual.Admit(ctx, "AuthorizationConditionsReview", review, errs, createValidation); err != nil {
		return nil, err
	}
	evaluate := r.evaluate
	if review.Request.Decision != nil {
		evaluate = r.evaluateUpstream
	}
	response, err := evaluate(ctx, caller, review.Request)
	if err != nil {
		return nil, err
	}
	review.Response = response
	return review, nil
}

func (r *REST) evaluate(ctx context.Context, caller user.Info, request *authorizationapi.AuthorizationConditionsRequest) (*authorizationapi.AuthorizationConditionsResponse, error) {
	decision, err := r.decide(ctx, caller, request)
	if err != nil {
		return nil, err
	}
	return responseOf(decision), nil
}

// decide evaluates the condition sets of a valid request.
func (r *REST) decide(ctx context.Context, caller user.Info, request *authorizationapi.AuthorizationConditionsRequest) (none authorization.Decision, err error) {
	sets, err := authorization.SetsFromWire(request.ConditionSets)
	if err != nil {
		return none, apierrors.NewBadRequest(err.Error())
	}
	data := reviewData{request: request}
	if data.values, err = r.kinds.valuesOf(request); err != nil {
		return none, apierrors.NewBadRequest(err.Error())
	}
	// All sets, and the checks of their conditions, are evaluated from the same policies and mappings.
	ctx = r.chain.Pin(ctx)
	permit := func(ctx context.Context) error { return r.permitSecondaryChecks(ctx, caller) }
	evaluator := &celeval.Evaluator{
		Compiler: r.compilers.Conditions,
		Bound:    r.compilers.Bound,
		Values:   data.values,
		Secondary: &celeval.SecondaryChecks{
			Authorizer: r.chain,
			User:       data.GetUserInfo(),
			Resource:   data,
			Permit:     permit,
		},
	}
	if request.Operation == "" {
		// Without data, authorizers cannot evaluate their sets.
		evaluator.Partial = r.compilers.Partial
		measured := authorization.Measured(authorization.StageConditionsReview, evaluator)
		return authorization.Chained(sets...).Evaluate(ctx, measured), nil
	}
	authored := authorization.Chained(r.chain.WithAuthors(sets...)...)
	return authored.Evaluate(ctx, authorization.EvaluatorForCaller(data, evaluator, permit)), nil
}

var errSecondaryChecks = errors.New("conditions that use the variable authorizer, or that only the authorizer that returned them can evaluate, are evaluated only for callers who may create subjectaccessreviews")

// permitSecondaryChecks returns an error for callers who must not learn the permissions of other
// users from the result of a condition.
func (r *REST) permitSecondaryChecks(ctx context.Context, caller user.Info) error {
	decision, _, err := r.chain.Authorize(ctx, virtual.CreateReviews(caller))
	if err != nil {
		return err
	}
	if decision != authorizer.DecisionAllow {
		return errSecondaryChecks
	}
	return nil
}

func responseOf(d authorization.Decision) *authorizationapi.AuthorizationConditionsResponse {
	status := authorization.Status(d)
	return &authorizationapi.AuthorizationConditionsResponse{
		Allowed:         status.Allowed,
		Denied:          status.Denied,
		Reason:          status.Reason,
		EvaluationError: status.EvaluationError,
		ConditionSets:   status.ConditionsChain,
	}
}
