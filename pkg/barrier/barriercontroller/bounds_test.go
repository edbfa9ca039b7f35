/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

const (
	// dear takes most of the time that the barriers of a namespace may take.
	dear = `oldObject.data.x.matches("a{0,12}b")`
	// cheap takes hardly any.
	cheap = `oldObject.metadata.name == "a"`
	// isOver is in the messages of barriers that take too long.
	isOver = "could cost kube-apiserver up to"
)

// denying is a specification that denies deletions of ConfigMaps.
func denying(condition string) policyv1alpha1.AuthorizationPolicySpec {
	return policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectDeny, Condition: condition,
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"delete"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}},
	}
}

func newCompiler(t *testing.T) *barrier.Compiler {
	t.Helper()
	policies := compilers.Policies(t)
	compiler, err := barrier.NewCompiler(barrier.Config{Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	return compiler
}

// team is a namespace with policies.
type team struct {
	*rig
	namespace string
}

// create creates a policy that is some seconds old: a larger number is an older policy.
func (n *team) create(t *testing.T, name string, age int, spec policyv1alpha1.AuthorizationPolicySpec) {
	t.Helper()
	p := &policyv1alpha1.AuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name, Generation: 1, CreationTimestamp: metav1.Time{Time: time.Unix(int64(10_000-age), 0)}}, Spec: spec,
	}
	if _, err := n.policies.PolicyV1alpha1().AuthorizationPolicies(n.namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// edit gives a policy another condition, as if the check at its write had not seen the others.
func (n *team) edit(t *testing.T, name, condition string) {
	t.Helper()
	policies := n.policies.PolicyV1alpha1().AuthorizationPolicies(n.namespace)
	eventually(t, name+" is edited", func() bool {
		p, err := policies.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Condition = condition
		p.Generation++
		_, err = policies.Update(t.Context(), p, metav1.UpdateOptions{})
		return err == nil
	})
}

func (n *team) state(c *barriercontroller.Controller, name string) barriercontroller.State {
	state, _ := c.State(barriercontroller.Key{Key: engine.Key{Namespace: n.namespace, Name: name}})
	return state
}

// counts returns how many barriers of policies p0, p1 and so on are written, and how many have no room with a message.
func (n *team) counts(c *barriercontroller.Controller, policies int, message string) (written, over int) {
	for i := range policies {
		switch state := n.state(c, fmt.Sprint("p", i)); {
		case state.Phase == barriercontroller.Written:
			written++
		case state.Phase == barriercontroller.OverBound && strings.Contains(state.Message, message):
			over++
		}
	}
	return written, over
}

// text returns the expressions of a stored barrier.
func (n *team) text(t *testing.T, name string) string {
	t.Helper()
	stored, err := n.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), barrier.Name(engine.Key{Namespace: n.namespace, Name: name}), metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return fmt.Sprint(stored.Spec.Variables, stored.Spec.Validations)
}

// asksAbout returns why there is no room for another policy with a condition, or "".
func (n *team) asksAbout(t *testing.T, c *barriercontroller.Controller, compiler *barrier.Compiler, condition string) string {
	t.Helper()
	spec := denying(condition)
	compiled, err := compiler.Compile(engine.Key{Namespace: n.namespace, Name: "new"}, &spec)
	if err != nil {
		t.Fatal(err)
	}
	return c.OverWork(compiled)
}

// TestBarrierControllerBounds checks that a namespace has no more barriers than it may have, the oldest ones, and that this is told.
func TestBarrierControllerBounds(t *testing.T) {
	t.Parallel()
	n := &team{newRig(t), "team"}
	const policies = barriercontroller.MaxPerNamespace + 2
	for i := range policies {
		n.create(t, fmt.Sprint("p", i), i, denying("1"))
	}
	n.rig.create(t, policy("a", "1"))
	c, _ := n.start(t, lead)
	eventually(t, "others are not delayed", func() bool { return n.isBarred(t, "a", "1") })
	eventually(t, "the others have none", func() bool {
		written, over := n.counts(c, policies, "other policies of the namespace have 100 barriers")
		return written == barriercontroller.MaxPerNamespace && over == 2
	})
	for _, youngest := range []string{"p0", "p1"} {
		if n.state(c, youngest).Phase != barriercontroller.OverBound {
			t.Errorf("%s has a barrier, and an older one has none", youngest)
		}
	}
}

// TestBarrierControllerText checks the bound on the text of all barriers of a namespace, also for policies that get more text, the youngest one first.
func TestBarrierControllerText(t *testing.T) {
	t.Parallel()
	n := &team{newRig(t), "team"}
	const isLong = "bytes in all"
	half := strings.Repeat("1", barriercontroller.MaxTextPerNamespace/2-1)
	for i := range 3 {
		n.create(t, fmt.Sprint("p", i), -i, denying(half))
	}
	c, _ := n.start(t, lead)
	eventually(t, "the youngest has none", func() bool {
		written, over := n.counts(c, 3, isLong)
		return written == 2 && over == 1 && n.state(c, "p2").Phase == barriercontroller.OverBound
	})
	for i := range 3 {
		name := fmt.Sprint("p", i)
		n.edit(t, name, "2")
		eventually(t, name+" has one with less text", func() bool {
			return n.state(c, name).Phase == barriercontroller.Written && strings.Contains(n.text(t, name), "{2 ")
		})
	}
	for i := range 3 {
		n.edit(t, fmt.Sprint("p", 2-i), half)
	}
	eventually(t, "one finds no room for more text", func() bool { written, over := n.counts(c, 3, isLong); return written == 2 && over == 1 })
	eventually(t, "its barrier stays", func() bool {
		for i := range 3 {
			name := fmt.Sprint("p", i)
			if state := n.state(c, name); state.Phase == barriercontroller.OverBound {
				return strings.Contains(state.Message, "an earlier text of the policy stays") && strings.Contains(n.text(t, name), "{2 ")
			}
		}
		return false
	})
}

// TestBarrierControllerWork checks the bound on the work of all barriers of a namespace. Barriers that are already written when an update of Proviso finds out what
// they cost stay, with a warning, and are restored.
func TestBarrierControllerWork(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	n := &team{newRig(t), "team"}
	name := barrier.Name(engine.Key{Namespace: "team", Name: "p0"})
	var isRefusing atomic.Bool
	var refused atomic.Int32
	n.kube.before = func(_, _, of string, _ bool) error {
		if of == name && isRefusing.Load() {
			refused.Add(1)
			return errors.New("not now")
		}
		return nil
	}
	n.compile = func(key engine.Key, _ *policyv1alpha1.AuthorizationPolicySpec) (*barrier.Barrier, error) {
		spec := denying(cheap)
		return compiler.Compile(key, &spec)
	}
	const policies = 3
	for i := range policies { // p0 is the youngest one
		n.create(t, fmt.Sprint("p", i), i, denying(dear))
	}
	c, stop := n.start(t, lead)
	eventually(t, "all have a barrier", func() bool {
		written, _ := n.counts(c, policies, "")
		return written == policies
	})
	stop()
	n.compile = compiler.Compile
	isRefusing.Store(true)
	c, _ = n.start(t, lead)
	eventually(t, "the older ones have a barrier, too", func() bool {
		written, _ := n.counts(c, policies, "")
		return written == policies-1
	})
	tried := refused.Load()
	eventually(t, "the one in force is tried again, although the others count", func() bool { return refused.Load() > tried+1 })
	isRefusing.Store(false)
	isRestored := func() bool { return strings.Contains(n.text(t, "p0"), "matches") }
	eventually(t, "the one in force is brought into line", isRestored)
	eventually(t, "the one in force stays, with a warning", func() bool {
		state := n.state(c, "p0")
		return state.Phase == barriercontroller.Written && strings.Contains(state.Warning, isOver)
	})
	if reason := n.asksAbout(t, c, compiler, dear); !strings.Contains(reason, isOver) {
		t.Errorf("another policy: got %q, want it to be over the bound", reason)
	}
	for _, late := range []struct {
		name string
		age  int
	}{
		{"oldest", 3}, {"a", 1}, {"z", 0}, {"youngest", -1},
	} {
		n.create(t, late.name, late.age, denying(dear))
		eventually(t, late.name+" has none, because the others have theirs", func() bool {
			state := n.state(c, late.name)
			return state.Phase == barriercontroller.OverBound && strings.Contains(state.Message, isOver)
		})
	}
	vaps := n.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	stored, err := vaps.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored.Spec.Variables[0].Expression = "false"
	if _, err := vaps.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what others change is undone", isRestored)
	n.edit(t, "p0", cheap)
	eventually(t, "an edit that costs less is written, although others exceed the bound", func() bool { return !isRestored() && n.state(c, "p0").Phase == barriercontroller.Written })
}

// TestChangesOverBound gives many policies that have a barrier another text at the same moment, so that the check at their writes has seen none of the others:
// one finds room. A restart gives no room either.
func TestChangesOverBound(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	n := &team{newRig(t), "team"}
	n.compile = compiler.Compile
	const policies = 5
	for i := range policies {
		n.create(t, fmt.Sprint("p", i), i, denying(cheap))
	}
	c, stop := n.start(t, lead)
	eventually(t, "all have a barrier", func() bool { written, _ := n.counts(c, policies, ""); return written == policies })
	stop()
	for i := range policies {
		n.edit(t, fmt.Sprint("p", i), dear)
	}
	for _, when := range []string{"after the edits", "after another start"} {
		c, stop = n.start(t, lead)
		eventually(t, when+" each has a state", func() bool { written, over := n.counts(c, policies, isOver); return written+over == policies })
		inForce := 0
		for i := range policies {
			if strings.Contains(n.text(t, fmt.Sprint("p", i)), "matches") {
				inForce++
			}
		}
		if inForce > 1 {
			t.Errorf("%s %d policies have the new text, want 1 at most", when, inForce)
		}
		stop()
	}
	for i := range policies - 1 {
		n.edit(t, fmt.Sprint("p", i), cheap)
	}
	c, _ = n.start(t, lead)
	eventually(t, "there is room for the last one", func() bool { written, _ := n.counts(c, policies, isOver); return written == policies })
	eventually(t, "it has its new text", func() bool { return strings.Contains(n.text(t, "p4"), "matches") })
	for i := range policies - 1 {
		n.edit(t, fmt.Sprint("p", i), dear)
	}
	eventually(t, "none of the others has room now", func() bool { written, over := n.counts(c, policies, isOver); return written == 1 && over == policies-1 })
}

// withoutGeneration removes the generation from the barriers of policies, as if an earlier Proviso had written them, and changes their texts if alter is set.
func (n *team) withoutGeneration(t *testing.T, policies int, alter bool) {
	t.Helper()
	client := n.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	for i := range policies {
		stored, err := client.Get(t.Context(), barrier.Name(engine.Key{Namespace: n.namespace, Name: fmt.Sprint("p", i)}), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		delete(stored.Annotations, barriercontroller.GenerationAnnotation)
		if alter {
			stored.Spec.Validations[0].Expression = "0"
		}
		if _, err := client.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBarriersWithoutGeneration has barriers that an earlier Proviso has written. They are restored at the start, get the generation, and do not grow over the
// bound afterwards.
func TestBarriersWithoutGeneration(t *testing.T) {
	t.Parallel()
	n := &team{newRig(t), "team"}
	const policies = 6
	half := strings.Repeat("1", barriercontroller.MaxTextPerNamespace/2-1024)
	for i := range policies {
		n.create(t, fmt.Sprint("p", i), -i, denying("1"))
	}
	c, stop := n.start(t, lead)
	eventually(t, "all have a barrier", func() bool { written, _ := n.counts(c, policies, ""); return written == policies })
	stop()

	n.withoutGeneration(t, policies, true)
	n.compile = func(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (*barrier.Barrier, error) {
		longer := *spec
		if longer.Condition == "1" {
			longer.Condition = half // an update of Proviso writes more
		}
		return compile(key, &longer)
	}
	_, stop = n.start(t, lead)
	eventually(t, "all are restored", func() bool { return n.size(t, policies) >= policies*len(half) })
	stop()

	n.compile = compile
	c, stop = n.start(t, lead)
	eventually(t, "all are small again", func() bool { return n.size(t, policies) < len(half) })
	stop()
	n.withoutGeneration(t, policies, false)
	events := len(n.recorder.events)
	c, stop = n.start(t, lead)
	defer stop()
	eventually(t, "all have the generation", func() bool {
		for i := range policies {
			if n.generation(t, fmt.Sprint("p", i)) == "" {
				return false
			}
		}
		return true
	})
	if written, _ := n.counts(c, policies, ""); written != policies || len(n.recorder.events) != events {
		t.Errorf("%d barriers are written, with the events %q", written, n.recorder.events[events:])
	}
	for i := range policies {
		n.edit(t, fmt.Sprint("p", i), half)
	}
	eventually(t, "each has a state", func() bool {
		written, over := n.counts(c, policies, "bytes in all")
		return written+over == policies && n.size(t, policies) > len(half)
	})
	if size := n.size(t, policies); size > barriercontroller.MaxTextPerNamespace {
		t.Errorf("the barriers have %d bytes", size)
	}
}

// size returns the length of the texts of the barriers of policies.
func (n *team) size(t *testing.T, policies int) (size int) {
	t.Helper()
	for i := range policies {
		size += len(n.text(t, fmt.Sprint("p", i)))
	}
	return size
}

// generation returns the generation for which the barrier of a policy was written.
func (n *team) generation(t *testing.T, name string) string {
	t.Helper()
	stored, err := n.kubeClient.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), barrier.Name(engine.Key{Namespace: n.namespace, Name: name}), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored.Annotations[barriercontroller.GenerationAnnotation]
}

// TestWaitingPoliciesCount has a policy wait for its turn while the barrier of another one is written: its work counts for the next one.
func TestWaitingPoliciesCount(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	n, first := &team{newRig(t), "team"}, barrier.Name(engine.Key{Namespace: "team", Name: "first"}) // policies of one namespace share a queue
	n.compile = compiler.Compile
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n.kube.before = func(_, _, of string, _ bool) error {
		if of == first {
			once.Do(func() { close(arrived) })
			<-release
		}
		return nil
	}
	c, _ := n.start(t, lead)
	t.Cleanup(func() { close(release) })
	n.create(t, "first", 0, denying("1 == 1"))
	<-arrived
	n.create(t, "p", 0, denying(dear))
	eventually(t, "the policy that waits counts", func() bool { return n.asksAbout(t, c, compiler, dear) != "" })
}
