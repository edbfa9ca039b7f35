/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditpolicy "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/proviso-authz/proviso/apis/demo"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

const (
	machinesPath  = "/apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines"
	jsonType      = "application/json"
	alicesMachine = machinesPath + "/one"
)

// rights are what alice may do, as policies: "EFFECT VERBS RESOURCES" and a condition. A fourth word is the enforcement.
type rights map[string]string

// compile makes policies, named for their keys.
func (r rights) compile(tb testing.TB) map[engine.Key]*engine.Policy {
	tb.Helper()
	compiler := compilers.Policies(tb)
	policies := map[engine.Key]*engine.Policy{}
	for what, condition := range r {
		words := strings.Fields(what)
		spec := &policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffect(words[0]), Condition: condition,
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}},
			Rules:    []policyv1alpha1.PolicyRule{{Verbs: strings.Split(words[1], ","), APIGroups: []string{demo.GroupName}, APIVersions: []string{"*"}, Resources: strings.Split(words[2], ",")}},
		}
		if len(words) > 3 {
			spec.Enforcement = policyv1alpha1.PolicyEnforcement(words[3])
		}
		name := strings.ToLower(strings.NewReplacer(" ", "-", ",", "-", "/", "-").Replace(what))
		key := engine.Key{Name: strings.Trim(name[:min(len(name), 63)], "-")}
		var err error
		if policies[key], err = engine.New(key, spec, compiler); err != nil {
			tb.Fatal(err)
		}
	}
	return policies
}

// enforcing is a server with policies. admin may do everything.
type enforcing struct {
	*server.Server
	source  *engine.Source
	builder *engine.Builder
	now     rights
}

// publish replaces the policies.
func (e *enforcing) publish(tb testing.TB, next rights) {
	tb.Helper()
	changes := next.compile(tb)
	for key := range e.now.compile(tb) {
		if _, ok := changes[key]; !ok {
			changes[key] = nil
		}
	}
	e.now = next
	e.source.Publish(e.builder.Apply(changes))
}

var adminMayAll = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == "admin" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
})

// policyChain has the policies where proviso-apiserver has them; before and between are the
// members before the first part and between the two.
func policyChain(tb testing.TB, source *engine.Source, before ...authorizer.Authorizer) *authorization.Chain {
	tb.Helper()
	restricting, granting := &engine.Authorizer{Source: source}, &engine.Authorizer{Source: source, Part: engine.Granting}
	deciders := []authorization.Decider{authorization.DeciderOf(adminMayAll)}
	for _, a := range before {
		deciders = append(deciders, authorization.DeciderOf(a))
	}
	var members []authorization.Member
	for i, d := range append(deciders, restricting, granting) {
		members = append(members, authorization.Member{Name: fmt.Sprintf("m%d", i), Decider: d})
	}
	chain, err := authorization.NewChain(members...)
	if err != nil {
		tb.Fatal(err)
	}
	restricting.Checks, granting.Checks = chain, chain
	return chain
}

func newEnforcing(tb testing.TB, policies rights, adjust ...func(*server.Config)) *enforcing {
	tb.Helper()
	dir, err := os.MkdirTemp("", "en") // short enough for a socket
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := &enforcing{source: &engine.Source{}, builder: engine.NewBuilder()}
	e.publish(tb, policies)
	config := server.Config{EtcdDir: dir}
	for _, change := range adjust {
		change(&config)
	}
	if config.Authorizer == nil {
		config.Authorizer = policyChain(tb, e.source)
	}
	e.Server = server.New(tb, config)
	return e
}

// must has admin send a request that must succeed.
func (e *enforcing) must(tb testing.TB, method, path, body string) {
	tb.Helper()
	if got := send(e.Server, "admin", method, path, jsonType, body); got.Code/100 != 2 {
		tb.Fatalf("%s %s: got %d %s", method, path, got.Code, got.Body)
	}
}

// stored returns the names of the machines that there are, with their images.
func (e *enforcing) stored(tb testing.TB) map[string]string {
	tb.Helper()
	var list demov1alpha1.VirtualMachineList
	// A cache that is not filled yet answers 429.
	err := wait.PollUntilContextTimeout(tb.Context(), 10*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		got := send(e.Server, "admin", http.MethodGet, machinesPath, "", "")
		return got.Code == http.StatusOK, json.Unmarshal(got.Body.Bytes(), &list)
	})
	if err != nil {
		tb.Fatal(err)
	}
	images := map[string]string{}
	for _, m := range list.Items {
		images[m.Name] = m.Spec.Image
	}
	return images
}

func machineJSON(metadata, image string) string {
	return fmt.Sprintf(`{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{%s},"spec":{"image":%q,"storageClassName":"dev","disks":[{"name":"root","sizeGiB":1.5}]}}`, metadata, image)
}

const named = `"name":"one"`

// TestEveryWayToWrite takes every way to write past a condition that holds and one that
// does not. What is refused must not have been written.
func TestEveryWayToWrite(t *testing.T) {
	t.Parallel()
	type row struct {
		Rights       rights
		Exists       bool
		Method, Path string
		ContentType  string
		Generated    bool // the name
	}
	rows.Run(t, "testdata/ways.yaml", func(t *testing.T, tc row) {
		e := newEnforcing(t, tc.Rights)
		write := func(image string) *httptest.ResponseRecorder {
			contentType, body := jsonType, machineJSON(named, image)
			switch {
			case tc.ContentType == mergePatch:
				body = fmt.Sprintf(`{"spec":{"image":%q}}`, image)
			case tc.ContentType == "application/json-patch+json":
				body = fmt.Sprintf(`[{"op":"replace","path":"/spec/image","value":%q}]`, image)
			case tc.Generated:
				body = machineJSON(`"generateName":"one-"`, image)
			}
			if tc.ContentType != "" {
				contentType = tc.ContentType
			}
			return send(e.Server, "alice", tc.Method, machinesPath+tc.Path, contentType, body)
		}
		if tc.Exists {
			e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
		}
		before := e.stored(t)
		if got := write("bad"); got.Code != http.StatusForbidden {
			t.Errorf("does not hold: got %d %s, want 403", got.Code, got.Body)
		}
		if diff := cmp.Diff(before, e.stored(t)); diff != "" {
			t.Errorf("a refused request wrote (-before +after):\n%s", diff)
		}
		if got := write("good"); got.Code/100 != 2 {
			t.Errorf("holds: got %d %s, want success", got.Code, got.Body)
		}
		if wrote := !cmp.Equal(before, e.stored(t)); wrote == strings.Contains(tc.Path, "dryRun") {
			t.Errorf("holds: written %v", wrote)
		}
	})
}

// TestOddWrites are ways to write that must be refused whatever the object is.
func TestOddWrites(t *testing.T) {
	t.Parallel()
	type row struct {
		Rights       rights
		Method, Path string
		Metadata     map[string]any // of a machine in the body
		Tags         bool           // the machine has many tags
		Code         int
	}
	rows.Run(t, "testdata/oddwrites.yaml", func(t *testing.T, tc row) {
		e := newEnforcing(t, tc.Rights)
		e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
		contentType, body, path := "", "", tc.Path
		switch {
		case tc.Tags:
			contentType, body = jsonType, withTags
		case tc.Metadata != nil:
			contentType, body = jsonType, machineJSON(strings.Trim(jsonOf(t, tc.Metadata), "{}"), "x")
		}
		if !strings.HasPrefix(path, "/apis/") {
			path = machinesPath + path
		}
		if got := send(e.Server, "alice", tc.Method, path, contentType, body); got.Code != tc.Code {
			t.Errorf("got %d %s, want %d", got.Code, got.Body, tc.Code)
		}
		if diff := cmp.Diff(map[string]string{"one": "old"}, e.stored(t)); diff != "" {
			t.Errorf("a refused request wrote (-want +got):\n%s", diff)
		}
	})
}

var withTags = func() string {
	tags := make([]string, 64)
	for i := range tags {
		tags[i] = fmt.Sprintf("%q", fmt.Sprint("tag-", i))
	}
	return strings.Replace(machineJSON(named, "x"), `"image"`, `"tags":[`+strings.Join(tags, ",")+`],"image"`, 1)
}()

// TestStatusIsAnEndpointOfItsOwn enforces conditions on the status.
func TestStatusIsAnEndpointOfItsOwn(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow update,patch virtualmachines/status": `object.status.phase == "Running" && object.spec.image == "old"`})
	e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
	for phase, want := range map[string]int{"Stopped": 403, "Running": 200} {
		body := fmt.Sprintf(`{"status":{"phase":%q}}`, phase)
		if got := send(e.Server, "alice", http.MethodPatch, alicesMachine+"/status", mergePatch, body); got.Code != want {
			t.Errorf("%s: got %d %s, want %d", phase, got.Code, got.Body, want)
		}
	}
}

// TestConsoleNeedsBoth connects by GET, which needs create as well.
func TestConsoleNeedsBoth(t *testing.T) {
	t.Parallel()
	const safe = `operation == "CONNECT" && object.command[0] == "ls"`
	for _, tc := range []struct {
		name    string
		rights  rights
		with    map[string]int // by command, with AuthorizeConnectWithCreate
		without map[string]int
	}{
		{"both on a condition", rights{"Allow get,create virtualmachines/console": safe}, map[string]int{"ls": 200, "rm": 403}, map[string]int{"ls": 200, "rm": 403}},
		{"only create on a condition", rights{"Allow get virtualmachines/console": "", "Allow create virtualmachines/console": safe}, map[string]int{"ls": 200, "rm": 403}, map[string]int{"ls": 200, "rm": 200}},
		{"no create", rights{"Allow get virtualmachines/console": safe}, map[string]int{"ls": 403, "rm": 403}, map[string]int{"ls": 200, "rm": 403}},
	} {
		for with, want := range map[bool]map[string]int{true: tc.with, false: tc.without} {
			t.Run(fmt.Sprintf("%s/%v", tc.name, with), func(t *testing.T) {
				t.Parallel()
				e := newEnforcing(t, tc.rights, func(c *server.Config) {
					c.Enforcement = func(e *enforcement.Config) { e.ConnectWithCreate = with }
				})
				e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
				for command, code := range want {
					if got := send(e.Server, "alice", http.MethodGet, alicesMachine+"/console?command="+command, "", ""); got.Code != code {
						t.Errorf("%s: got %d %s, want %d", command, got.Code, got.Body, code)
					}
				}
			})
		}
	}
}

// TestBodiesAreNotRead sends bodies that never end. What cannot become allowed is refused
// all the same.
func TestBodiesAreNotRead(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{
		"Allow create virtualmachines": `object.spec.image == "good"`,
		"Deny update virtualmachines":  `object.spec.image == "bad"`,
		"Allow get virtualmachines":    "object.x == 1",
	})
	client, err := rest.TransportFor(e.Client(t, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	host := e.Client(t, "alice").Host
	for _, request := range [][2]string{
		{http.MethodPut, alicesMachine}, {http.MethodPatch, alicesMachine}, {http.MethodDelete, alicesMachine}, {http.MethodDelete, machinesPath},
		{http.MethodPost, alicesMachine + "/console"}, {http.MethodPut, alicesMachine + "/status"}, {http.MethodPost, "/apis/authorization.k8s.io/v1alpha1/subjectaccessreviews"},
	} {
		endless, writer := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), request[0], host+request[1], endless)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", jsonType)
		r.ContentLength = 1 << 30 // HTTP/1 waits for the rest of a body of unknown length before it answers
		response, err := client.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: got %d, want 403", request, response.StatusCode)
		}
		_ = response.Body.Close()
		_ = writer.Close()
	}
	// What can become allowed is read.
	body := &watchedBody{Reader: strings.NewReader(machineJSON(named, "good"))}
	for method, wantRead := range map[string]bool{http.MethodPost: true, http.MethodPut: false} {
		body.read.Store(false)
		r := httptest.NewRequest(method, map[string]string{http.MethodPost: machinesPath, http.MethodPut: alicesMachine}[method], body)
		r.Header.Set(server.UserHeader, "alice")
		r.Header.Set("Content-Type", jsonType)
		e.Handler.ServeHTTP(httptest.NewRecorder(), r)
		if body.read.Load() != wantRead {
			t.Errorf("%s: the body was read %v, want %v", method, body.read.Load(), wantRead)
		}
	}
}

type watchedBody struct {
	io.Reader
	read atomic.Bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.Reader.Read(p)
}

// hook is a mutating plugin, between authorization and the enforcement of conditions.
type hook func(a admission.Attributes) error

func (hook) Handles(admission.Operation) bool { return true }
func (h hook) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return h(a)
}

func withHook(h hook) func(*server.Config) {
	return func(c *server.Config) { c.Admission = append(c.Admission, h) }
}

// TestPoliciesChangeMeanwhile changes the policies while a request is between authorization
// and admission: it is decided by those that authorized it.
func TestPoliciesChangeMeanwhile(t *testing.T) {
	t.Parallel()
	type row struct {
		Before, After rights
		Exists        bool
		Lazy          bool // a member before the policies could allow, and does not
		Apply         bool // instead of an update
		Allowed       bool
	}
	rows.Run(t, "testdata/meanwhile.yaml", func(t *testing.T, tc row) {
		var e *enforcing
		held := false
		changing := hook(func(a admission.Attributes) error {
			if a.GetUserInfo().GetName() == "alice" && !held {
				held = true
				e.publish(t, tc.After)
			}
			return nil
		})
		source := &engine.Source{}
		e = newEnforcing(t, rights{}, withHook(changing), func(c *server.Config) {
			if tc.Lazy {
				c.Authorizer = policyChain(t, source, neverHolds{})
			} else {
				c.Authorizer = policyChain(t, source)
			}
		})
		e.source = source
		e.publish(t, tc.Before)
		if tc.Exists {
			e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
		}
		method, path, contentType := http.MethodPut, alicesMachine, jsonType
		if tc.Apply {
			method, path, contentType = http.MethodPatch, alicesMachine+"?fieldManager=m", applyPatch
		}
		got := send(e.Server, "alice", method, path, contentType, machineJSON(named, "good"))
		if !held {
			t.Fatalf("the request was not held: %d %s", got.Code, got.Body)
		}
		if allowed := got.Code/100 == 2; allowed != tc.Allowed || (e.stored(t)["one"] == "good") != allowed {
			t.Errorf("got %d %s, stored %v; want allowed %v", got.Code, got.Body, e.stored(t), tc.Allowed)
		}
	})
}

// neverHolds allows alice everything on a condition that never holds.
type neverHolds struct{ authorizer.Authorizer }

func (neverHolds) ConditionsAwareAuthorize(_ context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if a.GetUser().GetName() != "alice" {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	return authorization.ToUpstream(authorization.Conditions(authorization.Condition{
		ID: "example.com/never", Effect: authorization.EffectAllow, Type: "example.com/go",
		EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorization.Outcome { return authorization.False() },
	}))
}

// TestTheMutatedObjectDecides has a plugin change what the condition reads.
func TestTheMutatedObjectDecides(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]int{"good": http.StatusCreated, "bad": http.StatusForbidden} {
		e := newEnforcing(t, rights{"Allow create virtualmachines": `object.spec.image == "good"`}, withHook(func(a admission.Attributes) error {
			if vm, ok := a.GetObject().(*demo.VirtualMachine); ok {
				vm.Spec.Image = image
			}
			return nil
		}))
		for _, sent := range []string{"good", "bad"} {
			got := send(e.Server, "alice", http.MethodPost, machinesPath, jsonType, machineJSON(fmt.Sprintf(`"name":%q`, sent), sent))
			if got.Code != want {
				t.Errorf("%s made %s: got %d %s, want %d", sent, image, got.Code, got.Body, want)
			}
		}
	}
}

// TestRetriesAreDecidedAgain changes the object between two attempts at an update: each is
// decided on the old object that it replaces.
func TestRetriesAreDecidedAgain(t *testing.T) {
	t.Parallel()
	for meanwhile, allowed := range map[string]bool{"bad": false, "good": true} {
		t.Run(meanwhile, func(t *testing.T) {
			t.Parallel()
			var e *enforcing
			var attempts atomic.Int32
			e = newEnforcing(t, rights{"Allow update virtualmachines": `oldObject.spec.image == "good"`}, withHook(func(a admission.Attributes) error {
				if a.GetUserInfo().GetName() == "alice" && attempts.Add(1) == 1 {
					// An annotation makes it a change even where the image stays.
					e.must(t, http.MethodPut, alicesMachine, machineJSON(named+`,"annotations":{"a":"b"}`, meanwhile))
				}
				return nil
			}))
			e.must(t, http.MethodPost, machinesPath, machineJSON(named, "good"))
			got := send(e.Server, "alice", http.MethodPut, alicesMachine, jsonType, machineJSON(named, "alices"))
			want := map[bool]string{true: "alices", false: meanwhile}[allowed]
			if (got.Code == http.StatusOK) != allowed || attempts.Load() != 2 || e.stored(t)["one"] != want {
				t.Errorf("got %d %s after %d attempts, stored %v; want allowed %v after 2", got.Code, got.Body, attempts.Load(), e.stored(t), allowed)
			}
		})
	}
}

// TestDeleteCollection deletes 500 machines of which half may not be.
func TestDeleteCollection(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow deletecollection virtualmachines": `oldObject.spec.image == "mine"`, "Allow list virtualmachines": ""})
	want := map[string]string{}
	for i := range 500 {
		name, image := fmt.Sprintf("m%03d", i), "mine"
		if i%2 == 1 {
			image = "theirs"
			want[name] = image
		}
		e.must(t, http.MethodPost, machinesPath, machineJSON(fmt.Sprintf(`"name":%q,"labels":{"of":%q}`, name, image), image))
	}
	got := send(e.Server, "alice", http.MethodDelete, machinesPath, "", "")
	if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "reason=NotMet") {
		t.Errorf("got %d %s, want 403 with the reason", got.Code, got.Body)
	}
	left := e.stored(t)
	for name := range want {
		if left[name] == "" {
			t.Errorf("%s was deleted", name)
		}
	}
	if got := send(e.Server, "alice", http.MethodDelete, machinesPath+"?labelSelector=of%3Dmine", "", ""); got.Code != http.StatusOK {
		t.Errorf("only her own: got %d %s", got.Code, got.Body)
	}
	if diff := cmp.Diff(want, e.stored(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if got := send(e.Server, "alice", http.MethodDelete, machinesPath+"?labelSelector=of%3Dnobody", "", ""); got.Code != http.StatusOK {
		t.Errorf("an empty collection: got %d %s", got.Code, got.Body)
	}
}

// goCondition is an authorizer that allows everybody but admin on a condition in Go.
type goCondition func(authorizer.ConditionsData) authorization.Outcome

func (f goCondition) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

func (f goCondition) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", nil
}

func (f goCondition) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorization.ToUpstream(authorization.Conditions(authorization.Condition{
		ID: "example.com/go", Effect: authorization.EffectAllow, Type: "example.com/go",
		EvaluateFunc: func(_ context.Context, data authorizer.ConditionsData) authorization.Outcome { return f(data) },
	}))
}

// TestPanics has evaluations panic in the goroutines of the handlers. The server stays, and
// nothing is written. Users who may not read what is stored get the answer of every other refusal.
func TestPanics(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{}, func(c *server.Config) {
		c.Authorizer = policyChain(t, &engine.Source{}, goCondition(func(authorizer.ConditionsData) authorization.Outcome { panic("made by the test") }))
	})
	e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
	for _, request := range []struct {
		method, path, body string
		want               int
	}{
		{method: http.MethodPost, path: machinesPath, body: machineJSON(`"name":"two"`, "new"), want: http.StatusInternalServerError},
		{method: http.MethodPut, path: alicesMachine, body: machineJSON(named, "new"), want: http.StatusForbidden},
		{method: http.MethodPut, path: machinesPath + "/three", body: machineJSON(`"name":"three"`, "new"), want: http.StatusForbidden},
		{method: http.MethodDelete, path: alicesMachine, want: http.StatusForbidden},
		{method: http.MethodDelete, path: machinesPath, want: http.StatusForbidden},
		{method: http.MethodGet, path: alicesMachine + "/console", want: http.StatusInternalServerError},
	} {
		if got := send(e.Server, "alice", request.method, request.path, jsonType, request.body); got.Code != request.want {
			t.Errorf("%s %s: got %d %s, want %d", request.method, request.path, got.Code, got.Body, request.want)
		}
	}
	if diff := cmp.Diff(map[string]string{"one": "old"}, e.stored(t)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// TestKubeAPIServerFailsAtAdmission is asked late, and fails: the policies after it are not
// asked.
func TestKubeAPIServerFailsAtAdmission(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	var asked atomic.Int32
	client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		return true, nil, errors.New("kube-apiserver is gone")
	})
	kubeAPIServer, err := webhook.New(webhook.Config{Client: client.AuthorizationV1().SubjectAccessReviews(), Backoff: wait.Backoff{Steps: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var e *enforcing
	source := &engine.Source{}
	e = newEnforcing(t, rights{}, func(c *server.Config) {
		c.Authorizer = policyChain(t, source, neverHolds{}, authorization.AuthorizerOf(kubeAPIServer))
	}, withHook(func(admission.Attributes) error {
		if asked.Load() != 0 {
			t.Error("it was asked before admission")
		}
		return nil
	}))
	e.source = source
	e.publish(t, rights{"Allow create virtualmachines": ""})
	got := send(e.Server, "alice", http.MethodPost, machinesPath, jsonType, machineJSON(named, "x"))
	if got.Code != http.StatusForbidden || asked.Load() != 1 || len(e.stored(t)) != 0 {
		t.Errorf("got %d %s after asking %d times, want 403 after asking once", got.Code, got.Body, asked.Load())
	}
}

// TestBeforePoliciesAreLoaded denies everything, and says why.
func TestBeforePoliciesAreLoaded(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{}, func(c *server.Config) { c.Authorizer = policyChain(t, &engine.Source{}) })
	got := send(e.Server, "alice", http.MethodPost, machinesPath, jsonType, machineJSON(named, "x"))
	if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "the policies have not been loaded yet") {
		t.Errorf("got %d %s, want 403 with the reason", got.Code, got.Body)
	}
}

// TestGate turns the feature on, off and on again over the same objects.
func TestGate(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ga") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const review = `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":%q,"group":"demo.proviso.dev","version":"v1alpha1","resource":"virtualmachines","namespace":"n"},"conditionalAuthorization":{"mode":"HumanReadable"}}}`
	var before string
	for i, on := range []bool{true, false, true} {
		t.Run(fmt.Sprintf("%d %v", i, on), func(t *testing.T) { //nolint:paralleltest // one after the other
			e := newEnforcing(t, rights{
				"Allow create virtualmachines":          `object.spec.image == "good"`,
				"Allow update virtualmachines":          "",
				"Allow create selfsubjectaccessreviews": "",
				"Allow get virtualmachines":             `object.spec.image == "good"`,
				"Deny delete virtualmachines":           "",
				"Deny patch virtualmachines":            `request.verb == "patch" && object.spec.image == "good"`,
			}, func(c *server.Config) {
				c.EtcdDir = dir
				c.Enforcement = func(e *enforcement.Config) { e.Conditional = on }
			})
			if i == 0 {
				e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
				before = send(e.Server, "admin", http.MethodGet, alicesMachine, "", "").Body.String()
			}
			conditional := map[bool]int{true: http.StatusCreated, false: http.StatusForbidden}[on]
			for _, request := range []struct {
				method, path, contentType, body string
				want                            int
			}{
				{http.MethodPost, machinesPath + "?dryRun=All", jsonType, machineJSON(`"name":"two"`, "good"), conditional},
				{http.MethodPost, machinesPath + "?dryRun=All", jsonType, machineJSON(`"name":"two"`, "bad"), 403},
				{http.MethodPut, alicesMachine + "?dryRun=All", jsonType, machineJSON(named, "bad"), 200},
				{http.MethodDelete, alicesMachine, "", "", 403},
				{http.MethodPatch, alicesMachine, mergePatch, `{"spec":{"image":"bad"}}`, 403},
				{http.MethodGet, alicesMachine, "", "", 403},
			} {
				if got := send(e.Server, "alice", request.method, request.path, request.contentType, request.body); got.Code != request.want {
					t.Errorf("%s %s: got %d %s, want %d", request.method, request.path, got.Code, got.Body, request.want)
				}
			}
			for verb, wantWarning := range map[string]bool{"create": false, "get": true} {
				got := post(e.Server, "admin", group+"subjectaccessreviews", jsonType, strings.Replace(strings.Replace(fmt.Sprintf(review, verb), "SelfSubject", "Subject", 1), `"spec":{`, `"spec":{"user":"alice",`, 1))
				if has := strings.Contains(got.Body.String(), "conditionsChain"); got.Code != http.StatusCreated || has != on {
					t.Errorf("review of %s: got %d %s, want conditions %v", verb, got.Code, got.Body, on)
				}
				if warned := strings.Contains(got.Header().Get("Warning"), "does not enforce conditions"); warned != (on && wantWarning) {
					t.Errorf("review of %s: got warning %q", verb, got.Header().Get("Warning"))
				}
			}
			if got := send(e.Server, "admin", http.MethodGet, alicesMachine, "", "").Body.String(); got != before {
				t.Errorf("the object has changed: got %s, want %s", got, before)
			}
		})
	}
}

// auditLog is an audit backend in memory.
type auditLog struct {
	mu     sync.Mutex
	events []*auditinternal.Event
}

func (l *auditLog) ProcessEvents(events ...*auditinternal.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		l.events = append(l.events, e.DeepCopy())
	}
	return true
}
func (*auditLog) Run(<-chan struct{}) error { return nil }
func (*auditLog) Shutdown()                 {}
func (*auditLog) String() string            { return "test" }

// last returns the annotations of the last event.
func (l *auditLog) last() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[len(l.events)-1].Annotations
}

// TestAuditAnnotations says in the audit log how conditions came out, and nothing of the
// object.
func TestAuditAnnotations(t *testing.T) {
	t.Parallel()
	log := &auditLog{}
	e := newEnforcing(t, rights{
		"Allow create virtualmachines": `object.spec.image == "canary-good"`,
		"Allow update virtualmachines": "",
		"Deny update virtualmachines":  `object.spec.image.startsWith("canary")`,
	}, func(c *server.Config) {
		c.Generic = func(generic *genericapiserver.Config) {
			generic.AuditBackend = log
			generic.AuditPolicyRuleEvaluator = auditpolicy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, []auditinternal.Stage{auditinternal.StageRequestReceived})
		}
	})
	for _, tc := range []struct {
		name, method, path, image string
		want                      map[string]string
	}{
		{"allowed", http.MethodPost, machinesPath, "canary-good", map[string]string{
			"decision": "allow", "condition": "cluster.policy.proviso.dev/allow-create-virtualmachines", "policy-revision": "1",
			"reason": `policy=allow-create-virtualmachines reason=Allowed: it allows the request`, "is-conditional-decision": "true"}},
		{"nothing allows", http.MethodPost, machinesPath, "canary-bad", map[string]string{
			"decision": "deny", "policy-revision": "1", "reason": `policy=allow-create-virtualmachines reason=NotMet: failed part: object.spec.image == "canary-good"`, "is-conditional-decision": "true"}},
		{"denied", http.MethodPut, alicesMachine, "canary", map[string]string{
			"decision": "deny", "condition": "cluster.policy.proviso.dev/deny-update-virtualmachines", "policy-revision": "1",
			"reason": `policy=deny-update-virtualmachines reason=Denied: it denies the request`, "is-conditional-decision": "true"}},
		{"cannot become allowed", http.MethodDelete, alicesMachine, "", map[string]string{}},
	} {
		send(e.Server, "alice", tc.method, tc.path, jsonType, machineJSON(named, tc.image))
		got := map[string]string{}
		for key, value := range log.last() {
			if name, ok := strings.CutPrefix(key, "authorization.proviso.dev/"); ok {
				got[name] = value
			}
			if key == "authorization.k8s.io/is-conditional-decision" {
				got["is-conditional-decision"] = value
			}
			if tc.image != "" && strings.Contains(value, tc.image) { // the failed part is of the policy
				t.Errorf("%s: %s has something of the object: %s", tc.name, key, value)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestImpersonatingAroundConditions impersonates on the way to a connection: neither what
// alice may do nor that she may impersonate counts for the request of bob.
func TestImpersonatingAroundConditions(t *testing.T) {
	t.Parallel()
	impersonates := func(conditions bool) authorizer.Authorizer {
		return authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetUser().GetName() == "alice" && a.GetVerb() == "impersonate" && !conditions {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})
	}
	for _, conditions := range []bool{false, true} {
		source := &engine.Source{}
		e := newEnforcing(t, rights{}, func(c *server.Config) { c.Authorizer = policyChain(t, source, impersonates(conditions)) })
		e.source = source
		e.publish(t, rights{
			"Allow create,get virtualmachines/console": "", // alice's own
			"Allow impersonate users":                  `!dryRun`,
		})
		e.must(t, http.MethodPost, machinesPath, machineJSON(named, "old"))
		r := httptest.NewRequest(http.MethodPost, alicesMachine+"/console", nil)
		r.Header.Set(server.UserHeader, "alice")
		r.Header.Set("Impersonate-User", "bob")
		recorder := httptest.NewRecorder()
		e.Handler.ServeHTTP(recorder, r)
		wantUser := map[bool]string{false: `User \"bob\" cannot create`, true: `cannot impersonate`}[conditions]
		if recorder.Code != http.StatusForbidden || !strings.Contains(recorder.Body.String(), wantUser) {
			t.Errorf("impersonation on conditions %v: got %d %s", conditions, recorder.Code, recorder.Body)
		}
	}
}
