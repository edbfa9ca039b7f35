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

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
)

// newClients returns clients of the user or, if a file has the object, of the caller who asks about the user of --as.
func (o *options) newClients() (*command.Clients, error) {
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
	return command.NewClients(config)
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
	status, about, err := o.askProviso(ctx)
	switch {
	case err != nil:
		return nil, err
	//guard:can-i-users-who-left-out
	case about.isLeftOut && gate != nil:
		o.WarnOnce(authorization.WarningLeftOut)
		return answer.Of(gate.Allowed, gate.Reason, gate.EvaluationError), nil
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

// errReview adds what the caller needs to an error of a review about a user.
func (o *options) errReview(err error) error {
	if o.subject != nil && apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: to ask about another user, you need the ClusterRole proviso:reviewer", err)
	}
	return err
}

// askKubeAPIServer returns nil if the server does not serve the review.
func (o *options) askKubeAPIServer(ctx context.Context, version string) (*authorizationv1.SubjectAccessReviewStatus, error) {
	resource, path := o.Attributes(version)
	reviews := o.clients.Kube.AuthorizationV1()
	var status *authorizationv1.SubjectAccessReviewStatus
	var err error
	if o.subject != nil {
		who := question.SpecOf(o.subject)
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
		return nil, o.errReview(err)
	}
	return status, nil
}

// warned is what warnings of a review of Proviso say.
type warned struct {
	// names are those about which policies can decide otherwise than about a question without a name.
	names authorization.Names
	// isLeftOut says that kube-apiserver decides the request without Proviso.
	isLeftOut bool
}

// askProviso returns nil if the server does not serve the review.
func (o *options) askProviso(ctx context.Context) (status *authorizationv1alpha1.SubjectAccessReviewStatus, about warned, err error) {
	ctx = command.WithWarnings(ctx, func(text string) bool {
		if text == authorization.WarningLeftOut {
			about.isLeftOut = true
			return true
		}
		found, ok := authorization.NamesIn(text)
		if ok {
			about.names = found
		}
		return ok
	})
	resource, path := o.Attributes(o.Resource.Version)
	mode := &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable}
	if o.subject != nil {
		review := &authorizationv1alpha1.SubjectAccessReview{Spec: *question.SpecOf(o.subject)}
		review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes, review.Spec.ConditionalAuthorization = resource, path, mode
		review, err = o.clients.Proviso.AuthorizationProvisoV1alpha1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		status = &review.Status
	} else {
		review := &authorizationv1alpha1.SelfSubjectAccessReview{Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: resource, NonResourceAttributes: path, ConditionalAuthorization: mode,
		}}
		review, err = o.clients.Proviso.AuthorizationProvisoV1alpha1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		status = &review.Status
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, about, nil
	case err != nil:
		return nil, about, fmt.Errorf("the review of Proviso: %w", o.errReview(err))
	}
	return status, about, nil
}

// selfRules returns the rules of kube-apiserver for the user of the client in a namespace.
func (o *options) selfRules(ctx context.Context, namespace string) (*authorizationv1.SubjectRulesReviewStatus, error) {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	review, err := o.clients.Kube.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &review.Status, nil
}
