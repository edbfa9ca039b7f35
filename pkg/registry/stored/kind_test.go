/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// TestNewNeedsGuard checks that a kind without a guard gets no store: every author could write every object.
func TestNewNeedsGuard(t *testing.T) {
	t.Parallel()
	kind := stored.Kind[any, any]{Resource: schema.GroupResource{Group: "example.com", Resource: "things"}}
	objects, status, err := stored.New(kind, runtime.NewScheme(), nil)
	if err == nil || !strings.Contains(err.Error(), "things.example.com: without a guard") || objects != nil || status != nil {
		t.Errorf("got %v, %v, %v, want an error about the guard", objects, status, err)
	}
}

// noOptions are the options of a server that cannot store a resource.
type noOptions struct{}

func (noOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{}, errors.New("no etcd for " + resource.String())
}

// TestNewReturnsErrors checks that a kind whose store cannot be built gets no endpoints.
func TestNewReturnsErrors(t *testing.T) {
	t.Parallel()
	things, thing := schema.GroupResource{Group: "example.com", Resource: "things"}, schema.GroupResource{Group: "example.com", Resource: "thing"}
	for name, tc := range map[string]struct {
		singular schema.GroupResource
		options  generic.RESTOptionsGetter
		want     string
	}{
		"no singular": {schema.GroupResource{}, noOptions{}, "completing the store of things.example.com: "},
		"no options":  {thing, noOptions{}, "completing the store of things.example.com: no etcd for things.example.com"},
		"a backend that does not exist": {
			thing, generic.RESTOptions{
				StorageConfig: (&storagebackend.Config{Type: "paper"}).ForResource(things), Decorator: generic.UndecoratedStorage, ResourcePrefix: "things",
			}, "completing the store of things.example.com: ",
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			k := kind{
				Resource: things, Singular: tc.singular, Guard: stored.Unguarded{}, Table: stored.Table{},
				New: func() runtime.Object { return &demo.VirtualMachine{} }, NewList: func() runtime.Object { return &demo.VirtualMachineList{} },
			}
			objects, status, err := stored.New(k, runtime.NewScheme(), tc.options)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || objects != nil || status != nil {
				t.Errorf("got %v, %v, %v, want an error that begins with %q", objects, status, err, tc.want)
			}
		})
	}
}

// TestEndpoints checks what discovery says about a kind, and its empty objects.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	type endpoints struct {
		Singular               string
		ShortNames, Categories []string
		Namespaced             bool
		New, Status, List      runtime.Object
	}
	for name, namespaced := range map[string]bool{"namespaced": true, "cluster": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(k *kind, _ *calls) { k.Namespaced = namespaced })
			f.status.Destroy() // the store is still open: it belongs to the objects
			f.mustCreate(t, machine("one", "a"))
			got := endpoints{f.GetSingularName(), f.ShortNames(), f.Categories(), f.NamespaceScoped(), f.New(), f.status.New(), f.NewList()}
			want := endpoints{"virtualmachine", []string{"vm"}, []string{"all", "demo"}, namespaced, &demo.VirtualMachine{}, &demo.VirtualMachine{}, &demo.VirtualMachineList{}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("other endpoints (-want +got):\n%s", diff)
			}
			_, err := f.Create(genericapirequest.WithNamespace(f.ctx(t), metav1.NamespaceNone), machine("two", "a"), nil, &metav1.CreateOptions{})
			if refused := apierrors.IsBadRequest(err) || apierrors.IsInternalError(err) || apierrors.IsInvalid(err); refused != namespaced {
				t.Errorf("a creation in no namespace: got %v, want a refusal: %v", err, namespaced)
			}
			if _, err := f.status.Get(f.ctx(t), "three", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the status of what does not exist: got %v, want 404", err)
			}
		})
	}
}

// TestSelectors checks which objects a list with selectors has.
func TestSelectors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		namespaced bool
		label      string
		field      string
		want       string
	}{
		{"all", true, "", "", "a b"},
		{"a label", true, "l=v", "", "a"},
		{"no label", true, "!l", "", "b"},
		{"a name", true, "", "metadata.name=b", "b"},
		{"a namespace", true, "", "metadata.namespace=n", "a b"},
		{"another namespace", true, "", "metadata.namespace=m", ""},
		{"a label and a name", true, "l=v", "metadata.name=b", ""},
		{"a namespace of a kind without", false, "", "metadata.namespace=n", ""},
		{"a name of a kind without namespaces", false, "", "metadata.name!=b", "a"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(k *kind, _ *calls) { k.Namespaced = tc.namespaced })
			a := machine("a", "x")
			a.Labels = map[string]string{"l": "v"}
			f.mustCreate(t, a, machine("b", "x"))
			label, err := labels.Parse(tc.label)
			if err != nil {
				t.Fatal(err)
			}
			list, err := f.List(f.ctx(t), &metainternalversion.ListOptions{LabelSelector: label, FieldSelector: fields.ParseSelectorOrDie(tc.field)})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, vm := range list.(*demo.VirtualMachineList).Items {
				got = append(got, vm.Name)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("other objects (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("what_is_no_object", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, nil)
		predicate := f.PredicateFunc(labels.Everything(), fields.ParseSelectorOrDie("metadata.name=a"))
		if matches, err := predicate.Matches(&metav1.Status{}); err == nil || matches {
			t.Errorf("got %v, %v, want an error", matches, err)
		}
	})
}

// TestRevision checks that the revision is of etcd: it grows with each write, also of others.
func TestRevision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.mustCreate(t, machine("one", "a"))
	before, err := f.Revision(f.ctx(t))
	if err != nil || before == 0 {
		t.Fatalf("got %d, %v", before, err)
	}
	f.mustCreate(t, machine("two", "a"))
	after, err := f.Revision(f.ctx(t))
	if err != nil || after <= before {
		t.Errorf("got %d, %v, want more than %d", after, err, before)
	}
	ended, cancel := context.WithCancel(f.ctx(t))
	cancel()
	if got, err := f.Revision(ended); err == nil {
		t.Errorf("got %d in a request that has ended, want an error", got)
	}
}
