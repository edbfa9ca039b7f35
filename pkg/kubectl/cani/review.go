/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	authorizationproviso "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/authorizationproviso/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
)

// clients are the clients of one cluster.
type clients struct {
	kube    kubernetes.Interface
	proviso authorizationproviso.AuthorizationProvisoV1alpha1Interface
	dynamic dynamic.Interface
}

func (o *options) newClients() (*clients, error) {
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	if o.filename != "" {
		config, o.subject = question.AsCaller(o.Flags, config)
	}
	if o.list { // reviewsAtOnce is the limit
		config.QPS = -1
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	proviso, err := authorizationproviso.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &clients{kube: kube, proviso: proviso, dynamic: objects}, nil
}

// The texts of warnings.
const (
	warningWithoutProviso = "the server does not serve authorization.proviso.dev: this is the answer of authorization.k8s.io/v1 alone, which shows no conditions. " +
		"Admission can still refuse the request"
	warningOnlyProviso = "the server does not serve authorization.k8s.io/v1: this is the answer of Proviso for requests to its own port"
	warningUnenforced  = "policies of Proviso have conditions about this request, but kube-apiserver refuses it before any server evaluates them"
	warningDenied      = "kube-apiserver itself allows this request, and Proviso does not. Reads have no barrier: without the front door they are not refused"
)

var errNoReviews = errors.New("the server serves neither authorization.k8s.io/v1 nor authorization.proviso.dev/v1alpha1")

// answer asks kube-apiserver and Proviso.
//
// kube-apiserver's review decides whether the request passes authorization: if a server evaluates conditions of Proviso later, it is
// allowed. Proviso's review says whether there are conditions. So the answer is open only if both are.
func (o *options) answer(ctx context.Context) (*answer.Answer, error) {
	if o.IsNameless() {
		return o.answerForNames(ctx)
	}
	return o.answerForOne(ctx)
}

// answerForOne answers a question whose requests have no name, or one.
func (o *options) answerForOne(ctx context.Context) (*answer.Answer, error) {
	gate, err := o.askKubeAPIServer(ctx, o.Resource.Version)
	if err != nil {
		return nil, err
	}
	status, _, err := o.askProviso(ctx)
	switch {
	case err != nil:
		return nil, err
	case status == nil && gate == nil:
		return nil, errNoReviews
	case status == nil:
		o.Warn(warningWithoutProviso)
		return answer.Of(gate.Allowed, gate.Reason, gate.EvaluationError), nil
	case gate == nil:
		o.Warn(warningOnlyProviso)
	case !gate.Allowed:
		if len(status.ConditionsChain) > 0 {
			o.Warn(warningUnenforced)
		}
		return answer.Of(false, gate.Reason, gate.EvaluationError), nil
	}
	switch {
	case len(status.ConditionsChain) > 0 && o.object != nil:
		return o.decide(ctx, status.ConditionsChain)
	case len(status.ConditionsChain) > 0:
		return answer.If(status.ConditionsChain), nil
	case !status.Allowed && gate != nil:
		o.Warn(warningDenied)
	}
	return answer.Of(status.Allowed, status.Reason, status.EvaluationError), nil
}

// askKubeAPIServer returns nil if the server does not serve the review.
func (o *options) askKubeAPIServer(ctx context.Context, version string) (*authorizationv1.SubjectAccessReviewStatus, error) {
	resource, path := o.Attributes(version)
	reviews := o.clients.kube.AuthorizationV1()
	var status *authorizationv1.SubjectAccessReviewStatus
	var err error
	if o.subject != nil {
		who := question.SpecOf(&o.subject.UserInfo)
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.User, UID: who.UID, Groups: who.Groups, Extra: who.Extra, ResourceAttributes: resource, NonResourceAttributes: path,
		}}
		review, err = reviews.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		status = &review.Status
	} else {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: resource, NonResourceAttributes: path}}
		review, err = reviews.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		status = &review.Status
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // absence is a result, and not an error
	case err != nil:
		return nil, o.subject.ErrReview(err)
	}
	return status, nil
}

// askProviso returns nil if the server does not serve the review. For a question without a name it also returns the names about which policies can decide otherwise.
func (o *options) askProviso(ctx context.Context) (status *authorizationv1alpha1.SubjectAccessReviewStatus, names authorization.Names, err error) {
	ctx = command.WithWarnings(ctx, func(text string) (ok bool) {
		found, ok := authorization.NamesIn(text)
		if ok {
			names = found
		}
		return ok
	})
	resource, path := o.Attributes(o.Resource.Version)
	mode := &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable}
	if o.subject != nil {
		review := &authorizationv1alpha1.SubjectAccessReview{Spec: *question.SpecOf(&o.subject.UserInfo)}
		review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes, review.Spec.ConditionalAuthorization = resource, path, mode
		review, err = o.clients.proviso.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		status = &review.Status
	} else {
		review := &authorizationv1alpha1.SelfSubjectAccessReview{Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: resource, NonResourceAttributes: path, ConditionalAuthorization: mode,
		}}
		review, err = o.clients.proviso.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		status = &review.Status
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, names, nil
	case err != nil:
		return nil, names, fmt.Errorf("the review of Proviso: %w", o.subject.ErrReview(err))
	}
	return status, names, nil
}
