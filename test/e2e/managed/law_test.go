/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/test/testutil/barrierlaw"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// lawBatch is the number of policies at a time.
const lawBatch = 50

// TestLawAtKubeAPIServer compares random policies with their barriers at a real kube-apiserver, fifty at a time. LAW_POLICIES is their number.
func TestLawAtKubeAPIServer(t *testing.T) {
	count := lawBatch
	if text := os.Getenv("LAW_POLICIES"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	onEachKubernetesAlone(t, func(t *testing.T, r *rig) {
		l := newServerLaw(t, r)
		for first := 0; first < count && !t.Failed(); first += lawBatch {
			l.batch(t, first)
		}
		t.Logf("%d policies, %d requests, %d refused, %d not valid", count, l.sent, l.refused, l.invalid)
		if l.refused*50 < l.sent || l.sent*2 < count {
			t.Errorf("of %d requests %d were refused: the test compares too little", l.sent, l.refused)
		}
	})
}

// prober is the user who sends probes. The policies must not deny them, so that the sentinel does.
const prober = "prober"

// serverLaw compares at one kube-apiserver.
type serverLaw struct {
	sender   *requests.Sender
	client   kubernetes.Interface
	policies *partial.Compiler
	barriers *barrier.Compiler
	oracle   *barrierlaw.Oracle

	// isOld says that expressions may have functions that this kube-apiserver does not have.
	isOld bool

	sent, refused, invalid int
}

func newServerLaw(t *testing.T, r *rig) *serverLaw {
	t.Helper()
	r.MustApply(t, plane.TestData(t, "law.yaml")) // without an annotation, which the namespaces of the writes do not have
	config, err := r.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	l := &serverLaw{sender: r.Sender, isOld: r.IsOld()}
	if l.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	residuals, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	if l.policies, err = partial.NewPolicyCompiler(residuals); err != nil {
		t.Fatal(err)
	}
	if l.barriers, err = barrier.NewCompiler(barrier.Config{Policies: l.policies, Exempt: manifest.Identities{Users: []string{prober}}}); err != nil {
		t.Fatal(err)
	}
	l.oracle = barrierlaw.NewOracle(t, l.policies, nil)
	return l
}

// pair is a policy with its barrier.
type pair struct {
	spec    *policyv1alpha1.AuthorizationPolicySpec
	engine  *engine.Authorizer
	barrier *barrier.Barrier
}

// batch applies the barriers of the policies from a number on, and sends requests.
func (l *serverLaw) batch(t *testing.T, first int) {
	t.Helper()
	var pairs []pair
	var writes []*barrierlaw.Write
	for number := first; number < first+lawBatch; number++ {
		g := barrierlaw.NewGenerator(7, uint64(number)) //nolint:gosec // a number of policies
		key, spec := g.Policy()
		key.Name = "p" + strconv.Itoa(number)
		// kube-apiserver would ask itself about users who exist nowhere, and RBAC allows everything.
		if strings.Contains(spec.Condition+fmt.Sprint(spec.Variables), "authorizer") {
			continue
		}
		compiled, err := l.barriers.Compile(key, spec)
		if err != nil {
			t.Fatal(err)
		}
		policy, err := engine.New(key, spec, l.policies)
		if err != nil {
			t.Fatal(err)
		}
		source := &engine.Source{}
		source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{key: policy}))
		pairs = append(pairs, pair{spec, &engine.Authorizer{Source: source, Part: engine.Restricting}, compiled})
		for range 8 {
			writes = append(writes, g.Write(spec))
		}
	}
	l.apply(t, first, pairs)
	for i, w := range writes {
		l.compare(t, w, pairs, i)
	}
	l.remove(t)
}

// apply creates the barriers, and a sentinel after them, and waits until kube-apiserver refuses what the sentinel refuses.
func (l *serverLaw) apply(t *testing.T, first int, pairs []pair) {
	t.Helper()
	policies, bindings := l.client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), l.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	create := func(b *barrier.Barrier) {
		if b.Policy == nil {
			return
		}
		_, err := policies.Create(t.Context(), b.Policy, metav1.CreateOptions{})
		if l.isOld && apierrors.IsInvalid(err) && strings.Contains(err.Error(), "undeclared reference") {
			b.Policy = nil // a function that this Kubernetes does not have
			return
		}
		if err != nil {
			t.Fatalf("%v: %v\n%s", b.Key, err, b.Policy.Spec.Variables[0].Expression)
		}
		if _, err := bindings.Create(t.Context(), b.Binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pairs {
		create(p.barrier)
	}
	last := &barrier.Barrier{}
	last.Policy, last.Binding = barrier.Sentinel("demo", int64(first+1))
	last.Policy.Labels, last.Binding.Labels = map[string]string{barrier.ManagedByLabel: barrier.ManagedBy}, map[string]string{barrier.ManagedByLabel: barrier.ManagedBy}
	create(last)
	lease := fmt.Sprintf(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "probe", "labels": {%q: "%d"}}}`, barrier.RolloutLabel, first+1)
	poll.Eventually(t, "the sentinel is loaded", func() string {
		code, answer := l.sender.Send(t, &requests.User{Name: prober}, http.MethodPost, "/apis/coordination.k8s.io/v1/namespaces/demo/leases?dryRun=All", "application/json", lease)
		if code == http.StatusForbidden && strings.Contains(answer, barrier.SentinelName) {
			return ""
		}
		return fmt.Sprintf("%d %s", code, answer)
	})
}

// authenticated returns a user as kube-apiserver knows it by the headers of impersonation: with the group of all such users, and without extras that have no
// value.
func authenticated(u user.Info) user.Info {
	groups, extra := slices.Clone(u.GetGroups()), maps.Clone(u.GetExtra())
	if !slices.Contains(groups, user.AllAuthenticated) {
		groups = append(groups, user.AllAuthenticated)
	}
	maps.DeleteFunc(extra, func(_ string, values []string) bool { return len(values) == 0 })
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: groups, Extra: extra}
}

// setDryRun sets in the options of a write what each request here has.
func setDryRun(options runtime.Object) {
	switch o := options.(type) {
	case *metav1.CreateOptions:
		o.DryRun = []string{metav1.DryRunAll}
	case *metav1.UpdateOptions:
		o.DryRun = []string{metav1.DryRunAll}
	case *metav1.DeleteOptions:
		o.DryRun = []string{metav1.DryRunAll}
	}
}

func (l *serverLaw) remove(t *testing.T) {
	t.Helper()
	selected := metav1.ListOptions{LabelSelector: barrier.ManagedByLabel + "=" + barrier.ManagedBy}
	if err := l.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().DeleteCollection(t.Context(), metav1.DeleteOptions{}, selected); err != nil {
		t.Fatal(err)
	}
	if err := l.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().DeleteCollection(t.Context(), metav1.DeleteOptions{}, selected); err != nil {
		t.Fatal(err)
	}
}

// compare sends one write as a dry run. The answer to an administrator, whom no barrier refuses, has the object as it is admitted.
func (l *serverLaw) compare(t *testing.T, w *barrierlaw.Write, pairs []pair, number int) {
	t.Helper()
	if w.User.GetName() == "" || strings.ContainsAny(w.User.GetName()+strings.Join(w.User.GetGroups(), ""), "\n\\\"'") || w.Resource == "namespaces" || w.APIGroup == "apps" || w.Subresource == "exec" || w.Namespace == "" {
		return // not a user of a header, or not a resource of this cluster
	}
	method, path, contentType, body := l.request(t, w, number)
	if method == "" {
		return
	}
	code, answer := l.sender.Send(t, nil, method, path, contentType, body)
	if code >= 300 {
		l.invalid++
		return
	}
	w.DryRun, w.Object = true, nil
	setDryRun(w.Options)
	w.User = authenticated(w.User)
	if w.Operation != admission.Delete {
		w.Object = decoded(t, answer)
	}
	as := &requests.User{Name: w.User.GetName(), UID: w.User.GetUID(), Groups: w.User.GetGroups(), Extra: w.User.GetExtra()}
	code, answer = l.sender.Send(t, as, method, path, contentType, body)
	l.sent++
	isRefused := code >= 300
	var denied, mustRefuse []string
	for _, p := range pairs {
		for _, check := range w.Checks() {
			if barrierlaw.Denies(t, p.engine, w, check) {
				denied = append(denied, p.barrier.Key.Name)
				if p.barrier.Sees(check) && (isRefused || !l.oracle.DeniesByBound(t, p.barrier.Key, p.spec, w, check)) {
					mustRefuse = append(mustRefuse, p.barrier.Key.Name)
				}
			}
		}
	}
	if isRefused {
		l.refused++
	}
	if isRefused && len(denied) == 0 && !barrierlaw.Ends(answer) || !isRefused && len(mustRefuse) > 0 {
		t.Errorf("%s %s: got %d %s\nwrite %v\ndenied by %v, and by their barriers %v", method, path, code, answer, w, denied, mustRefuse)
	}
}

// request creates what a write needs, and returns the write as a request. The method is empty if the write cannot be sent.
func (l *serverLaw) request(t *testing.T, w *barrierlaw.Write, number int) (method, path, contentType, body string) {
	t.Helper()
	prefix := "/api/v1"
	if w.APIGroup != "" {
		prefix = "/apis/" + w.APIGroup + "/" + w.APIVersion
	}
	collection := prefix + "/namespaces/" + w.Namespace + "/" + w.Resource
	name := "law-" + strconv.Itoa(number) + "-" + w.ObjectName
	if w.ObjectName == "a" || w.ObjectName == "b" {
		name = w.ObjectName
	} else if w.ObjectName != "" {
		return "", "", "", ""
	}
	encode := func(object runtime.Object) string {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(w.Kind)
		u.SetName(name)
		unstructured.RemoveNestedField(u.Object, "status")
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
		text, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	admin := func(method, path, body string) (int, string) {
		return l.sender.Send(t, nil, method, path, "application/json", body)
	}
	if w.OldObject != nil {
		if name == "" {
			name = "a"
		}
		admin(http.MethodDelete, collection+"/"+name+"?gracePeriodSeconds=0", "")
		code, answer := admin(http.MethodPost, collection, encode(w.OldObject))
		if code != http.StatusCreated {
			l.invalid++
			return "", "", "", ""
		}
		w.OldObject = decoded(t, answer)
		if w.Name != "" {
			w.Name, w.ObjectName = name, name
		}
	}
	switch {
	case w.Operation == admission.Create && w.Verb == "create":
		admin(http.MethodDelete, collection+"/"+name+"?gracePeriodSeconds=0", "")
		return http.MethodPost, collection + "?dryRun=All", "application/json", encode(w.Object)
	case w.Operation == admission.Create && w.Verb == "patch":
		admin(http.MethodDelete, collection+"/"+name+"?gracePeriodSeconds=0", "")
		return http.MethodPatch, collection + "/" + name + "?dryRun=All&fieldManager=law", "application/apply-patch+yaml", encode(w.Object)
	case w.Operation == admission.Update && w.Verb == "patch":
		path = collection + "/" + name
		if w.Subresource != "" {
			path += "/" + w.Subresource
		}
		return http.MethodPatch, path + "?dryRun=All", "application/merge-patch+json", `{"metadata": {"labels": {"tier": "prod", "number": "3"}}}`
	case w.Operation == admission.Update && w.Subresource == "" && w.Resource != "pods":
		version := w.OldObject.(*unstructured.Unstructured).GetResourceVersion() //nolint:forcetypeassert // it was decoded here
		object := encode(w.Object)
		return http.MethodPut, collection + "/" + name + "?dryRun=All", "application/json", strings.Replace(object, `"metadata":{`, `"metadata":{"resourceVersion":"`+version+`",`, 1)
	case w.Verb == "delete":
		return http.MethodDelete, collection + "/" + name + "?dryRun=All", "application/json", `{"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "dryRun": ["All"]}`
	case w.Verb == "deletecollection":
		return http.MethodDelete, collection + "?dryRun=All&fieldSelector=metadata.name=" + name, "application/json", `{"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "dryRun": ["All"]}`
	}
	return "", "", "", ""
}

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil { // whole numbers are int64, as in kube-apiserver
		t.Fatal(err)
	}
	return u
}
