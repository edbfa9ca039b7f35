/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// Client is a fake client, which keeps objects in a tracker.
type Client interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	Tracker() clienttesting.ObjectTracker
}

// Store gives a fake client what an API server has: resource versions, generations, conflicts, dry runs and UIDs.
type Store struct {
	tracker clienttesting.ObjectTracker
	writer  BarrierWriter

	mu      sync.Mutex
	version int
	stored  map[string]runtime.Object
}

// NewStore makes a client have a store. A writer of barriers says which writes it refuses.
func NewStore(client Client, writer BarrierWriter) *Store {
	s := &Store{tracker: client.Tracker(), writer: writer, stored: map[string]runtime.Object{}}
	client.PrependReactor("*", "*", s.react)
	return s
}

func accessorOf(object runtime.Object) metav1.Object {
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	return accessor
}

func (s *Store) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := action.GetResource()
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		if s.writer == BarriersTaken && s.isBarrier(resource, a.Name) && s.stored[resource.Resource+"/"+a.Name] == nil {
			object, err := s.create(resource, ofAnotherTool(resource.Resource, a.Name), false)
			return true, object, err
		}
	case clienttesting.CreateActionImpl:
		object, err := s.create(resource, a.Object.DeepCopyObject(), len(a.CreateOptions.DryRun) > 0)
		return true, object, err
	case clienttesting.UpdateActionImpl:
		object, err := s.update(resource, a.Object.DeepCopyObject(), a.GetSubresource(), len(a.UpdateOptions.DryRun) > 0)
		return true, object, err
	}
	return false, nil, nil
}

func (s *Store) isBarrier(resource schema.GroupVersionResource, name string) bool {
	return resource.Group == "admissionregistration.k8s.io" && name != sentinelName
}

func (s *Store) create(resource schema.GroupVersionResource, object runtime.Object, isDryRun bool) (runtime.Object, error) {
	accessor := accessorOf(object)
	if s.writer == BarriersUnmarked && accessor.GetName() == sentinelName {
		return nil, apierrors.NewForbidden(resource.GroupResource(), sentinelName, errors.New("not allowed"))
	}
	if s.writer == BarriersRefused && s.isBarrier(resource, accessor.GetName()) {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: resource.Group, Kind: resource.Resource}, accessor.GetName(), nil)
	}
	if _, err := s.tracker.Get(resource, accessor.GetNamespace(), accessor.GetName()); err == nil {
		return nil, apierrors.NewAlreadyExists(resource.GroupResource(), accessor.GetName())
	}
	if isDryRun {
		return object, nil
	}
	accessor.SetGeneration(1)
	s.keep(resource, object)
	return object, s.tracker.Create(resource, object, accessor.GetNamespace())
}

// ofAnotherTool returns an object with the name of a barrier that is none.
func ofAnotherTool(resource, name string) runtime.Object {
	if resource == "validatingadmissionpolicies" {
		return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// keep gives an object the metadata of a new version, and remembers it.
func (s *Store) keep(resource schema.GroupVersionResource, object runtime.Object) {
	accessor := accessorOf(object)
	s.version++
	accessor.SetResourceVersion(strconv.Itoa(s.version))
	accessor.SetUID(newUID(resource.Resource + "/" + accessor.GetName()))
	s.stored[resource.Resource+"/"+accessor.GetName()] = object
}

func (s *Store) update(resource schema.GroupVersionResource, object runtime.Object, subresource string, isDryRun bool) (runtime.Object, error) {
	accessor := accessorOf(object)
	stored, err := s.tracker.Get(resource, accessor.GetNamespace(), accessor.GetName())
	if err != nil {
		return nil, err
	}
	old := accessorOf(stored)
	if version := accessor.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource.GroupResource(), accessor.GetName(), errors.New("the object has been modified"))
	}
	if isDryRun {
		return object, nil
	}
	accessor.SetGeneration(old.GetGeneration())
	if subresource == "" && !isSameSpec(stored, object) {
		accessor.SetGeneration(old.GetGeneration() + 1)
	}
	s.keep(resource, object)
	return object, s.tracker.Update(resource, object, accessor.GetNamespace())
}

// isSameSpec reports whether two objects have the same specification.
func isSameSpec(a, b runtime.Object) bool {
	of := func(o runtime.Object) string {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			panic(err)
		}
		return fmt.Sprint(content["spec"])
	}
	return of(a) == of(b)
}

// objects returns all objects, in order.
func (s *Store) objects() []runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var objects []runtime.Object
	for _, name := range sortedNames(s.stored) {
		objects = append(objects, s.stored[name])
	}
	return objects
}

// answer returns an object of a resource with a name, or the metadata of all objects.
func (s *Store) answer(resource string, names []string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(names) > 0 {
		object, ok := s.stored[resource+"/"+names[0]]
		if !ok {
			return notFound
		}
		object = object.DeepCopyObject()
		switch o := object.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			o.APIVersion, o.Kind = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			o.APIVersion, o.Kind = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"
		}
		return object
	}
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	list.ResourceVersion = strconv.Itoa(s.version)
	for _, name := range sortedNames(s.stored) {
		if !strings.HasPrefix(name, resource+"/") {
			continue
		}
		accessor := accessorOf(s.stored[name])
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: accessor.GetName(), ResourceVersion: accessor.GetResourceVersion()}})
	}
	return list
}
