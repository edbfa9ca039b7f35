/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// loadEnv makes the load that of the acceptance: 2000 writes from 50 clients.
const loadEnv = "PROVISO_FULL_LOAD"

// policyPeriod is how often the policy changes during the load.
const policyPeriod = 100 * time.Millisecond

// TestEnforcementUnderLoad has many clients write while the policy that decides changes. Each
// generation of it allows a class of its own and says which, so that of every write the
// audit event tells what it was decided by, and whether it was decided right.
func TestEnforcementUnderLoad(t *testing.T) {
	writes, writers := 300, 20
	if os.Getenv(loadEnv) != "" {
		writes, writers = 2000, 50
	}
	x := newTable(t)
	set := &tableSet{Set: "load", Policies: []tablePolicy{{
		Name: "load", Effect: policyv1alpha1.PolicyEffectAllow, Users: []string{"carol"}, Resources: []string{machines}, Versions: []string{machinesVersion},
		Verbs: []string{"create", "update", "patch", "delete"}, Description: generationDescription(0),
		Variables: []policyv1alpha1.Variable{{Name: "subjectOf", Expression: "operation == 'DELETE' ? oldObject : object"}},
		Condition: generationCondition(0),
	}}}
	x.install(t, set)

	load := &load{namespace: set.namespace(), admin: x.proviso}
	stop, changed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(changed)
		load.changePolicy(t, stop)
	}()
	started := time.Now()
	results := make([][]write, writers)
	var group sync.WaitGroup
	for i := range writers {
		w := load.writer(t, i)
		group.Go(func() { results[i] = w.run(t, writes/writers) })
	}
	group.Wait()
	took := time.Since(started)
	close(stop)
	<-changed
	load.check(t, slices.Concat(results...), took)
}

func generationDescription(n int64) string { return fmt.Sprintf("generation %d", n) }
func generationClass(n int64) string       { return fmt.Sprintf("gen-%d", n) }
func generationCondition(n int64) string {
	return fmt.Sprintf("variables.subjectOf.spec.storageClassName == %q", generationClass(n))
}

// load is what the writers share.
type load struct {
	namespace string
	admin     versioned.Interface
	// generation is that of the policy as it was written last.
	generation atomic.Int64
}

// changePolicy writes a new generation of the policy in every period.
func (l *load) changePolicy(t *testing.T, stop <-chan struct{}) {
	t.Helper()
	ticker := time.NewTicker(policyPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		n := l.generation.Load() + 1
		patch := mustJSON(map[string]any{"spec": map[string]any{"description": generationDescription(n), "condition": generationCondition(n)}})
		if _, err := l.admin.PolicyV1alpha1().AuthorizationPolicies(l.namespace).Patch(context.Background(), "load", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Errorf("generation %d: %v", n, err)
			return
		}
		l.generation.Store(n)
	}
}

// write is one request of a writer and how it ended.
type write struct {
	id, what string // id is that of its audit event
	class    int64  // the generation whose class was written
	err      error
}

// writer writes one request after the other, over a connection of its own.
type writer struct {
	load   *load
	index  int
	client rest.Interface
	own    string // the machine that it changes
}

// writer makes a client, half of them straight to Proviso.
func (l *load) writer(t *testing.T, index int) *writer {
	t.Helper()
	c := config(t, "carol"+routes[index%len(routes)].suffix)
	c.Dial = (&net.Dialer{}).DialContext // keeps the transport from being shared
	client, err := versioned.NewForConfig(c)
	must(t, err)
	w := &writer{load: l, index: index, client: client.DemoV1alpha1().RESTClient(), own: fmt.Sprintf("own-%d", index)}
	w.create(t, w.own, 0)
	return w
}

// create makes a machine as admin.
func (w *writer) create(t *testing.T, name string, class int64) {
	t.Helper()
	vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian-12", StorageClassName: generationClass(class)}}
	if _, err := w.load.admin.DemoV1alpha1().VirtualMachines(w.load.namespace).Create(t.Context(), vm, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// run makes writes of all kinds, in the class of the policy as it is, has just been, or will
// be soon.
func (w *writer) run(t *testing.T, count int) []write {
	t.Helper()
	var writes []write
	for i := range count {
		class := w.load.generation.Load() + []int64{0, 0, -1, 1}[(i+w.index)%4]
		name := fmt.Sprintf("w%d-%d", w.index, i)
		collection := fmt.Sprintf("/apis/%s/namespaces/%s/%s", demov1alpha1.SchemeGroupVersion, w.load.namespace, machines)
		machine := func(name string) map[string]any {
			return map[string]any{
				"apiVersion": demov1alpha1.SchemeGroupVersion.String(), "kind": "VirtualMachine", "metadata": map[string]any{"name": name},
				"spec": map[string]any{"image": "debian-12", "storageClassName": generationClass(class), "tags": []any{fmt.Sprint(i)}},
			}
		}
		r := apiRequest{path: collection + "/" + w.own, contentType: "application/json"}
		switch i % 6 {
		case 0:
			r.method, r.path, r.body = http.MethodPost, collection, machine(name)
		case 1:
			r.method, r.body = http.MethodPut, machine(w.own)
		case 2:
			r.method, r.body, r.contentType = http.MethodPatch, map[string]any{"spec": machine("")["spec"]}, string(types.MergePatchType)
		case 3:
			r.method, r.path, r.body, r.contentType = http.MethodPatch, collection+"/"+name, machine(name), string(types.ApplyPatchType)
			r.query = url.Values{"fieldManager": {"load"}}
		case 4:
			w.create(t, name, class)
			r.method, r.path = http.MethodDelete, collection+"/"+name
		case 5:
			r.method, r.path, r.body, r.query = http.MethodPost, collection, machine(name), url.Values{"dryRun": {metav1.DryRunAll}}
		}
		id := string(uuid.NewUUID())
		r.header = map[string]string{auditv1.HeaderAuditID: id}
		_, err := r.send(t.Context(), w.client)
		writes = append(writes, write{id: id, what: r.method + " " + r.path, class: class, err: err})
	}
	return writes
}

// check compares each write with what its audit event says it was decided by.
func (l *load) check(t *testing.T, writes []write, took time.Duration) {
	t.Helper()
	events := eventsOf(t, writes)
	generations := map[uint64]int64{} // by revision
	allowed, refused := 0, 0
	for _, w := range writes {
		if w.err != nil && !apierrors.IsForbidden(w.err) {
			t.Errorf("%s: %v", w.what, w.err)
			continue
		}
		if w.err == nil {
			allowed++
		} else {
			refused++
		}
		revision, generation, err := decidedBy(events[w.id])
		if err != nil {
			t.Errorf("%s: %v", w.what, err)
			continue
		}
		if other, ok := generations[revision]; ok && other != generation {
			t.Errorf("revision %d is of generation %d and of %d", revision, generation, other)
		}
		generations[revision] = generation
		if got, want := w.err == nil, generation == w.class; got != want {
			t.Errorf("%s in class %d was allowed: %t, though it was decided by generation %d: %v", w.what, w.class, got, generation, w.err)
		}
		annotated := events[w.id].Annotations["authorization.proviso.dev/decision"]
		if want := map[bool]string{true: "allow", false: "deny"}[w.err == nil]; annotated != want {
			t.Errorf("%s: the audit event says %q, want %q", w.what, annotated, want)
		}
	}
	last := int64(-1)
	for _, revision := range slices.Sorted(maps.Keys(generations)) {
		if generations[revision] < last {
			t.Errorf("revision %d is of generation %d, after one of %d", revision, generations[revision], last)
		}
		last = generations[revision]
	}
	if allowed == 0 || refused == 0 || len(generations) < 3 {
		t.Errorf("the load tells nothing: %d allowed, %d refused, by %d generations", allowed, refused, len(generations))
	}
	metrics := mustKubectl(t, "admin-direct", "get", "--raw", "/metrics")
	if !regexp.MustCompile(`(?m)^proviso_enforcement_never_evaluated_total 0$`).MatchString(metrics) {
		t.Error("the metric of conditions that were never evaluated is not zero")
	}
	t.Logf("%d writes in %s (%.0f/s): %d allowed, %d refused, by %d of %d generations of the policy (%.1f/s)", len(writes), took.Round(time.Millisecond),
		float64(len(writes))/took.Seconds(), allowed, refused, len(generations), l.generation.Load()+1, float64(l.generation.Load())/took.Seconds())
}

var generationPattern = regexp.MustCompile(`generation (\d+)`)

// decidedBy reads from an audit event the revision of the policies, and the generation of the
// one that decided.
func decidedBy(event *auditv1.Event) (revision uint64, generation int64, err error) {
	if event == nil {
		return 0, 0, errors.New("there is no audit event")
	}
	if event.Annotations["authorization.k8s.io/is-conditional-decision"] != "true" {
		return 0, 0, fmt.Errorf("the decision was not conditional: %v", event.Annotations)
	}
	if revision, err = strconv.ParseUint(event.Annotations["authorization.proviso.dev/policy-revision"], 10, 64); err != nil {
		return 0, 0, err
	}
	match := generationPattern.FindStringSubmatch(event.Annotations["authorization.proviso.dev/reason"])
	if match == nil {
		return 0, 0, fmt.Errorf("no generation in %v", event.Annotations)
	}
	generation, err = strconv.ParseInt(match[1], 10, 64)
	return revision, generation, err
}

// eventsOf reads the events of writes from the log of Proviso.
func eventsOf(t *testing.T, writes []write) map[string]*auditv1.Event {
	t.Helper()
	ids := make([]string, 0, len(writes))
	for _, w := range writes {
		ids = append(ids, w.id)
	}
	return auditEvents(t, filepath.Join(stack.Dir, "proviso-apiserver.log"), ids...)
}

// auditEvents reads the events of the requests with these audit IDs from a log, once all are there.
func auditEvents(t *testing.T, file string, ids ...string) map[string]*auditv1.Event {
	t.Helper()
	events := map[string]*auditv1.Event{}
	for _, id := range ids {
		events[id] = nil
	}
	poll.Eventually(t, "the audit events are written", func() string {
		content, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		for line := range bytes.Lines(content) {
			event := &auditv1.Event{}
			if !bytes.HasPrefix(line, []byte(`{"kind":"Event"`)) || json.Unmarshal(line, event) != nil || event.Stage != auditv1.StageResponseComplete {
				continue // the last line may not be complete
			}
			if _, isWanted := events[string(event.AuditID)]; isWanted {
				events[string(event.AuditID)] = event
			}
		}
		for id, event := range events {
			if event == nil {
				return "there is no event " + id
			}
		}
		return ""
	})
	return events
}
