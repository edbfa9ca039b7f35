/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
)

var errOtherKind = errors.New("not a machine")

// machines prints machines.
var machines = stored.Table{
	Columns: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "Image"}, {Name: "Age"}},
	Cells: func(obj runtime.Object, name, age string) ([]any, error) {
		vm, ok := obj.(*demo.VirtualMachine)
		if !ok {
			return nil, errOtherKind
		}
		return []any{name, vm.Spec.Image, age}, nil
	},
}

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
		{"a list that is no list of machines", &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{}}}, nil, nil, metav1.ListMeta{}, false, errOtherKind.Error()},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(k *kind, _ *calls) { k.Table = machines })
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
				want := &metav1.Table{ListMeta: tc.wantMeta, ColumnDefinitions: machines.Columns}
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
