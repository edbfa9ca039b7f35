/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/barrierlaw"
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

var (
	lawPolicies = flag.Int("law-policies", 400, "the number of random policies that TestBarrierLaw compares with their barriers")
	lawRequests = flag.Int("law-requests", 100, "the number of requests for each policy")
	lawSeed     = flag.Uint64("law-seed", 5681, "the seed of the policies")
)

// lawTime is the time for the policies of TestBarrierLaw, unless all of them are tried.
const lawTime = 10 * time.Second

// law compares the decisions of policies with what their barriers refuse.
type law struct {
	policies *partial.Compiler
	barriers *barrier.Compiler
	cluster  *admissionCluster
	checks   authorizer.UnconditionalAuthorizer
	oracle   *barrierlaw.Oracle
	// refused, covered and total count requests. bounded are those that the policy denies by a bound and the barrier admits, and ended those
	// that only the barrier refuses, because kube-apiserver ends the evaluation.
	refused, covered, total, bounded, ended atomic.Int64
	// compiled counts barriers. The cost of one in costsShare is compared with its bound.
	compiled atomic.Int64
}

func newLaw(tb testing.TB) *law {
	tb.Helper()
	policies := compilers.Policies(tb)
	barriers, err := barrier.NewCompiler(barrier.Config{Policies: policies})
	if err != nil {
		tb.Fatal(err)
	}
	checks := barrierlaw.NamesWithA{}
	return &law{
		policies: policies, barriers: barriers, cluster: newAdmissionCluster(tb, checks, barrierlaw.Namespaces...), checks: checks,
		oracle: barrierlaw.NewOracle(tb, policies, checks),
	}
}

// compare compares one policy with its barrier for some writes.
func (l *law) compare(tb testing.TB, key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec, writes []*barrierlaw.Write) {
	tb.Helper()
	compiled, err := l.barriers.Compile(key, spec)
	if err != nil {
		tb.Fatalf("%v: %+v", err, spec)
	}
	policy, err := engine.New(key, spec, l.policies)
	if err != nil {
		tb.Fatal(err)
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{key: policy}))
	policies := &engine.Authorizer{Source: source, Part: engine.Restricting, Checks: l.checks}
	var loaded *plugin
	if compiled.Policy != nil {
		loaded = l.cluster.load(tb, compiled)
		defer loaded.close()
	}
	spent := l.costsOf(tb, compiled)
	for _, w := range writes {
		spent.compare(tb, l, w)
		var refusal error
		if loaded != nil {
			refusal = loaded.Validate(tb.Context(), w.Attributes(), objectInterfaces{})
		}
		if !l.agree(tb, compiled, policies, spec, w, refusal) {
			tb.Errorf("the policy and the barrier differ, which refuses: %v\nwrite: %v\nspec: %+v\nbarrier: %+v\nreport: %+v", refusal, w, spec, denialOf(compiled), compiled.Report)
			return
		}
	}
}

// agree reports whether a policy and its barrier agree about a write. The barrier may admit what the policy denies only because of a bound, and
// refuse what kube-apiserver does not evaluate to the end.
func (l *law) agree(tb testing.TB, compiled *barrier.Barrier, policies *engine.Authorizer, spec *policyv1alpha1.AuthorizationPolicySpec, w *barrierlaw.Write, refusal error) bool {
	tb.Helper()
	var denied, covered bool
	var mustRefuse []authorizer.Attributes
	for _, check := range w.Checks() {
		deniesCheck, coversCheck := barrierlaw.Denies(tb, policies, w, check), compiled.Sees(check)
		if denied, covered = denied || deniesCheck, covered || coversCheck; deniesCheck && coversCheck {
			mustRefuse = append(mustRefuse, check)
		}
	}
	l.total.Add(1)
	if refusal != nil {
		l.refused.Add(1)
	}
	if covered {
		l.covered.Add(1)
	}
	isByValue := func(check authorizer.Attributes) bool {
		return !l.oracle.DeniesByBound(tb, compiled.Key, spec, w, check)
	}
	switch {
	case refusal != nil && !denied:
		l.ended.Add(1)
		return barrierlaw.Ends(refusal.Error())
	case refusal == nil && len(mustRefuse) > 0:
		l.bounded.Add(1)
		return !slices.ContainsFunc(mustRefuse, isByValue)
	}
	return true
}

func denialOf(b *barrier.Barrier) string {
	if b.Policy == nil {
		return "none"
	}
	return fmt.Sprintf("%s\n%+v", b.Policy.Spec.Variables[0].Expression, b.Policy.Spec.MatchConstraints.ResourceRules)
}

func TestBarrierLaw(t *testing.T) {
	l := newLaw(t)
	began := time.Now()
	var workers errgroup.Group
	workers.SetLimit(lawWorkers)
	for c := cases.For(lawTime, *lawPolicies); c.Next(); {
		i := c.Number()
		if t.Failed() {
			break
		}
		workers.Go(func() error {
			g := barrierlaw.NewGenerator(*lawSeed, uint64(i)) //nolint:gosec // an index
			key, spec := g.Policy()
			writes := make([]*barrierlaw.Write, 0, *lawRequests)
			for range *lawRequests {
				writes = append(writes, g.Write(spec))
			}
			l.compare(t, key, spec, writes)
			return nil
		})
	}
	_ = workers.Wait()
	total, refused, covered := l.total.Load(), l.refused.Load(), l.covered.Load()
	bounded, ended := l.bounded.Load(), l.ended.Load()
	t.Logf("%d requests, %d refused, %d covered, %d beyond a bound, %d ended, %v", total, refused, covered, bounded, ended, time.Since(began).Round(time.Second))
	if refused*20 < total || covered*8 < total || bounded == 0 && total > 20_000 {
		t.Errorf("of %d requests %d were refused, %d covered, %d beyond a bound and %d ended: the test compares too little", total, refused, covered, bounded, ended)
	}
}

// TestAbsentInRequests creates a Node as a user without a UID and groups: a condition that reads what the request does not have is evaluated, as by the
// policy.
func TestAbsentInRequests(t *testing.T) {
	t.Parallel()
	l := newLaw(t)
	for _, condition := range []string{`request.namespace == "a"`, `request.userInfo.uid == "a"`, `"a" in request.userInfo.groups`} {
		loaded := l.cluster.load(t, mustCompile(t, l, engine.Key{Name: "absent"}, denying(condition, "nodes")))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		create := admission.NewAttributesRecord(node, nil, corev1.SchemeGroupVersion.WithKind("Node"), "", "n", corev1.SchemeGroupVersion.WithResource("nodes"), "",
			admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "alice"})
		if err := loaded.Validate(t.Context(), create, objectInterfaces{}); err != nil {
			t.Errorf("%s: %v", condition, err)
		}
		loaded.close()
	}
}

// lawWorkers is the number of policies at a time. A plugin waits a tenth of a second before it is ready.
const lawWorkers = 32
