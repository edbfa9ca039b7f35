/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package place

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
)

// KubeAPIServer is a kube-apiserver that handles conditional decisions: it gets the conditions, and has them evaluated at admission, with the object. It
// takes the writes that an inner door could decide, of resources that it serves itself. All functions are required.
type KubeAPIServer struct {
	described

	// IsLocal reports whether kube-apiserver is known to serve a version itself. It has no admission for requests that it passes on.
	IsLocal func(schema.GroupVersion) bool
	// Excludes reports whether fields of a resource are excluded from the permission to write it. The conditions do not say so, and the inner door
	// checks it, so that kube-apiserver does not get conditions about such a resource.
	Excludes func(schema.GroupVersionResource) bool
	// AllHandle reports whether every kube-apiserver is known to handle conditions. It is for requests without a client.
	AllHandle func() bool
}

func (k *KubeAPIServer) isComplete() bool {
	return k.IsLocal != nil && k.Excludes != nil && k.AllHandle != nil
}

// Terms implements Place.
func (*KubeAPIServer) Terms() Terms {
	return Terms{At: policyv1alpha1.EnforcedAtKubeAPIServer, Evaluates: AllEffects, GetsConditions: true}
}

// Takes implements Place.
func (k *KubeAPIServer) Takes(r *Request) bool {
	//guard:conditions-left-reads
	if !k.handles(r) || !isWrite(r) {
		return false
	}
	//guard:conditions-left-inner-door-could-not-decide
	if !resourceOf(r).IsListable() {
		return false
	}
	//guard:conditions-left-other-servers-serve
	return k.IsLocal(r.version()) && !k.Excludes(r.version().WithResource(r.Attributes.GetResource()))
}

func (k *KubeAPIServer) handles(r *Request) bool {
	if r.Client == nil {
		return k.AllHandle()
	}
	return r.HandlesConditions
}

// Obstacle implements Place. The stored object may show in an answer before admission refuses the request.
func (*KubeAPIServer) Obstacle(ctx context.Context, r *Request, ask Asker) *Obstacle {
	//guard:conditions-left-users-who-may-not-read
	if ask == nil || mayReadAnswer(ctx, r, ask) {
		return nil
	}
	return unreadable
}

// Audit implements Place.
func (*KubeAPIServer) Audit(authorization.Decision) Audit {
	return Audit{Remainder: authorization.RemainderElsewhere}
}
