/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mappingcontroller_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kube-openapi/pkg/validation/spec"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/granular/mappingcontroller"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
	"github.com/proviso-authz/proviso/test/testutil/conflicts"
)

// mappingRig is a controller with a client that stores objects without validation, as etcd does, and refuses the status of a mapping that has
// changed since it was read.
type mappingRig struct {
	client *fake.Clientset
	source *mapping.Source
	ready  func() error
}

// storeOf returns a store with the mappings of a client.
func storeOf(client versioned.Interface) controller.Store {
	return clientstore.Of(client.PolicyV1alpha1().FieldPermissionMappings(), clientstore.Latest)
}

func startMappingRig(t *testing.T, client *fake.Clientset, bound time.Duration) *mappingRig {
	t.Helper()
	return startMappingRigOf(t, client, bound, &mapping.Source{})
}

func startMappingRigOf(t *testing.T, client *fake.Clientset, bound time.Duration, source *mapping.Source) *mappingRig {
	t.Helper()
	conflicts.Refuse(t, client)
	r := &mappingRig{client: client, source: source}
	controller, err := mappingcontroller.New(mappingcontroller.Config{
		Client: client, Source: r.source, StalenessBound: bound, Store: storeOf(client),
		End: func(cause error) { t.Errorf("it ends the process: %v", cause) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.ready = func() error { return controller.Ready().Check(nil) }
	if err := r.ready(); err == nil {
		t.Error("the controller is ready before it runs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); controller.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	r.eventually(t, "it is loaded", func() bool { return r.source.Table() != nil })
	// The client of tests forgets what happens between a list and the watch after it.
	r.eventually(t, "it watches", func() bool {
		for _, action := range client.Actions() {
			if action.GetVerb() == "watch" {
				return true
			}
		}
		return false
	})
	return r
}

func (r *mappingRig) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, wait.ForeverTestTimeout, true, func(context.Context) (bool, error) {
		return holds(), nil
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (r *mappingRig) excludes(resource string) bool {
	return r.source.Table().Excludes(schema.GroupVersionResource{Resource: resource})
}

func (r *mappingRig) put(t *testing.T, m *policyv1alpha1.FieldPermissionMapping) {
	t.Helper()
	mappings := r.client.PolicyV1alpha1().FieldPermissionMappings()
	if _, err := mappings.Update(t.Context(), m, metav1.UpdateOptions{}); err == nil {
		return
	}
	if _, err := mappings.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// status is what the status of a mapping says: Ready, its reason and its message.
func (r *mappingRig) status(t *testing.T, name string) string {
	t.Helper()
	m, err := r.client.PolicyV1alpha1().FieldPermissionMappings().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ready := meta.FindStatusCondition(m.Status.Conditions, policyv1alpha1.PolicyReady); ready != nil {
		return string(ready.Status) + " " + ready.Reason + ": " + ready.Message
	}
	return ""
}

func newMapping(name, path, permission string, exclusion *policyv1alpha1.FieldExclusion) *policyv1alpha1.FieldPermissionMapping {
	return &policyv1alpha1.FieldPermissionMapping{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 7},
		Spec: policyv1alpha1.FieldPermissionMappingSpec{
			Resources: []policyv1alpha1.FieldPermissionResource{{Resource: "pods"}},
			Fields:    []policyv1alpha1.FieldPermission{{Path: path, Permission: permission, Exclusion: exclusion}},
		},
	}
}

var always = &policyv1alpha1.FieldExclusion{}

// TestMappings follows a mapping that is created, changed and deleted.
func TestMappings(t *testing.T) {
	t.Parallel()
	r := startMappingRig(t, fake.NewSimpleClientset(), time.Minute)
	if r.excludes("*") {
		t.Error("without mappings: something is excluded")
	}
	if err := r.ready(); err != nil {
		t.Errorf("the controller is not ready: %v", err)
	}
	m := newMapping("one", "spec.boom", "selfDestruction", always)
	r.put(t, m)
	r.eventually(t, "created", func() bool { return r.excludes("pods") })
	r.eventually(t, "its status is written", func() bool { return r.status(t, "one") == "True Compiled: the mapping takes effect" })
	m.Spec.Resources[0].Resource = "nodes"
	r.put(t, m)
	r.eventually(t, "changed", func() bool { return r.excludes("nodes") && !r.excludes("pods") })
	if err := r.client.PolicyV1alpha1().FieldPermissionMappings().Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(t, "deleted", func() bool { return !r.excludes("*") })
}

// TestMappingStatus has mappings that contradict each other or cannot be used. What is wrong
// with one may change without it: its status follows.
func TestMappingStatus(t *testing.T) {
	t.Parallel()
	r := startMappingRig(t, fake.NewSimpleClientset(), time.Minute)
	says := func(name, want string) {
		t.Helper()
		r.eventually(t, name+": "+want, func() bool {
			got := r.status(t, name)
			return strings.HasPrefix(got, strings.SplitN(want, " ... ", 2)[0]) && strings.HasSuffix(got, want[strings.LastIndex(want, "...")+len("..."):])
		})
	}
	const ready = "True Compiled: ... takes effect"
	r.put(t, newMapping("one", "spec.boom", "selfDestruction", always))
	says("one", ready)
	r.put(t, newMapping("two", "spec.boom", "noise", nil))
	says("one", `False Contradicted: in pods, spec.boom has permission "selfDestruction" by FieldPermissionMapping "one" and "noise" by FieldPermissionMapping "two". ... it cannot be changed`)
	says("two", `False Contradicted: in pods, spec.boom has permission "noise" by FieldPermissionMapping "two" and "selfDestruction" by FieldPermissionMapping "one". ... it cannot be changed`)
	r.put(t, newMapping("two", "spec.bang", "noise", nil))
	says("one", ready)
	says("two", ready)
	r.put(t, newMapping("two", "spec..", "noise", nil))
	says("two", "False CompileFailed: spec.fields[0].path: Invalid value ... granted by the mapping")
	r.put(t, newMapping("two", "spec..", "noise", always))
	says("two", "False CompileFailed: spec.fields[0].path: Invalid value ... cannot be written until it is mended, since it excludes fields")
	nowhere := newMapping("two", "spec.bang", "noise", always)
	nowhere.Spec.Resources = nil
	r.put(t, nowhere)
	says("two", "False CompileFailed: spec.resources: Required value ... excludes fields without naming resources")
	if !r.excludes("nodes") {
		t.Error("a mapping that excludes fields of nobody knows what excludes nothing")
	}
	says("one", ready)

	// What somebody else writes does not stay.
	one, err := r.client.PolicyV1alpha1().FieldPermissionMappings().Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if one.Status.ObservedGeneration != 7 || one.Status.Conditions[0].ObservedGeneration != 7 {
		t.Errorf("got status %+v, want that of generation 7", one.Status)
	}
	one.Status.Conditions[0].Status, one.Status.Conditions[0].Reason = metav1.ConditionFalse, "Mine"
	r.put(t, one)
	says("one", ready)
}

// TestMappingsBesideSchemas has a schema that excludes a field: it does so whatever mappings
// there are, and a mapping that contradicts it says so.
func TestMappingsBesideSchemas(t *testing.T) {
	t.Parallel()
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	root, boom := &spec.Schema{}, spec.BoolProperty()
	boom.AddExtension("x-kubernetes-permission-verb", "selfDestruction")
	boom.AddExtension("x-kubernetes-permission-excluded", true)
	root.SetProperty("spec", *(&spec.Schema{}).SetProperty("boom", *boom))
	root.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": "", "version": "v1", "kind": "Pod"}})
	markers, err := mapping.NewMarkers(map[string]*spec.Schema{"pod": root}, map[schema.GroupVersionKind]string{pod: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	r := startMappingRigOf(t, fake.NewSimpleClientset(), time.Minute, mapping.NewSource(markers))
	if !r.excludes("pods") {
		t.Error("without mappings: what the schema excludes is not")
	}
	r.put(t, newMapping("one", "spec.boom", "noise", nil))
	const want = `False Contradicted: in pods, spec.boom has permission "noise" by FieldPermissionMapping "one" and "selfDestruction" by the schema of Pod in v1.`
	r.eventually(t, want, func() bool { return strings.HasPrefix(r.status(t, "one"), want) })
	if !r.excludes("pods") {
		t.Error("with a mapping: what the schema excludes is not")
	}
	r.put(t, newMapping("one", "spec.boom", "selfDestruction", nil))
	r.eventually(t, "it agrees", func() bool { return strings.HasPrefix(r.status(t, "one"), "True Compiled") })
}

// TestMappingStatusPublishesNothing writes a status: that of mappings makes no new table.
func TestMappingStatusPublishesNothing(t *testing.T) {
	t.Parallel()
	r := startMappingRig(t, fake.NewSimpleClientset(newMapping("one", "spec.boom", "selfDestruction", always)), time.Minute)
	r.eventually(t, "its status is written", func() bool { return r.status(t, "one") != "" })
	table := r.source.Table()
	one, err := r.client.PolicyV1alpha1().FieldPermissionMappings().Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	one.Status.ObservedGeneration = 3
	r.put(t, one)
	r.eventually(t, "it is written again", func() bool {
		m, err := r.client.PolicyV1alpha1().FieldPermissionMappings().Get(t.Context(), "one", metav1.GetOptions{})
		return err == nil && m.Status.ObservedGeneration == 7
	})
	if r.source.Table() != table {
		t.Error("a change of the status made a new table")
	}
}

// TestMappingEffect has the condition Effective in the status: it stays while it is not known, and a change of it is written after Recheck.
func TestMappingEffect(t *testing.T) {
	t.Parallel()
	client := fake.NewSimpleClientset(newMapping("one", "spec.boom", "selfDestruction", always))
	var mu sync.Mutex
	var condition *metav1.Condition
	isKnown := false
	set := func(next *metav1.Condition, nextKnown bool) {
		mu.Lock()
		defer mu.Unlock()
		condition, isKnown = next, nextKnown
	}
	controller, err := mappingcontroller.New(mappingcontroller.Config{
		Client: client, Source: &mapping.Source{}, StalenessBound: time.Minute, Store: storeOf(client), End: func(error) {},
		Effective: func(*policyv1alpha1.FieldPermissionMapping) (*metav1.Condition, bool) {
			mu.Lock()
			defer mu.Unlock()
			return condition, isKnown
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); controller.Run(ctx) }()
	defer func() { cancel(); <-done }()
	r := &mappingRig{client: client}
	reason := func() string {
		controller.Recheck()
		m, err := client.PolicyV1alpha1().FieldPermissionMappings().Get(t.Context(), "one", metav1.GetOptions{})
		if effective := meta.FindStatusCondition(m.Status.Conditions, policyv1alpha1.PolicyEffective); err == nil && effective != nil {
			return effective.Reason
		}
		return ""
	}
	r.eventually(t, "Ready is written", func() bool { return r.status(t, "one") != "" && reason() == "" })
	set(&metav1.Condition{Type: policyv1alpha1.PolicyEffective, Status: metav1.ConditionFalse, Reason: "Pending"}, true)
	r.eventually(t, "the condition is written", func() bool { return reason() == "Pending" })
	set(nil, false)
	for range 10 {
		if got := reason(); got != "Pending" {
			t.Errorf("got %q while the condition is not known", got)
		}
	}
	set(nil, true)
	r.eventually(t, "the condition is removed", func() bool { return reason() == "" })
}

// TestMappingStaleness loses the store for longer than the bound.
func TestMappingStaleness(t *testing.T) {
	t.Parallel()
	var (
		mu   sync.Mutex
		gone error
	)
	client := fake.NewSimpleClientset(newMapping("one", "spec.boom", "selfDestruction", always))
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		return gone != nil, nil, gone
	})
	lose := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		gone = err
	}
	r := startMappingRig(t, client, 100*time.Millisecond)
	r.eventually(t, "it is ready", func() bool { return r.ready() == nil && r.source.Stale() == "" })
	lose(errors.New("etcd is gone"))
	r.eventually(t, "it is not ready", func() bool { return r.ready() != nil && r.source.Stale() != "" })
	if !r.excludes("pods") {
		t.Error("without the store: nothing is excluded")
	}
	if reason := r.source.Stale(); strings.Contains(reason, "etcd is gone") {
		t.Errorf("got %q, which says what only the log should", reason)
	}
	lose(nil)
	r.eventually(t, "it is ready again", func() bool { return r.ready() == nil && r.source.Stale() == "" })
}

func TestMappingConfig(t *testing.T) {
	t.Parallel()
	end := func(error) {}
	for name, config := range map[string]mappingcontroller.Config{
		"client": {Source: &mapping.Source{}, StalenessBound: time.Minute, Store: storeOf(fake.NewSimpleClientset()), End: end},
		"source": {Client: fake.NewSimpleClientset(), StalenessBound: time.Minute, Store: storeOf(fake.NewSimpleClientset()), End: end},
		"bound":  {Client: fake.NewSimpleClientset(), Source: &mapping.Source{}, Store: storeOf(fake.NewSimpleClientset()), End: end},
		"store":  {Client: fake.NewSimpleClientset(), Source: &mapping.Source{}, StalenessBound: time.Minute, End: end},
		"end":    {Client: fake.NewSimpleClientset(), Source: &mapping.Source{}, StalenessBound: time.Minute, Store: storeOf(fake.NewSimpleClientset())},
	} {
		if _, err := mappingcontroller.New(config); err == nil {
			t.Errorf("a controller without %s was made", name)
		}
	}
}
