/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/rollout"
	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

const namespace = "proviso-system"

// A policy in these tests covers the verbs of its first rule, and refuses nothing if its description begins with "audit". Its condition is its
// text. A condition "broken" does not compile, and "panic" panics.
func specOf(condition string, verbs ...string) *policyv1alpha1.AuthorizationPolicySpec {
	return &policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectDeny, Condition: condition, Rules: []policyv1alpha1.PolicyRule{{Verbs: verbs}},
	}
}

var errBroken = errors.New("it does not compile")

func nameOf(key engine.Key) string { return barrier.Name(key) }

func compile(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (*rollout.Compiled, error) {
	switch spec.Condition {
	case "broken":
		return nil, errBroken
	case "panic":
		panic("compiling")
	case "untranslated":
		return &rollout.Compiled{Sees: func(authorizer.Attributes) bool { return false }}, nil
	}
	compiled := &rollout.Compiled{
		Policy: &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: nameOf(key)},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: ptr.To(admissionregistrationv1.Fail), Validations: []admissionregistrationv1.Validation{{Expression: spec.Condition, Message: strings.Join(spec.Rules[0].Verbs, ",")}},
			},
		},
		Binding: &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: nameOf(key)},
			Spec:       admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: nameOf(key), ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
		},
		Sees: func(a authorizer.Attributes) bool {
			if a.GetVerb() == "panic" {
				panic("matching")
			}
			return slices.Contains(spec.Rules[0].Verbs, a.GetVerb())
		},
	}
	switch spec.Description {
	case "audit policy":
		compiled.Policy.Spec.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
	case "audit binding":
		compiled.Binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
	}
	return compiled, nil
}

func verb(verb string) authorizer.Attributes {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: verb, ResourceRequest: true}
}

// event is a change of one object. object is nil if it was deleted.
type event[T any] struct {
	name   string
	object T
}

// store is kube-apiservers' store of both kinds of objects, with all their changes in order.
type store struct {
	revision    uint64
	generations map[string]int64
	policies    []event[*admissionregistrationv1.ValidatingAdmissionPolicy]
	bindings    []event[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]
}

// stateAt returns the last object with a name among the first changes, or nil.
func stateAt[T any](events []event[T], n int, name string) (object T) {
	for _, e := range events[:n] {
		if e.name == name {
			object = e.object
		}
	}
	return object
}

func (s *store) policy(name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return stateAt(s.policies, len(s.policies), name)
}

func (s *store) binding(name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return stateAt(s.bindings, len(s.bindings), name)
}

// stamp sets the metadata that kube-apiserver sets. A new specification has a new generation.
func (s *store) stamp(object metav1.Object, kind string, isNewText bool) {
	s.revision++
	if isNewText {
		s.generations[kind+object.GetName()]++
	}
	object.SetResourceVersion(strconv.FormatUint(s.revision, 10))
	object.SetGeneration(s.generations[kind+object.GetName()])
	object.SetUID(types.UID(kind + object.GetName()))
}

func (s *store) writePolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
	p = p.DeepCopy()
	before := s.policy(p.Name)
	s.stamp(p, "policy", before == nil || !barrier.EqualPolicies(before, p))
	s.policies = append(s.policies, event[*admissionregistrationv1.ValidatingAdmissionPolicy]{p.Name, p})
}

func (s *store) writeBinding(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	b = b.DeepCopy()
	before := s.binding(b.Name)
	s.stamp(b, "binding", before == nil || !barrier.EqualBindings(before, b))
	s.bindings = append(s.bindings, event[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{b.Name, b})
}

func (s *store) deletePolicy(name string) {
	s.policies = append(s.policies, event[*admissionregistrationv1.ValidatingAdmissionPolicy]{name: name})
}

func (s *store) deleteBinding(name string) {
	s.bindings = append(s.bindings, event[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{name: name})
}

// number returns the number of the stored binding of the sentinel, or 0.
func (s *store) number() int64 { return numberOf(s.binding(barrier.SentinelName)) }

func numberOf(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) int64 {
	if b == nil {
		return 0
	}
	number, _ := strconv.ParseInt(b.Spec.MatchResources.ObjectSelector.MatchLabels[barrier.RolloutLabel], 10, 64)
	return number
}

// kube is a kube-apiserver. It has loaded a part of the changes.
type kube struct {
	policies, bindings int
	// mode is empty, or says how it answers otherwise.
	mode string
	// certificate is its client certificate at the front door. replica returns the replica of Proviso whose front door it asks, or nil if it asks none. others
	// are certificates of other servers with the same address, of which one asks, too.
	certificate string
	replica     func() *rollout.Rollout
	others      []string
}

// asks reports whether the front door allows the canary a probe.
func (k *kube) asks(r *http.Request) bool {
	if k.replica == nil || k.replica() == nil {
		return false
	}
	a := authorizer.AttributesRecord{
		User: innerdoor.CanaryIdentity(r.Header.Get("Impersonate-Extra-Authorization.proviso.dev%2fcanary")),
		Verb: "create", APIGroup: "coordination.k8s.io", APIVersion: "v1", Resource: "leases", Namespace: namespace, ResourceRequest: true,
	}
	isCanary := true
	for _, certificate := range append([]string{k.certificate}, k.others...) {
		isCanary = isCanary && k.replica().IsCanary(certificate, a)
	}
	return isCanary
}

// world is a cluster with one replica of Proviso.
type world struct {
	*store

	mu                  sync.Mutex
	servers             map[string]*kube
	listed              []string
	alive               int
	listErr             error
	aliveErr, numberErr error
	storedErr           error
	strange             []string
	probes              int

	clock   *testingclock.FakeClock
	replica *rollout.Rollout
	// policiesSeen and bindingsSeen are how many changes the replica has received. isLate says that the comparisons of the replica find all
	// changes that are stored, and not only these.
	policiesSeen, bindingsSeen int
	isLate                     bool
}

func newWorld(t *testing.T, servers ...string) *world {
	t.Helper()
	w := &world{store: &store{generations: map[string]int64{}}, servers: map[string]*kube{}, alive: len(servers), clock: testingclock.NewFakeClock(time.Now())}
	for _, name := range servers {
		w.add(name)
	}
	w.restart(t)
	return w
}

func (w *world) add(name string) *kube {
	k := &kube{policies: len(w.policies), bindings: len(w.bindings)}
	w.servers["https://"+name+":443"] = k
	w.listed = append(w.listed, "https://"+name+":443")
	return k
}

// server returns the server with a name.
func (w *world) server(name string) *kube { return w.servers["https://"+name+":443"] }

// restart restarts the replica. It has received nothing.
func (w *world) restart(t *testing.T) {
	t.Helper()
	replica, err := rollout.New(w.config())
	if err != nil {
		t.Fatal(err)
	}
	w.replica, w.policiesSeen, w.bindingsSeen = replica, 0, 0
}

// config returns the configuration of a replica, whose cluster a test may change.
func (w *world) config(changes ...func(*cluster.Config)) rollout.Config {
	config := cluster.Config{
		Clock: w.clock,
		Servers: func(context.Context) ([]string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.listed), w.listErr
		},
		Renewed: func(context.Context) ([]time.Time, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Repeat([]time.Time{w.clock.Now()}, w.alive), w.aliveErr
		},
		Client: func(string) (*http.Client, error) { return &http.Client{Transport: w}, nil },
	}
	for _, change := range changes {
		change(&config)
	}
	servers, err := cluster.New(config)
	if err != nil {
		panic(err)
	}
	return rollout.Config{
		Namespace: namespace, Compile: compile, Cluster: servers, Moved: func() {},
		Number: func(context.Context) (int64, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.number(), w.numberErr
		},
		Stored: func(context.Context) (policies, bindings rollout.Stored, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.isLate {
				return storedOf(w.policies, w.revision), storedOf(w.bindings, w.revision), w.storedErr
			}
			return storedOf(w.policies[:w.policiesSeen], w.revision), storedOf(w.bindings[:w.bindingsSeen], w.revision), w.storedErr
		},
	}
}

// storedOf returns what is stored after changes.
func storedOf[T metav1.Object](events []event[T], version uint64) rollout.Stored {
	stored := rollout.Stored{Version: version, Objects: map[string]uint64{}}
	for _, e := range events {
		if reflect.ValueOf(e.object).IsNil() {
			delete(stored.Objects, e.name)
		} else {
			stored.Objects[e.name] = barrier.VersionOf(e.object)
		}
	}
	return stored
}

// receive has the replica receive all changes.
func (w *world) receive() {
	for w.receivePolicy() || w.receiveBinding() {
		continue
	}
}

func (w *world) receivePolicy() bool {
	if w.policiesSeen == len(w.policies) {
		return false
	}
	e := w.policies[w.policiesSeen]
	w.policiesSeen++
	if e.object == nil {
		w.replica.DeleteAdmissionPolicy(e.name)
	} else {
		w.replica.SetAdmissionPolicy(e.object)
	}
	return true
}

func (w *world) receiveBinding() bool {
	if w.bindingsSeen == len(w.bindings) {
		return false
	}
	e := w.bindings[w.bindingsSeen]
	w.bindingsSeen++
	if e.object == nil {
		w.replica.DeleteBinding(e.name)
	} else {
		w.replica.SetBinding(e.object)
	}
	return true
}

// list has a replica that starts receive what is stored.
func (w *world) list() {
	seen := map[string]bool{}
	for _, e := range w.policies {
		if p := w.policy(e.name); p != nil && !seen[e.name] {
			seen[e.name] = true
			w.replica.SetAdmissionPolicy(p)
		}
	}
	seen = map[string]bool{}
	for _, e := range w.bindings {
		if b := w.binding(e.name); b != nil && !seen[e.name] {
			seen[e.name] = true
			w.replica.SetBinding(b)
		}
	}
	w.policiesSeen, w.bindingsSeen = len(w.policies), len(w.bindings)
}

// load has servers load all changes.
func (w *world) load(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		k := w.server(name)
		k.policies, k.bindings = len(w.policies), len(w.bindings)
	}
}

// round makes a round of probes. A second passes, so that the servers are listed.
func (w *world) round(t *testing.T) {
	t.Helper()
	w.clock.Step(time.Second)
	w.replica.Compare(t.Context())
	w.replica.Round(t.Context())
}

// writeBarrier writes both objects of a barrier.
func (w *world) writeBarrier(t *testing.T, key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) {
	t.Helper()
	compiled, err := compile(key, spec)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writePolicy(compiled.Policy)
	w.writeBinding(compiled.Binding)
}

// extent returns what is stored.
func (w *world) extent() barrier.Extent {
	var extent barrier.Extent
	for _, e := range w.policies {
		if e.object != nil && e.name != barrier.SentinelName {
			extent.Policies, _ = strconv.ParseUint(e.object.ResourceVersion, 10, 64)
		}
	}
	for _, e := range w.bindings {
		if e.object != nil && e.name != barrier.SentinelName {
			extent.Bindings, _ = strconv.ParseUint(e.object.ResourceVersion, 10, 64)
		}
	}
	return extent
}

// writeSentinel writes the sentinel with the next number.
func (w *world) writeSentinel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeSentinelWith(w.number()+1, w.extent())
}

func (w *world) writeSentinelWith(number int64, extent barrier.Extent) {
	policy, binding := barrier.Sentinel(namespace, number)
	barrier.SetExtent(policy, extent)
	w.writePolicy(policy)
	w.writeBinding(binding)
}

// RoundTrip answers a probe.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probes++
	k := w.servers["https://"+r.URL.Host]
	lease := &coordinationv1.Lease{}
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, lease); err != nil || r.Method != http.MethodPost || r.URL.Path != "/apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases" || r.URL.RawQuery != "dryRun=All" || lease.Namespace != namespace || r.Header.Get("Content-Type") != "application/json" {
		w.strange = append(w.strange, r.Method+" "+r.URL.String()+" "+string(body))
	}
	answer := func(code int, reason metav1.StatusReason, message string) (*http.Response, error) {
		content, _ := json.Marshal(&metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message}) //nolint:gosec // a status code
		return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(content)), Request: r}, nil
	}
	if who := r.Header.Get("Impersonate-User"); who != "" && (who != innerdoor.CanaryUser || !k.asks(r)) {
		return answer(http.StatusForbidden, metav1.StatusReasonForbidden, "cannot create leases")
	}
	if k.mode == "two servers" && r.Header.Get("Impersonate-User") != "" {
		return answer(http.StatusCreated, "", "")
	}
	switch k.mode {
	case "stalled":
		return nil, errors.New("no answer")
	case "passing":
		return answer(http.StatusCreated, "", "")
	case "no status":
		return &http.Response{StatusCode: http.StatusBadGateway, Body: io.NopCloser(strings.NewReader("<html>")), Request: r}, nil
	case "refusing":
		return answer(http.StatusForbidden, metav1.StatusReasonForbidden, "quota")
	}
	binding := stateAt(w.bindings, k.bindings, barrier.SentinelName)
	policy := stateAt(w.policies, k.policies, barrier.SentinelName)
	if binding == nil || policy == nil || binding.Spec.MatchResources.ObjectSelector.MatchLabels[barrier.RolloutLabel] != lease.Labels[barrier.RolloutLabel] {
		if k.mode == "stored" {
			return answer(http.StatusConflict, metav1.StatusReasonAlreadyExists, "the Lease exists")
		}
		return answer(http.StatusCreated, "", "")
	}
	return answer(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(`leases.coordination.k8s.io %q is forbidden: ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s`,
		lease.Name, policy.Name, binding.Name, policy.Spec.Validations[0].Message))
}

var policyKey = engine.Key{Name: "p"}

// covers reports whether a request with a verb is left to the barrier of the policy.
func (w *world) covers(v string) bool { return w.replica.Covers(policyKey.ConditionID(), verb(v)) }

// wantState compares the state of the policy.
func (w *world) wantState(t *testing.T, when string, phase rollout.Phase, message string, lacking ...string) {
	t.Helper()
	got := w.replica.State(policyKey)
	if got.Phase != phase || !strings.Contains(got.Message, message) || !slices.Equal(got.Lacking, lacking) {
		t.Errorf("%s: got %+v, want %s, %q, %q", when, got, phase, message, lacking)
	}
}

// TestMain keeps the log of random worlds short.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	m.Run()
}
