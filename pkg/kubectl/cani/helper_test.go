/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani_test

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/standin"
)

// The requests of the command.
const (
	reviewOfKube       = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	reviewOfProviso    = "POST /apis/authorization.proviso.dev/v1alpha1/selfsubjectaccessreviews"
	reviewOfConditions = "POST /apis/authorization.proviso.dev/v1alpha1/authorizationconditionsreviews"
	reviewOfRules      = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
	reviewOfUser       = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"
	getNamespace       = "GET /api/v1/namespaces/n"
	getMachine         = "GET /apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines/vm"
)

// reviewsOfProviso are the resources of the group without which there is no Proviso. They have no verbs, so that lists do not ask about them.
var reviewsOfProviso = metav1.APIResourceList{GroupVersion: "authorization.proviso.dev/v1alpha1", APIResources: []metav1.APIResource{{Name: "selfsubjectaccessreviews", Kind: "SelfSubjectAccessReview"}}}

// discovered are the resources of the cluster. Namespaces are not namespaced.
func discovered() standin.Answers {
	resource := func(name, kind string, namespaced bool, verbs ...string) metav1.APIResource {
		return metav1.APIResource{Name: name, SingularName: "", Kind: kind, Namespaced: namespaced, Verbs: verbs}
	}
	return standin.Discovery(
		metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			resource("pods", "Pod", true, "create", "get"), resource("pods/log", "Pod", true, "get"), resource("namespaces", "Namespace", false, "create"),
		}},
		metav1.APIResourceList{GroupVersion: "demo.proviso.dev/v1alpha1", APIResources: []metav1.APIResource{resource("virtualmachines", "VirtualMachine", true, "create", "delete")}},
		reviewsOfProviso,
	)
}

// kubeSays is the answer of kube-apiserver's review.
func kubeSays(allowed bool, reason string) standin.Handler {
	return standin.To(func(review *authorizationv1.SelfSubjectAccessReview) any {
		review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: allowed, Reason: reason}
		return review
	})
}

// provisoSays is the answer of Proviso's review.
func provisoSays(status authorizationv1alpha1.SubjectAccessReviewStatus) standin.Handler {
	return standin.To(func(review *authorizationv1alpha1.SelfSubjectAccessReview) any {
		review.Status = status
		return review
	})
}

// onCondition is a status with a condition.
func onCondition(effect authorizationv1alpha1.ConditionEffect, condition string) authorizationv1alpha1.SubjectAccessReviewStatus {
	return authorizationv1alpha1.SubjectAccessReviewStatus{ConditionsChain: []authorizationv1alpha1.SubjectAccessReviewConditionSet{{
		AuthorizerName: "policy.proviso.dev", Conditions: []authorizationv1alpha1.SubjectAccessReviewCondition{{
			ID: "cluster.policy.proviso.dev/p", Effect: effect, Type: authorization.ConditionTypeCEL, Condition: condition,
		}},
	}}}
}

var (
	allowed  = authorizationv1alpha1.SubjectAccessReviewStatus{Allowed: true}
	errEtcd  = apierrors.NewInternalError(errors.New("etcd"))
	errNever = apierrors.NewForbidden(authorizationv1.Resource("x"), "", errors.New("never"))
)

// canI runs the command with a cluster.
func canI(ctx context.Context, t *testing.T, answers standin.Answers, input string, args ...string) (out, errOut string, code int) {
	t.Helper()
	server := standin.New(t, discovered(), answers)
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code = kubectl.Run(ctx, append([]string{"can-i", "--kubeconfig=/dev/null", "--server=" + server.URL, "--cache-dir=" + t.TempDir()}, args...), streams)
	return stdout.String(), stderr.String(), code
}
