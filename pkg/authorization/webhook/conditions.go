/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
	"github.com/proviso-authz/proviso/pkg/cel"
)

var errNoData = errors.New("there is no data to evaluate conditions against")

// EvaluateConditions sends conditions that the webhook has returned, of any type, to the webhook for
// evaluation (KEP-5681, "Supporting webhooks through the AuthorizationConditionsReview API"). If that
// fails, it returns Deny with an error; the failure mode of the set then decides.
func (w *Webhook) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return (&answered{w, w.form}).EvaluateConditions(ctx, decision, data)
}

// answered is the author of the conditions of one answer. It has them evaluated in the form of the answer.
type answered struct {
	*Webhook
	in form
}

// EvaluateConditions is Webhook.EvaluateConditions in the form of the answer.
func (a *answered) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	result, err := a.evaluate(ctx, a.in, authorization.FromUpstream(a.name, decision), data)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Authorization webhook failed to evaluate conditions", "name", a.name)
		//guard:webhook-errors-evaluations
		return authorizer.DecisionDeny, "", fmt.Errorf("webhook %q: %w", a.name, shown(err))
	}
	return result.Concrete()
}

var (
	_ authorization.ImpersonationAuthor = &Webhook{}
	_ authorization.ImpersonationAuthor = &answered{}
)

// EvaluateImpersonation sends conditions on an impersonation to the webhook. The form that is proposed for Kubernetes has no place for an
// impersonation.
func (w *Webhook) EvaluateImpersonation(ctx context.Context, decision authorizer.ConditionsAwareDecision, requester user.Info, data *authorizationapi.ImpersonationData) (authorizer.Decision, string, error) {
	return (&answered{w, w.form}).EvaluateImpersonation(ctx, decision, requester, data)
}

// EvaluateImpersonation is Webhook.EvaluateImpersonation in the form of the answer.
func (a *answered) EvaluateImpersonation(ctx context.Context, decision authorizer.ConditionsAwareDecision, requester user.Info, data *authorizationapi.ImpersonationData) (authorizer.Decision, string, error) {
	//guard:webhook-impersonation-without-gate
	if !a.relaxed || a.conditions == nil || a.in != formKEP {
		return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
	}
	result, err := func() (result authorization.Decision, err error) {
		subject, err := userInfoOf(requester)
		if err != nil {
			return result, err
		}
		sets, err := authorization.SetsToWire(authorization.FromUpstream(a.name, decision).Chain())
		if err != nil {
			return result, err
		}
		return a.evaluateKEP(ctx, &authorizationapi.AuthorizationConditionsRequest{ConditionSets: sets, UserInfo: subject, Impersonation: data})
	}()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Authorization webhook failed to evaluate conditions of an impersonation", "name", a.name)
		return authorizer.DecisionDeny, "", fmt.Errorf("webhook %q: %w", a.name, shown(err))
	}
	return result.Concrete()
}

func (w *Webhook) evaluate(ctx context.Context, in form, decision authorization.Decision, data authorizer.ConditionsData) (result authorization.Decision, err error) {
	switch {
	case decision.IsUnconditional():
		return decision, nil
	case w.conditions == nil:
		return result, authorizer.ErrorConditionEvaluationNotSupported
	case data == nil:
		return result, errNoData
	}
	sets, err := authorization.SetsToWire(decision.Chain())
	if err != nil {
		return result, err
	}
	request, err := requestOf(sets, data)
	if err != nil {
		return result, err
	}
	if in == formUpstream {
		return w.evaluateUpstream(ctx, request)
	}
	return w.evaluateKEP(ctx, request)
}

// evaluateKEP sends conditions in the form of KEP-5681.
func (w *Webhook) evaluateKEP(ctx context.Context, request *authorizationapi.AuthorizationConditionsRequest) (result authorization.Decision, err error) {
	if w.relaxed {
		request.ConditionSets = unqualified(w.name, request.ConditionSets)
	}
	review := &authorizationv1alpha1.AuthorizationConditionsReview{}
	err = authorizationv1alpha1.Convert_authorization_AuthorizationConditionsReview_To_v1alpha1_AuthorizationConditionsReview(
		&authorizationapi.AuthorizationConditionsReview{Request: request}, review, nil)
	if err != nil {
		return result, err
	}
	review.TypeMeta = metav1.TypeMeta{APIVersion: w.group + versionV1alpha1, Kind: "AuthorizationConditionsReview"}
	body, err := json.Marshal(review)
	if err != nil {
		return result, fmt.Errorf("encoding the conditions: %w", err)
	}
	err = w.conditions.post(ctx, formKEP, body, func(answer []byte) (err error) {
		result, err = evaluationFrom(answer, review.APIVersion)
		return err
	})
	return result, err
}

// evaluateUpstream sends conditions in the form that is proposed for Kubernetes. The namespace object has no place in it.
func (w *Webhook) evaluateUpstream(ctx context.Context, request *authorizationapi.AuthorizationConditionsRequest) (result authorization.Decision, err error) {
	uid := uuid.NewUUID()
	review := &upstreamform.AuthorizationConditionsReview{
		TypeMeta: metav1.TypeMeta{APIVersion: w.group + versionV1alpha1, Kind: "AuthorizationConditionsReview"}, Request: &upstreamform.ConditionsRequest{},
	}
	if review.Request.Decision, err = upstreamform.EncodeOwn(w.name, request.ConditionSets).Raw(); err != nil {
		return result, err
	}
	if review.Request.AdmissionRequest, err = upstreamform.AdmissionRequestOf(uid, request); err != nil {
		return result, err
	}
	body, err := json.Marshal(review)
	if err != nil {
		return result, fmt.Errorf("encoding the conditions: %w", err)
	}
	err = w.conditions.post(ctx, formUpstream, body, func(answer []byte) (err error) {
		result, err = upstreamEvaluationFrom(answer, review.APIVersion, uid)
		return err
	})
	return result, err
}

// requestOf returns a request with the sets and the data. The objects have the form that
// conditions read in process.
func requestOf(sets []authorizationapi.SubjectAccessReviewConditionSet, data authorizer.ConditionsData) (*authorizationapi.AuthorizationConditionsRequest, error) {
	subject, err := userInfoOf(data.GetUserInfo())
	if err != nil {
		return nil, err
	}
	kind, resource := metav1.GroupVersionKind(data.GetKind()), metav1.GroupVersionResource(data.GetResource())
	request := &authorizationapi.AuthorizationConditionsRequest{
		ConditionSets: sets,
		Operation:     authorizationapi.Operation(data.GetOperation()),
		Kind:          &kind,
		Resource:      &resource,
		SubResource:   data.GetSubresource(),
		Name:          data.GetName(),
		Namespace:     data.GetNamespace(),
		UserInfo:      subject,
		DryRun:        data.IsDryRun(),
	}
	if known, ok := data.(authorization.NamespaceData); ok {
		namespace, err := known.GetNamespaceObject()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cel.NamespaceObject, err)
		}
		if namespace != nil {
			if request.NamespaceObject, err = encoded(namespace); err != nil {
				return nil, err
			}
		}
	}
	for to, object := range map[**runtime.RawExtension]runtime.Object{
		&request.Object: data.GetObject(), &request.OldObject: data.GetOldObject(), &request.Options: data.GetOperationOptions(),
	} {
		if *to, err = rawOf(object); err != nil {
			return nil, err
		}
	}
	return request, nil
}

// rawOf encodes an object in the form that conditions read in process. It returns nil if there is
// no object.
func rawOf(object runtime.Object) (*runtime.RawExtension, error) {
	if object == nil || (reflect.ValueOf(object).Kind() == reflect.Pointer && reflect.ValueOf(object).IsNil()) {
		return nil, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	return encoded(content)
}

func encoded(content map[string]any) (*runtime.RawExtension, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// userInfoOf returns the user with the delegation marker, which has one more value than before: the
// values count how many servers have passed the conditions on. It returns errCircle if these are too
// many.
func userInfoOf(subject user.Info) (*authenticationv1.UserInfo, error) {
	if subject == nil {
		subject = &user.DefaultInfo{}
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range subject.GetExtra() {
		extra[k] = v
	}
	hops := len(extra[authorization.DelegationMarker]) + 1
	if hops > maxHops {
		return nil, errCircle
	}
	info := &authenticationv1.UserInfo{
		Username: subject.GetName(), UID: subject.GetUID(), Groups: subject.GetGroups(), Extra: map[string]authenticationv1.ExtraValue{},
	}
	for k, v := range marked(extra, hops) {
		info.Extra[k] = authenticationv1.ExtraValue(v)
	}
	return info, nil
}
