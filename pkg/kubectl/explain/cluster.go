/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
)

// errListing says what the caller needs who may not list policies.
func errListing(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("listing the policies of the cluster: %w: you need the ClusterRole proviso:policy-viewer, or an administrator who explains your request with --as; can-i with the same arguments shows its conditions", err)
	}
	return fmt.Errorf("listing the policies of the cluster: %w", err)
}

// loadFromCluster loads all policies of the cluster, and what else it knows of the request: the namespace, the schemas, what RBAC allows, and the
// ValidatingAdmissionPolicies.
func (in *input) loadFromCluster(ctx context.Context, loader *policyfile.Loader) error {
	if err := in.connect(); err != nil {
		return err
	}
	policies := in.clients.Proviso.PolicyV1alpha1()
	cluster, err := policies.ClusterAuthorizationPolicies().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errNoProviso
	case err != nil:
		return errListing(err)
	}
	namespaced, err := policies.AuthorizationPolicies("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return errListing(err)
	}
	cluster.TypeMeta = metav1.TypeMeta{APIVersion: policyv1alpha1.SchemeGroupVersion.String(), Kind: "ClusterAuthorizationPolicyList"}
	namespaced.TypeMeta = metav1.TypeMeta{APIVersion: policyv1alpha1.SchemeGroupVersion.String(), Kind: "AuthorizationPolicyList"}
	loader.AllNamespaces = true
	lists := []any{cluster, namespaced}
	//guard:explain-users-who-left-out
	if in.isLeftOut(ctx) {
		lists, in.notes = nil, append(in.notes, authorization.WarningLeftOut)
	}
	for _, list := range lists {
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		loader.Load(ctx, document.Document{Source: document.Named("the policies of the cluster"), JSON: text})
	}
	in.isOfCluster, in.schemas = true, typechecking.NewDiscovery(in.clients.Kube.Discovery())
	if err := in.readNamespace(ctx); err != nil {
		return err
	}
	if in.isPermitted == nil && !in.rbacAllows {
		in.askPermission(ctx)
	}
	return in.readAdmission(ctx)
}

// isLeftOut asks Proviso whether kube-apiserver decides the request without it. If there is no answer, as for a caller who may not ask, it returns false, and adds a note.
func (in *input) isLeftOut(ctx context.Context) (isLeftOut bool) {
	ctx = command.WithWarnings(ctx, func(text string) bool {
		isLeftOut = isLeftOut || text == authorization.WarningLeftOut
		return true // explain finds out itself what the others say
	})
	spec := in.request.Spec.DeepCopy()
	spec.Groups = in.request.User().GetGroups()
	spec.ConditionalAuthorization = &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable}
	client := in.clients.Proviso.AuthorizationProvisoV1alpha1()
	_, err := client.SubjectAccessReviews().Create(ctx, &authorizationv1alpha1.SubjectAccessReview{Spec: *spec}, metav1.CreateOptions{})
	if in.isSelf && apierrors.IsForbidden(err) {
		_, err = client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1alpha1.SelfSubjectAccessReview{Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: spec.ResourceAttributes, NonResourceAttributes: spec.NonResourceAttributes, ConditionalAuthorization: spec.ConditionalAuthorization,
		}}, metav1.CreateOptions{})
	}
	if err != nil {
		in.notes = append(in.notes, "the policies may not apply: whether kube-apiserver decides the request without Proviso is not known: "+err.Error())
	}
	return isLeftOut && err == nil
}

// readNamespace reads the namespace of the request from the cluster, if the files do not have it.
func (in *input) readNamespace(ctx context.Context) error {
	r := &in.request
	if r.Data == nil || r.Data.NamespaceObject != nil || r.Spec.ResourceAttributes == nil || r.Spec.ResourceAttributes.Namespace == "" {
		return nil
	}
	namespace, err := in.clients.Kube.CoreV1().Namespaces().Get(ctx, r.Spec.ResourceAttributes.Namespace, metav1.GetOptions{})
	if err != nil {
		in.notes = append(in.notes, "the namespace of the request is not known: "+err.Error())
		r.Absent = append(r.Absent, cel.NamespaceObject)
		return nil //nolint:nilerr // the explanation says so, and goes on without it
	}
	namespace.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}
	r.Data.NamespaceObject, err = question.Raw(namespace)
	r.Absent = slices.DeleteFunc(r.Absent, func(v cel.Variable) bool { return v == cel.NamespaceObject })
	return err
}

// byRBAC begins the reason of an Allow of RBAC.
const byRBAC = "RBAC: allowed by "

// askPermission asks kube-apiserver whether its other authorizers, such as RBAC, allow the request. The review has the marker of checks by Proviso: the front door
// answers it with Deny or NoOpinion only. A caller who may not create reviews about users, and asks about herself, creates a review without the marker.
func (in *input) askPermission(ctx context.Context) {
	client, spec := in.clients.Kube.AuthorizationV1(), in.request.Spec
	extra := map[string]authorizationv1.ExtraValue{}
	maps.Copy(extra, spec.Extra)
	extra[authorization.DelegationMarker] = authorizationv1.ExtraValue{"true"}
	answer, err := client.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: spec.User, UID: spec.UID, Groups: in.request.User().GetGroups(), Extra: extra,
		ResourceAttributes: spec.ResourceAttributes, NonResourceAttributes: spec.NonResourceAttributes,
	}}, metav1.CreateOptions{})
	if err == nil {
		in.permitBy(&answer.Status, true)
		return
	}
	if in.isSelf && apierrors.IsForbidden(err) {
		self, selfErr := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: spec.ResourceAttributes, NonResourceAttributes: spec.NonResourceAttributes,
		}}, metav1.CreateOptions{})
		if err = selfErr; err == nil {
			in.permitBy(&self.Status, false)
			return
		}
	}
	in.notes = append(in.notes, "what RBAC allows is not known: "+err.Error())
}

// permitBy takes over the answer of kube-apiserver. Without the marker, only an Allow of RBAC and an answer without an opinion say what RBAC does.
func (in *input) permitBy(status *authorizationv1.SubjectAccessReviewStatus, isMarked bool) {
	switch {
	//guard:explain-reviews-without-marker
	case status.Allowed && (isMarked || strings.HasPrefix(status.Reason, byRBAC)):
		in.permit()
	case !status.Allowed && !status.Denied:
		in.isPermitted = ptr.To(false)
	//guard:explain-kube-apiserver-denies
	case isMarked:
		in.request.Refusal = "kube-apiserver denies the request: " + status.Reason
	default:
		in.notes = append(in.notes, "what RBAC allows is not known: you need permission to create SubjectAccessReviews, because policies decide before RBAC")
	}
}

// writes are the verbs of writes, which ValidatingAdmissionPolicies can refuse. They can also refuse connections.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// readAdmission reads the ValidatingAdmissionPolicies of the cluster.
func (in *input) readAdmission(ctx context.Context) error {
	if in.request.Data == nil || len(in.request.Validate()) > 0 {
		if a := in.request.Spec.ResourceAttributes; a != nil && slices.Contains(writes, a.Verb) {
			in.notes = append(in.notes, "ValidatingAdmissionPolicies, which can refuse the request, are not evaluated without an object")
		}
		return nil
	}
	mapper, err := in.Flags.ToRESTMapper()
	if err != nil {
		return err
	}
	set, notes, err := admissionpolicy.FromCluster(ctx, in.clients.Kube.AdmissionregistrationV1(), in.clients.Dynamic, mapper, &in.request)
	if err != nil {
		in.notes = append(in.notes, "the ValidatingAdmissionPolicies of the cluster, which can refuse the request, are not known: "+err.Error())
		return nil //nolint:nilerr // the explanation says so, and goes on without them
	}
	in.admission, in.notes = set, append(in.notes, notes...)
	return nil
}
