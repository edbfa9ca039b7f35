/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

const (
	// hammerPolicies is how many policies there are, unless HAMMER_POLICIES says otherwise.
	hammerPolicies = 200
	// hammerUpdates is how many updates are published before the heap is measured first, and
	// again before it is last, unless HAMMER_DURATION says for how long to go on.
	hammerUpdates = 100
	// warmUpShare is the part of HAMMER_DURATION before the first measurement.
	warmUpShare   = 5
	hammerReaders = 4
	// hammerGrowth is by how much the heap may have grown at the end.
	hammerGrowth = 1.5
	// hammerSlack is what it may have grown by in any case: with few policies, the rest of the
	// test weighs more than they do.
	hammerSlack = 4 << 20
)

// hammer publishes policies while others decide from them. The policies come in pairs, a
// Deny and an Allow for one user, whose conditions name the same generation, and a pair is
// replaced in one snapshot: whoever sees two generations in one decision has seen two
// snapshots.
type hammer struct {
	compiler  *partial.Compiler
	source    *engine.Source
	pairs     int
	builder   *engine.Builder
	updates   atomic.Int64
	decisions atomic.Int64
}

// TestHammer is short by default. HAMMER_POLICIES=10000 HAMMER_DURATION=5m make it long.
func TestHammer(t *testing.T) { // not parallel: it measures the heap
	compiler := compilers.Policies(t)
	h := &hammer{compiler: compiler, source: &engine.Source{}, builder: engine.NewBuilder(), pairs: setting(t, "HAMMER_POLICIES", hammerPolicies, strconv.Atoi) / 2}
	duration := setting(t, "HAMMER_DURATION", 0, time.ParseDuration)

	changes := map[engine.Key]*engine.Policy{}
	for pair := range h.pairs {
		h.change(t, changes, pair, 0)
	}
	h.source.Publish(h.builder.Apply(changes))

	started := time.Now()
	h.run(t, hammerUpdates, duration/warmUpShare)
	warm := heap()
	h.run(t, hammerUpdates, duration-duration/warmUpShare)
	end := heap()
	t.Logf("%d policies, %s: %d updates, %d decisions; heap %d KiB after warm-up, %d KiB at the end; resident %s",
		2*h.pairs, time.Since(started).Round(time.Millisecond), h.updates.Load(), h.decisions.Load(), warm>>10, end>>10, resident())
	if h.decisions.Load() == 0 {
		t.Error("nothing was decided")
	}
	if limit := uint64(float64(warm)*hammerGrowth) + hammerSlack; end > limit {
		t.Errorf("the heap grew from %d to %d bytes", warm, end)
	}
	runtime.KeepAlive(h)
}

// run writes and reads for a number of updates or, if it is not zero, for a duration.
func (h *hammer) run(t *testing.T, updates int, duration time.Duration) {
	t.Helper()
	done := make(chan struct{})
	var readers sync.WaitGroup
	defer readers.Wait()
	defer close(done)
	for reader := range hammerReaders {
		readers.Go(func() { h.read(t, reader, done) })
	}
	changes := map[engine.Key]*engine.Policy{}
	started := time.Now()
	for n := 0; (duration > 0 && time.Since(started) < duration || duration == 0 && n < updates) && !t.Failed(); n++ {
		i := int(h.updates.Add(1))
		for pair := range 1 + i%3 {
			h.change(t, changes, (i+pair)%h.pairs, i)
		}
		h.source.Publish(h.builder.Apply(changes))
		clear(changes)
		// Stale or not, a Deny stays; whoever decides must not see half of the change.
		h.source.SetStale([]string{"", "for a moment"}[i%8/7])
	}
}

// setting reads a variable of the environment.
func setting[T any](t *testing.T, name string, otherwise T, parse func(string) (T, error)) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// change compiles both policies of a pair anew.
func (h *hammer) change(t *testing.T, changes map[engine.Key]*engine.Policy, pair, generation int) {
	t.Helper()
	for name, effect := range map[string]policyv1alpha1.PolicyEffect{"deny": "Deny", "allow": "Allow"} {
		key := engine.Key{Name: fmt.Sprintf("%s-%d", name, pair)}
		p, err := engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
			Effect:    effect,
			Subjects:  []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: userOf(pair)}},
			Rules:     []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}},
			Condition: fmt.Sprintf("object.generation == %d", generation),
		}, h.compiler)
		if err != nil {
			t.Error(err)
			return
		}
		changes[key] = p
	}
}

func userOf(pair int) string { return fmt.Sprintf("user-%d", pair) }

// read decides until the hammer stops. What each pair has come to never goes back.
func (h *hammer) read(t *testing.T, reader int, done <-chan struct{}) {
	restricting := &engine.Authorizer{Source: h.source, Part: engine.Restricting}
	granting := &engine.Authorizer{Source: h.source, Part: engine.Granting}
	newest := make([]int, h.pairs)
	for i := reader; ; i++ {
		select {
		case <-done:
			return
		default:
		}
		pair := i % h.pairs
		if i%2 == 0 {
			pair = int(h.updates.Load()) % h.pairs // where it changes now
		}
		attributes := authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: userOf(pair), Groups: []string{user.AllAuthenticated}},
			Verb: "create", APIVersion: "v1", Resource: "pods", Namespace: "n", ResourceRequest: true,
		}
		ctx := granting.Pin(t.Context())
		denied, allowed := restricting.Decide(ctx, attributes), granting.Decide(ctx, attributes)
		h.decisions.Add(2)
		generation, ok := generationOf(denied, allowed)
		if !ok || generation < newest[pair] {
			t.Errorf("pair %d: got %s and %s, which are not of one snapshot, or of one older than generation %d", pair, texts(denied), texts(allowed), newest[pair])
			return
		}
		newest[pair] = generation
	}
}

// generationOf returns the generation that all conditions of a pair name. There is a Deny
// condition always, and an Allow condition unless the source is stale.
func generationOf(denied, allowed authorization.Decision) (generation int, ok bool) {
	found := append(texts(denied), texts(allowed)...)
	if len(texts(denied)) != 1 {
		return 0, false
	}
	for i, text := range found {
		var g int
		if _, err := fmt.Sscanf(text, "object.generation == %d", &g); err != nil || (i > 0 && g != generation) {
			return 0, false
		}
		generation = g
	}
	return generation, true
}

func texts(d authorization.Decision) []string {
	var found []string
	if d.IsAllow() || d.IsDeny() || d.IsNoOpinion() {
		return nil
	}
	for _, c := range d.Conditions() {
		text, err := c.TextFunc()
		if err != nil {
			text = err.Error()
		}
		found = append(found, text)
	}
	return found
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what has a finalizer takes a second one
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// resident returns the resident memory of the process, as the system prints it.
func resident() string {
	content, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
