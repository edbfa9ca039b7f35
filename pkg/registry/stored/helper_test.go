/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/proviso-authz/proviso/apis/demo"
	"github.com/proviso-authz/proviso/apis/demo/install"
	"github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

func TestMain(m *testing.M) { store.Main(m) }

// kind is the kind of the tests: machines, with validation of the tests' own.
type kind = stored.Kind[*demo.VirtualMachine, demo.VirtualMachineSpec, demo.VirtualMachineStatus]

// parts are the parts of a machine.
type parts = stored.Parts[demo.VirtualMachineSpec, demo.VirtualMachineStatus]

// calls records the calls that a write makes, in their order, and makes some of them fail.
type calls struct {
	mu   sync.Mutex
	made []string
	// failing has the errors of calls, by their names.
	failing map[string]error
}

func (c *calls) call(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, name)
	return c.failing[name]
}

// errs returns the error of a call as an error about a field.
func (c *calls) errs(name string) field.ErrorList {
	if err := c.call(name); err != nil {
		return field.ErrorList{field.Forbidden(field.NewPath("spec"), err.Error())}
	}
	return nil
}

// reset forgets the calls, and makes others fail.
func (c *calls) reset(failing map[string]error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made, c.failing = nil, failing
}

// guard is a Guard that records its calls, with the images of the objects.
type guard struct{ *calls }

func (g guard) MayCreate(_ context.Context, obj runtime.Object) error {
	return g.call("may create " + imageOf(obj))
}

func (g guard) MayUpdate(_ context.Context, obj, old runtime.Object) error {
	return g.call("may update " + imageOf(old) + " to " + imageOf(obj))
}

func (g guard) MayDelete(_ context.Context, obj runtime.Object) error {
	return g.call("may delete " + imageOf(obj))
}

func (g guard) MayDeleteUnread(_ context.Context, name string) error {
	return g.call("may delete unread " + name)
}

func imageOf(obj runtime.Object) string { return obj.(*demo.VirtualMachine).Spec.Image }

// fixture is a kind with a store of the test's own.
type fixture struct {
	*stored.REST
	scheme *runtime.Scheme
	status *stored.StatusREST
	*calls
}

// newFixture returns a namespaced kind all of whose functions are recorded. change may change the kind.
func newFixture(t *testing.T, change func(*kind, *calls)) *fixture {
	t.Helper()
	return newFixtureWith(t, change, generic.UndecoratedStorage)
}

// newFixtureWith is newFixture with a decorator of the store, such as the watch cache.
func newFixtureWith(t *testing.T, change func(*kind, *calls), decorator generic.StorageDecorator) *fixture {
	t.Helper()
	c := &calls{}
	k := kind{
		Resource: demo.Resource("virtualmachines"), Singular: demo.Resource("virtualmachine"), Version: v1alpha1.SchemeGroupVersion,
		ShortNames: []string{"vm"}, Categories: []string{"all", "demo"}, Namespaced: true,
		New:     func() runtime.Object { return &demo.VirtualMachine{} },
		NewList: func() runtime.Object { return &demo.VirtualMachineList{} },
		Parts: func(vm *demo.VirtualMachine) parts {
			return parts{Meta: &vm.ObjectMeta, Spec: &vm.Spec, Status: &vm.Status}
		},
		Validate:             func(*demo.VirtualMachine) field.ErrorList { return c.errs("validate") },
		ValidateUpdate:       func(_, _ *demo.VirtualMachine) field.ErrorList { return c.errs("validate update") },
		ValidateStatusUpdate: func(_, _ *demo.VirtualMachine) field.ErrorList { return c.errs("validate status") },
		Check: func(parts) ([]string, field.ErrorList) {
			return []string{"of check"}, c.errs("check")
		},
		CheckChange: func(_ parts, before *demo.VirtualMachineSpec) field.ErrorList {
			if before == nil {
				return c.errs("check creation")
			}
			return c.errs("check change of " + before.Image)
		},
		Warn: func(context.Context, *demo.VirtualMachine) []string {
			_ = c.call("warn")
			return []string{"of warn"}
		},
		Begin: func(context.Context) (func(), error) {
			return func() { _ = c.call("end") }, c.call("begin")
		},
		Guard: guard{c},
	}
	if change != nil {
		change(&k, c)
	}
	scheme := store.Scheme(install.Install, v1alpha1.SchemeGroupVersion)
	options := store.Options(t, scheme, v1alpha1.SchemeGroupVersion, "virtualmachines")
	options.Decorator = decorator
	storage, err := stored.New(k, scheme, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(storage.Objects.Destroy)
	return &fixture{REST: storage.Objects, scheme: scheme, status: storage.Status, calls: c}
}

// ctx is the context of a request by alice in the namespace n, or in none for a kind without namespaces.
func (f *fixture) ctx(t *testing.T) context.Context {
	t.Helper()
	namespace := metav1.NamespaceNone
	if f.NamespaceScoped() {
		namespace = "n"
	}
	ctx := genericapirequest.WithNamespace(t.Context(), namespace)
	return genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "alice", Groups: []string{"devs"}})
}

func machine(name, image string) *demo.VirtualMachine {
	return &demo.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demo.VirtualMachineSpec{Image: image}}
}

// mustCreate creates objects, and then forgets the calls.
func (f *fixture) mustCreate(t *testing.T, machines ...*demo.VirtualMachine) {
	t.Helper()
	for _, vm := range machines {
		if _, err := f.Create(f.ctx(t), vm, nil, &metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.reset(nil)
}

// update changes a copy of the stored object.
func (f *fixture) update(t *testing.T, by store.Updater, name string, change func(*demo.VirtualMachine)) (*demo.VirtualMachine, error) {
	t.Helper()
	got, _, err := by.Update(f.ctx(t), name, store.Changing(change), nil, nil, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return got.(*demo.VirtualMachine), nil
}

func withImage(image string) func(*demo.VirtualMachine) {
	return func(vm *demo.VirtualMachine) { vm.Spec.Image = image }
}

func labelled(vm *demo.VirtualMachine) {
	vm.Labels = map[string]string{"a": "b"}
	vm.Spec.Tags = []string{} // the same as none
}

// dump returns everything that etcd has for the test.
func dump(t *testing.T) string {
	t.Helper()
	got, err := store.Client(t).Get(t.Context(), store.Prefix(t)+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, kv := range got.Kvs {
		lines = append(lines, string(kv.Key)+" "+string(kv.Value))
	}
	return strings.Join(slices.Sorted(slices.Values(lines)), "\n")
}
