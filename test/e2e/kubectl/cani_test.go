/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/plane"
)

// userPolicy is a random policy: for whom it is, and the rest of its specification in YAML.
type userPolicy struct{ name, user, spec string }

// manifestOf returns policies of a namespace as a manifest.
func manifestOf(namespace string, policies []userPolicy) string {
	var manifest strings.Builder
	for _, p := range policies {
		fmt.Fprintf(&manifest, "---\n{apiVersion: policy.proviso.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: %s, namespace: %s}, spec: {subjects: [{kind: User, name: %s}], %s}}\n",
			p.name, namespace, p.user, p.spec)
	}
	return manifest.String()
}

// TestKubectlCanI runs the plugin by kubectl, and compares what it prints.
func TestKubectlCanI(t *testing.T) {
	applyForTest(t, plane.TestData(t, "plugin.yaml"))
	applyForTest(t, plane.TestData(t, "agent.yaml"))
	printed := transcript(t, "can-i")
	golden.Compare(t, filepath.Join("testdata", "can-i.golden.txt"), printed)
	t.Run("the document", func(t *testing.T) { checkDocument(t, "alice", "can-i", printed) })
	t.Run("lists", testLists)
}

// testLists compares lists with the answers to single questions about each verb of some resources.
func testLists(t *testing.T) {
	t.Helper()
	groups := map[string]string{"": "v1", "demo.proviso.dev": "v1alpha1", "apps": "v1"}
	config, err := stack.Client("admin")
	if err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	type asked struct {
		user, name, verb string
		args             []string
		want             int
		list             string
	}
	var asks []asked
	count := map[int]int{}
	for _, user := range []string{"alice", "bob", "carol"} {
		out, errOut, code := plugin(t, "admin", "", "can-i", "--list", "-n", "plugin", "--as", user, "--as-group", "system:authenticated")
		if code != 0 {
			t.Fatal(errOut)
		}
		rules, changes, _ := strings.Cut(out, "\n\n")
		for group, version := range groups {
			resources, err := client.ServerResourcesForGroupVersion(strings.TrimPrefix(group+"/"+version, "/"))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range resources.APIResources {
				resource, subresource, _ := strings.Cut(r.Name, "/")
				for _, verb := range r.Verbs {
					name := strings.TrimSuffix(resource+"."+group, ".")
					args := []string{"can-i", verb, name, "--subresource", subresource, "--as", user, "--as-group", "system:authenticated"}
					if r.Namespaced {
						args = append(args, "-n", "plugin")
					}
					if subresource != "" {
						name += "/" + subresource
					}
					want := listed(rules, changes, name, verb)
					count[want]++
					asks = append(asks, asked{user, name, verb, args, want, out})
				}
			}
		}
	}
	together(asks, func(_ int, q asked) {
		if _, _, got := plugin(t, "admin", "", q.args...); got != q.want {
			t.Errorf("%s: %s %s: exit code %d, but the list says %d:\n%s", q.user, q.verb, q.name, got, q.want, q.list)
		}
	})
	if count[0] < 8 || count[1] < 10 || count[3] < 3 {
		t.Errorf("the answers are %v", count)
	}
}

// listed returns the exit code of can-i for what a list says about a verb of a resource: the second table counts before the first.
func listed(rules, changes, resource, verb string) int {
	for line := range strings.Lines(changes) {
		row := regexp.MustCompile(`^(\S+) +\[(.*?)\] +(yes, if|yes|no) `).FindStringSubmatch(line)
		if row != nil && row[1] == resource && slices.Contains(strings.Fields(row[2]), verb) {
			return map[string]int{"yes": 0, "no": 1, "yes, if": 3}[row[3]]
		}
	}
	code := 1
	for line := range strings.Lines(rules) {
		row := regexp.MustCompile(`^(\S+) +\[\] +\[(.*)\] +\[(.*)\]`).FindStringSubmatch(line)
		switch {
		case row == nil || row[1] != resource || row[3] != "*" && !slices.Contains(strings.Fields(row[3]), verb):
		case row[2] == "":
			return 0
		default: // for a name
			code = 3
		}
	}
	return code
}

// pluginSeed is the seed of the random tests of the plugin.
const pluginSeed = 5681

var (
	// questions is the number of random questions without conditions.
	questions = cases.Number(200, 3)
	// decisions is the number of random requests with an object.
	decisions = cases.Number(600, 3)
)

// together calls a function for each element, six at a time.
func together[T any](elements []T, do func(i int, element T)) {
	var group errgroup.Group
	group.SetLimit(6)
	for i, e := range elements {
		group.Go(func() error {
			do(i, e)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// someOf returns at least one of some values.
func someOf(r *rand.Rand, values ...string) string {
	var some []string
	for _, v := range values {
		if r.IntN(2) == 0 {
			some = append(some, `"`+v+`"`)
		}
	}
	if len(some) == 0 {
		some = append(some, `"`+pick(r, values...)+`"`)
	}
	return "[" + strings.Join(some, ", ") + "]"
}

// withBoth adds patch to update, and the other way round: a Deny of one of them is refused.
func withBoth(verbs string) string {
	return strings.NewReplacer(`"update"`, `"update", "patch"`, `"patch"`, `"update", "patch"`).Replace(verbs)
}

// TestKubectlCanIAgrees asks random questions that have no conditions, with kubectl auth can-i and with the plugin.
func TestKubectlCanIAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(pluginSeed, 1))
	manifest := "{apiVersion: v1, kind: Namespace, metadata: {name: plain-questions}}\n"
	users := []string{"alice", "bob", "carol", "agent"}
	var policies []userPolicy
	for _, user := range users {
		manifest += fmt.Sprintf(`---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %[1]s, namespace: plain-questions}, rules: [
 {apiGroups: [""], resources: %[2]s, verbs: %[3]s}, {apiGroups: [apps], resources: [deployments], verbs: %[4]s, resourceNames: [a]}, {apiGroups: [demo.proviso.dev], resources: %[5]s, verbs: %[6]s}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %[1]s, namespace: plain-questions}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]}
`, user, someOf(r, "configmaps", "secrets", "pods", "pods/log"), someOf(r, "get", "list", "create", "update", "delete"), someOf(r, "get", "update", "patch"),
			someOf(r, "virtualmachines", "virtualmachines/status"), someOf(r, "get", "list", "watch", "create", "patch", "delete"))
		for i := range 3 {
			policies = append(policies, userPolicy{
				name: fmt.Sprintf("%s-%d", user, i), user: user,
				spec: fmt.Sprintf(`effect: %s, description: policy %d, rules: [{verbs: %s, apiGroups: ["", apps, demo.proviso.dev], resources: %s}]`,
					pick(r, "Allow", "Deny"), i, withBoth(someOf(r, "get", "list", "create", "patch", "delete")), someOf(r, "configmaps", "secrets", "deployments", "virtualmachines", "pods/log")),
			})
		}
	}
	applyForTest(t, manifest)
	applyForTest(t, manifestOf("plain-questions", policies))

	type asked struct {
		user string
		args []string
	}
	asks := make([]asked, questions)
	for i := range asks {
		asks[i].user = pick(r, append(users, "admin")...)
		args := []string{pick(r, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "use", "*")}
		if r.IntN(8) == 0 {
			args = append(args, pick(r, "/healthz", "/version", "/metrics", "/apis/*", "/"))
		} else {
			resource := pick(r, "virtualmachines.demo.proviso.dev", "vm", "configmaps", "cm", "secrets", "pods", "deployments.apps", "deploy.v1.apps", "nodes", "clusterauthorizationpolicies", "*", "unicorns")
			args = append(args, resource+pick(r, "", "", "/a", "/b"))
			args = append(args, pick(r, []string{"-n", "plain-questions"}, []string{"-n", "plain-questions"}, []string{"-n", "plain-questions"}, []string{"-n", "demo"}, []string{"-A"}, nil)...)
			args = append(args, pick(r, nil, nil, nil, []string{"--subresource", "log"}, []string{"--subresource=status"})...)
		}
		asks[i].args = args
	}
	var lock sync.Mutex // of answers
	answers := map[string]int{}
	together(asks, func(_ int, q asked) {
		out, errs, err := kubectl(t, q.user, append([]string{"auth", "can-i"}, q.args...)...)
		wantCode := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			wantCode = exit.ExitCode()
		}
		want, _, _ := strings.Cut(out, "\n")
		out, errOut, code := plugin(t, q.user, "", append([]string{"can-i"}, q.args...)...)
		dependsOnName := code == 3 && !strings.Contains(q.args[1], "/") // kubectl auth can-i then answers for no name
		if got, _, _ := strings.Cut(out, "\n"); (got != want || code != wantCode) && !dependsOnName {
			t.Errorf("%s: %v: got %q and %d (%s), want %q and %d (%s)", q.user, q.args, got, code, errOut, want, wantCode, errs)
		}
		lock.Lock()
		defer lock.Unlock()
		answers[strings.Fields(want)[0]]++
	})
	if t.Logf("answers: %v", answers); answers["yes"] < questions/8 || answers["no"] < questions/8 {
		t.Errorf("the questions have too few different answers: %v", answers)
	}
}

// pluginVerbs are the verbs that RBAC allows in TestKubectlCanIDecides.
var pluginVerbs = map[string][]string{"alice": {"get", "create", "delete"}, "bob": {"get", "update"}, "carol": {"get"}, "agent": {"get", "update"}}

func nameOfRequest(verb string, machine *unstructured.Unstructured) string {
	if verb == "create" {
		return ""
	}
	return machine.GetName()
}

// dataOfRequest returns what admission knows of a request, for a suite.
func dataOfRequest(ctx context.Context, client dynamic.ResourceInterface, verb string, machine *unstructured.Unstructured) (map[string]any, error) {
	data := map[string]any{
		"operation": strings.ToUpper(verb), "dryRun": true,
		"namespaceObject": map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "plugin-objects", "labels": map[string]any{"tier": "prod"}}},
	}
	if verb != "delete" {
		data["object"] = machine.Object
	}
	if verb != "create" {
		stored, err := client.Get(ctx, machine.GetName(), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		data["oldObject"] = stored.Object
	}
	return data, nil
}

// TestKubectlCanIDecides compares the answers for random objects with the outcomes of the requests.
func TestKubectlCanIDecides(t *testing.T) {
	r := rand.New(rand.NewPCG(pluginSeed, 2))
	machines := schema.GroupVersionResource{Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines"}
	manifest := "{apiVersion: v1, kind: Namespace, metadata: {name: plugin-objects, labels: {tier: prod}}}\n"
	users := []string{"alice", "bob", "carol", "agent"} // agent may not review
	for _, user := range users {
		manifest += fmt.Sprintf(`---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %[1]s, namespace: plugin-objects}, rules: [{apiGroups: [demo.proviso.dev], resources: [virtualmachines], verbs: %[2]s}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %[1]s, namespace: plugin-objects}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]}
`, user, "["+strings.Join(pluginVerbs[user], ", ")+"]")
	}
	manifest += `---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: plugin-objects}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "proviso:reviewer"}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}]}
`
	conditions := []string{
		`object.spec.storageClassName == "dev"`, `object.spec.?nodeName.orValue("") == "edge"`, `"guarded" in object.spec.?tags.orValue([])`,
		`object.metadata.?labels[?"team"].orValue("") != "a"`, `oldObject != null && object.spec.storageClassName != oldObject.spec.storageClassName`,
		`has(object.spec.nodeName)`, `object.spec.nodeName == "edge"`, `namespaceObject.metadata.labels["tier"] == "prod" && object.spec.storageClassName == "prod"`,
		`authorizer.group("demo.proviso.dev").resource("virtualmachines").namespace("plugin-objects").check("update").allowed() || object.spec.image == "debian-13"`,
		`size(object.metadata.name) > 2`,
	}
	var policies []userPolicy
	for _, user := range users {
		for i := range 5 {
			policies = append(policies, userPolicy{
				name: fmt.Sprintf("%s-%d", user, i), user: user,
				spec: fmt.Sprintf(`effect: %s, rules: [{verbs: %s, apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: '(object == null ? oldObject : object) == null || %s'`,
					pick(r, "Allow", "Allow", "Deny", "NoOpinion"), withBoth(someOf(r, "create", "update")), conditions[len(policies)%len(conditions)]),
			})
		}
		policies = append(policies, userPolicy{
			name: user + "-delete", user: user,
			spec: fmt.Sprintf(`effect: %s, rules: [{verbs: [delete], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}], condition: 'oldObject.spec.storageClassName == "%s"'`, pick(r, "Allow", "Deny"), pick(r, "dev", "prod")),
		})
	}
	randomMachine := func(name string) *unstructured.Unstructured {
		spec := map[string]any{"image": pick(r, "debian-12", "debian-13"), "storageClassName": pick(r, "dev", "prod")}
		if r.IntN(2) == 0 {
			spec["nodeName"] = pick(r, "edge", "core")
		}
		if r.IntN(2) == 0 {
			spec["tags"] = []any{pick(r, "guarded", "free")}
		}
		machine := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "demo.proviso.dev/v1alpha1", "kind": "VirtualMachine", "spec": spec}}
		machine.SetName(name)
		machine.SetNamespace("plugin-objects")
		if r.IntN(2) == 0 {
			machine.SetLabels(map[string]string{"team": pick(r, "a", "b")})
		}
		return machine
	}
	applyForTest(t, manifest)
	byUser := map[string]dynamic.ResourceInterface{}
	for _, user := range append(users, "admin") {
		c, err := dynamic.NewForConfig(stack.ClientConfig(t, user))
		if err != nil {
			t.Fatal(err)
		}
		byUser[user] = c.Resource(machines).Namespace("plugin-objects")
	}
	for i := range 6 {
		if _, err := byUser["admin"].Create(t.Context(), randomMachine(fmt.Sprintf("m-%d", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	applyForTest(t, manifestOf("plugin-objects", policies))

	// The same requests are a suite, which kubectl proviso test decides offline.
	suite := map[string]any{"apiVersion": "test.proviso.dev/v1alpha1", "kind": "PolicyTest", "policies": []string{"policies.yaml"}}
	tests, outcomes := make([]any, decisions), map[string]int{}
	type asked struct {
		user, verb string
		machine    *unstructured.Unstructured
	}
	requests := make([]asked, decisions)
	for i := range requests {
		requests[i] = asked{pick(r, users...), pick(r, "create", "update", "delete"), randomMachine(pick(r, "n", "new"))}
		if requests[i].verb != "create" {
			requests[i].machine.SetName(fmt.Sprintf("m-%d", r.IntN(6)))
		}
	}
	var lock sync.Mutex // of outcomes
	together(requests, func(i int, q asked) {
		machine := q.machine
		if q.verb == "delete" {
			var err error
			if machine, err = byUser["admin"].Get(t.Context(), machine.GetName(), metav1.GetOptions{}); err != nil {
				t.Error(err)
				return
			}
		}
		question := []string{"can-i", q.verb, "virtualmachines.demo.proviso.dev", "-n", "plugin-objects"}
		if q.verb != "create" {
			question[2] += "/" + machine.GetName()
		}
		_, _, code := plugin(t, q.user, "", question...)
		text, err := machine.MarshalJSON()
		if err != nil {
			t.Error(err)
			return
		}
		out, errOut, decided := plugin(t, q.user, string(text), "can-i", q.verb, "-f", "-")
		if q.user == "agent" && decided == 2 && strings.Contains(errOut, "cannot be evaluated here") {
			out, errOut, decided = plugin(t, "admin", string(text), "can-i", q.verb, "-f", "-", "--as=agent") // the plugin evaluates no checks
		} else if q.user == "agent" || i%3 == 0 {
			if about, errs, other := plugin(t, "admin", string(text), "can-i", q.verb, "-f", "-", "--as", q.user); other != decided || about != out {
				t.Errorf("%s: %s %s: got %d %s%s, and with --as %d %s%s", q.user, q.verb, text, decided, out, errOut, other, about, errs)
			}
			lock.Lock()
			outcomes[fmt.Sprintf("in the plugin %d", decided)] += map[bool]int{true: 1}[q.user == "agent"]
			lock.Unlock()
		}
		err = tried(t.Context(), byUser[q.user], q.verb, machine)
		want := 0
		if apierrors.IsForbidden(err) {
			want = 1
		} else if err != nil {
			t.Error(err)
			return
		}
		if decided != want || code != 3 && code != want {
			t.Errorf("%s: %s %s: the answer is %d (%d without the object): %s%s; the request: %v", q.user, q.verb, text, decided, code, out, errOut, err)
		}
		data, err := dataOfRequest(t.Context(), byUser["admin"], q.verb, machine)
		if err != nil {
			t.Error(err)
		}
		lock.Lock()
		defer lock.Unlock()
		if outcomes[fmt.Sprintf("%s %d", q.verb, want)]++; code == 3 {
			outcomes["conditional"]++
		}
		tests[i] = map[string]any{
			"name": fmt.Sprintf("%s %s %d", q.user, q.verb, i), "permissions": []any{map[string]any{"apiGroups": []string{"demo.proviso.dev"}, "resources": []string{"virtualmachines"}, "verbs": pluginVerbs[q.user]}},
			"request": map[string]any{"user": q.user, "resourceAttributes": map[string]any{"verb": q.verb, "group": machines.Group, "version": machines.Version, "resource": machines.Resource, "namespace": "plugin-objects", "name": nameOfRequest(q.verb, machine)}},
			"data":    data,
			"expect":  map[string]any{"decision": []string{"yes", "no", "", "yes-if"}[code], "outcome": []string{"yes", "no"}[want]},
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	dir := t.TempDir()
	suite["tests"] = tests
	text, err := json.Marshal(suite)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"policies.yaml": manifestOf("plugin-objects", policies), "test.yaml": string(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, errOut, code := shell(t, "admin", "", "KUBECONFIG=/dev/null kubectl proviso test "+dir); code != 0 {
		t.Errorf("the suite of the same requests: exit code %d: %s%s", code, out, errOut)
	}
	t.Logf("outcomes: %v", outcomes)
	if outcomes["conditional"] < decisions/3 {
		t.Errorf("too few questions have conditions: %v", outcomes)
	}
	for _, verb := range []string{"create", "update", "delete", "in the plugin"} {
		if outcomes[verb+" 0"] < 10 || outcomes[verb+" 1"] < 10 {
			t.Errorf("%s has too few different outcomes: %v", verb, outcomes)
		}
	}
}

// tried makes a request in a dry run.
func tried(ctx context.Context, client dynamic.ResourceInterface, verb string, machine *unstructured.Unstructured) (err error) {
	dryRun := []string{metav1.DryRunAll}
	switch verb {
	case "create":
		_, err = client.Create(ctx, machine, metav1.CreateOptions{DryRun: dryRun})
	case "update":
		_, err = client.Update(ctx, machine, metav1.UpdateOptions{DryRun: dryRun})
	default:
		err = client.Delete(ctx, machine.GetName(), metav1.DeleteOptions{DryRun: dryRun})
	}
	return err
}

// TestKubectlUsersLeftOut asks about users whose requests kube-apiserver decides without Proviso, and about others, and makes the requests. What Proviso serves
// it decides about all of them.
func TestKubectlUsersLeftOut(t *testing.T) {
	const leftOut = "system:serviceaccount:kube-system:tidy"
	applyForTest(t, `{apiVersion: v1, kind: Namespace, metadata: {name: left-out}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: tidy, namespace: kube-system}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: tidy, namespace: left-out}, rules: [{apiGroups: ["", demo.proviso.dev], resources: [configmaps, virtualmachines], verbs: [delete]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: tidy, namespace: left-out}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tidy}, subjects: [{kind: ServiceAccount, name: tidy, namespace: kube-system}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]}
`)
	objects := map[string]string{
		"configmaps":      `{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: left-out, labels: {kept: "true"}}}`,
		"virtualmachines": `{apiVersion: demo.proviso.dev/v1alpha1, kind: VirtualMachine, metadata: {name: kept, namespace: left-out, labels: {kept: "true"}}, spec: {image: debian-12, storageClassName: dev}}`,
	}
	for _, object := range objects {
		applyForTest(t, object)
	}
	applyForTest(t, `{apiVersion: policy.proviso.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: kept, namespace: left-out}, spec: {effect: Deny, rules: [{verbs: [delete], apiGroups: ["", demo.proviso.dev], apiVersions: [v1, v1alpha1], resources: [configmaps, virtualmachines]}], condition: 'oldObject.metadata.?labels[?"kept"].orValue("") == "true"'}}`)
	for resource, object := range objects {
		for _, user := range []string{leftOut, "bob"} {
			passes := user == leftOut && resource == "configmaps"
			want := map[bool]int{true: 0, false: 1}[passes]
			_, errOut, code := shell(t, "admin", "", fmt.Sprintf("kubectl delete %s kept -n left-out --dry-run=server --as=%s", resource, user))
			if code != want {
				t.Errorf("%s deletes %s: got %d %s, want %d", user, resource, code, errOut, want)
			}
			for _, command := range []string{"can-i", "explain"} {
				out, errOut, code := plugin(t, "admin", object, command, "delete", "-f", "-", "--as="+user)
				if code != want {
					t.Errorf("%s %s: %s: got %d %s%s, want %d", user, resource, command, code, out, errOut, want)
				}
			}
			if out, errOut, code := plugin(t, "admin", "", "can-i", "delete", resource+"/kept", "-n", "left-out", "--as="+user); (code == 0) != passes {
				t.Errorf("%s %s: got %d %s%s, want yes: %t", user, resource, code, out, errOut, passes)
			}
		}
	}
}
