/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/proviso-authz/proviso/apis/demo"
	demoinstall "github.com/proviso-authz/proviso/apis/demo/install"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
)

// byHand is a machine without the generated methods.
type byHand struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (b *byHand) DeepCopyObject() runtime.Object {
	meta := b.ObjectMeta
	return &byHand{TypeMeta: b.TypeMeta, ObjectMeta: *meta.DeepCopy()}
}

// TestObjectsInTheVersionOfTheRequest converts objects of kinds with a hub of their own, and of kinds whose hub is the type of
// their only version.
func TestObjectsInTheVersionOfTheRequest(t *testing.T) {
	t.Parallel()
	withHub, ownHub, ownHubByHand := runtime.NewScheme(), runtime.NewScheme(), runtime.NewScheme()
	demoinstall.Install(withHub)
	ownHub.AddKnownTypes(schema.GroupVersion{Group: demo.GroupName, Version: runtime.APIVersionInternal}, &demov1alpha1.VirtualMachine{})
	ownHub.AddKnownTypes(demov1alpha1.SchemeGroupVersion, &demov1alpha1.VirtualMachine{})
	for _, version := range []string{runtime.APIVersionInternal, "v1alpha1"} {
		ownHubByHand.AddKnownTypeWithName(schema.GroupVersionKind{Group: demo.GroupName, Version: version, Kind: "VirtualMachine"}, &byHand{})
	}
	kind := demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine")
	meta := metav1.ObjectMeta{Name: "m"}
	for _, tc := range []struct {
		name      string
		scheme    *runtime.Scheme
		object    runtime.Object
		wantSame  bool
		wantError bool
	}{
		{name: "a hub of its own", scheme: withHub, object: &demo.VirtualMachine{ObjectMeta: meta}},
		{name: "a type that is its own hub", scheme: ownHub, object: &demov1alpha1.VirtualMachine{ObjectMeta: meta}},
		{name: "a type that is its own hub, with its kind", scheme: ownHub, wantSame: true, object: &demov1alpha1.VirtualMachine{
			TypeMeta: metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}, ObjectMeta: meta,
		}},
		{name: "a type that is its own hub, with another kind", scheme: ownHub, object: &demov1alpha1.VirtualMachine{
			TypeMeta: metav1.TypeMeta{APIVersion: "demo.proviso.dev/v2", Kind: kind.Kind}, ObjectMeta: meta,
		}},
		{name: "a type without generated methods", scheme: ownHubByHand, object: &byHand{ObjectMeta: meta}},
		{name: "a type without a conversion", scheme: withHub, object: &demov1alpha1.VirtualMachineConsoleOptions{}, wantError: true},
		{name: "an unstructured object of another version", scheme: withHub, wantError: true, object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "demo.proviso.dev/v2", "kind": "VirtualMachine", "metadata": map[string]any{"name": "m"},
		}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := inVersion(tc.object, kind, admission.NewObjectInterfacesFromScheme(tc.scheme))
			if tc.wantError {
				if err == nil {
					t.Errorf("got %v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			vm, ok := got.(metav1.Object)
			if !ok || vm.GetName() != "m" || got.GetObjectKind().GroupVersionKind() != kind || (got == tc.object) != tc.wantSame {
				t.Errorf("got %#v, want the object with its kind, and the same one: %v", got, tc.wantSame)
			}
		})
	}
}

// oneType are the objects of a server whose kinds have one Go type in all versions. It cannot convert any.
type oneType struct{ admission.ObjectInterfaces }

func (oneType) GetObjectCreater() runtime.ObjectCreater { return oneType{} }

func (oneType) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, nil
}

// TestUnstructuredObjectsAreConverted checks that an object whose Go type says nothing about its version is not taken to be
// in the version of the request.
func TestUnstructuredObjectsAreConverted(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: demo.GroupName, Version: "v2", Kind: "VirtualMachine"})
	for name, convert := range map[string]error{"conversion fails": errNoConversion, "conversion succeeds": nil} {
		converter := &converterOf{err: convert}
		_, err := inVersion(object, demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine"), convertible{oneType{}, converter})
		if !errors.Is(err, convert) || converter.calls != 1 {
			t.Errorf("%s: got %v after %d conversions, want %v after one", name, err, converter.calls, convert)
		}
	}
}

var errNoConversion = errors.New("no conversion")

type convertible struct {
	admission.ObjectInterfaces

	converter runtime.ObjectConvertor
}

func (c convertible) GetObjectConvertor() runtime.ObjectConvertor { return c.converter }

// converterOf counts conversions.
type converterOf struct {
	runtime.ObjectConvertor

	err   error
	calls int
}

func (c *converterOf) Convert(_, _, _ any) error {
	c.calls++
	return c.err
}
