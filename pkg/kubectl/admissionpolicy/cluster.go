/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/dynamic"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// Live is what a cluster has, by name.
type Live struct {
	Policies map[string]*admissionregistrationv1.ValidatingAdmissionPolicy
	Bindings map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// List reads all policies and bindings of a cluster.
func List(ctx context.Context, client admissionregistrationclient.AdmissionregistrationV1Interface) (*Live, error) {
	l := &Live{
		Policies: map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{},
		Bindings: map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
	}
	err := rbac.EachItem(ctx, client.ValidatingAdmissionPolicies().List, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { l.Policies[p.Name] = p })
	if err != nil {
		return nil, err
	}
	return l, rbac.EachItem(ctx, client.ValidatingAdmissionPolicyBindings().List, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
		l.Bindings[b.Name] = b
	})
}

var (
	errChecks = errors.New("it checks permissions, which are not known here")
	errSecret = errors.New("its parameters are Secrets, whose values are not shown")
)

// FromCluster reads the policies of a cluster that match a valid request with data, with their parameters. notes say how many they are, and which ones are not
// evaluated, and why. Barriers of policies are left out: they decide as their policies. Barriers of mappings are not.
func FromCluster(ctx context.Context, client admissionregistrationclient.AdmissionregistrationV1Interface, objects dynamic.Interface, mapper meta.RESTMapper, r *simulation.Request) (set *Set, notes []string, err error) {
	live, err := List(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	var policies []document.Document
	parameters := map[string]document.Document{} // by their source, because policies may share them
	for _, name := range slices.Sorted(maps.Keys(live.Policies)) {
		p := live.Policies[name]
		if p.Labels[barrier.ManagedByLabel] == barrier.ManagedBy && p.Annotations[barrier.PolicyAnnotation] != "" {
			continue
		}
		one := &source{live: live, objects: objects, mapper: mapper, namespace: r.Spec.ResourceAttributes.Namespace, parameters: map[string]document.Document{}}
		isMatched, err := one.try(ctx, p, r)
		switch {
		//guard:explain-admission-policies-not-evaluated
		case err != nil:
			notes = append(notes, fmt.Sprintf("%s of the cluster is not evaluated, and can refuse the request: %v", titleOf(kindPolicy, p), err))
		case isMatched:
			policies = append(policies, one.policies...)
			maps.Copy(parameters, one.parameters)
		}
	}
	set, _, errs := Load(policies, sorted(parameters))
	if len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	return set, append(notes, fmt.Sprintf("ValidatingAdmissionPolicies of the cluster, other than barriers of Proviso, that match the request: %d", len(set.policies))), nil
}

// source reads one policy of a cluster.
type source struct {
	live      *Live
	objects   dynamic.Interface
	mapper    meta.RESTMapper
	namespace string

	policies   []document.Document
	parameters map[string]document.Document
}

// try reads a policy, and evaluates it. It returns an error if that is not possible, and reports whether the policy matches the request.
func (s *source) try(ctx context.Context, p *admissionregistrationv1.ValidatingAdmissionPolicy, r *simulation.Request) (isMatched bool, err error) {
	if err := s.add(kindPolicy, p, p); err != nil {
		return false, err
	}
	isBound := false
	for _, name := range slices.Sorted(maps.Keys(s.live.Bindings)) {
		b := s.live.Bindings[name]
		if b.Spec.PolicyName != p.Name {
			continue
		}
		isBound = true
		if err := s.add(kindBinding, b, b); err != nil {
			return false, err
		}
		if kind := paramKindOf(p); b.Spec.ParamRef != nil && kind != nil {
			if err := s.readParameters(ctx, kind, b.Spec.ParamRef); err != nil {
				return false, err
			}
		}
	}
	if !isBound {
		return false, nil
	}
	set, _, errs := Load(s.policies, sorted(s.parameters))
	if len(errs) > 0 {
		return false, utilerrors.NewAggregate(errs)
	}
	checks := set.policies[0].reads("authorizer")
	if checks {
		set.policies[0].matcher = nil // its match conditions may check permissions, too
	}
	result, err := set.Admit(ctx, r, authorizerfactory.NewAlwaysDenyAuthorizer())
	if err != nil {
		return false, err
	}
	isMatched = result.Traces[0].IsMatched || len(result.Refusals) > 0
	if checks && isMatched {
		return false, errChecks
	}
	return isMatched, nil
}

// sorted returns documents in the order of their sources.
func sorted(documents map[string]document.Document) (all []document.Document) {
	for _, at := range slices.Sorted(maps.Keys(documents)) {
		all = append(all, documents[at])
	}
	return all
}

// add adds a policy or a binding.
func (s *source) add(kind string, object runtime.Object, accessor metav1.Object) error {
	object.GetObjectKind().SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
	text, err := json.Marshal(object)
	s.policies = append(s.policies, document.Document{Source: document.Named(titleOf(kind, accessor)), JSON: text})
	return err
}

// readParameters reads the parameters of a binding. There may be none.
func (s *source) readParameters(ctx context.Context, kind *schema.GroupVersionKind, ref *admissionregistrationv1.ParamRef) error {
	if kind.GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		return errSecret
	}
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var client dynamic.ResourceInterface = s.objects.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = s.objects.Resource(mapping.Resource).Namespace(cmp.Or(ref.Namespace, s.namespace))
	}
	var found []unstructured.Unstructured
	if ref.Name != "" {
		object, err := client.Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		found = append(found, *object)
	} else {
		selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
		if err != nil {
			return err
		}
		list, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return err
		}
		found = list.Items
	}
	for i := range found {
		found[i].SetGroupVersionKind(*kind)
		found[i].SetManagedFields(nil) // they would be most of what explain shows
		text, err := found[i].MarshalJSON()
		if err != nil {
			return err
		}
		at := titleOf(kind.String(), &found[i])
		s.parameters[at] = document.Document{Source: document.Named(at), JSON: text}
	}
	return nil
}
