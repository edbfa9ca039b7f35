/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// fine is a control plane of its own, whose Proviso has the gate FineGrainedAuthorization on,
// behind its front door too.
type fine struct {
	*cluster.Cluster
	kube    kubernetes.Interface // of admin
	audited string               // the audit log of Proviso
}

func newFine(t *testing.T) *fine {
	t.Helper()
	dir, err := os.MkdirTemp(stack.Dir, "fine-")
	if err != nil {
		t.Fatal(err)
	}
	auditPolicy := filepath.Join(dir, "proviso-audit-policy.yaml")
	if err := os.WriteFile(auditPolicy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fine{audited: filepath.Join(dir, "proviso-audit.log")}
	f.Cluster, err = cluster.New(cluster.Config{
		Dir: dir, Bin: stack.Bin, Manifests: stack.Manifests,
		Args: []string{"--feature-gates=FineGrainedAuthorization=true", "--audit-policy-file=" + auditPolicy, "--audit-log-path=" + f.audited},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.StopAfter(t)
	if err := f.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin, err := f.Client("admin")
	if err != nil {
		t.Fatal(err)
	}
	admin.QPS = -1 // a test is no client to be slowed down
	if f.kube, err = kubernetes.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	return f
}

// run runs kubectl in a context; what `kubectl edit` shows goes through sed.
func (f *fine) run(t *testing.T, user, input, sed string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(f.Bin, "kubectl"),
		append([]string{"--kubeconfig", f.Kubeconfig(), "--context", user, "--cache-dir", filepath.Join(f.Dir, "kubectl-cache", user)}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	cmd.Env = append(os.Environ(), "KUBE_EDITOR=sed -i -e "+sed)
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (f *fine) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, errs, err := f.run(t, "admin", manifest, "", "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
}

// fineRights are those of three users. carol is the operator of story 1, by RBAC; alice is
// one by policies; agent writes whole machines.
const fineRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: supersafe, namespace: demo}
rules:
- apiGroups: [demo.proviso.dev]
  resources: [virtualmachines, virtualmachines/status, virtualmachines/console]
  verbs: [get, granular, "granular:label(super.safe.com)", "granular:annotation(super.safe.com)", "granular:finalizer(super.safe.com)", "granular:condition(SuperSafe)"]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [granular, "granular:labels"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: supersafe, namespace: demo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: supersafe}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: machines, namespace: demo}
rules:
- apiGroups: [demo.proviso.dev]
  resources: [virtualmachines]
  verbs: [get, create, update, patch, "granular:specification"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: machines, namespace: demo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: machines}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: agent}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: alice-labels, namespace: demo}
spec:
  description: alice labels machines
  effect: Allow
  subjects: [{kind: User, name: alice}]
  rules: [{verbs: [granular, "granular:labels"], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: alice-writes-dev, namespace: demo}
spec:
  description: alice writes machines of class dev
  effect: Allow
  subjects: [{kind: User, name: alice}]
  rules: [{verbs: [patch], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: has(object.spec.storageClassName) && object.spec.storageClassName == "dev"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: admin-access}
spec:
  resources: [{apiGroup: demo.proviso.dev, resource: virtualmachines}]
  fields:
  - {path: spec.adminAccess, permission: adminDevices, exclusion: {newValues: value == true}}
---
apiVersion: demo.proviso.dev/v1alpha1
kind: VirtualMachine
metadata: {name: web, namespace: demo, labels: {super.safe.com/a: b, other.com/a: b}}
spec: {image: debian-12}
---
apiVersion: demo.proviso.dev/v1alpha1
kind: VirtualMachine
metadata: {name: dev, namespace: demo}
spec: {image: debian-12, storageClassName: dev}
`

// TestFineGrainedBehindKubeAPIServer is an operator who may touch what has its prefix only, and a field
// that is excluded, with kubectl, through kube-apiserver and its front door, and directly.
// Both ways come to the same, and Proviso's audit log says which fields were checked.
func TestFineGrainedBehindKubeAPIServer(t *testing.T) {
	t.Parallel()
	f := newFine(t)
	f.apply(t, fineRights)
	f.checkWithheld(t)
	const (
		safe      = `needs the verb "granular:metadata" or "granular:labels" or "granular:label(other.com)"`
		excluded  = `the field spec.adminAccess is excluded from general permission: changing it also needs the verb "granular:adminDevices"`
		condition = `{"status":{"conditions":[{"type":"%s","status":"True","reason":"ROUTE","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
		applied   = "apiVersion: demo.proviso.dev/v1alpha1\nkind: VirtualMachine\nmetadata: {name: web, namespace: demo, %s}\n"
		created   = "apiVersion: demo.proviso.dev/v1alpha1\nkind: VirtualMachine\nmetadata: {name: new, namespace: demo, labels: {super.safe.com/a: b}}\nspec: {image: debian-12}\n"
		console   = "/apis/demo.proviso.dev/v1alpha1/namespaces/demo/virtualmachines/web/console?command=id"
	)
	merge := func(object, body string, more ...string) []string {
		return append([]string{"patch", "virtualmachine", object, "--type=merge", "--patch", body}, more...)
	}
	rows := []struct {
		name, user string
		input, sed string
		args       []string
		want       string // what a refusal says; "" if it is allowed
		// The annotations of the last audit event, of those that reach admission.
		side, fields, verbs string
	}{
		{name: "a label", user: "carol", args: []string{"label", "virtualmachine", "web", "super.safe.com/x=ROUTE", "--overwrite"},
			side: "include=allowed", fields: `["metadata.labels[\"super.safe.com/x\"]"]`, verbs: `["granular:metadata","granular:labels","granular:label(super.safe.com)"]`},
		{name: "a label of others", user: "carol", args: []string{"label", "virtualmachine", "web", "other.com/x=y"}, want: `changing the field metadata.labels["other.com/x"] ` + safe,
			side: "include=refused", fields: `["metadata.labels[\"other.com/x\"]"]`, verbs: `["granular:metadata","granular:labels","granular:label(other.com)"]`},
		{name: "a label that goes away", user: "carol", args: []string{"label", "virtualmachine", "web", "other.com/a-"}, want: `changing the field metadata.labels["other.com/a"] ` + safe},
		{name: "an annotation", user: "carol", args: []string{"annotate", "virtualmachine", "web", "super.safe.com/x=y", "--overwrite"}},
		{name: "a label, edited", user: "carol", sed: "'s#super.safe.com/a: .*#super.safe.com/a: edited#'", args: []string{"edit", "virtualmachine", "web"}},
		{name: "a label of others, edited", user: "carol", sed: "'s#other.com/a: .*#other.com/a: edited#'", args: []string{"edit", "virtualmachine", "web"}, want: `changing the field metadata.labels["other.com/a"] ` + safe},
		{name: "the image, edited", user: "carol", sed: "s/debian-12/debian-13/", args: []string{"edit", "virtualmachine", "web"}, want: `changing the field spec.image needs the verb "granular:specification"`},
		{name: "a finalizer, applied", user: "carol", input: fmt.Sprintf(applied, "finalizers: [super.safe.com/x]"), args: []string{"apply", "--server-side", "--field-manager=supersafe", "-f", "-"}},
		{name: "a finalizer of others, applied", user: "carol", input: fmt.Sprintf(applied, "finalizers: [other.com/x]"), args: []string{"apply", "--server-side", "--field-manager=supersafe", "-f", "-"}, want: `changing the field metadata.finalizers["other.com/x"] needs`},
		{name: "its condition", user: "carol", args: merge("web", fmt.Sprintf(condition, "SuperSafe"), "--subresource=status"),
			side: "include=allowed", fields: `["status.conditions[type=\"SuperSafe\"].`, verbs: `["granular:status","granular:conditions","granular:condition(SuperSafe)"]`},
		{name: "another condition", user: "carol", args: merge("web", fmt.Sprintf(condition, "Ready"), "--subresource=status"), want: `status.conditions[type="Ready"]`},
		{name: "a creation", user: "carol", input: created, args: []string{"create", "-f", "-"}, want: "changing the field "},
		{name: "a deletion", user: "carol", args: []string{"delete", "virtualmachine", "web", "--wait=false"}, want: `cannot delete resource "virtualmachines"`},
		{name: "the console by GET", user: "carol", args: []string{"get", "--raw", console}, want: "orbidden"},
		{name: "the console by POST", user: "carol", input: "{}", args: []string{"create", "--raw", console, "-f", "-"}, want: "orbidden"},
		{name: "a resource of kube-apiserver", user: "carol", args: []string{"label", "configmap", "kube-root-ca.crt", "super.safe.com/x=y"}, want: "orbidden"},

		{name: "a label by policy", user: "alice", args: []string{"label", "virtualmachine", "web", "a=b", "--overwrite"}},
		{name: "the image without one", user: "alice", args: merge("web", `{"spec":{"image":"x"}}`), want: `changing the field spec.image needs the verb "granular:specification"`},
		{name: "the image by a policy with a condition", user: "alice", args: merge("dev", `{"spec":{"image":"x"}}`)},
		{name: "an excluded value by a policy with a condition", user: "alice", args: merge("dev", `{"spec":{"adminAccess":true}}`), want: excluded},

		{name: "the image by RBAC", user: "agent", args: merge("web", `{"spec":{"image":"debian-12","tags":["a"]}}`)},
		{name: "an excluded value by RBAC", user: "agent", args: merge("web", `{"spec":{"adminAccess":true}}`), want: excluded,
			side: "exclude=refused", fields: `["spec.adminAccess"]`, verbs: `["granular:adminDevices"]`},
		{name: "another value by RBAC", user: "agent", args: merge("web", `{"spec":{"adminAccess":false}}`)},
		{name: "an excluded value, created", user: "agent", input: strings.Replace(created, "debian-12", "debian-12, adminAccess: true", 1), args: []string{"create", "-f", "-"}, want: excluded},
		{name: "everything", user: "bob", args: merge("web", `{"spec":{"adminAccess":true}}`)},
		{name: "who has nothing", user: "agent", args: []string{"label", "virtualmachine", "web", "a=b", "--namespace=default"}, want: "orbidden"},
	}
	for _, row := range rows {
		for _, route := range enforcementRoutes {
			if row.args[1] == "configmap" && route.name == "direct" {
				continue // nobody serves it there
			}
			var output string
			got := settled(t, row.want, func() string {
				args := slices.Clone(row.args)
				for i := range args { // so that each time something changes
					args[i] = strings.ReplaceAll(args[i], "ROUTE", route.name)
				}
				out, errs, err := f.run(t, row.user+route.suffix, row.input, row.sed, append([]string{"--namespace=demo"}, args...)...)
				output = out + errs
				switch {
				case err == nil:
					return ""
				case row.want != "" && strings.Contains(output, row.want) && strings.Contains(strings.ToLower(output), "forbidden"):
					return row.want
				}
				return "an error: " + output
			})
			if got != row.want {
				t.Errorf("%s, %s: got %q, want %q (%s)", route.name, row.name, got, row.want, output)
			}
			if row.side != "" && got == row.want {
				f.checkAnnotations(t, row.name, row.user, row.side, row.fields, row.verbs)
			}
		}
	}
	// What was written may have changed back and forth, but must not have values in the log.
	if log := f.auditLog(t); strings.Contains(log, "debian-1") || strings.Contains(log, `"edited`) {
		t.Error("the audit log has values of fields")
	}
	poll.Holds(t, "kubectl shows that the mapping is ready", func() bool {
		out, _, _ := f.run(t, "admin", "", "", "get", "fieldpermissionmappings")
		return slices.Equal(strings.Fields(out)[:6], []string{"NAME", "RESOURCES", "PERMISSIONS", "EXCLUDED", "READY", "AGE"}) && strings.Contains(out, "spec.adminAccess   True")
	})
	f.checkGranularChecks(t)
}

func (f *fine) auditLog(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(f.audited)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// checkAnnotations reads Proviso's audit event of the last write of a user.
func (f *fine) checkAnnotations(t *testing.T, name, user, side, fields, verbs string) {
	t.Helper()
	var last auditv1.Event
	for line := range strings.Lines(f.auditLog(t)) {
		var event auditv1.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if event.User.Username == user && slices.Contains([]string{"create", "update", "patch"}, event.Verb) {
			last = event
		}
	}
	key, verdict, _ := strings.Cut(side, "=")
	key = "granular.proviso.dev/" + key
	if got := last.Annotations; got[key] != verdict || !strings.HasPrefix(got[key+"-fields"], fields) || !strings.HasPrefix(got[key+"-verbs"], verbs) {
		t.Errorf("%s: got annotations %v, want %s, fields %s, verbs %s", name, got, side, fields, verbs)
	}
	if code := last.ResponseStatus.Code; (code == 403) != (verdict == "refused") {
		t.Errorf("%s: the event has status %d", name, code)
	}
}

// checkGranularChecks counts how often the front door asks kube-apiserver back: once for a write
// on which policies have no opinion, and never for anything else.
func (f *fine) checkGranularChecks(t *testing.T) {
	t.Helper()
	const group, version, machines = "demo.proviso.dev", "v1alpha1", "virtualmachines"
	on := func(user, verb, resource, subresource, name string) authorizationv1.SubjectAccessReviewSpec {
		spec := authorizationv1.SubjectAccessReviewSpec{User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Version: version, Resource: resource, Subresource: subresource, Namespace: "demo", Name: name,
		}}
		if resource == "configmaps" {
			spec.ResourceAttributes.Group, spec.ResourceAttributes.Version = "", "v1"
		}
		return spec
	}
	direct, err := f.Client("admin-direct")
	if err != nil {
		t.Fatal(err)
	}
	proviso, err := kubernetes.NewForConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	asked := func() (n int) {
		t.Helper()
		body, err := proviso.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, "proviso_webhook_authorize_granular_checks_total{") {
				count, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
				if err != nil {
					t.Fatal(err)
				}
				n += count
			}
		}
		return n
	}
	for _, tc := range []struct {
		name        string
		spec        authorizationv1.SubjectAccessReviewSpec
		wantAllowed bool
		wantAsked   int
	}{
		{"a patch of who has the verb", on("carol", "patch", machines, "", "w1"), true, 1},
		{"a creation", on("carol", "create", machines, "", ""), true, 1},
		{"an update of the status", on("carol", "update", machines, "status", "w1"), true, 1},
		{"a patch of who has it not", on("erin", "patch", machines, "", "w1"), false, 1},
		{"a patch of who may patch by RBAC, which comes later", on("agent", "patch", machines, "", "w1"), true, 1},
		{"a patch of who has it by a policy", on("alice", "patch", machines, "", "w1"), true, 0},
		{"a deletion", on("carol", "delete", machines, "", "w1"), false, 0},
		{"a read", on("carol", "get", machines, "", "w1"), true, 0},
		{"a connection", on("carol", "create", machines, "console", "w1"), false, 0},
		{"every version", func() authorizationv1.SubjectAccessReviewSpec {
			spec := on("carol", "patch", machines, "", "w1")
			spec.ResourceAttributes.Version = "*"
			return spec
		}(), false, 0},
		{"what kube-apiserver serves", on("carol", "patch", "configmaps", "", "w1"), false, 0},
		{"the verb itself", on("carol", "granular", machines, "", "w1"), true, 0},
		{"a patch, when Proviso asks", withMarker(on("carol", "patch", machines, "", "w2")), false, 0},
		{"a patch by a policy, when Proviso asks", withMarker(on("alice", "patch", machines, "", "w2")), false, 0},
		{"the verb itself, when Proviso asks", withMarker(on("carol", "granular", machines, "", "w2")), true, 0},
		{"the verb by a policy, when Proviso asks", withMarker(on("alice", "granular", machines, "", "w2")), false, 0},
	} {
		before := asked()
		answer, err := f.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: tc.spec}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := asked() - before; answer.Status.Allowed != tc.wantAllowed || answer.Status.Denied || got != tc.wantAsked {
			t.Errorf("%s: got %+v and %d checks, want allowed %t and %d", tc.name, answer.Status, got, tc.wantAllowed, tc.wantAsked)
		}
	}
}

// TestFrontDoorWithoutFields asks the front door of a server with the gate off: the verb
// granular means nothing.
func TestFrontDoorWithoutFields(t *testing.T) {
	t.Parallel()
	grantMachines(t, "e2e-without-fields", "granular", "granular:metadata", "granular:specification", "granular:status")
	ask := func(verb string) authorizationv1.SubjectAccessReviewStatus {
		spec := carolAsks(verb, "demo.proviso.dev", "v1alpha1", "virtualmachines", "demo")
		spec.User = "e2e-without-fields"
		return accessReview(t, spec)
	}
	poll.Holds(t, "the verb is granted", func() bool { return ask("granular").Allowed })
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		if got := ask(verb); got.Allowed || got.Denied {
			t.Errorf("%s: got %+v, want no opinion", verb, got)
		}
	}
}
