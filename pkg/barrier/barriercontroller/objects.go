/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
)

const (
	// Finalizer is on both objects of a barrier, and on the policy in the store of this server. A policy whose deletion was requested
	// stays until its barrier is gone.
	Finalizer = policyv1alpha1.BarrierFinalizer
	// UIDAnnotation has the UID of the policy.
	UIDAnnotation = "policy.proviso.dev/policy-uid"
	// RevisionAnnotation has the resource version of the policy in the store of this server.
	RevisionAnnotation = "policy.proviso.dev/store-revision"
	// GenerationAnnotation has the generation of the policy or mapping for which the objects were last written.
	GenerationAnnotation = "policy.proviso.dev/policy-generation"
	// fieldManager is the manager of the fields of both objects.
	fieldManager = "proviso-barriers"
)

// object is a ValidatingAdmissionPolicy or a ValidatingAdmissionPolicyBinding.
type object interface {
	metav1.Object
	runtime.Object
}

// client writes objects of one kind. The clients of client-go implement it.
type client[T object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// kind is one of the two kinds.
type kind[T object] struct {
	// name is for messages.
	name     string
	client   client[T]
	informer cache.SharedIndexInformer
	isEqual  func(a, b T) bool
	// setSpec sets the specification of an object.
	setSpec func(object, from T)
	// uids has the UID of each object that has been seen as it must be, by name.
	uids sync.Map
}

type (
	policyKind  = kind[*admissionregistrationv1.ValidatingAdmissionPolicy]
	bindingKind = kind[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]
)

func copyOf[T object](o T) T { return o.DeepCopyObject().(T) }

// cached returns an object from the cache, and false if it has none.
func (k *kind[T]) cached(name string) (object T, ok bool) {
	obj, exists, err := k.informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return object, false
	}
	object, ok = obj.(T)
	return object, ok
}

// stored returns an object from kube-apiserver, and false if it does not exist.
func (k *kind[T]) stored(ctx context.Context, name string) (object T, ok bool, err error) {
	object, err = k.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return object, false, nil
	}
	return object, err == nil, err
}

// annotationOf returns the annotation with the policy or the mapping, and its value.
func annotationOf(key Key) (name, value string) {
	switch {
	case key.IsMapping:
		//guard:mapping-barriers-annotation
		return barrier.MappingAnnotation, key.Name
	case key.Namespace == "":
		return barrier.PolicyAnnotation, key.Name
	}
	return barrier.PolicyAnnotation, key.Namespace + "/" + key.Name
}

// isOurs reports whether an object with the name of a barrier is one, also if others have changed it. Rendered manifests have the label
// and the annotation, and nothing else.
func isOurs(stored metav1.Object, key Key) bool {
	annotation, value := annotationOf(key)
	return slices.Contains(stored.GetFinalizers(), Finalizer) || stored.GetAnnotations()[UIDAnnotation] != "" ||
		stored.GetLabels()[barrier.ManagedByLabel] == barrier.ManagedBy && stored.GetAnnotations()[annotation] == value
}

// isOurs is the function isOurs, and also knows the objects that this process has seen before others took all marks from them.
func (k *kind[T]) isOurs(stored T, key Key) bool {
	uid, _ := k.uids.Load(stored.GetName())
	return isOurs(stored, key) || stored.GetUID() != "" && uid == stored.GetUID()
}

// hasGeneration reports whether an object says for which generation it was written.
func hasGeneration(stored metav1.Object) bool {
	return stored.GetAnnotations()[GenerationAnnotation] != ""
}

// isInOrder reports whether the cache has an object as it must be, and remembers the object if so.
func (k *kind[T]) isInOrder(wanted T) (ok bool, deviation string) {
	stored, exists := k.cached(wanted.GetName())
	if !exists {
		return false, "is missing"
	}
	if deviation = k.deviation(stored, wanted); deviation != "" {
		return false, deviation
	}
	k.uids.Store(stored.GetName(), stored.GetUID())
	return true, ""
}

// deviation returns in a few words how a stored object differs from the wanted one. It is empty if it does not. The revision and the generation in the
// annotations may be earlier ones.
func (k *kind[T]) deviation(stored, wanted T) string {
	switch {
	//guard:barriers-objects-being-deleted
	case stored.GetDeletionTimestamp() != nil:
		return "was deleted"
	case !k.isEqual(stored, wanted):
		return "was changed"
	//guard:barriers-finalizer
	case !slices.Equal(stored.GetFinalizers(), []string{Finalizer}):
		return "has other finalizers"
	//guard:barriers-owner-references
	case len(stored.GetOwnerReferences()) > 0:
		return "has owner references"
	}
	for name, value := range wanted.GetLabels() {
		if stored.GetLabels()[name] != value {
			return "lost a label"
		}
	}
	for name, value := range wanted.GetAnnotations() {
		if name != RevisionAnnotation && name != GenerationAnnotation && stored.GetAnnotations()[name] != value {
			return "lost an annotation"
		}
	}
	if revision, err := strconv.ParseUint(stored.GetAnnotations()[RevisionAnnotation], 10, 64); err != nil || revision == 0 {
		return "lost an annotation"
	}
	return ""
}

// foreignError says that another object has the name of a barrier.
type foreignError struct{ kind, name string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("the %s %q belongs to another tool (delete it, or rename the policy)", e.kind, e.name)
}

// changedError says that kube-apiserver has stored another text than it received.
type changedError struct{ kind, name string }

func (e *changedError) Error() string {
	return fmt.Sprintf("kube-apiserver stores the %s %q with other content than it receives: an admission webhook or policy may change it", e.kind, e.name)
}

// step is one write. It is nil if there is nothing to write.
type step func(ctx context.Context, dryRun []string) error

// foreign returns an error if an object of another tool has the name of a barrier. A policy with the finalizer has had a barrier: then others have
// taken all marks from it, or have replaced it, and the object is no foreign one.
func (k *kind[T]) foreign(p *policy, stored T, exists bool, wanted T) error {
	//guard:barriers-objects-others-have-replaced
	if !exists || p.hasFinalizer() {
		return nil
	}
	//guard:barriers-objects-other-tools
	if !k.isOurs(stored, p.key) && !k.isEqual(stored, wanted) {
		return &foreignError{k.name, stored.GetName()}
	}
	return nil
}

// plan returns the step that brings an object into line with the wanted one, after stored was read from kube-apiserver. deviation is
// how they differ. It is empty if the step only writes the generation.
func (k *kind[T]) plan(stored T, exists bool, wanted T) (write step, deviation string) {
	if !exists {
		return func(ctx context.Context, dryRun []string) error { return k.create(ctx, wanted, dryRun) }, "is missing"
	}
	deviation = k.deviation(stored, wanted)
	//guard:barriers-generation-is-kept
	if deviation == "" && hasGeneration(stored) {
		return nil, ""
	}
	if stored.GetDeletionTimestamp() != nil {
		return func(ctx context.Context, dryRun []string) error {
			if len(dryRun) > 0 {
				return nil // the object cannot be created before it is gone, and it has been valid
			}
			if err := k.release(ctx, stored); err != nil {
				return err
			}
			return k.create(ctx, wanted, nil)
		}, deviation
	}
	// The update fails with a conflict if the object is not the one that was read.
	return func(ctx context.Context, dryRun []string) error {
		updated, err := k.overwrite(ctx, stored, wanted, dryRun)
		return k.check(updated, wanted, err)
	}, deviation
}

func (k *kind[T]) create(ctx context.Context, wanted T, dryRun []string) error {
	created, err := k.client.Create(ctx, copyOf(wanted), metav1.CreateOptions{DryRun: dryRun, FieldManager: fieldManager})
	return k.check(created, wanted, err)
}

// overwrite makes a stored object what is wanted, and returns it. It keeps the labels and annotations of others, unless they leave no room.
func (k *kind[T]) overwrite(ctx context.Context, stored, wanted T, dryRun []string) (T, error) {
	next := copyOf(stored)
	k.setSpec(next, wanted)
	next.SetLabels(merged(stored.GetLabels(), wanted.GetLabels()))
	next.SetAnnotations(merged(stored.GetAnnotations(), wanted.GetAnnotations()))
	//guard:barriers-sentinel-cannot-go
	next.SetFinalizers(wanted.GetFinalizers())
	next.SetOwnerReferences(nil)
	options := metav1.UpdateOptions{DryRun: dryRun, FieldManager: fieldManager}
	updated, err := k.client.Update(ctx, next, options)
	//guard:barriers-annotations-without-room
	if !leavesNoRoom(err) {
		return updated, err
	}
	next.SetLabels(wanted.GetLabels())
	next.SetAnnotations(wanted.GetAnnotations())
	return k.client.Update(ctx, next, options)
}

// leavesNoRoom reports whether kube-apiserver, or etcd, refuses an object because it is too large.
func leavesNoRoom(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || err != nil && strings.Contains(err.Error(), "request is too large")
}

func (k *kind[T]) check(written, wanted T, err error) error {
	if err == nil && k.deviation(written, wanted) != "" {
		return &changedError{k.name, wanted.GetName()}
	}
	return err
}

func merged(stored, wanted map[string]string) map[string]string {
	result := map[string]string{}
	maps.Copy(result, stored)
	maps.Copy(result, wanted)
	return result
}

// release takes the finalizers from an object that is being deleted, so that it is gone.
func (k *kind[T]) release(ctx context.Context, stored T) error {
	next := copyOf(stored)
	next.SetFinalizers(nil)
	_, err := k.client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

var errNotGone = errors.New("the object is still there after its deletion")

// remove deletes an object of a barrier. It reports whether there was one, and leaves the objects of others.
func (k *kind[T]) remove(ctx context.Context, key Key) (removed bool, err error) {
	name := key.barrierName()
	stored, exists, err := k.stored(ctx, name)
	//guard:barriers-removal-objects-other-tools
	if err != nil || !exists || !k.isOurs(stored, key) {
		return false, err
	}
	return true, k.delete(ctx, stored)
}

// delete deletes an object that was read from kube-apiserver: first the deletion, which the finalizer holds up, and then the finalizer.
// An object without a deletion timestamp keeps its finalizer, so that the leader can end in between.
func (k *kind[T]) delete(ctx context.Context, stored T) error {
	if stored.GetDeletionTimestamp() == nil {
		uid, version := stored.GetUID(), stored.GetResourceVersion()
		err := k.client.Delete(ctx, stored.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	left, exists, err := k.stored(ctx, stored.GetName())
	if err != nil || !exists || left.GetUID() != stored.GetUID() {
		return err
	}
	if left.GetDeletionTimestamp() == nil {
		return errNotGone
	}
	return k.release(ctx, left)
}

// wantedObjects returns the objects of a barrier as they must be stored.
func wantedObjects(compiled *barrier.Barrier, of *policy) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	policy, binding := compiled.Policy.DeepCopy(), compiled.Binding.DeepCopy()
	annotation, value := annotationOf(Key{Key: compiled.Key, IsMapping: compiled.IsOfMapping})
	for _, meta := range []*metav1.ObjectMeta{&policy.ObjectMeta, &binding.ObjectMeta} {
		meta.Labels = merged(meta.Labels, map[string]string{barrier.ManagedByLabel: barrier.ManagedBy})
		meta.Annotations = merged(meta.Annotations, map[string]string{
			annotation: value, UIDAnnotation: string(of.meta.UID), RevisionAnnotation: of.meta.ResourceVersion, GenerationAnnotation: strconv.FormatInt(of.meta.Generation, 10),
		})
		meta.Finalizers = []string{Finalizer}
	}
	return policy, binding
}

// ownerOf returns the key of the policy of an object, and false if it is not the object of a barrier. An object whose annotation was
// changed belongs to the policy that its name says, if it is one of known.
func ownerOf(stored metav1.Object, known map[string]Key) (Key, bool) {
	if key, ok := known[stored.GetName()]; ok {
		return key, true
	}
	// An invalid annotation gives an empty key, and no barrier has the name of an empty key.
	namespace, name, _ := cache.SplitMetaNamespaceKey(stored.GetAnnotations()[barrier.PolicyAnnotation])
	key := Key{Key: engine.Key{Namespace: namespace, Name: name}}
	if name := stored.GetAnnotations()[barrier.MappingAnnotation]; name != "" {
		key = mappingKey(name)
	}
	return key, key.barrierName() == stored.GetName() && isOurs(stored, key)
}
