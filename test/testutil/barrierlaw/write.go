/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package barrierlaw makes random Deny policies and writes, with which tests compare policies and their barriers.
package barrierlaw

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Write is a request that changes something, as it is authorized and as it is admitted.
type Write struct {
	authorizer.AttributesRecord

	Operation         admission.Operation
	Object, OldObject runtime.Object
	Options           runtime.Object
	DryRun            bool
	// ObjectName is the name at admission.
	ObjectName string
	Kind       schema.GroupVersionKind
	// NamespaceObjects are the namespaces by name.
	NamespaceObjects map[string]map[string]any
}

func (w *Write) String() string {
	return fmt.Sprintf("%s %s %s/%s %q of %s/%s at %s/%q by %s %v uid %q extra %v: object %v, old %v, dry run %v", w.Operation, w.Verb, w.Resource, w.Subresource, w.Name,
		w.APIGroup, w.APIVersion, w.Namespace, w.ObjectName, w.User.GetName(), w.User.GetGroups(), w.User.GetUID(), w.User.GetExtra(), w.Object, w.OldObject, w.DryRun)
}

// data is what the engine knows of a write at admission.
type data struct{ *Write }

var (
	_ authorizer.ConditionsData   = data{}
	_ authorization.NamespaceData = data{}
)

func (d data) GetName() string        { return d.ObjectName }
func (d data) GetUserInfo() user.Info { return d.User }
func (d data) GetOperation() authorizer.AdmissionOperation {
	return d.Operation
}
func (d data) GetOperationOptions() runtime.Object { return d.Options }
func (d data) IsDryRun() bool                      { return d.DryRun }
func (d data) GetObject() runtime.Object           { return d.Object }
func (d data) GetOldObject() runtime.Object        { return d.OldObject }
func (d data) GetNamespace() string                { return d.Namespace }
func (d data) GetKind() schema.GroupVersionKind    { return d.Kind }
func (d data) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: d.APIGroup, Version: d.APIVersion, Resource: d.Resource}
}

func (d data) GetNamespaceObject() (map[string]any, error) {
	if d.Namespace == "" || d.APIGroup == "" && d.Resource == "namespaces" {
		return nil, nil
	}
	return d.NamespaceObjects[d.Namespace], nil
}

// Attributes returns the attributes of the write at admission.
func (w *Write) Attributes() admission.Attributes {
	namespace := w.Namespace
	if w.APIGroup == "" && w.Resource == "namespaces" {
		namespace = w.ObjectName // of a creation, too
	}
	return admission.NewAttributesRecord(w.Object, w.OldObject, w.Kind, namespace, w.ObjectName, data{w}.GetResource(), w.Subresource, w.Operation, w.Options, w.DryRun, w.User)
}

// Checks returns the checks with which kube-apiserver authorizes a write. What a write by another verb creates needs the verb create, too.
func (w *Write) Checks() []authorizer.AttributesRecord {
	checks := []authorizer.AttributesRecord{w.AttributesRecord}
	if w.Operation == admission.Create && w.Verb != "create" {
		checks = append(checks, w.AttributesRecord)
		checks[1].Verb = "create"
	}
	return checks
}

// Denies reports whether a policy denies a write by one of its checks.
func Denies(tb testing.TB, policies *engine.Authorizer, w *Write, check authorizer.Attributes) bool {
	tb.Helper()
	ctx := authorization.WithBudget(tb.Context())
	decision := policies.Decide(ctx, check)
	if decision.IsUnconditional() {
		return decision.IsDeny()
	}
	return decision.Evaluate(ctx, authorization.EvaluatorFor(data{w}, nil)).IsDeny()
}

// NamesWithA allows checks about objects whose name begins with a.
type NamesWithA struct{}

// Authorize allows a check about an object whose name begins with a, and the verb use.
func (NamesWithA) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if strings.HasPrefix(a.GetName(), "a") || a.GetVerb() == "use" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// Namespaces are the namespaces of the writes.
var Namespaces = []*corev1.Namespace{
	{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{"kubernetes.io/metadata.name": "demo", "tier": "prod"}}},
	{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "infra", Labels: map[string]string{"kubernetes.io/metadata.name": "infra"}, Annotations: map[string]string{"a": "b"}}},
}
