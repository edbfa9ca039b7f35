/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// compiledPolicy is a Deny policy whose condition no other one has.
const compiledPolicy = `
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {namespace: compiled-%[1]d, name: p-%[2]d}
spec:
  effect: Deny
  rules: [{verbs: [create, update, patch], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: 'object.metadata.?labels["tier"].orValue("") == "tier-%[2]d"'
`

const (
	policies = 40
	// inNamespace is how many of them are in one namespace.
	inNamespace = 20
	// tolerated is how many may be compiled again, because they left the cache between the write and the controllers.
	tolerated = 4
)

// TestCompiledOnce counts what is compiled while policies are written, until they are in effect, and when one of them changes, so that all statuses are
// compared. It prints the processor time of Proviso.
func TestCompiledOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, cluster.Config{Managed: true}, (*cluster.Cluster).Up)
	for i := range policies / inNamespace {
		r.MustKubectl(t, "create", "namespace", fmt.Sprintf("compiled-%d", i))
	}
	before, began, start := r.compiled(t), time.Now(), r.ProcessorTime(t, r.Pid())
	for i := range policies {
		path := fmt.Sprintf("/apis/policy.proviso.dev/v1alpha1/namespaces/compiled-%d/authorizationpolicies", i/inNamespace)
		if code, answer := r.Sender.Send(t, nil, http.MethodPost, path, "application/yaml", fmt.Sprintf(compiledPolicy, i/inNamespace, i)); code != http.StatusCreated {
			t.Fatalf("policy %d: %d %s", i, code, answer)
		}
	}
	r.awaitEffective(t, 1)
	written := r.compiled(t)
	for part, n := range written {
		if made := n - before[part]; made < policies || made > policies+tolerated {
			t.Errorf("%d policies were written, and %d times a %s was compiled", policies, made, part)
		}
	}
	t.Logf("%d policies are in effect after %s and %s of processor time, %v", policies, time.Since(began).Round(time.Millisecond), r.ProcessorTime(t, r.Pid())-start, written)

	r.MustKubectl(t, "patch", "authorizationpolicy", "p-0", "-n", "compiled-0", "--type=merge", `-p={"spec":{"condition":"object.metadata.name == \"other\""}}`)
	r.awaitEffective(t, 2)
	changed := r.compiled(t)
	for part, n := range changed {
		if made := n - written[part]; made < 1 || made > 1+tolerated {
			t.Errorf("one policy was changed, and %d times a %s was compiled", made, part)
		}
	}
	const rest = 10 * time.Second
	start = r.ProcessorTime(t, r.Pid())
	time.Sleep(rest)
	t.Logf("at rest Proviso takes %s of processor time in an hour", (r.ProcessorTime(t, r.Pid())-start)*(time.Hour/rest))
}

// awaitEffective waits until all policies are in effect, the first one in a generation.
func (r *rig) awaitEffective(t *testing.T, generation int) {
	t.Helper()
	const columns = `{range .items[*]}{.metadata.name} {.status.observedGeneration} {.status.conditions[?(@.type=="Effective")].status}{"\n"}{end}`
	poll.Holds(t, "the policies are in effect", func() bool {
		out := r.MustKubectl(t, "get", "authorizationpolicies", "-A", "-o", "jsonpath="+columns)
		return strings.Count(out, " True\n") == policies && strings.Contains(out, fmt.Sprintf("p-0 %d True\n", generation))
	})
}

// compiled returns how often the parts of policies were compiled.
func (r *rig) compiled(t *testing.T) map[string]int {
	t.Helper()
	parts := map[string]int{}
	for line := range strings.Lines(r.MustKubectl(t, "--context=admin-direct", "get", "--raw", "/metrics")) {
		series, isOne := strings.CutPrefix(strings.TrimSpace(line), `proviso_policy_compilations_total{part="`)
		if part, value, ok := strings.Cut(series, `"} `); isOne && ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			parts[part] = n
		}
	}
	if len(parts) != 2 {
		t.Fatalf("got the parts %v, want condition and barrier", parts)
	}
	return parts
}
