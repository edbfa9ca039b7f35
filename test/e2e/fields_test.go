/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// withGate starts the server of the cluster again with a feature gate on, for one test, which
// must not be parallel.
func withGate(t *testing.T, gate string) {
	t.Helper()
	file := filepath.Join(stack.Manifests, "overlays", "demo", "kustomization.yaml")
	before := readText(t, file)
	const last = "value: --enable-demo-api"
	if !strings.Contains(before, last) {
		t.Fatalf("%s does not say %s", file, last)
	}
	restart := func(content string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(content), 0o600))
		must(t, stack.Kill())
		must(t, stack.Up(context.Background()))
	}
	t.Cleanup(func() { restart(before) })
	restart(strings.Replace(before, last, last+"\n    - op: add\n      path: /spec/template/spec/containers/0/args/-\n      value: --feature-gates="+gate+"=true", 1))
}

const fieldRowsAtOnce = 6

// TestFields makes every request of the table on a route, or on every one with all cases: each ends as it should, each
// refusal names a field that is in the way, and what is stored is what was asked for or what
// was there. Reviews and an evaluation by hand must come to the same. It is not parallel,
// because the gate is on for the server that others use.
func TestFields(t *testing.T) {
	withGate(t, "FineGrainedAuthorization")
	x := &fieldTest{table: newTable(t), fields: readFieldTable(t)}
	x.users = append(x.users, "agent")
	for _, route := range routes {
		_, x.clients["agent"+route.suffix] = clients(t, "agent"+route.suffix)
	}
	x.install(t)
	t.Run("rows", func(t *testing.T) {
		// Rows wait for servers: more of them at a time than there are processors.
		slots := make(chan struct{}, fieldRowsAtOnce)
		var running sync.WaitGroup
		for _, set := range x.fields.Sets {
			for way, route := range routes {
				for number, row := range set.Rows {
					switch {
					case row.Of != "" && route.name == "kube": // reviews are the same
						continue
					case row.Of == "" && !cases.IsSampled(number, way, len(routes)):
						continue
					}
					c := &fieldCase{fieldRow: row, fields: set, tableCase: &tableCase{tableRow: &row.tableRow, set: &tableSet{Set: "fields-" + set.Set}, route: route.name, of: otherResources[row.Of]}}
					slots <- struct{}{}
					running.Go(func() {
						defer func() { <-slots }()
						t.Run(set.Set+"/"+route.name+"/"+row.As+", "+row.Name, func(t *testing.T) { x.run(t, c, row.As+route.suffix) })
					})
				}
			}
		}
		running.Wait()
	})
	t.Run("verbs", x.reviewVerbs)
	t.Run("managers", x.forgeManagers)
	x.document(t)
}

// quotedRefusals are what the document says of refusals.
var quotedRefusals = regexp.MustCompile(`(?m)^    ((?:changing )?the field .*)$`)

// document runs the commands of both documents, and makes what the first one says is refused.
func (x *fieldTest) document(t *testing.T) {
	t.Helper()
	content := readText(t, filepath.Join(stack.Repository, fineGrainedDocument))
	files := []string{"-f", useCaseFile("fine-grained", "operator.yaml"), "-f", useCaseFile("fine-grained", "exclusion.yaml")}
	t.Cleanup(func() {
		mustKubectl(t, "admin", append([]string{"delete", "--ignore-not-found"}, files...)...)
		mustKubectl(t, "admin", "delete", "--ignore-not-found", "-f", useCaseFile("", "virtualmachine.yaml"))
	})
	poll.Holds(t, "kube-apiserver lists what the gate has brought", func() bool {
		_, _, err := kubectl(t, "admin", "get", "fieldpermissionmappings")
		return err == nil
	})
	runBlocks(t, fineGrainedDocument, content)
	quoted := quotedRefusals.FindAllStringSubmatch(content, -1)
	for i, args := range [][]string{
		{"label", machines, "one", "--namespace=demo", "team=red", "--overwrite"},
		{"patch", machines, "one", "--namespace=demo", "--type=merge", `--patch={"spec":{"adminAccess":true}}`},
	} {
		for _, route := range routes {
			_, errs, err := kubectl(t, []string{"carol", "alice"}[i]+route.suffix, args...)
			if err == nil || len(quoted) != 2 || !strings.HasSuffix(strings.TrimSpace(errs), ": "+quoted[i][1]) {
				t.Errorf("%s: got %v: %s, want what %s says: %q", route.name, err, errs, fineGrainedDocument, quoted)
			}
		}
	}
	_, reviews, found := strings.Cut(readText(t, filepath.Join(stack.Repository, tutorialDocument)), reviewsSection)
	if !found {
		t.Errorf("%s has no section %q", tutorialDocument, reviewsSection)
	}
	runBlocks(t, tutorialDocument, reviews)
}

// fieldTest has what all rows need.
type fieldTest struct {
	*table
	users  []string
	fields *fieldTable
}

// fieldCase is a row on one route.
type fieldCase struct {
	*tableCase
	*fieldRow
	fields *fieldSet
}

// resource is what RBAC calls it.
func (c *fieldCase) resource() string {
	if c.tableCase.Sub != "" {
		return c.about().Resource + "/" + c.tableCase.Sub
	}
	return c.about().Resource
}

// install makes what the table is about: mappings, namespaces, and roles.
func (x *fieldTest) install(t *testing.T) {
	t.Helper()
	// It stays until the cluster ends: some of its objects have finalizers.
	must(t, stack.Apply(t.Context(), readText(t, "testdata/widgets.yaml")))
	mappings := x.proviso.PolicyV1alpha1().FieldPermissionMappings()
	for _, m := range x.fields.Mappings {
		_, err := mappings.Create(t.Context(), &policyv1alpha1.FieldPermissionMapping{ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Spec: m.FieldPermissionMappingSpec}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() { _ = mappings.Delete(context.Background(), m.Name, metav1.DeleteOptions{}) })
	}
	for _, set := range x.fields.Sets {
		namespace := (&tableSet{Set: "fields-" + set.Set}).namespace()
		if _, err := x.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range set.Roles {
			x.grant(t, namespace, r)
		}
	}
	x.settle(t)
}

func (x *fieldTest) grant(t *testing.T, namespace string, r *fieldRole) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: r.User},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"", "demo.proviso.dev", "fields.example.com"}, Resources: r.Resources, Verbs: r.Verbs}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: r.User}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.User},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: r.User}},
	}
	if _, err := x.kube.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.kube.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// settle waits until the last mapping and the last role are in force, which are behind all
// others.
func (x *fieldTest) settle(t *testing.T) {
	t.Helper()
	set := x.fields.Sets[len(x.fields.Sets)-1]
	for _, row := range set.Rows {
		if row.As != "agent" && row.As != "alice" || row.Do == "update" {
			continue
		}
		c := &tableCase{tableRow: &row.tableRow, set: &tableSet{Set: "fields-" + set.Set}, route: "settle", of: otherResources[row.Of]}
		// Whoever has permission is allowed on conditions, and is not before.
		poll.Holds(t, "the permissions are in force", func() bool {
			return len(x.askAdmin(t, c, c.attributes(admitted{}, check{verb: "patch"}), modeFor(admitted{operation: "UPDATE"}, "Optimized")).ConditionsChain) > 0
		})
	}
}

// run makes one request.
func (x *fieldTest) run(t *testing.T, c *fieldCase, as string) {
	t.Helper()
	x.prepare(t, c.tableCase)
	row := c.tableCase
	wantOutcome, _ := row.wanted()
	var data []admitted
	var inTheWay []string
	if row.decides() && !row.reads() {
		data = x.admittedOf(t, row)
		for _, o := range data {
			allowed, fields := newFieldOracle(x.fields, c.fields, c.about()).decide(row.As, c.resource(), o)
			if allowed != (wantOutcome == outcomeAllowed) {
				t.Errorf("compared by hand: allowed is %t (in the way: %q), want %s", allowed, fields, row.Want)
			}
			inTheWay = append(inTheWay, fields...)
		}
		if c.of != nil || x.reviews(row) {
			for _, why := range x.review(t, row, data, as) {
				c.checkRefusal(t, "a review", why, inTheWay)
			}
		}
	}
	if c.of != nil {
		return
	}
	before := x.objects(t, row)
	outcome, message := row.make(t, x.clients[as].DemoV1alpha1().RESTClient(), as)
	if outcome != wantOutcome {
		t.Fatalf("the request was %s, want %s: %s", outcome, row.Want, message)
	}
	if outcome == outcomeForbidden {
		c.checkRefusal(t, "the request", message, inTheWay)
		c.checkReason(t, message)
	}
	x.checkStored(t, row, data, before, outcome)
}

var refused = []*regexp.Regexp{
	regexp.MustCompile(`changing the field (\S+) needs`),
	regexp.MustCompile(`the field (\S+) is excluded`),
	regexp.MustCompile(`field (\S+): the request needs more`),
}

// checkRefusal finds in a refusal the field that is to be named, which must be in the way.
func (c *fieldCase) checkRefusal(t *testing.T, what, message string, inTheWay []string) {
	t.Helper()
	named := ""
	for _, pattern := range refused {
		if match := pattern.FindStringSubmatch(strings.ReplaceAll(message, `\"`, `"`)); match != nil {
			named = match[1]
		}
	}
	if named != c.Field || named != "" && !slices.Contains(inTheWay, named) {
		t.Errorf("%s names the field %q, want %q, which should be among %q: %s", what, named, c.Field, inTheWay, message)
	}
	if !strings.Contains(message, c.Says) {
		t.Errorf("%s does not say %q: %s", what, c.Says, message)
	}
}

// objects returns the machines of a row, by name, without what tells nothing.
func (x *fieldTest) objects(t *testing.T, c *tableCase) map[string]any {
	t.Helper()
	list, err := apiRequest{method: http.MethodGet, path: c.collection(), query: map[string][]string{"labelSelector": {c.label()}}}.send(t.Context(), x.admin())
	must(t, err)
	objects := map[string]any{}
	items, _ := list["items"].([]any)
	for _, item := range items {
		object := item.(map[string]any)
		objects[object["metadata"].(map[string]any)["name"].(string)] = contentOf(object)
	}
	return objects
}

// contentOf is an object without what no request decides.
func contentOf(object map[string]any) map[string]any {
	content, metadata := maps.Clone(object), maps.Clone(object["metadata"].(map[string]any))
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		delete(metadata, field)
	}
	delete(content, "apiVersion")
	delete(content, "kind")
	if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[lastApplied] != nil {
		metadata["annotations"] = mergeJSON(annotations, map[string]any{lastApplied: "applied"})
	}
	content["metadata"] = metadata
	return content
}

// checkStored compares what is there afterwards with what was rehearsed if the request was
// allowed, and with what was there otherwise.
func (x *fieldTest) checkStored(t *testing.T, c *tableCase, data []admitted, before map[string]any, outcome string) {
	t.Helper()
	want := maps.Clone(before)
	if outcome == outcomeAllowed && !c.DryRun {
		for _, o := range data {
			switch {
			case o.operation == "DELETE" && len(finalizersOf(o.oldObject)) == 0:
				delete(want, o.name)
			case o.object != nil && c.generates():
				return // of which nobody knows the name
			case o.object != nil:
				want[o.name] = contentOf(o.object)
			}
		}
	}
	if diff := cmp.Diff(want, x.objects(t, c)); diff != "" {
		t.Errorf("stored afterwards (-want +got):\n%s", diff)
	}
}

func (c *tableCase) generates() bool {
	body, _ := c.Body.(map[string]any)
	metadata, _ := body["metadata"].(map[string]any)
	return c.Do == "create" && metadata["generateName"] != nil
}

func finalizersOf(object map[string]any) []any {
	finalizers, _ := object["metadata"].(map[string]any)["finalizers"].([]any)
	return finalizers
}

// reviewVerbs asks by each kind of review, and by kubectl, for verbs as they are.
func (x *fieldTest) reviewVerbs(t *testing.T) {
	for _, tc := range []struct {
		user, verb string
		want       bool
	}{
		{"carol", "granular", true},
		{"carol", "granular:label(super.safe.com)", true},
		{"carol", "granular:annotation(super.safe.com)", true},
		{"carol", "granular:finalizer(super.safe.com)", true},
		{"carol", "granular:condition(SuperSafe)", true},
		{"carol", "granular:label(super.safe.com.evil)", false},
		{"carol", "granular:label(SUPER.SAFE.COM)", false},
		{"carol", "granular:label()", false},
		{"carol", "granular:label", false},
		{"carol", "granular:labels", false},
		{"carol", "granular:condition(Ready)", false},
		{"carol", "granular:metadata", false},
		{"alice", "granular:label(super.safe.com)", true},
		{"alice", "granular", false},
		// General permission includes what is not excluded, and is no permission on fields.
		{"bob", "granular:label(super.safe.com)", false},
	} {
		for _, route := range routes {
			t.Run(route.name+"/"+tc.user+" "+tc.verb, func(t *testing.T) {
				t.Parallel()
				c := &tableCase{tableRow: &tableRow{As: tc.user}, set: &tableSet{Set: "fields-operator"}}
				attributes := c.attributes(admitted{}, check{verb: tc.verb})
				self := x.askSelf(tc.user+route.suffix)(t, c, attributes, nil)
				conditional := x.askSelf(tc.user+route.suffix)(t, c, attributes, modeFor(admitted{operation: "UPDATE"}, "HumanReadable"))
				if self.Allowed != tc.want || self.Denied || conditional.Allowed != tc.want || len(conditional.ConditionsChain) > 0 {
					t.Errorf("got %+v, and asked for conditions %+v, want allowed: %t", self, conditional, tc.want)
				}
				if route.name != "kube" {
					return
				}
				out, _, _ := kubectl(t, tc.user, "auth", "can-i", tc.verb, machines, "--namespace", c.set.namespace())
				if strings.TrimSpace(out) != map[bool]string{true: "yes", false: "no"}[tc.want] {
					t.Errorf("kubectl auth can-i: got %q, want %t", out, tc.want)
				}
			})
		}
	}
}
