/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kube-openapi/pkg/validation/spec"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
)

const readsObject = `object.metadata.name == "a"`

// door is what other components do: the inner door decides gets of secrets.
type door struct {
	mu      sync.Mutex
	current *enforcementstatus.Places
}

func (d *door) set(isProbed bool, lacking ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current = enforcementstatus.NewPlaces(enforcementstatus.Facts{
		InnerDoor: &enforcementstatus.InnerDoor{Probed: isProbed, Lacking: lacking, Writes: []enforcementstatus.Writes{{Resource: schema.GroupResource{Resource: "secrets"}, Verbs: []string{"get"}}}},
		Versions:  map[string]map[string]bool{"": {"v1": true}},
	})
}

func (d *door) server() enforcementstatus.Server {
	return enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.current
	}}
}

// TestOutdated has policies whose status says the same as before, another thing, or nothing that Recheck should look at.
func TestOutdated(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		condition string
		rules     int
		change    func(t *testing.T, s *stepper, d *door, key engine.Key)
		want      bool
	}{
		{name: "nothing has changed", condition: readsObject, change: func(*testing.T, *stepper, *door, engine.Key) {}},
		{name: "other components", condition: readsObject, change: func(_ *testing.T, _ *stepper, d *door, _ engine.Key) { d.set(true, "https://a") }, want: true},
		{name: "other components, for requests without a condition", change: func(_ *testing.T, _ *stepper, d *door, _ engine.Key) { d.set(true, "https://a") }},
		{name: "more entries than a status has", condition: readsObject, rules: policyapi.MaxRuleEnforcements/2 + 1, change: func(*testing.T, *stepper, *door, engine.Key) {}},
		{name: "does not compile", condition: "object.", change: func(_ *testing.T, s *stepper, d *door, key engine.Key) {
			d.set(true, "https://a")
			s.get(key).status.Enforcement = []policyv1alpha1.RuleEnforcement{{Message: "old"}}
		}},
		{name: "gone", condition: readsObject, change: func(t *testing.T, s *stepper, d *door, key engine.Key) {
			d.set(true, "https://a")
			if err := s.informers[0].GetIndexer().Delete(&policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}); err != nil {
				t.Error(err)
			}
		}},
		{name: "a namesake that is not compiled yet", condition: readsObject, change: func(t *testing.T, s *stepper, _ *door, key engine.Key) {
			s.put(t, key, "other", policyv1alpha1.PolicyEffectAllow, readsObject)
		}},
		{name: "a change that is not compiled yet", condition: readsObject, change: func(t *testing.T, s *stepper, _ *door, key engine.Key) {
			s.put(t, key, "u", policyv1alpha1.PolicyEffectDeny, readsObject)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, d, key := newStepper(t), &door{}, engine.Key{Name: "p"}
			s.accepting()
			d.set(true)
			s.config.Server = d.server()
			s.put(t, key, "u", policyv1alpha1.PolicyEffectAllow, tc.condition)
			for range tc.rules {
				p := s.get(key)
				p.spec.Rules = append(p.spec.Rules, policyv1alpha1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}})
			}
			s.publish(t.Context())
			if err := s.writeStatus(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			s.written(t, key)
			tc.change(t, s, d, key)
			if got := s.outdated(); (len(got) == 1 && got[0] == key) != tc.want || len(got) > 1 {
				t.Errorf("got %v, want the policy: %t", got, tc.want)
			}
		})
	}
}

// started is a controller that runs in a bubble of testing/synctest, where time passes only while everything waits.
type started struct {
	*stepper
	mu      sync.Mutex
	writes  map[string][]time.Time
	reasons map[string]string
}

func start(t *testing.T, config Config, objects ...runtime.Object) *started {
	t.Helper()
	s := &started{stepper: &stepper{source: &engine.Source{}}, writes: map[string][]time.Time{}, reasons: map[string]string{}}
	client := fake.NewSimpleClientset(objects...)
	client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p, ok := action.(clienttesting.UpdateAction).GetObject().(*policyv1alpha1.ClusterAuthorizationPolicy); ok {
			s.writes[p.Name] = append(s.writes[p.Name], time.Now())
			s.reasons[p.Name] = meta.FindStatusCondition(p.Status.Conditions, policyv1alpha1.PolicyEffective).Reason
		}
		return false, nil, nil
	})
	config.Client, config.Compiler, config.Source, config.StalenessBound = client, newCompiler(t), s.source, time.Hour
	if config.Store == nil {
		config.Store = clientstore.LatestPolicies(client)
	}
	config.End = func(cause error) { t.Errorf("it ends the process: %v", cause) }
	var err error
	if s.Controller, err = NewController(config); err != nil {
		t.Fatal(err)
	}
	s.pace.Burst = 1
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	time.Sleep(time.Second)
	return s
}

// times returns how long after a time the status of a policy was written, in order.
func (s *started) times(name string, since time.Time) (times []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.writes[name] {
		if at.After(since) {
			times = append(times, at.Sub(since))
		}
	}
	return times
}

func secretsPolicy(name string) *policyv1alpha1.ClusterAuthorizationPolicy {
	return &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u"}, Spec: policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectAllow, Condition: readsObject, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: user.AllAuthenticated}},
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}}},
	}}
}

// TestRecheck writes the status of all policies after other components have changed, one after the other, and once more only after the
// interval.
func TestRecheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &door{}
		d.set(true)
		const n = 5
		var objects []runtime.Object
		for i := range n {
			objects = append(objects, secretsPolicy(fmt.Sprintf("p%d", i)))
		}
		s := start(t, Config{Server: d.server()}, objects...)
		turn := func(lacking ...string) time.Time {
			now := time.Now()
			d.set(true, lacking...)
			s.Recheck()
			return now
		}
		changed := turn("https://a")
		time.Sleep(time.Second)
		at := sets.New[time.Duration]()
		for i := range n {
			name := fmt.Sprintf("p%d", i)
			at.Insert(s.times(name, changed.Add(-1))...)
			if s.reasons[name] != string(policyv1alpha1.ResultInnerDoorUnknown) {
				t.Errorf("%s: got %s", name, s.reasons[name])
			}
		}
		if len(at) != n {
			t.Errorf("%d policies are written after %v, want them apart", n, sets.List(at))
		}
		changed = turn()
		time.Sleep(2 * controller.PaceInterval)
		for i := range n {
			name := fmt.Sprintf("p%d", i)
			if got := s.times(name, changed); len(got) != 1 || got[0] < controller.PaceInterval-2*time.Second || got[0] > controller.PaceInterval || s.reasons[name] != "Enforced" {
				t.Errorf("%s: written after %v with %s, want once after the rest of the interval", name, got, s.reasons[name])
			}
		}
	})
}

// TestChangesDoNotWait writes the status of a policy that its author changes within the interval, and of another with its name.
func TestChangesDoNotWait(t *testing.T) {
	t.Parallel()
	s, d, key := newStepper(t), &door{}, engine.Key{Name: "p"}
	s.pace.Burst = 1
	s.accepting()
	d.set(true)
	s.config.Server = d.server()
	want := func(when string, wantWrites int) {
		t.Helper()
		s.publish(t.Context())
		if err := s.writeStatus(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if status, n := s.written(t, key); n != wantWrites || n > 0 && status.ObservedGeneration != s.get(key).meta.Generation {
			t.Errorf("%s: got %d writes, want %d", when, n, wantWrites)
		}
	}
	s.put(t, key, "u", policyv1alpha1.PolicyEffectAllow, readsObject)
	want("created", 1)
	d.set(true, "https://a")
	want("other components", 1)
	p := secretsPolicy("p")
	p.Generation, p.Spec.Effect, p.Status = 2, policyv1alpha1.PolicyEffectNoOpinion, *s.get(key).status
	s.replace(t, 0, p)
	s.observe(p)
	want("changed within the interval", 1)
	for _, condition := range s.get(key).status.Conditions {
		if condition.ObservedGeneration != 2 {
			t.Errorf("got %+v, want generation 2", condition)
		}
	}
	d.set(true)
	want("other components, after the change", 1)
	d.set(true, "https://a")
	want("other components within the interval", 0)
	p = p.DeepCopy()
	p.Status = *s.get(key).status.DeepCopy()
	if err := s.informers[0].GetIndexer().Delete(p); err != nil {
		t.Fatal(err)
	}
	s.observe(p)
	s.publish(t.Context())
	if _, known := s.results[key]; known {
		t.Error("the result of a deleted policy is kept")
	}
	s.replace(t, 0, p)
	s.observe(p)
	want("created again, with the status of the deleted one", 1)
}

// TestStatusOfBrokenChange changes a policy with entries and mistakes in its status so that it does not compile.
func TestStatusOfBrokenChange(t *testing.T) {
	t.Parallel()
	s, key := newStepper(t), engine.Key{Name: "p"}
	s.accepting()
	for _, tc := range []struct {
		condition                 string
		wantEntries, wantMistakes int
		wantReason                string
	}{
		{condition: `object.a == "x" && 1 == 2`, wantEntries: 1, wantMistakes: 1, wantReason: string(policyv1alpha1.ResultNotEnforced)},
		{condition: "object.", wantReason: policyv1alpha1.ReasonCompileFailed},
		{condition: readsObject, wantEntries: 1, wantReason: string(policyv1alpha1.ResultNotEnforced)},
	} {
		p := secretsPolicy("p")
		p.Spec.Condition = tc.condition
		if before := s.get(key); before != nil {
			p.Status = *before.status
		}
		s.replace(t, 0, p)
		s.observe(p)
		s.publish(t.Context())
		if err := s.writeStatus(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		status, _ := s.written(t, key)
		mistakes := 0
		if status.TypeChecking != nil {
			mistakes = len(status.TypeChecking.ExpressionWarnings)
		}
		if got := meta.FindStatusCondition(status.Conditions, policyv1alpha1.PolicyEffective).Reason; len(status.Enforcement) != tc.wantEntries || mistakes != tc.wantMistakes || got != tc.wantReason {
			t.Errorf("%s: got %+v", tc.condition, status)
		}
	}
}

// noSchemas fails to read schemas.
type noSchemas struct{}

var errNoSchemas = errors.New("no answer")

func (noSchemas) ResolveSchema(schema.GroupVersionKind) (*spec.Schema, error) {
	return nil, errNoSchemas
}

func (noSchemas) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return []schema.GroupVersionKind{{Group: r.Group, Version: "v1", Kind: "Secret"}}, nil
}

// TestIncompleteTypes returns that types could not be checked in every case, so that the policy is tried again.
func TestIncompleteTypes(t *testing.T) {
	t.Parallel()
	types, err := typechecking.New(noSchemas{}, noSchemas{})
	if err != nil {
		t.Fatal(err)
	}
	s, d, key := newStepper(t), &door{}, engine.Key{Name: "p"}
	s.pace.Burst = 1
	s.accepting()
	d.set(true)
	s.config.Server, s.config.Types = d.server(), types
	s.put(t, key, "u", policyv1alpha1.PolicyEffectAllow, readsObject)
	s.publish(t.Context())
	for _, tc := range []struct {
		name       string
		change     func()
		wantWrites int
	}{
		{name: "a new policy", change: func() {}, wantWrites: 1},
		{name: "no change", change: func() {}},
		{name: "other components", change: func() { d.set(true, "https://a") }, wantWrites: 1},
		{name: "other components, within the interval", change: func() { d.set(true) }},
		{name: "nothing is known", change: func() { d.set(false) }},
	} {
		tc.change()
		if err := s.writeStatus(t.Context(), key); !errors.Is(err, typechecking.ErrIncomplete) || !errors.Is(err, errNoSchemas) {
			t.Errorf("%s: got %v, want ErrIncomplete", tc.name, err)
		}
		if _, n := s.written(t, key); n != tc.wantWrites {
			t.Errorf("%s: got %d writes, want %d", tc.name, n, tc.wantWrites)
		}
	}
}

// TestMistakesAreCheckedAgain looks at a policy with mistakes every five minutes, and at another one never.
func TestMistakesAreCheckedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			mu     sync.Mutex
			checks int
		)
		wrong, right := secretsPolicy("wrong"), secretsPolicy("right")
		wrong.Spec.Condition = `object.a == "x" && 1 == 2`
		s := start(t, Config{Server: enforcementstatus.Server{FrontDoor: true, Places: func() *enforcementstatus.Places {
			mu.Lock()
			defer mu.Unlock()
			checks++
			return nil
		}}}, wrong, right)
		if tc := s.get(engine.Key{Name: "wrong"}).status.TypeChecking; tc == nil || len(tc.ExpressionWarnings) != 1 {
			t.Fatalf("got %+v, want a mistake", tc)
		}
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return checks
		}
		before := count()
		time.Sleep(recheckMistakes - 5*time.Second)
		if n := count() - before; n > 0 {
			t.Errorf("%d checks too early", n)
		}
		time.Sleep(10 * time.Second)
		if n := count() - before; n < 1 || n > 3 {
			t.Errorf("got %d checks after %s, want one of the policy with mistakes", n, recheckMistakes)
		}
	})
}

// TestRevisionsOfBothKinds asks for the revision of the store of each kind.
func TestRevisionsOfBothKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := sets.New[string]()
		start(t, Config{Store: clientstore.Policies(fake.NewSimpleClientset(), func(ctx context.Context, resource string) (uint64, error) {
			mu.Lock()
			defer mu.Unlock()
			asked.Insert(resource)
			return clientstore.Latest(ctx)
		})})
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if !asked.Equal(sets.New("clusterauthorizationpolicies", "authorizationpolicies")) {
			t.Errorf("got %v", sets.List(asked))
		}
	})
}

// TestConfigIsIncomplete returns an error instead of a controller that fails later.
func TestConfigIsIncomplete(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*Config)
		isGood bool
	}{
		{name: "complete", change: func(*Config) {}, isGood: true},
		{name: "no client", change: func(c *Config) { c.Client = nil }},
		{name: "no compiler", change: func(c *Config) { c.Compiler = nil }},
		{name: "no source", change: func(c *Config) { c.Source = nil }},
		{name: "no store", change: func(c *Config) { c.Store = nil }},
		{name: "no bound", change: func(c *Config) { c.StalenessBound = 0 }},
		{name: "no end", change: func(c *Config) { c.End = nil }},
	} {
		config := newStepper(t).config
		tc.change(&config)
		if c, err := NewController(config); (err == nil) != tc.isGood || (c != nil && c.Controller != nil) != tc.isGood {
			t.Errorf("%s: got %v", tc.name, err)
		}
	}
	s := newStepper(t)
	s.observe(&metav1.Status{})
	s.observe(nil)
	if got := s.takeDirty(); len(got) > 0 {
		t.Errorf("got %v for what is no policy", got)
	}
}
