/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/test/testutil/server"
)

// refusing is an admission plugin behind the conditions. It refuses every request of alice, after it has changed the
// object once.
type refusing struct {
	once   *sync.Once
	change func()
}

func (refusing) Handles(admission.Operation) bool { return true }

func (r refusing) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetUserInfo().GetName() != "alice" {
		return nil
	}
	r.once.Do(r.change)
	return admission.NewForbidden(a, errRefusing)
}

var errRefusing = errors.New("the quota is used up")

// TestRefusalsOfEarlierAttemptsExplainNothing has a plugin refuse an attempt at an update while another client changes
// the object. The store attempts the update again, which fails before its conditions are evaluated.
func TestRefusalsOfEarlierAttemptsExplainNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, image, want string }{
		{"the next attempt fails", hidden + " (image)", "details are shown to users who may get the object"},
		{"the next attempt is refused by its conditions", hidden, "details are shown to users who may get the object"},
		{"the next attempt is refused alike", "mine", errRefusing.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var e *enforcing
			plugin := refusing{once: &sync.Once{}, change: func() {
				e.must(t, http.MethodPut, alicesMachine, machineJSON(named+`,"annotations":{"a":"b"}`, tc.image))
			}}
			e = newEnforcing(t, rights{"Allow patch virtualmachines": mine}, func(c *server.Config) {
				c.Generic = func(g *genericapiserver.Config) {
					g.AdmissionControl = admission.NewChainHandler(g.AdmissionControl, plugin)
				}
			})
			e.must(t, http.MethodPost, machinesPath, machineJSON(named, "mine"))
			e.revision(t) // the cache has the machine, and the store starts from it
			p := probe{"", http.MethodPatch, alicesMachine, jsonPatch, `[{"op":"add","path":"/metadata/labels","value":{}},{"op":"copy","from":"/spec/image","path":"/metadata/labels/x"}]`}
			got := p.send(t.Context(), e.Server, "")
			if body := got.Body.String(); got.Code != http.StatusForbidden || !strings.Contains(body, tc.want) || strings.Contains(body, hidden) {
				t.Errorf("got %d %s, want 403 with %q", got.Code, got.Body, tc.want)
			}
			if e.stored(t)["one"] != tc.image {
				t.Errorf("stored: %v, want an image that was changed", e.stored(t))
			}
		})
	}
}

const strategicPatch = "application/strategic-merge-patch+json"

// guesses are requests that test a value, and fail in some other way if it was guessed.
func guesses(path, guess string) []probe {
	var all []probe
	for _, then := range []string{
		`{"op":"replace","path":"/metadata/resourceVersion","value":"abc"}`,
		`{"op":"replace","path":"/metadata/resourceVersion","value":"-1"}`,
		`{"op":"replace","path":"/metadata/resourceVersion","value":"99999999999999999999"}`,
		`{"op":"replace","path":"/kind","value":"Foo"}`,
		`{"op":"remove","path":"/metadata"}`,
		`{"op":"replace","path":"","value":null}`,
		`{"op":"replace","path":"","value":[]}`,
		`{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"x","operation":"Bogus"}]}`,
		`{"op":"replace","path":"/spec/disks/0/sizeGiB","value":"1e-999999999"}`,
	} {
		all = append(all, probe{then, http.MethodPatch, path, jsonPatch, fmt.Sprintf(`[{"op":"test","path":"/metadata/labels/tier","value":%q},%s]`, guess, then)})
	}
	for _, metadata := range []string{`"resourceVersion":"abc"`, `"resourceVersion":"1"`, `"uid":"abc"`} {
		applied := machineJSON(named+","+metadata, guess+" (image)")
		all = append(all, probe{"apply with " + metadata, http.MethodPatch, path + "?fieldManager=probe", applyPatch, applied},
			probe{"update with " + metadata, http.MethodPut, path, jsonType, applied})
	}
	return all
}

// TestGuessesAreAnsweredAlike compares the answers to a wrong guess with those to the right one.
func TestGuessesAreAnsweredAlike(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow patch,update virtualmachines,virtualmachines/status": mine})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	for _, path := range []string{alicesMachine, alicesMachine + "/status"} {
		right := guesses(path, hidden)
		for i, wrong := range guesses(path, "wrong") {
			want, got := wrong.send(t.Context(), e.Server, ""), right[i].send(t.Context(), e.Server, "")
			if diff := cmp.Diff(answerOf(want), answerOf(got)); diff != "" || got.Code != http.StatusForbidden {
				t.Errorf("%s: %s: got %d (-wrong guess +right guess):\n%s", path, wrong.name, got.Code, diff)
			}
		}
	}
}

// slow is a mutating admission plugin that holds up requests of alice until they have timed out and the test goes on.
type slow struct{ goOn <-chan struct{} }

func (slow) Handles(admission.Operation) bool { return true }

func (s slow) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetUserInfo().GetName() == "alice" {
		<-ctx.Done()
		<-s.goOn
	}
	return nil
}

// TestErrorsAfterTimeoutsLogNoValues has requests fail after they have timed out. It is not parallel: what is logged then
// does not pass the logger of the request.
//
//nolint:paralleltest // it replaces the output of the logger of the process
func TestErrorsAfterTimeoutsLogNoValues(t *testing.T) {
	log := captureLog(t)
	goOn := make(chan struct{})
	e := newEnforcing(t, rights{"Allow create,patch,update virtualmachines,virtualmachines/status": ""}, func(c *server.Config) {
		c.Admission = append(c.Admission, slow{goOn})
	})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	invalid := machineJSON(named+`,"labels":{"x":"`+hidden+` (label)"}`, "x")
	for _, p := range []probe{
		{"patch", http.MethodPatch, alicesMachine, jsonPatch, `[{"op":"copy","from":"/spec/image","path":"/metadata/labels/x"}]`},
		{"update", http.MethodPut, alicesMachine, jsonType, invalid},
		{"patch of the status", http.MethodPatch, alicesMachine + "/status", jsonPatch, `[{"op":"copy","from":"/spec/image","path":"/status/phase"}]`},
		{"create", http.MethodPost, machinesPath, jsonType, strings.Replace(invalid, `"one"`, `"two"`, 1)},
	} {
		before := log.String()
		p.path += "?dryRun=All&timeout=500ms"
		func() {
			defer func() { _ = recover() }() // the handler of the request that has timed out is aborted
			p.send(t.Context(), e.Server, "")
		}()
		select {
		case goOn <- struct{}{}:
		case <-time.After(wait.ForeverTestTimeout):
			t.Fatalf("%s: the request has not reached admission", p.name)
		}
		var logged string
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, wait.ForeverTestTimeout, true, func(context.Context) (bool, error) {
			logged = strings.TrimPrefix(log.String(), before)
			return strings.Contains(logged, "post-timeout activity"), nil
		}); err != nil {
			t.Fatalf("%s: %v: %s", p.name, err, logged)
		}
		if strings.Contains(logged, hidden) || !strings.Contains(logged, "422") {
			t.Errorf("%s: got %s, want the code and no value", p.name, logged)
		}
	}
}

// captureLog returns what the process logs until the test ends. It does not replace the logger of the process, which
// would be a race with the servers of earlier tests.
func captureLog(t *testing.T) *lockedBuffer {
	t.Helper()
	log := &lockedBuffer{}
	klog.LogToStderr(false)
	klog.SetOutput(log)
	t.Cleanup(func() { klog.LogToStderr(true) })
	return log
}

// lockedBuffer is a buffer that may be read while others write to it.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// TestPanicsAreAnsweredAlike sends patches on which the libraries of patches panic, depending on the stored object: a JSON
// patch that tests a value before, and a strategic merge patch of a list that the object has or has not.
func TestPanicsAreAnsweredAlike(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow patch virtualmachines,virtualmachines/status": mine})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named+`,"finalizers":["example.com/a"]`))
	answer := func(path, contentType, body string) (answer string) {
		defer func() {
			if reason := recover(); reason != nil {
				answer = "the server panics"
			}
		}()
		got := probe{"", http.MethodPatch, path, contentType, body}.send(t.Context(), e.Server, "")
		return answerOf(got)
	}
	for _, path := range []string{alicesMachine, alicesMachine + "/status"} {
		want := answer(path, mergePatch, `{"metadata":{"labels":{"a":"b"}}}`)
		if !strings.HasPrefix(want, "403 ") {
			t.Fatalf("%s: got %s, want that the condition refuses", path, want)
		}
		for _, patch := range []struct{ contentType, body string }{
			{jsonPatch, `[{"op":"test","path":"/metadata/labels/tier","value":"wrong"},{"op":"test","path":""}]`},
			{jsonPatch, `[{"op":"test","path":"/metadata/labels/tier","value":"` + hidden + `"},{"op":"test","path":""}]`},
			{strategicPatch, `{"spec":{"$setElementOrder/none":[{"$patch":"replace"}]}}`},
			{strategicPatch, `{"spec":{"$setElementOrder/disks":[{"$patch":"replace"}]}}`},
			{strategicPatch, `{"metadata":{"$setElementOrder/finalizers":[{"$patch":"replace"}]}}`},
		} {
			if diff := cmp.Diff(want, answer(path, patch.contentType, patch.body)); diff != "" {
				t.Errorf("%s %s (-refused +got):\n%s", path, patch.body, diff)
			}
		}
	}
}

// TestPanicsOfPatchesAreErrors has a user who may get and patch everything: a patch that cannot be applied is an error.
func TestPanicsOfPatchesAreErrors(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow get,patch virtualmachines,virtualmachines/status": ""})
	e.must(t, http.MethodPost, machinesPath, machineJSON(named+`,"finalizers":["example.com/a"]`, "x"))
	for _, path := range []string{alicesMachine, alicesMachine + "/status"} {
		for contentType, body := range map[string]string{
			jsonPatch:      `[{"op":"test","path":""}]`,
			strategicPatch: `{"metadata":{"$setElementOrder/finalizers":[{"$patch":"replace"}]}}`,
		} {
			got := probe{"", http.MethodPatch, path, contentType, body}.send(t.Context(), e.Server, "")
			if got.Code != http.StatusInternalServerError || !strings.Contains(got.Body.String(), "the change cannot be applied") {
				t.Errorf("%s of %s: got %d %s, want 500", contentType, path, got.Code, got.Body)
			}
		}
	}
}

// TestVersionsAreNumbers has a user who may do everything: a resource version that is not a number is a bad request, and
// the answer does not quote it.
func TestVersionsAreNumbers(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow get,patch,update virtualmachines,virtualmachines/status": ""})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	for _, path := range []string{alicesMachine, alicesMachine + "/status"} {
		for _, p := range []probe{
			{"JSON patch", http.MethodPatch, path, jsonPatch, `[{"op":"copy","from":"/metadata/labels/tier","path":"/metadata/resourceVersion"}]`},
			{"merge patch", http.MethodPatch, path, mergePatch, `{"metadata":{"resourceVersion":"abc"}}`},
			{"update", http.MethodPut, path, jsonType, machineJSON(named+`,"resourceVersion":"abc"`, "x")},
		} {
			got := p.send(t.Context(), e.Server, "")
			if body := got.Body.String(); got.Code != http.StatusBadRequest || !strings.Contains(body, "resourceVersion must be a number") || strings.Contains(body, hidden) || strings.Contains(body, "abc") {
				t.Errorf("%s of %s: got %d %s, want 400", p.name, path, got.Code, got.Body)
			}
		}
	}
}

// TestFailingPatchesLogNoValues copies values of an object to where they cannot be, and has lists of the object and of
// the patch without the fields that they are merged by. It is not parallel: what reaches the log does so without the
// logger of the request.
//
//nolint:paralleltest // it replaces the output of the logger of the process
func TestFailingPatchesLogNoValues(t *testing.T) {
	log := captureLog(t)
	e := newEnforcing(t, rights{"Allow get,patch virtualmachines,virtualmachines/status": ""})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	for _, path := range []string{alicesMachine, alicesMachine + "/status"} {
		for _, p := range []probe{
			{"", http.MethodPatch, path, jsonPatch, `[{"op":"copy","from":"/spec/image","path":"/metadata/resourceVersion"}]`},
			{"", http.MethodPatch, path, jsonPatch, `[{"op":"copy","from":"/metadata/labels/tier","path":"/metadata/resourceVersion"}]`},
			{"", http.MethodPatch, path, jsonPatch, `[{"op":"copy","from":"/spec/image","path":"/metadata/managedFields/0/operation"}]`},
			{"", http.MethodPatch, path, jsonPatch, `[{"op":"copy","from":"/spec/image","path":"/spec/disks/0/sizeGiB"}]`},
			{"", http.MethodPatch, path, jsonPatch, `[{"op":"copy","from":"/spec/image","path":"/apiVersion"}]`},
			{"", http.MethodPatch, path, strategicPatch, `{"spec":{"disks":[{"note":"` + hidden + `"}]}}`},
			{"", http.MethodPatch, path, strategicPatch, `{"spec":{"disks":[{"$patch":"` + hidden + `","name":"root"}]}}`},
			{"", http.MethodPatch, path, strategicPatch, `{"metadata":{"ownerReferences":[{"name":"` + hidden + `"}]}}`},
			{"", http.MethodPatch, path, strategicPatch, `{"metadata":{"labels":{"$patch":"` + hidden + `"}}}`},
			{"", http.MethodPatch, path + "?fieldManager=probe", applyPatch, machineJSON(named+`,"resourceVersion":"`+hidden+`"`, "x")},
			{"", http.MethodPatch, path + "?fieldManager=probe", applyPatch, strings.Replace(machineJSON(named, "x"), `"spec":{`, `"spec":{"none":"`+hidden+`",`, 1)},
		} {
			before := len(log.String())
			got := p.send(t.Context(), e.Server, "")
			if logged := log.String()[before:]; strings.Contains(logged, hidden) || strings.Contains(logged, "not an metav1.Status") {
				t.Errorf("%s of %s: got %d %s, and it is logged: %s", p.contentType, p.body, got.Code, got.Body, logged)
			}
		}
	}
}
