/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Follow has the objects of informers recorded, and waits until all that are stored have been. The informers are of both kinds of
// policies, ValidatingAdmissionPolicies and their bindings. They must run.
func (r *Rollout) Follow(ctx context.Context, informers ...cache.SharedIndexInformer) error {
	var synced []cache.InformerSynced
	for _, informer := range informers {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: r.set, UpdateFunc: func(_, object any) { r.set(object) }, DeleteFunc: r.remove,
		})
		if err != nil {
			return fmt.Errorf("informer of the rollout of barriers: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		r.SetSynced()
	}
	return nil
}

func (r *Rollout) set(object any) {
	switch o := object.(type) {
	case *policyv1alpha1.ClusterAuthorizationPolicy:
		r.SetPolicy(engine.Key{Name: o.Name}, &o.Spec)
	case *policyv1alpha1.AuthorizationPolicy:
		r.SetPolicy(engine.Key{Namespace: o.Namespace, Name: o.Name}, &o.Spec)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		r.SetAdmissionPolicy(o)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		r.SetBinding(o)
	}
}

func (r *Rollout) remove(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	switch o := object.(type) {
	case *policyv1alpha1.ClusterAuthorizationPolicy:
		r.DeletePolicy(engine.Key{Name: o.Name})
	case *policyv1alpha1.AuthorizationPolicy:
		r.DeletePolicy(engine.Key{Namespace: o.Namespace, Name: o.Name})
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		r.DeleteAdmissionPolicy(o.Name)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		r.DeleteBinding(o.Name)
	}
}
