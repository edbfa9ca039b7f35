/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kubectl_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// anyQuestions is the number of questions of TestKubectlCanIAnyQuestion, and requestsOfQuestion the number of requests that each stands for.
var anyQuestions = cases.Number(300, 4)

const requestsOfQuestion = 20

// askedResource is a resource of TestKubectlCanIAnyQuestion, with an object that all servers accept.
type askedResource struct {
	schema.GroupVersionResource

	kind, spec   string
	subresources []string
}

// askedResources are served by kube-apiserver with the inner door, by kube-apiserver without it, by Proviso, and by kube-apiserver for a custom resource.
var askedResources = []*askedResource{
	{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, kind: "Secret", spec: `{"stringData": {"a": "b"}}`},
	{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, kind: "ConfigMap", spec: `{"data": {"a": "b"}}`},
	{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, kind: "Deployment", subresources: []string{"scale"},
		spec: `{"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}}`},
	{GroupVersionResource: schema.GroupVersionResource{Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines"}, kind: "VirtualMachine", subresources: []string{"status"},
		spec: `{"spec": {"image": "debian-13", "storageClassName": "dev"}}`},
	{GroupVersionResource: schema.GroupVersionResource{Group: "random.example.com", Version: "v1", Resource: "gadgets"}, kind: "Gadget", subresources: []string{"status"}, spec: `{"spec": {"size": 1}}`},
}

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.random.example.com}
spec:
  group: random.example.com
  scope: Namespaced
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// object returns an object of the resource with random labels.
func (a *askedResource) object(r *rand.Rand, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(a.spec), &o.Object); err != nil {
		panic(err)
	}
	o.SetAPIVersion(a.GroupVersion().String())
	o.SetKind(a.kind)
	o.SetName(name)
	o.SetNamespace("questions")
	if team := pick(r, "a", "b", ""); team != "" {
		o.SetLabels(map[string]string{"team": team})
	}
	return o
}

// randomRole returns a Role of a user with random rules.
func randomRole(r *rand.Rand, user string) string {
	subject := fmt.Sprintf("{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}", user)
	if user == robot {
		subject = "{kind: ServiceAccount, name: robot, namespace: questions}"
	}
	name := strings.ReplaceAll(user, ":", "-")
	return fmt.Sprintf(`---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %[1]s, namespace: questions}, rules: [
 {apiGroups: ["", random.example.com], resources: %[2]s, verbs: %[3]s}, {apiGroups: [apps], resources: %[4]s, verbs: %[3]s}, {apiGroups: [demo.proviso.dev], resources: %[5]s, verbs: %[6]s},
 {apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: %[6]s}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %[1]s, namespace: questions}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}, subjects: [%[7]s]}
`, name, someOf(r, "configmaps", "secrets", "gadgets", "gadgets/status"), someOf(r, "get", "list", "create", "update", "patch", "delete"), someOf(r, "deployments", "deployments/scale"),
		someOf(r, "virtualmachines", "virtualmachines/status"), someOf(r, "get", "list", "create", "update", "patch", "delete"), subject)
}

// nameColumn are the rows of a list for one name.
var nameColumn = regexp.MustCompile(`(?m)^\S+ +\[\] +\[[^]]+\].*\n`)

// robot is a ServiceAccount, which only --as can ask for.
const robot = "system:serviceaccount:questions:robot"

// randomConditions are conditions on all objects of the test.
var randomConditions = []string{
	`(object == null ? oldObject : object) == null || (object == null ? oldObject : object).metadata.?labels[?"team"].orValue("") == "a"`,
	`object != null && object.metadata.?labels[?"team"].orValue("") != "b"`,
	`oldObject != null && oldObject.metadata.?labels[?"team"].orValue("") == "a"`,
	`operation == "CREATE" || request.name == "a" || request.name == "b"`,
	`object != null && oldObject != null && object.metadata.?labels == oldObject.metadata.?labels`,
	`request.verb != "delete"`,
}

// selectorConditions are conditions on the selectors of a list.
var selectorConditions = []string{
	`request.labelSelector.requirements.exists(r, r.key == "team" && r.operator == "In" && r.values == ["a"])`,
	`request.labelSelector.requirements.exists(r, r.key == "team" && r.operator in ["In", "Exists"])`,
	`request.fieldSelector.requirements.exists(r, r.key == "metadata.name" && r.values == ["a"])`,
	`request.name == "a" || request.labelSelector.requirements.size() > 0`,
}

// selectorPolicies returns policies of a user about lists.
func selectorPolicies(r *rand.Rand, user string, effects ...string) (policies []userPolicy) {
	for i := range 2 {
		policies = append(policies, userPolicy{name: fmt.Sprintf("%s-list-%d", strings.ReplaceAll(user, ":", "-"), i), user: user, spec: fmt.Sprintf(
			`effect: %s, rules: [{verbs: [list], apiGroups: ["", apps, demo.proviso.dev, random.example.com], apiVersions: [v1, v1alpha1], resources: %s}], condition: '%s'`,
			pick(r, effects...), someOf(r, "secrets", "configmaps", "deployments", "virtualmachines", "gadgets"), pick(r, selectorConditions...))})
	}
	return policies
}

// randomPolicies returns policies of a user.
func randomPolicies(r *rand.Rand, user string, effects ...string) (policies []userPolicy) {
	for i := range 6 {
		verbs, names, all := withBoth(someOf(r, "create", "update", "delete")), "", false
		switch i {
		case 0:
			verbs = someOf(r, "get", "list")
			all = r.IntN(2) == 0 // who may not read what a write shows may not write on conditions
		case 1:
			verbs, names = withBoth(someOf(r, "get", "update", "delete")), ", resourceNames: [a]"
		}
		resources := someOf(r, "secrets", "configmaps", "deployments", "deployments/scale", "virtualmachines", "virtualmachines/status", "gadgets")
		if all {
			resources = "['*']"
		}
		effect, conditions := pick(r, effects...), randomConditions
		if effect != "Allow" && strings.Contains(verbs, "create") {
			conditions = slices.DeleteFunc(slices.Clone(conditions), func(c string) bool { return strings.Contains(c, "request.name") }) // refused: a create has no name
		}
		spec := fmt.Sprintf(`effect: %s, rules: [{verbs: %s, apiGroups: ["", apps, demo.proviso.dev, random.example.com], apiVersions: [v1, v1alpha1], resources: %s%s}]`,
			effect, verbs, resources, names)
		if !strings.Contains(spec, `"get"`) && !strings.Contains(spec, `"list"`) && r.IntN(5) > 0 {
			spec += fmt.Sprintf(", condition: '%s'", pick(r, conditions...))
		}
		policies = append(policies, userPolicy{name: fmt.Sprintf("%s-%d", strings.ReplaceAll(user, ":", "-"), i), user: user, spec: spec})
	}
	return policies
}

// anyQuestion is a question, and the requests for which it stands.
type anyQuestion struct {
	user, verb, name, subresource string
	labels, fields                string // the selectors of a list
	resource                      *askedResource
	// isAsked says that admin asks with --as, and file that the object of the first request is given.
	isAsked, file bool
	requests      []*unstructured.Unstructured
}

func (q *anyQuestion) String() string {
	return fmt.Sprintf("%s %s %s/%s %q -l %q --field-selector %q (--as %t, file %t)", q.user, q.verb, q.resource.GroupResource(), q.subresource, q.name, q.labels, q.fields, q.isAsked, q.file)
}

// ask asks the plugin, and returns what it prints and its exit code.
func (q *anyQuestion) ask(t *testing.T) (printed string, code int) {
	t.Helper()
	args, input := []string{"can-i", q.verb, q.resource.GroupResource().String(), "-n", "questions"}, ""
	switch {
	case q.file:
		text, err := q.requests[0].MarshalJSON()
		if err != nil {
			t.Error(err)
		}
		args, input = []string{"can-i", q.verb, "-n", "questions", "-f", "-"}, string(text)
	case q.name != "":
		args[2] += "/" + q.name
	}
	if q.subresource != "" {
		args = append(args, "--subresource="+q.subresource)
	}
	if q.labels != "" {
		args = append(args, "-l", q.labels)
	}
	if q.fields != "" {
		args = append(args, "--field-selector", q.fields)
	}
	user := q.user
	if q.isAsked {
		user, args = "admin", append(args, "--as="+q.user, "--as-group=system:authenticated")
	}
	out, errOut, code := plugin(t, user, input, args...)
	return out + errOut, code
}

// send sends one request in a dry run, and reports whether it passes.
func (q *anyQuestion) send(t *testing.T, client dynamic.Interface, o *unstructured.Unstructured) bool {
	t.Helper()
	in, below, dryRun := client.Resource(q.resource.GroupVersionResource).Namespace("questions"), []string{}, []string{metav1.DryRunAll}
	if q.subresource != "" {
		below = append(below, q.subresource)
	}
	var err error
	switch q.verb {
	case "get":
		_, err = in.Get(t.Context(), o.GetName(), metav1.GetOptions{}, below...)
	case "list":
		_, err = in.List(t.Context(), metav1.ListOptions{LabelSelector: q.labels, FieldSelector: q.fields})
	case "create":
		_, err = in.Create(t.Context(), o, metav1.CreateOptions{DryRun: dryRun})
	case "delete":
		err = in.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{DryRun: dryRun})
	case "update":
		_, err = in.Update(t.Context(), o, metav1.UpdateOptions{DryRun: dryRun}, below...)
	case "patch":
		text, marshalErr := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": o.GetLabels()["team"]}}})
		if marshalErr != nil {
			t.Error(marshalErr)
		}
		_, err = in.Patch(t.Context(), o.GetName(), types.MergePatchType, text, metav1.PatchOptions{DryRun: dryRun}, below...)
	}
	if err != nil && !apierrors.IsForbidden(err) {
		t.Errorf("%v %s: %v", q, o.GetName(), err)
	}
	return err == nil
}

// TestKubectlCanIAnyQuestion asks random questions, with and without names, subresources, selectors, files and --as, and sends requests for which they stand: none passes after
// "no", and all pass after "yes". The list of what a user may do says the same.
func TestKubectlCanIAnyQuestion(t *testing.T) {
	r, selecting := rand.New(rand.NewPCG(pluginSeed, 4)), rand.New(rand.NewPCG(pluginSeed, 5))
	names := []string{"a", "b", "c", "d"}
	applyForTest(t, gadgets)
	applyForTest(t, "{apiVersion: v1, kind: Namespace, metadata: {name: questions}}\n---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: questions}}\n")
	users := map[string][]string{"alice": nil, "bob": {"Allow"}, "carol": {"Allow", "Deny"}, "agent": {"Allow", "NoOpinion", "Deny"}, robot: {"Allow", "Deny"}}
	order := []string{"alice", "bob", "carol", "agent", robot}
	roles, policies := "", []userPolicy{}
	for _, user := range order {
		if user != "bob" {
			roles += randomRole(r, user)
		}
		if len(users[user]) > 0 {
			policies = append(append(policies, randomPolicies(r, user, users[user]...)...), selectorPolicies(selecting, user, users[user]...)...)
		}
	}
	applyForTest(t, roles)
	clients, admin := map[string]dynamic.Interface{}, stack.ClientConfig(t, "admin")
	for _, user := range append(order, "admin") {
		config := rest.CopyConfig(admin)
		if user == robot {
			config.Impersonate = rest.ImpersonationConfig{UserName: robot, Groups: []string{"system:authenticated"}}
		} else {
			config = stack.ClientConfig(t, user)
		}
		var err error
		if clients[user], err = dynamic.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
	}
	stored := map[*askedResource]map[string]*unstructured.Unstructured{}
	for _, resource := range askedResources {
		stored[resource] = map[string]*unstructured.Unstructured{}
		in := clients["admin"].Resource(resource.GroupVersionResource).Namespace("questions")
		for _, name := range names {
			poll.Holds(t, "an object is created", func() bool {
				o, err := in.Create(t.Context(), resource.object(r, name), metav1.CreateOptions{})
				stored[resource][name] = o
				return err == nil
			})
		}
	}
	t.Logf("the policies:\n%s", manifestOf("questions", policies))
	applyForTest(t, manifestOf("questions", policies))
	poll.Holds(t, "every kube-apiserver is known to call the inner door", func() bool {
		_, errOut, _ := plugin(t, "bob", "", "can-i", "--list", "-n", "questions")
		return !strings.Contains(errOut, "known to call the inner door")
	})

	asks := make([]*anyQuestion, anyQuestions)
	for i := range asks {
		q := &anyQuestion{user: pick(r, order...), verb: pick(r, "get", "list", "create", "update", "patch", "delete"), resource: pick(r, askedResources...), isAsked: r.IntN(2) == 0}
		if q.user == robot {
			q.isAsked = true
		}
		if q.verb == "list" {
			q.labels, q.fields = pick(selecting, "", "team=a", "team in (b,a)", "team", "!team"), pick(selecting, "", "", "metadata.name=a", "metadata.name!=a")
		}
		if q.verb != "list" && q.verb != "create" && r.IntN(2) == 0 {
			q.name = pick(r, names...)
		}
		if len(q.resource.subresources) > 0 && slices.Contains([]string{"get", "update", "patch"}, q.verb) && r.IntN(3) == 0 {
			q.subresource = pick(r, q.resource.subresources...)
		}
		q.file = q.subresource == "" && slices.Contains([]string{"create", "update", "patch", "delete"}, q.verb) && r.IntN(4) == 0
		for j := range requestsOfQuestion {
			name := names[j%len(names)]
			if q.name != "" {
				name = q.name
			}
			if q.verb == "create" {
				name = fmt.Sprintf("new-%d", j)
			}
			o := q.resource.object(r, name)
			switch q.verb {
			case "delete":
				o = stored[q.resource][name]
			case "update":
				o.SetResourceVersion(stored[q.resource][name].GetResourceVersion())
			}
			q.requests = append(q.requests, o)
			if q.file || q.verb == "list" {
				break
			}
		}
		asks[i] = q
	}
	var lock sync.Mutex // of answers
	answers := map[string]int{}
	together(asks, func(_ int, q *anyQuestion) {
		passed := 0
		for i, o := range q.requests {
			if q.subresource != "" && q.verb == "update" {
				fresh, err := clients["admin"].Resource(q.resource.GroupVersionResource).Namespace("questions").Get(t.Context(), o.GetName(), metav1.GetOptions{}, q.subresource)
				if err != nil {
					t.Errorf("%v: %v", q, err)
					return
				}
				fresh.SetLabels(o.GetLabels())
				q.requests[i], o = fresh, fresh
			}
			if q.send(t, clients[q.user], o) {
				passed++
			}
		}
		printed, code := q.ask(t)
		if code == 2 && q.file && !q.isAsked && strings.Contains(printed, "cannot be evaluated here") {
			q.isAsked = true
			printed, code = q.ask(t)
		}
		if wrong := code == 0 && passed < len(q.requests) || code == 1 && passed > 0 || code == 2 || code == 3 && q.file; wrong {
			t.Errorf("%v: %d of %d requests pass, but the answer is %d: %s", q, passed, len(q.requests), code, printed)
		}
		lock.Lock()
		defer lock.Unlock()
		answers[fmt.Sprint(code)]++
		if code == 3 && (passed == 0 || passed == len(q.requests)) {
			answers["3, and all or none pass"]++
		}
	})
	if t.Logf("answers: %v", answers); answers["0"] < anyQuestions/10 || answers["1"] < anyQuestions/10 || answers["3"] < anyQuestions/20 {
		t.Errorf("the questions have too few different answers: %v", answers)
	}
	t.Run("lists", func(t *testing.T) {
		for _, user := range order {
			out, errOut, code := plugin(t, "admin", "", "can-i", "--list", "-n", "questions", "--as", user, "--as-group", "system:authenticated")
			if code != 0 {
				t.Fatal(errOut)
			}
			rules, changes, _ := strings.Cut(out, "\n\n")
			var single []*anyQuestion
			for _, resource := range askedResources {
				for _, verb := range []string{"get", "list", "create", "update", "patch", "delete"} {
					for _, subresource := range append([]string{""}, resource.subresources...) {
						if subresource == "" || slices.Contains([]string{"get", "update", "patch"}, verb) {
							single = append(single, &anyQuestion{user: user, verb: verb, resource: resource, subresource: subresource, isAsked: true})
						}
					}
				}
			}
			together(single, func(_ int, q *anyQuestion) {
				name := strings.TrimSuffix(q.resource.GroupResource().String()+"/"+q.subresource, "/")
				rules := rules
				if q.verb == "list" || q.verb == "create" { // whose requests have no name
					rules = nameColumn.ReplaceAllString(rules, "")
				}
				if printed, code := q.ask(t); code != listed(rules, changes, name, q.verb) {
					t.Errorf("%v: the answer is %d (%s), but the list says %d:\n%s", q, code, printed, listed(rules, changes, name, q.verb), out)
				}
			})
		}
	})
}
