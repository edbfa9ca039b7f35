/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
)

// fromFiles reads roles, bindings and policies from documents, and calls warn with the others.
func fromFiles(ctx context.Context, documents []document.Document, namespace string, compiler *partial.Compiler, warn func([]document.Document)) (*input, error) {
	objects, others, errs := rbac.Load(documents, namespace)
	loader := policyfile.NewLoader("", compiler)
	loader.Load(ctx, others...)
	if errs = append(errs, loader.Errs...); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	if objects.IsEmpty() && len(loader.Sorted()) == 0 {
		return nil, errEmpty
	}
	warn(loader.Others)
	return &input{permissions: objects.Permissions(), policies: loader.Specs()}, nil
}

// warningWithoutProviso is for a cluster that serves no policies.
const warningWithoutProviso = "the server does not serve policy.proviso.dev: this is the answer of RBAC alone"

var (
	errNothing = errors.New("neither bindings nor policies could be read")
	errEmpty   = errors.New("there are no roles, bindings or policies in the files")
)

// fromCluster reads the roles, bindings and policies that decide in a namespace, or in all namespaces.
func fromCluster(ctx context.Context, clients *command.Clients, namespace string, warn func(string)) (*input, error) {
	objects, errs := rbac.Read(ctx, clients.Kube.RbacV1(), namespace)
	in := &input{permissions: objects.Permissions(), policies: map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}, stored: map[engine.Key]*stored{}}
	for _, err := range errs {
		in.gaps = append(in.gaps, err.Error())
	}
	policies := clients.Proviso.PolicyV1alpha1()
	cluster := rbac.EachItem(ctx, policies.ClusterAuthorizationPolicies().List, func(p *policyv1alpha1.ClusterAuthorizationPolicy) {
		in.addPolicy(&p.ObjectMeta, &p.Spec, &p.Status)
	})
	namespaced := rbac.EachItem(ctx, policies.AuthorizationPolicies(namespace).List, func(p *policyv1alpha1.AuthorizationPolicy) {
		in.addPolicy(&p.ObjectMeta, &p.Spec, &p.Status)
	})
	if apierrors.IsNotFound(cluster) && apierrors.IsNotFound(namespaced) {
		warn(warningWithoutProviso)
		cluster, namespaced = nil, nil
	}
	for _, err := range []error{cluster, namespaced} {
		if err != nil {
			in.gaps = append(in.gaps, fmt.Sprintf("policies cannot be listed: %v", err))
			errs = append(errs, err)
		}
	}
	if len(errs) == kinds {
		return nil, fmt.Errorf("%w: %w", errNothing, errs[0])
	}
	return in, nil
}

// kinds is the number of kinds that are read: four of RBAC and two of policies.
const kinds = 6

// addPolicy adds a stored policy.
func (in *input) addPolicy(object *metav1.ObjectMeta, spec *policyv1alpha1.AuthorizationPolicySpec, status *policyv1alpha1.AuthorizationPolicyStatus) {
	key := engine.Key{Namespace: object.Namespace, Name: object.Name}
	in.policies[key] = spec
	in.stored[key] = &stored{generation: object.Generation, status: status}
}

// stored is what the server says of a policy.
type stored struct {
	generation int64
	status     *policyv1alpha1.AuthorizationPolicyStatus
}

// check compares a policy with its status. Requests that it does not decide are a gap for a restriction, because the answer may then be too narrow, and
// a warning for an Allow policy. Without a status, as for a file, nothing is known.
func (s *stored) check(key engine.Key, effect policyv1alpha1.PolicyEffect, verb string) (gaps, warnings []string) {
	if s == nil {
		return nil, nil
	}
	ready := meta.FindStatusCondition(s.status.Conditions, policyv1alpha1.PolicyReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != s.generation {
		gaps = append(gaps, fmt.Sprintf("%v: the server has not compiled this version of it, and may decide by an earlier one", key))
	}
	for i := range s.status.Enforcement {
		e := &s.status.Enforcement[i]
		if verb != "*" && !slices.Contains(e.Verbs, verb) && !slices.Contains(e.Verbs, "*") {
			continue
		}
		text := fmt.Sprintf("%v on %s %s: %s: %s", key, strings.Join(e.Verbs, ","), strings.Join(e.Resources, ","), e.Result, e.Message)
		switch {
		case effect != policyv1alpha1.PolicyEffectAllow && (e.Result == policyv1alpha1.ResultNotEnforced || e.Result == policyv1alpha1.ResultPending):
			gaps = append(gaps, text)
		case e.Result != policyv1alpha1.ResultEnforced:
			warnings = append(warnings, text)
		}
	}
	return gaps, warnings
}
