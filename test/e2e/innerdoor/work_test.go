/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// burn is a condition that takes as long as it can in kube-apiserver, and never holds, and how many policies with it may have a barrier in one namespace.
type burn struct {
	Name, Condition string
	Least, Most     int
}

// tried is how many policies with one condition are written.
const tried = 20

// burning is a policy that takes long and never denies.
func burning(t *testing.T, name, condition string) string {
	t.Helper()
	return strings.NewReplacer("NAME", name, "CONDITION", condition).Replace(plane.TestData(t, "burning.yaml"))
}

const (
	policiesOfBurn = "/apis/policy.proviso.dev/v1alpha1/namespaces/burn/authorizationpolicies"

	configMaps = "/api/v1/namespaces/burn/configmaps?dryRun=All"
	revisions  = "/apis/apps/v1/namespaces/burn/controllerrevisions?dryRun=All"
)

// keys returns a ConfigMap with a number of keys, and values of a length.
func keys(number, length int) string {
	return `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "burn", "finalizers": ["a/a"]}, "data": ` + data(number, length) + `}`
}

// finalizers returns a ConfigMap of 4 KiB with as many finalizers as keys.
func finalizers() string {
	return strings.Replace(keys(250, 0), `["a/a"`, `["a/a"`+strings.Repeat(`,"a/a"`, 249), 1)
}

// data returns an object with a number of fields, and values of a length.
func data(number, length int) string {
	fields := make([]string, 0, number)
	for i := range number {
		fields = append(fields, fmt.Sprintf("%q:%q", fmt.Sprintf("k%d", i), strings.Repeat("v", length)))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// kubeAPIServerTime returns the processor time of the first kube-apiserver.
func (r *rig) kubeAPIServerTime(t *testing.T) time.Duration {
	t.Helper()
	return r.ProcessorTime(t, r.KubeAPIServerPid())
}

// TestWorkOfBarriers has an author write policies that take long. Those for whose barriers there is no time left are refused when they are
// written. A flood of writes in the namespace opens nothing elsewhere. With PROVISO_FULL_LOAD=1 the flood takes a minute, and two floods
// without policies are beside it. It is not parallel: the canaries of other tests would be late.
func TestWorkOfBarriers(t *testing.T) {
	r := newRig(t, "", func(c *cluster.Config) { c.Args = append(c.Args, "--barriers") })
	r.prepare(t, "requests.yaml")
	r.MustApply(t, plane.TestData(t, "work.yaml"))
	r.becomes(t, 0, "passes")
	r.measureBurn(t, "without policies")
	if os.Getenv("PROVISO_FULL_LOAD") != "" {
		r.flood(t, "without policies", keys(300, 2))
		r.flood(t, "without policies, 30,000 keys", keys(30_000, 0))
	}

	var burns []burn
	plane.ReadYAML(t, "burns.yaml", &burns)
	written := 0
	for _, b := range burns {
		n := r.writeBurning(t, b.Name, b.Condition)
		if n < b.Least || n > b.Most {
			t.Errorf("%s: %d policies were written, want %d to %d", b.Name, n, b.Least, b.Most)
		}
		t.Logf("%s: %d of %d policies were written", b.Name, n, tried)
		written += n
	}
	poll.Holds(t, "all barriers are enforced", func() bool {
		out, err := r.Kubectl(t.Context(), "", "get", "authorizationpolicies", "-n", "burn", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Effective")].status}{"\n"}{end}`)
		return err == nil && strings.Count(out, "True") == written
	})
	r.moveBurning(t)
	r.measureBurn(t, "with them")
	r.flood(t, "with them", finalizers())
}

// moveBurning writes a policy about resources for which there is time, and then moves it to those for which there is none.
func (r *rig) moveBurning(t *testing.T) {
	t.Helper()
	elsewhere := strings.NewReplacer("[configmaps]", "[secrets]", "[controllerrevisions]", "[daemonsets]").Replace(burning(t, "moved", `object.data.exists(a, a == "x")`))
	if code, answer := r.Sender.Send(t, nil, http.MethodPost, policiesOfBurn, "application/yaml", elsewhere); code != http.StatusCreated {
		t.Fatalf("a policy about other resources: got %d %s", code, answer)
	}
	const there = `{"spec": {"rules": [{"verbs": ["create"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}}`
	code, answer := r.Sender.Send(t, nil, http.MethodPatch, policiesOfBurn+"/moved", "application/merge-patch+json", there)
	if code < http.StatusBadRequest || !strings.Contains(answer, "could cost kube-apiserver up to") {
		t.Errorf("the policy is moved: got %d %s, want an error that says what its barrier costs", code, answer)
	}
}

// writeBurning writes policies with a condition, and returns how many were accepted.
func (r *rig) writeBurning(t *testing.T, name, condition string) (written int) {
	t.Helper()
	for i := range tried {
		policyName := fmt.Sprintf("%s-%d", name, i)
		code, answer := r.Sender.Send(t, nil, http.MethodPost, policiesOfBurn, "application/yaml", burning(t, policyName, condition))
		switch {
		case code == http.StatusCreated:
			written++
			// The check of the next one must see it: one that is stored too early would have no barrier.
			poll.Holds(t, "the policy has a status", func() bool {
				_, policy := r.Sender.Send(t, nil, http.MethodGet, policiesOfBurn+"/"+policyName, "", "")
				return strings.Contains(policy, `"type":"Effective"`)
			})
		case !strings.Contains(answer, "could cost kube-apiserver up to"):
			t.Fatalf("%s: got %d %s, want an error that says what the barrier costs", name, code, answer)
		}
	}
	return written
}

// measureBurn prints the processor time of kube-apiserver for writes of 4 kB, of 256 KiB and of nearly 3 MiB.
func (r *rig) measureBurn(t *testing.T, when string) {
	t.Helper()
	revision := `{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "burn", "finalizers": ["a/a"]}, "revision": 1, "data": ` + data(1000, 2900) + `}`
	for _, write := range []struct{ name, path, body string }{
		{"4 kB, 300 keys", configMaps, keys(300, 2)},
		{"4 kB, 250 keys and finalizers", configMaps, finalizers()},
		{"256 KiB, 1000 keys", configMaps, keys(1000, 250)},
		{"256 KiB, 30,000 keys", configMaps, keys(30_000, 0)},
		{"2.9 MB, 1000 keys", revisions, revision},
	} {
		const times = 3
		began, code := r.kubeAPIServerTime(t), 0
		for range times {
			code, _ = r.send(t, "rob", "POST", write.path, jsonType, write.body)
		}
		t.Logf("%s, %s: %d, %s of processor time", when, write.name, code, (r.kubeAPIServerTime(t)-began)/times)
	}
}

// flood sends writes to the namespace of the author, 60 at a time, and conditional writes of another user elsewhere. It prints their times.
func (r *rig) flood(t *testing.T, when, body string) {
	t.Helper()
	duration := 4 * time.Second
	if os.Getenv("PROVISO_FULL_LOAD") != "" {
		duration = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var group sync.WaitGroup
	for range 60 {
		group.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = r.as("rob").send(ctx, "POST", configMaps, jsonType, strings.NewReader(body))
			}
		})
	}
	var times []time.Duration
	refused := 0
	for ctx.Err() == nil {
		began := time.Now()
		answer, err := r.runner().Send(ctx, t, r.states["passes"][0])
		if ctx.Err() != nil {
			break
		}
		times = append(times, time.Since(began))
		if err != nil || answer.Code != http.StatusCreated {
			refused++
		}
		answer, err = r.runner().Send(ctx, t, r.states["refused"][0])
		if err == nil && answer.Code < http.StatusMultipleChoices {
			t.Errorf("a write that no policy allows passed: %.200s", answer.Body)
		}
	}
	cancel()
	group.Wait()
	slices.Sort(times)
	if len(times) == 0 {
		t.Fatal("no write was answered")
	}
	t.Logf("%s: %d conditional writes of another namespace: p50 %s, p99 %s, %d refused", when, len(times), times[len(times)/2], times[len(times)*99/100], refused)
}
