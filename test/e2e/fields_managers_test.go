/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// appliedMachine is what the manager deployer applies again and again.
const appliedMachine = `
apiVersion: demo.proviso.dev/v1alpha1
kind: VirtualMachine
metadata: {name: %s}
spec: {image: debian}
`

// forgeManagers has carol, who has permission on some labels, change metadata.managedFields so that
// the next apply by another manager would remove a field, on each route. All of it is refused, and the
// apply removes nothing.
func (x *fieldTest) forgeManagers(t *testing.T) {
	for _, route := range routes {
		t.Run(route.name, func(t *testing.T) {
			t.Parallel()
			namespace, name := (&tableSet{Set: "fields-operator"}).namespace(), "managers-"+route.name
			bob, carol := "bob"+route.suffix, "carol"+route.suffix
			apply := func() {
				t.Helper()
				args := []string{"apply", "--server-side", "--field-manager=deployer", "--namespace", namespace, "-f", "-"}
				if _, errs, err := kubectlWithInput(t, bob, fmt.Sprintf(appliedMachine, name), args...); err != nil {
					t.Fatal(errs)
				}
			}
			apply()
			mustKubectl(t, bob, "patch", machines, name, "--namespace", namespace, "--field-manager=scaler", "--type=merge", `--patch={"spec":{"storageClassName":"fast","tags":["a"]}}`)
			mustKubectl(t, carol, "label", machines, name, "--namespace", namespace, "super.safe.com/checked=true")
			mustKubectl(t, carol, "label", machines, name, "--namespace", namespace, "super.safe.com/checked=yes", "--overwrite")
			for _, attack := range x.attacks(t, namespace, name) {
				t.Run(attack.name, func(t *testing.T) {
					_, errs, err := kubectl(t, carol, append(append([]string{"patch", machines, name, "--namespace", namespace}, attack.flags...), "--type="+attack.patch, "--patch="+attack.body)...)
					if err == nil || !strings.Contains(errs, attack.want) {
						t.Errorf("got %v: %s, want it to be refused: %s", err, errs, attack.want)
					}
				})
			}
			t.Run("an update", func(t *testing.T) {
				vm, err := x.clients[carol].DemoV1alpha1().VirtualMachines(namespace).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc(vm.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "deployer" })
				vm.ManagedFields[i].FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{"f:image":{},"f:storageClassName":{}}}`)
				_, err = x.clients[carol].DemoV1alpha1().VirtualMachines(namespace).Update(t.Context(), vm, metav1.UpdateOptions{})
				if err == nil || !strings.Contains(err.Error(), "what other field managers own") {
					t.Errorf("got %v, want it to be refused", err)
				}
			})
			t.Run("an apply of what is there", func(t *testing.T) {
				_, errs, err := kubectlWithInput(t, carol, fmt.Sprintf(appliedMachine, name), "apply", "--server-side", "--field-manager=carol", "--namespace", namespace, "-f", "-")
				if err == nil || !strings.Contains(errs, "changing the managers of the field spec.image (metadata.managedFields) needs") {
					t.Errorf("got %v: %s, want it to be refused", err, errs)
				}
			})
			t.Run("an apply as another manager", func(t *testing.T) {
				body := strings.Replace(fmt.Sprintf(appliedMachine, name), "}\nspec: {image: debian", ", labels: {super.safe.com/checked: 'yes'}}\nspec: {image: debian, storageClassName: fast", 1)
				_, errs, err := kubectlWithInput(t, carol, body, "apply", "--server-side", "--field-manager=deployer", "--namespace", namespace, "-f", "-")
				if err == nil || !strings.Contains(errs, "changing the managers of the field spec.storageClassName (metadata.managedFields) needs") {
					t.Errorf("got %v: %s, want it to be refused", err, errs)
				}
			})
			apply()
			vm, err := x.proviso.DemoV1alpha1().VirtualMachines(namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if vm.Spec.StorageClassName != "fast" || !slices.Equal(vm.Spec.Tags, []string{"a"}) || vm.Labels["super.safe.com/checked"] != "yes" {
				t.Errorf("after the next apply: got labels %v and %+v, want nothing to be gone", vm.Labels, vm.Spec)
			}
		})
	}
}

// managersAttack is a patch of metadata.managedFields.
type managersAttack struct {
	name, patch, body, want string
	flags                   []string
}

func (x *fieldTest) attacks(t *testing.T, namespace, name string) []managersAttack {
	t.Helper()
	vm, err := x.proviso.DemoV1alpha1().VirtualMachines(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	entry := slices.IndexFunc(vm.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "deployer" })
	if entry < 0 {
		t.Fatalf("the manager has no entry in %v", vm.ManagedFields)
	}
	forged := slices.Clone(vm.ManagedFields)
	forged[entry].FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{"f:image":{},"f:storageClassName":{}}}`)
	list, err := json.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("/metadata/managedFields/%d", entry)
	const (
		foreign    = "what other field managers own"
		relabelled = `{"op":"add","path":"/metadata/labels/super.safe.com~1checked","value":"again"}`
	)
	return []managersAttack{
		{name: "a field for another manager", patch: "json", body: `[{"op":"add","path":"` + at + `/fieldsV1/f:spec/f:storageClassName","value":{}}]`, want: foreign},
		{name: "a field for another manager, and a label", patch: "json", body: `[` + relabelled + `,{"op":"add","path":"` + at + `/fieldsV1/f:spec/f:storageClassName","value":{}}]`, want: foreign},
		{name: "a field for the manager that the request names", patch: "json", flags: []string{"--field-manager=deployer"}, body: `[{"op":"add","path":"` + at + `/fieldsV1/f:spec/f:storageClassName","value":{}}]`, want: "changing the managers of the field spec.storageClassName (metadata.managedFields) needs"},
		{name: "the label for another manager", patch: "json", body: `[{"op":"add","path":"` + at + `/fieldsV1/f:metadata","value":{"f:labels":{"f:super.safe.com/checked":{}}}}]`, want: foreign},
		{name: "a manager that is made up", patch: "merge", body: `{"metadata":{"managedFields":[{"manager":"evil","operation":"Update","apiVersion":"demo.proviso.dev/v1alpha1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:image":{}}}}]}}`, want: "metadata.managedFields"},
		{name: "an entry fewer", patch: "json", body: `[{"op":"remove","path":"` + at + `"}]`, want: "the managers of the field spec.image"},
		{name: "another name", patch: "json", body: `[{"op":"replace","path":"` + at + `/manager","value":"mallory"}]`, want: foreign},
		{name: "another version", patch: "json", body: `[{"op":"replace","path":"` + at + `/apiVersion","value":"demo.proviso.dev/v1"}]`, want: "metadata.managedFields"},
		{name: "another time, and a label", patch: "json", body: `[` + relabelled + `,{"op":"replace","path":"` + at + `/time","value":"2020-01-01T00:00:00Z"}]`, want: foreign},
		{name: "the whole list", patch: "merge", body: `{"metadata":{"managedFields":` + string(list) + `}}`, want: foreign},
		{name: "a list with an empty entry", patch: "merge", body: `{"metadata":{"managedFields":[{}]}}`, want: "the managers of the field"},
		{name: "an empty list", patch: "merge", body: `{"metadata":{"managedFields":[]}}`, want: "the managers of the field"},
		{name: "the status", patch: "merge", flags: []string{"--subresource=status", "--field-manager=deployer"}, body: `{"status":{"phase":"Running"}}`, want: "changing the field status.phase"},
	}
}
