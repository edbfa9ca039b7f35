/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	applydemo "github.com/proviso-authz/proviso/generated/applyconfiguration/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	typeddemo "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

// machines is a client for virtual machines of a server of the test's own.
func machines(t *testing.T) (typeddemo.VirtualMachineInterface, rest.Interface, *server.Server) {
	t.Helper()
	dir, err := os.MkdirTemp("", "vm") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := server.New(t, server.Config{Authorizer: rules, EtcdDir: dir})
	client, err := versioned.NewForConfig(s.Client(t, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	return client.DemoV1alpha1().VirtualMachines("n"), client.DemoV1alpha1().RESTClient(), s
}

func machine(name string) *demov1alpha1.VirtualMachine {
	return &demov1alpha1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       demov1alpha1.VirtualMachineSpec{Image: "debian-12", StorageClassName: "dev", Disks: []demov1alpha1.VirtualMachineDisk{{Name: "root", SizeGiB: 1.5}}},
		Status:     demov1alpha1.VirtualMachineStatus{Phase: demov1alpha1.VirtualMachineRunning},
	}
}

func TestVirtualMachineLife(t *testing.T) {
	t.Parallel()
	vms, _, _ := machines(t)
	ctx := t.Context()

	created, err := vms.Create(ctx, machine("one"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.Status.Phase != "" || created.Generation != 1 || ptr.Deref(created.Spec.CPUShare, 0) != 1 {
		t.Errorf("created: got phase %q, generation %d, share %v; a creation sets no status and gets generation and default", created.Status.Phase, created.Generation, created.Spec.CPUShare)
	}

	changed := created.DeepCopy()
	changed.Spec.NodeName, changed.Status.Phase = "node-1", demov1alpha1.VirtualMachineStopped
	updated, err := vms.Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if updated.Spec.NodeName != "node-1" || updated.Status.Phase != "" || updated.Generation != 2 {
		t.Errorf("updated: got %+v of generation %d, want the spec and nothing of the status", updated, updated.Generation)
	}

	status := updated.DeepCopy()
	status.Status.Phase, status.Spec.NodeName = demov1alpha1.VirtualMachineRunning, "node-2"
	status.Labels = map[string]string{"smuggled": "true"}
	updated, err = vms.UpdateStatus(ctx, status, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if updated.Status.Phase != "Running" || updated.Spec.NodeName != "node-1" || updated.Generation != 2 || len(updated.Labels) > 0 {
		t.Errorf("status updated: got %+v, want the status and nothing else", updated)
	}

	bad := updated.DeepCopy()
	bad.Spec.Image = ""
	if _, err := vms.Update(ctx, bad, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update without image: got %v, want 422", err)
	}
	stale := created.DeepCopy()
	stale.Spec.Image = "debian-13"
	if _, err := vms.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of what has changed: got %v, want 409", err)
	}

	if _, err := vms.Create(ctx, machine("two"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := vms.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=two"}); err != nil {
		t.Fatal(err)
	}
	list, err := vms.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "one" {
		t.Errorf("after a deletecollection with a selector: got %v, %v, want one", list, err)
	}
	if err := vms.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := vms.Get(ctx, "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after its deletion: got %v, want 404", err)
	}
}

// TestVirtualMachineMemoryIsBounded writes quantities that keep a processor busy when they are
// parsed or compared. They must be refused before that, on every route.
func TestVirtualMachineMemoryIsBounded(t *testing.T) {
	t.Parallel()
	vms, client, _ := machines(t)
	stored := machine("stored")
	stored.Spec.Memory = ptr.To("1024Mi")
	if _, err := vms.Create(t.Context(), stored, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, memory := range []string{"1e-9999", "1e9999", "1E-9999", "1e-999999999", "1e999999999", "1e+999999999", strings.Repeat("9", 100_000)} {
		name := memory[:min(len(memory), 20)]
		created := machine("created")
		created.Spec.Memory = &memory
		if _, err := vms.Create(t.Context(), created, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%s: create: got %v, want 422", name, err)
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"memory": memory}})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
			if _, err := vms.Patch(t.Context(), "stored", kind, patch, metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
				t.Errorf("%s: %s: got %v, want 422", name, kind, err)
			}
		}
		applied := applydemo.VirtualMachine("stored", "n").WithSpec(applydemo.VirtualMachineSpec().WithMemory(memory))
		if _, err := vms.Apply(t.Context(), applied, metav1.ApplyOptions{FieldManager: "test", Force: true}); !apierrors.IsInvalid(err) {
			t.Errorf("%s: apply: got %v, want 422", name, err)
		}
	}
	number := `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"number"},"spec":{"image":"debian","memory":1e-9999}}`
	if err := client.Post().Namespace("n").Resource("virtualmachines").Body([]byte(number)).SetHeader("Content-Type", "application/json").Do(t.Context()).Error(); !apierrors.IsBadRequest(err) {
		t.Errorf("a number: got %v, want 400", err)
	}
	got, err := vms.Patch(t.Context(), "stored", types.MergePatchType, []byte(`{"spec":{"memory":"1048576Ki"}}`), metav1.PatchOptions{})
	if err != nil || got.Generation != 1 || ptr.Deref(got.Spec.Memory, "") != "1Gi" {
		t.Errorf("the same amount in another text: got %+v of generation %d, %v; want 1Gi and no change", got.Spec, got.Generation, err)
	}
}

func TestVirtualMachinePutCreates(t *testing.T) {
	t.Parallel()
	vms, _, _ := machines(t)
	created, err := vms.Update(t.Context(), machine("one"), metav1.UpdateOptions{})
	if err != nil || created.UID == "" {
		t.Errorf("a PUT of what is not there: got %v, %v, want it to be created", created, err)
	}
	if _, err := vms.UpdateStatus(t.Context(), machine("two"), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a PUT of the status of what is not there: got %v, want 404", err)
	}
}

func TestVirtualMachineApply(t *testing.T) {
	t.Parallel()
	vms, _, _ := machines(t)
	ctx := t.Context()
	apply := func(manager, disk string, force bool) (*demov1alpha1.VirtualMachine, error) {
		return vms.Apply(ctx, applydemo.VirtualMachine("one", "n").WithSpec(applydemo.VirtualMachineSpec().
			WithImage("debian-12").WithTags(manager).
			WithDisks(applydemo.VirtualMachineDisk().WithName(disk).WithSizeGiB(2.5))),
			metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	if _, err := apply("a", "root", false); err != nil {
		t.Fatal(err)
	}
	got, err := apply("b", "data", false)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range got.Spec.Disks {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"root", "data"}, names); diff != "" {
		t.Errorf("disks of two managers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, got.Spec.Tags); diff != "" {
		t.Errorf("tags of two managers (-want +got):\n%s", diff)
	}
	_, err = vms.Apply(ctx, applydemo.VirtualMachine("one", "n").WithSpec(applydemo.VirtualMachineSpec().WithImage("other")), metav1.ApplyOptions{FieldManager: "c"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), ".spec.image") {
		t.Errorf("applying another's field: got %v, want a conflict that names it", err)
	}
}

// TestStoredKindsAreStrict sends misspelt fields in every way of writing.
func TestStoredKindsAreStrict(t *testing.T) {
	t.Parallel()
	vms, client, _ := machines(t)
	if _, err := vms.Create(t.Context(), machine("one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines"
	const misspelt = `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"one","namespace":"n"},"spec":{"image":"x","storageClasName":"dev"}}`
	for name, request := range map[string]*rest.Request{
		"create": client.Post().AbsPath(path), "update": client.Put().AbsPath(path + "/one"),
		"merge patch": client.Patch(types.MergePatchType).AbsPath(path + "/one"),
		"apply":       client.Patch(types.ApplyPatchType).AbsPath(path+"/one").Param("fieldManager", "m"),
	} {
		body := request.Body([]byte(misspelt))
		if name == "create" || name == "update" {
			body = body.SetHeader("Content-Type", "application/json")
		}
		err := body.Do(t.Context()).Error()
		if err == nil || !strings.Contains(err.Error(), "storageClasName") {
			t.Errorf("%s: got %v, want a refusal that names the field", name, err)
		}
	}
	// A client may still ask for less.
	err := client.Patch(types.MergePatchType).AbsPath(path+"/one").Param("fieldValidation", "Ignore").Body([]byte(misspelt)).Do(t.Context()).Error()
	if err != nil {
		t.Errorf("with fieldValidation=Ignore: got %v, want it to be accepted", err)
	}
}

func TestVirtualMachineTable(t *testing.T) {
	t.Parallel()
	vms, client, _ := machines(t)
	if _, err := vms.Create(t.Context(), machine("one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "/one"} {
		body, err := client.Get().AbsPath("/apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines"+path).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var table metav1.Table
		if err := json.Unmarshal(body, &table); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range table.ColumnDefinitions {
			names = append(names, c.Name)
		}
		if diff := cmp.Diff([]string{"Name", "Image", "Class", "Node", "Phase", "Age", "CPU", "Memory"}, names); diff != "" {
			t.Errorf("columns (-want +got):\n%s", diff)
		}
		if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "one" || table.Rows[0].Cells[2] != "dev" {
			t.Errorf("rows: got %+v, want that of the machine", table.Rows)
		}
	}
}

func TestVirtualMachineConsole(t *testing.T) {
	t.Parallel()
	vms, client, _ := machines(t)
	if _, err := vms.Create(t.Context(), machine("one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines/"
	for _, request := range []*rest.Request{client.Get(), client.Post()} {
		body, err := request.AbsPath(path+"one/console").Param("command", "ls").Param("command", "-l").Param("stdin", "true").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const want = `{"kind":"VirtualMachineConsoleOptions","apiVersion":"demo.proviso.dev/v1alpha1","command":["ls","-l"],"stdin":true}`
		if strings.TrimSpace(string(body)) != want {
			t.Errorf("got %s, want %s", body, want)
		}
	}
	if err := client.Get().AbsPath(path + "none/console").Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
		t.Errorf("the console of what is not there: got %v, want 404", err)
	}
	if err := client.Put().AbsPath(path + "one/console").Do(t.Context()).Error(); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("another method: got %v, want %d", err, http.StatusMethodNotAllowed)
	}
}

func TestDemoAPIIsOptional(t *testing.T) {
	t.Parallel()
	s := server.New(t, server.Config{Authorizer: rules})
	client, err := versioned.NewForConfig(s.Client(t, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.DemoV1alpha1().VirtualMachines("n").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without --enable-demo-api: got %v, want 404", err)
	}
}
