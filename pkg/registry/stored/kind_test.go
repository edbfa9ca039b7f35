/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

// TestNewNeedsGuard checks that a kind without a guard gets no store: every author could write every object.
func TestNewNeedsGuard(t *testing.T) {
	t.Parallel()
	kind := stored.Kind[runtime.Object, any, any]{Resource: schema.GroupResource{Group: "example.com", Resource: "things"}}
	storage, err := stored.New(kind, runtime.NewScheme(), nil)
	if err == nil || !strings.Contains(err.Error(), "things.example.com: without a guard") || storage != nil {
		t.Errorf("got %v, %v, want an error about the guard", storage, err)
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
				Resource: things, Singular: tc.singular, Guard: stored.Unguarded{},
				New: func() runtime.Object { return &demo.VirtualMachine{} }, NewList: func() runtime.Object { return &demo.VirtualMachineList{} },
			}
			storage, err := stored.New(k, runtime.NewScheme(), tc.options)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || storage != nil {
				t.Errorf("got %v, %v, want an error that begins with %q", storage, err, tc.want)
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

// columns are the columns of machines.
var columns = []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "Image"}, {Name: "Age"}}

// TestTable checks the tables for kubectl of both storages of a kind: of one object, of lists, and of other objects.
func TestTable(t *testing.T) {
	t.Parallel()
	one := machine("one", "a")
	one.ResourceVersion, one.CreationTimestamp = "8", metav1.NewTime(time.Now().Add(-time.Hour))
	two := machine("two", "b")
	list := &demo.VirtualMachineList{
		ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "c", RemainingItemCount: ptr.To[int64](5)},
		Items:    []demo.VirtualMachine{*one, *two},
	}
	rows := [][]any{{"one", "a", "60m"}, {"two", "b", "<unknown>"}}
	for _, tc := range []struct {
		name      string
		object    runtime.Object
		options   runtime.Object
		want      [][]any
		wantMeta  metav1.ListMeta
		noHeaders bool
		wantErr   string
	}{
		{"an object", one, &metav1.TableOptions{}, rows[:1], metav1.ListMeta{ResourceVersion: "8"}, false, ""},
		{"an object, without options", one, nil, rows[:1], metav1.ListMeta{ResourceVersion: "8"}, false, ""},
		{"an object, without headers", one, &metav1.TableOptions{NoHeaders: true}, rows[:1], metav1.ListMeta{ResourceVersion: "8"}, true, ""},
		{"an object, with other options", one, &metav1.GetOptions{}, rows[:1], metav1.ListMeta{ResourceVersion: "8"}, false, ""},
		{"a list", list, &metav1.TableOptions{}, rows, list.ListMeta, false, ""},
		{"an empty list", &demo.VirtualMachineList{}, nil, nil, metav1.ListMeta{}, false, ""},
		{"an object of another kind", &demo.VirtualMachineConsoleOptions{}, nil, nil, metav1.ListMeta{}, false, "object does not implement the Object interfaces"},
		{"a list that is no list of machines", &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{}}}, nil, nil, metav1.ListMeta{}, false, "not of virtualmachines.demo.proviso.dev: *v1.PartialObjectMetadata"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(k *kind, _ *calls) {
				k.Columns, k.Cells = columns, func(p parts, name, age string) []any { return []any{name, p.Spec.Image, age} }
			})
			for name, storage := range map[string]rest.TableConvertor{"object": f.REST, "status": f.status} {
				got, err := storage.ConvertToTable(t.Context(), tc.object, tc.options)
				if tc.wantErr != "" {
					if err == nil || err.Error() != tc.wantErr {
						t.Errorf("%s: got %v, want %s", name, err, tc.wantErr)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				want := &metav1.Table{ListMeta: tc.wantMeta, ColumnDefinitions: columns}
				if tc.noHeaders {
					want.ColumnDefinitions = nil
				}
				var cells [][]any
				for _, row := range got.Rows {
					cells = append(cells, row.Cells)
				}
				if diff := cmp.Diff(tc.want, cells); diff != "" {
					t.Errorf("%s: other rows (-want +got):\n%s", name, diff)
				}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metav1.Table{}, "Rows")); diff != "" {
					t.Errorf("%s: another table (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// TestCells checks the texts in cells.
func TestCells(t *testing.T) {
	t.Parallel()
	ready := []metav1.Condition{{Type: "Other", Status: metav1.ConditionFalse}, {Type: "Ready", Status: metav1.ConditionTrue}}
	for _, tc := range []struct{ name, got, want string }{
		{"no list", stored.ListCell(nil), "<none>"},
		{"an empty list", stored.ListCell([]string{}), "<none>"},
		{"an empty entry", stored.ListCell([]string{""}), ""},
		{"as many as fit", stored.ListCell([]string{"a", "b", "c"}), "a,b,c"},
		{"one more", stored.ListCell([]string{"a", "b", "c", "d"}), "a,b,c + 1 more..."},
		{"many", stored.ListCell(slices.Repeat([]string{"a"}, 10_003)), "a,a,a + 10000 more..."},
		{"a condition", stored.ConditionCell(ready, "Ready"), "True"},
		{"another condition", stored.ConditionCell(ready, "Other"), "False"},
		{"no such condition", stored.ConditionCell(ready, "ready"), "Unknown"},
		{"no conditions", stored.ConditionCell(nil, "Ready"), "Unknown"},
		{"a line", stored.LineCell("a b"), "a b"},
		{"lines", stored.LineCell(" a\n\tb\r\n c "), "a b c"},
		{"blanks", stored.LineCell(" \n"), ""},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, tc.got, tc.want)
		}
	}
}
