/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package innerdoor_test runs a control plane whose kube-apiserver has the files that the command inner-door-config writes, and
// sends requests that the inner door decides.
package innerdoor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// recordDir and recordFrontDoorDir are where the AdmissionReviews and the SubjectAccessReviews are kept for the tests of pkg/innerdoor and of
// pkg/frontdoor. They are written if PROVISO_RECORD is set.
var (
	recordDir          = filepath.Join("..", "..", "..", "pkg", "innerdoor", "testdata", "reviews")
	recordFrontDoorDir = filepath.Join("..", "..", "..", "pkg", "frontdoor", "testdata", "reviews")
)

const configuration = `resources:
- resource: persistentvolumeclaims
- {resource: persistentvolumeclaims, subresource: status}
- resource: configmaps
- resource: secrets
- resource: services
- resource: namespaces
- {resource: serviceaccounts, subresource: token}
- {group: apps, resource: deployments}
- {group: apps, resource: deployments, subresource: scale}
- {group: example.com, resource: widgets}
- {group: example.com, resource: widgets, subresource: status}`

// rig is the control plane of a test.
type rig struct {
	*cluster.Cluster
	proxy *proxy
	// sender sends requests to the first kube-apiserver, if the control plane runs.
	sender *requests.Sender
}

const demo = "inner-door"

// newRig starts a control plane, with changes of the configuration of the cluster.
func newRig(t *testing.T, settings string, changes ...func(*cluster.Config)) *rig {
	t.Helper()
	r := prepareRig(t, settings, changes...)
	r.up(t)
	return r
}

// newRigWith starts a control plane with a configuration of its own.
func newRigWith(t *testing.T, door *cluster.InnerDoor, kubeAPIServerArgs ...string) *rig {
	t.Helper()
	return newRig(t, "", func(c *cluster.Config) { c.InnerDoor, c.KubeAPIServerArgs = door, kubeAPIServerArgs })
}

// prepareRig returns a control plane that does not run.
func prepareRig(t *testing.T, settings string, changes ...func(*cluster.Config)) *rig {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	config := cluster.Config{
		Dir: t.TempDir(), Bin: filepath.Join(root, "_output", "bin"), Manifests: filepath.Join(root, "artifacts"), Log: t.Logf,
		InnerDoor: &cluster.InnerDoor{Configuration: configuration + "\n" + settings},
	}
	for _, change := range changes {
		change(&config)
	}
	c, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Cluster: c, proxy: newProxy(t, c, c.Servers[0])}
	c.InnerDoor.URL = r.proxy.url
	c.StopAfter(t)
	return r
}

// up starts the control plane.
func (r *rig) up(t *testing.T) {
	t.Helper()
	if err := r.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.connect(t)
}

// connect makes the sender.
func (r *rig) connect(t *testing.T) {
	t.Helper()
	admin, err := r.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	r.sender = requests.NewSender(admin, r.NewUser)
}

// certified is a user with a client certificate, or the administrator.
func certified(name string) *requests.User {
	if name == cluster.Admin {
		return nil
	}
	return &requests.User{Name: name, Certificate: true}
}

// as returns the caller of a user with a client certificate.
func (r *rig) as(name string) *caller { return &caller{r.sender, certified(name)} }

// runner sends rows of tables to the first kube-apiserver.
func (r *rig) runner() *requests.Runner {
	return &requests.Runner{Sender: r.sender, Calls: r.proxy.take}
}

// table reads a table.
func table(t *testing.T, name string, marks ...string) *requests.Table {
	t.Helper()
	return requests.ReadFile(t, filepath.Join("testdata", name), nil, marks...)
}

func (r *rig) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := r.Kubectl(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// send sends a request of a user with a client certificate.
func (r *rig) send(t *testing.T, user, method, path, contentType, body string) (int, string) {
	t.Helper()
	return r.sender.Send(t, certified(user), method, path, contentType, body)
}

// direct gets a path from Proviso's main port, as admin.
func (r *rig) direct(t *testing.T, path string) (int, string) {
	t.Helper()
	return r.sender.At(r.ProvisoURL()).Send(t, nil, http.MethodGet, path, "", "")
}

// policies are the policies for dana, who has no rights by RBAC but to read services. rob has rights by RBAC alone, and nina has none.
const policies = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-reads}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules:
  - {verbs: [get, list], apiGroups: [""], resources: [persistentvolumeclaims, configmaps, namespaces]}
  - {verbs: [get, list], apiGroups: [apps], resources: [deployments]}
  - {verbs: [get, list], apiGroups: [example.com], resources: [widgets]}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-dev-claims}
spec:
  effect: Allow
  description: dana writes claims of class dev
  subjects: [{kind: User, name: dana}]
  rules:
  - {verbs: [create, update, patch], apiGroups: [""], apiVersions: [v1], resources: [persistentvolumeclaims, persistentvolumeclaims/status]}
  condition: object.spec.storageClassName == "dev"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-deletes}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules:
  - {verbs: [delete, deletecollection], apiGroups: [""], apiVersions: [v1], resources: [persistentvolumeclaims, configmaps, services]}
  - {verbs: [delete, deletecollection], apiGroups: [example.com], apiVersions: [v1, v2], resources: [widgets]}
  condition: oldObject.metadata.?labels["keep"].orValue("") != "true"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-labels}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules:
  - {verbs: [create, update, patch], apiGroups: [""], apiVersions: [v1], resources: [configmaps, services, namespaces]}
  condition: object.metadata.?labels["team"].orValue("") == "blue"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-scales}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules:
  - {verbs: [update, patch], apiGroups: [apps], apiVersions: [v1], resources: [deployments/scale]}
  condition: object.spec.replicas <= 3
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-tokens}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules:
  - {verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [serviceaccounts/token], resourceNames: [ci]}
  condition: object.spec.audiences == ["vault"]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-widgets}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules:
  - {verbs: [create, update, patch], apiGroups: [example.com], apiVersions: [v1, v2], resources: [widgets, widgets/status]}
  condition: object.spec.size <= 2.5
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: writer}
rules:
- {verbs: [create, update, patch, delete, deletecollection], apiGroups: ["", apps, example.com], resources: [persistentvolumeclaims, configmaps, services, widgets]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-services}
rules: [{verbs: [get, list], apiGroups: [""], resources: [services]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-services}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-services}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dana}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: rob}]
`

// widgets has two served versions. Unknown fields are kept.
const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget}
  scope: Namespaced
  conversion: {strategy: None}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: false, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

const (
	jsonType  = "application/json"
	applyType = "application/apply-patch+yaml"
	mergeType = "application/merge-patch+json"
	patchType = "application/json-patch+json"
	smpType   = "application/strategic-merge-patch+json"
)

func claim(name, class, labels string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": %q, "labels": {%s}}, "spec": {"storageClassName": %q, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`, name, labels, class)
}

func labelled(kind, name, team, rest string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": %q, "metadata": {"name": %q, "labels": {"team": %q}}%s}`, kind, name, team, rest)
}

const (
	core       = "/api/v1/namespaces/" + demo + "/"
	claims     = core + "persistentvolumeclaims"
	maps       = core + "configmaps"
	deploys    = "/apis/apps/v1/namespaces/" + demo + "/deployments"
	widgetsV1  = "/apis/example.com/v1/namespaces/" + demo + "/widgets"
	widgetsV2  = "/apis/example.com/v2/namespaces/" + demo + "/widgets"
	deployment = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}`
	notMet     = "reason=NotMet"
)

// TestInnerDoor sends requests to resources that kube-apiserver serves. Their conditions read the object.
func TestInnerDoor(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.apply(t, widgets)
	r.apply(t, policies)
	for _, args := range [][]string{
		{"create", "namespace", demo}, {"create", "serviceaccount", "ci", "--namespace", demo},
		{"wait", "--for=condition=Established", "crd/widgets.example.com"},
		{"wait", "--for=condition=Ready", "clusterauthorizationpolicies", "--all"},
	} {
		if _, err := r.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	r.apply(t, strings.Replace(deployment, `"name": "d"`, `"name": "d", "namespace": "`+demo+`"`, 1))
	rows, runner := table(t, "requests.yaml").Rows, r.runner()
	runner.Run(t, rows["before"])
	poll.Holds(t, "widgets are served", func() bool { code, _ := r.send(t, "admin", "GET", widgetsV2, "", ""); return code == 200 })
	for _, row := range rows["wait"] {
		runner.Await(t, row)
	}
	r.proxy.reset()
	runner.After = func(row *requests.Row, _ *requests.Answer, calls []*admissionv1.AdmissionRequest) {
		if row.Name != "" && len(calls) > 0 && os.Getenv("PROVISO_RECORD") != "" {
			record(t, recordDir, row.Name, r.proxy.bodies[0])
			record(t, recordFrontDoorDir, row.Name, r.proxy.questions[0])
		}
		r.proxy.reset()
	}
	runner.Run(t, rows["requests"])
	t.Run("audit", func(t *testing.T) { testAudit(t, r) })
	t.Run("metrics", func(t *testing.T) { testMetrics(t, r) })
	t.Run("status", func(t *testing.T) { testStatus(t, r) })
	t.Run("marker", func(t *testing.T) { testMarker(t, r) })
	t.Run("late bodies", func(t *testing.T) { testLateBodies(t, r) })
	t.Run("clients", func(t *testing.T) { testClients(t, r) })
	t.Run("outage", func(t *testing.T) { testOutage(t, r) })
	t.Run("another manifest", func(t *testing.T) { testAnotherManifest(t, r) })
	t.Run("an emptied manifest", func(t *testing.T) { testEmptiedManifest(t, r) })
	t.Run("cached answers", func(t *testing.T) { testCachedAnswers(t, r) })
	t.Run("the canary's own rights", func(t *testing.T) { testCanary(t, r) })
	poll.Holds(t, "the status says again that the policy is enforced", func() bool {
		return strings.HasPrefix(r.enforcementOf(t, "dana-dev-claims"), "InnerDoor=Enforced Enforced: ")
	})
}

// record writes a review, with the values that differ from run to run replaced.
func record(t *testing.T, dir, name string, body []byte) {
	t.Helper()
	var review map[string]any
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	stable(review)
	text, err := json.MarshalIndent(review, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stable replaces values that differ from run to run.
func stable(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			text, isText := field.(string)
			switch {
			case isText && key == "uid":
				v[key] = "00000000-0000-0000-0000-000000000000"
			case isText && slices.Contains([]string{"creationTimestamp", "time", "expirationTimestamp", "deletionTimestamp"}, key):
				v[key] = "2026-01-01T00:00:00Z"
			case isText && key == "resourceVersion":
				v[key] = "1"
			case isText && key == "token":
				v[key] = "token"
			case isText && strings.HasPrefix(text, "g-"):
				v[key] = "g-12345"
			case key == "extra":
				delete(v, key) // the fingerprint of the client certificate
			default:
				stable(field)
			}
		}
	case []any:
		for _, element := range v {
			stable(element)
		}
	}
}
