/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

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
//nolint:paralleltest // it replaces the logger of the process
func TestFailingPatchesLogNoValues(t *testing.T) {
	var log bytes.Buffer
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
	t.Cleanup(klog.ClearLogger)
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
			before := log.Len()
			got := p.send(t.Context(), e.Server, "")
			if logged := log.String()[before:]; strings.Contains(logged, hidden) || strings.Contains(logged, "not an metav1.Status") {
				t.Errorf("%s of %s: got %d %s, and it is logged: %s", p.contentType, p.body, got.Code, got.Body, logged)
			}
		}
	}
}
