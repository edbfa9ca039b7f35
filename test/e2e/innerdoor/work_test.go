/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// workRBAC lets rob write ConfigMaps in the namespace of the author, who burns the processors of kube-apiserver.
const workRBAC = `
apiVersion: v1
kind: Namespace
metadata: {name: burn}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: burn, name: writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: rob}]
`

// burning is a policy that takes as long as a policy can in kube-apiserver, and never denies.
func burning(i int, condition string) string {
	return fmt.Sprintf(`
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {namespace: burn, name: burn-%d}
spec:
  effect: Deny
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: '%s'
`, i, condition)
}

const burn = "/api/v1/namespaces/burn/configmaps" + dryRun

// keys returns a ConfigMap with a number of keys, and values of a length.
func keys(number, length int) string {
	data := make([]string, 0, number)
	for i := range number {
		data = append(data, fmt.Sprintf("%q:%q", fmt.Sprintf("k%d", i), strings.Repeat("v", length)))
	}
	return `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "burn"}, "data": {` + strings.Join(data, ",") + `}}`
}

// kubeAPIServerTime returns the processor time of the first kube-apiserver.
func (r *rig) kubeAPIServerTime(t *testing.T) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.KubeAPIServerPid()))
	if err != nil {
		t.Fatal(err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	total := 0
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(string(field))
		if err != nil {
			t.Fatal(err)
		}
		total += ticks
	}
	return time.Duration(total) * 10 * time.Millisecond
}

// TestWorkOfBarriers has an author write policies that take long. Those for whose barriers there is no time left are refused when they are written. A
// flood of writes in the namespace opens nothing elsewhere. The test prints the times. With PROVISO_FULL_LOAD=1 the flood takes a minute.
func TestWorkOfBarriers(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(c *cluster.Config) { c.Args = append(c.Args, "--barriers") })
	if _, err := r.Kubectl(t.Context(), "", "create", "namespace", demo); err != nil {
		t.Fatal(err)
	}
	r.apply(t, policies)
	r.apply(t, workRBAC)
	r.passesSoon(t)
	r.measureBurn(t, "without policies")

	const tried = 12
	written := map[string]int{}
	for name, condition := range map[string]string{
		"nested macros": `object.data.exists(a, object.data.exists(b, a == b + "x"))`,
		"macros":        `object.data.exists(a, a == "x")`,
	} {
		for i := range tried {
			_, err := r.Kubectl(t.Context(), burning(len(name)*100+i, condition), "create", "-f", "-")
			switch {
			case err == nil:
				written[name]++
			case !strings.Contains(err.Error(), "could cost kube-apiserver up to"):
				t.Fatalf("%s: got %v, want an error that says what the barrier costs", name, err)
			}
		}
	}
	if written["nested macros"] > 2 || written["nested macros"]+written["macros"] == 0 {
		t.Errorf("got %v policies, want at most two with nested macros", written)
	}
	t.Logf("%v of %d policies each were written", written, tried)
	eventually(t, "all barriers are enforced", func() bool {
		out, err := r.Kubectl(t.Context(), "", "get", "authorizationpolicies", "-n", "burn", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Effective")].status}{"\n"}{end}`)
		return err == nil && strings.Count(out, "True") == written["nested macros"]+written["macros"]
	})
	r.measureBurn(t, "with them")
	r.flood(t)
}

// passesSoon waits until dana's writes pass on conditions.
func (r *rig) passesSoon(t *testing.T) {
	t.Helper()
	eventually(t, "writes pass on conditions", func() bool {
		code, _ := r.send(t, "dana", "POST", claims+dryRun, jsonType, claim("n", "dev", ""))
		return code == http.StatusCreated
	})
}

// measureBurn prints the processor time of kube-apiserver for a write of 4 kB, of 256 KiB and of nearly 3 MiB.
func (r *rig) measureBurn(t *testing.T, when string) {
	t.Helper()
	for name, body := range map[string]string{"4 kB, 300 keys": keys(300, 2), "256 KiB, 1000 keys": keys(1000, 250), "2.9 MiB, 1000 keys": keys(1000, 3000), "256 KiB, 30,000 keys": keys(30_000, 0)} {
		const times = 3
		began, code := r.kubeAPIServerTime(t), 0
		for range times {
			code, _ = r.send(t, "rob", "POST", burn, jsonType, body)
		}
		t.Logf("%s, %s: %d, %s of processor time", when, name, code, (r.kubeAPIServerTime(t)-began)/times)
	}
}

// flood sends writes to the namespace of the author, 60 at a time, and conditional writes of another user elsewhere.
func (r *rig) flood(t *testing.T) {
	t.Helper()
	duration := 10 * time.Second
	if os.Getenv("PROVISO_FULL_LOAD") != "" {
		duration = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var group sync.WaitGroup
	body := keys(300, 2)
	for range 60 {
		group.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = r.users["rob"].send(ctx, "POST", burn, jsonType, strings.NewReader(body))
			}
		})
	}
	var times []time.Duration
	refused := 0
	for ctx.Err() == nil {
		began := time.Now()
		code, _, err := r.users["dana"].send(ctx, "POST", claims+dryRun, jsonType, strings.NewReader(claim("n", "dev", "")))
		if ctx.Err() != nil {
			break
		}
		times = append(times, time.Since(began))
		if err != nil || code != http.StatusCreated {
			refused++
		}
		code, answer, err := r.users["dana"].send(ctx, "POST", claims+dryRun, jsonType, strings.NewReader(claim("n", "gold", "")))
		if err == nil && code < http.StatusMultipleChoices {
			t.Errorf("a write that no policy allows passed: %.200s", answer)
		}
	}
	cancel()
	group.Wait()
	slices.Sort(times)
	if len(times) == 0 {
		t.Fatal("no write was answered")
	}
	t.Logf("%d conditional writes of another namespace: p50 %s, p99 %s, %d refused", len(times), times[len(times)/2], times[len(times)*99/100], refused)
}
