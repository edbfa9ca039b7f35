/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package innerdoor_test runs a control plane whose kube-apiserver has the files that the command inner-door-config writes, and
// sends requests that the inner door decides.
package innerdoor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
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
	users map[string]*caller
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
	r := &rig{Cluster: c, proxy: newProxy(t, c, c.Servers[0]), users: map[string]*caller{}}
	c.InnerDoor.URL = r.proxy.url
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// up starts the control plane.
func (r *rig) up(t *testing.T) {
	t.Helper()
	if err := r.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{cluster.Admin, "dana", "rob", "nina"} {
		r.users[name] = newCaller(t, r.Cluster, name)
	}
}

func (r *rig) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := r.Kubectl(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// send sends a request of a user.
func (r *rig) send(t *testing.T, user, method, path, contentType, body string) (int, string) {
	t.Helper()
	if r.users[user] == nil {
		r.users[user] = newCaller(t, r.Cluster, user)
	}
	code, answer, err := r.users[user].send(t.Context(), method, path, contentType, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return code, answer
}

// direct gets a path from Proviso's main port, as admin.
func (r *rig) direct(t *testing.T, path string) (int, string) {
	t.Helper()
	admin := *r.users[cluster.Admin]
	admin.base = r.ProvisoURL()
	code, answer, err := admin.send(t.Context(), "GET", path, "", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	return code, answer
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
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

func widget(version, name, size string) string {
	return fmt.Sprintf(`{"apiVersion": "example.com/%s", "kind": "Widget", "metadata": {"name": %q}, "spec": {"size": %s, "unknown": {"a": [1.5, null]}}}`, version, name, size)
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

// request is a row: a request with the outcome, and whether the inner door is called. kube-apiserver attempts an update again after a
// conflict, and then calls it again.
type request struct {
	// name is the name of the recorded review, too.
	name, user, method, path, contentType, body string
	code                                        int
	called                                      bool
	message                                     string
}

// requests are sent in this order. Those of one user build on each other.
var requests = []request{
	{"claim-post", "dana", "POST", claims, jsonType, claim("a", "dev", ""), 201, true, ""},
	{"claim-post-refused", "dana", "POST", claims, jsonType, claim("b", "prod", ""), 403, true, "policy=dana-dev-claims reason=NotMet"},
	{"claim-post-dry-run", "dana", "POST", claims + "?dryRun=All", jsonType, claim("b", "dev", ""), 201, true, ""},
	{"claim-generate-name", "dana", "POST", claims, jsonType, strings.Replace(claim("", "dev", ""), `"name": ""`, `"generateName": "g-"`, 1), 201, true, ""},
	{"claim-put", "dana", "PUT", claims + "/a", jsonType, claim("a", "dev", `"x": "1"`), 200, true, ""},
	{"claim-merge-patch", "dana", "PATCH", claims + "/a", mergeType, `{"metadata": {"labels": {"x": "2"}}}`, 200, true, ""},
	{"claim-json-patch", "dana", "PATCH", claims + "/a", patchType, `[{"op": "replace", "path": "/metadata/labels/x", "value": "3"}]`, 200, true, ""},
	{"claim-strategic-merge-patch", "dana", "PATCH", claims + "/a", smpType, `{"metadata": {"labels": {"x": "4"}}}`, 200, true, ""},
	{"claim-apply", "dana", "PATCH", claims + "/a?fieldManager=t&force=true", applyType, claim("a", "dev", `"x": "5"`), 200, true, ""},
	{"claim-apply-creates", "dana", "PATCH", claims + "/applied?fieldManager=t", applyType, claim("applied", "dev", ""), 201, true, ""},
	{"claim-apply-creates-refused", "dana", "PATCH", claims + "/c?fieldManager=t", applyType, claim("c", "prod", ""), 403, true, notMet},
	{"claim-status", "dana", "PATCH", claims + "/a/status", mergeType, `{"status": {"phase": "Pending"}}`, 200, true, ""},
	{"claim-of-others", "dana", "PATCH", claims + "/prod", mergeType, `{"metadata": {"labels": {"x": "1"}}}`, 403, true, notMet},
	{"claim-delete-kept", "dana", "DELETE", claims + "/kept", "", "", 403, true, "policy=dana-deletes reason=NotMet"},
	{"claim-delete-dry-run", "dana", "DELETE", claims + "/a?dryRun=All", "", "", 200, true, ""},
	{"claim-delete", "dana", "DELETE", claims + "/a", "", "", 200, true, ""},
	{"map-post", "dana", "POST", maps, jsonType, labelled("ConfigMap", "m", "blue", `, "data": {"k": "\u003c\u2028ä"}`), 201, true, ""},
	{"map-collection", "dana", "DELETE", maps + "?labelSelector=team=blue", "", "", 200, true, ""},
	{"", "dana", "POST", core + "secrets", jsonType, labelled("Secret", "s", "blue", `, "data": {"k": "cw=="}`), 403, false, "cannot create resource"},
	{"service-put-creates", "dana", "PUT", core + "services/s", jsonType, labelled("Service", "s", "blue", `, "spec": {"ports": [{"port": 80}]}`), 201, true, ""},
	{"service-put-creates-refused", "dana", "PUT", core + "services/t", jsonType, labelled("Service", "t", "red", `, "spec": {"ports": [{"port": 80}]}`), 403, true, notMet},
	{"namespace-post", "dana", "POST", "/api/v1/namespaces", jsonType, labelled("Namespace", "blue", "blue", ""), 201, true, ""},
	{"namespace-post-refused", "dana", "POST", "/api/v1/namespaces", jsonType, labelled("Namespace", "red", "red", ""), 403, true, notMet},
	{"namespace-patch", "dana", "PATCH", "/api/v1/namespaces/blue", mergeType, `{"metadata": {"labels": {"x": "1"}}}`, 200, true, ""},
	{"scale-patch", "dana", "PATCH", deploys + "/d/scale", mergeType, `{"spec": {"replicas": 3}}`, 200, true, ""},
	{"scale-patch-refused", "dana", "PATCH", deploys + "/d/scale", mergeType, `{"spec": {"replicas": 4}}`, 403, true, "policy=dana-scales reason=NotMet"},
	{"", "dana", "PATCH", deploys + "/d", mergeType, `{"spec": {"replicas": 2}}`, 403, false, "cannot patch resource"},
	{"token-post", "dana", "POST", core + "serviceaccounts/ci/token", jsonType, `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["vault"]}}`, 201, true, ""},
	{"token-post-refused", "dana", "POST", core + "serviceaccounts/ci/token", jsonType, `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["https://kubernetes.default.svc"]}}`, 403, true, notMet},
	{"widget-post-v1", "dana", "POST", widgetsV1, jsonType, widget("v1", "w", "2.5"), 201, true, ""},
	{"widget-post-v2", "dana", "POST", widgetsV2, jsonType, widget("v2", "w2", "2"), 201, true, ""},
	{"widget-post-v2-refused", "dana", "POST", widgetsV2, jsonType, widget("v2", "w3", "2.6"), 403, true, "policy=dana-widgets reason=NotMet"},
	{"widget-apply-v2", "dana", "PATCH", widgetsV2 + "/w?fieldManager=t&force=true", applyType, widget("v2", "w", "1.5"), 200, true, ""},
	{"widget-merge-patch-v1", "dana", "PATCH", widgetsV1 + "/w", mergeType, `{"spec": {"size": 1}}`, 200, true, ""},
	{"widget-status", "dana", "PATCH", widgetsV1 + "/w/status", mergeType, `{"status": {"ok": true}}`, 200, true, ""},
	{"widget-delete-v2", "dana", "DELETE", widgetsV2 + "/w", "", "", 200, true, ""},
	{"widget-collection-v1", "dana", "DELETE", widgetsV1, "", "", 200, true, ""},

	// What RBAC allows never calls the inner door.
	{"", "rob", "POST", claims, jsonType, claim("r", "prod", ""), 201, false, ""},
	{"", "rob", "PUT", claims + "/r", jsonType, claim("r", "prod", `"x": "1"`), 200, false, ""},
	{"", "rob", "PATCH", claims + "/r", mergeType, `{"metadata": {"labels": {"x": "2"}}}`, 200, false, ""},
	{"", "rob", "PATCH", claims + "/r2?fieldManager=t", applyType, claim("r2", "prod", ""), 201, false, ""},
	{"", "rob", "PUT", core + "services/r", jsonType, labelled("Service", "r", "red", `, "spec": {"ports": [{"port": 80}]}`), 201, false, ""},
	{"", "rob", "POST", widgetsV2, jsonType, widget("v2", "r", "9"), 201, false, ""},
	{"", "rob", "DELETE", widgetsV1, "", "", 200, false, ""},
	{"", "rob", "DELETE", claims + "/r", "", "", 200, false, ""},
	{"", "rob", "POST", "/api/v1/namespaces", jsonType, labelled("Namespace", "rob", "blue", ""), 403, false, "cannot create resource"},
	{"", "admin", "POST", claims, jsonType, claim("admin", "prod", ""), 201, false, ""},
	// Nobody folds for nina, so that she does not reach admission.
	{"", "nina", "POST", claims, jsonType, claim("n", "dev", ""), 403, false, "cannot create resource"},
}

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
	for _, object := range []string{claim("prod", "prod", ""), claim("kept", "dev", `"keep": "true"`)} {
		if code, answer := r.send(t, "admin", "POST", claims, jsonType, object); code != http.StatusCreated {
			t.Fatalf("got %d %s", code, answer)
		}
	}
	eventually(t, "widgets are served", func() bool { code, _ := r.send(t, "admin", "GET", widgetsV2, "", ""); return code == 200 })
	eventually(t, "policies and roles are in effect", func() bool {
		first, _ := r.send(t, "dana", "POST", claims+"?dryRun=All", jsonType, claim("x", "dev", ""))
		second, _ := r.send(t, "rob", "POST", claims+"?dryRun=All", jsonType, claim("x", "dev", ""))
		return first == http.StatusCreated && second == http.StatusCreated
	})

	eventually(t, "the version of widgets is known", func() bool {
		code, _ := r.send(t, "dana", "POST", widgetsV2+"?dryRun=All", jsonType, widget("v2", "x", "2"))
		return code == http.StatusCreated
	})

	for i, row := range requests {
		name := row.name
		if name == "" {
			name = fmt.Sprintf("%d %s %s", i, row.user, row.method)
		}
		r.proxy.reset()
		code, answer := r.send(t, row.user, row.method, row.path, row.contentType, row.body)
		calls := r.proxy.calls()
		if code != row.code || (len(calls) > 0) != row.called || !strings.Contains(answer, row.message) {
			t.Errorf("%s: got %d after %d calls: %.600s\nwant %d, the inner door called: %t (%s)", name, code, len(calls), answer, row.code, row.called, row.message)
		}
		if row.name != "" && len(calls) > 0 && os.Getenv("PROVISO_RECORD") != "" {
			record(t, recordDir, row.name, r.proxy.bodies[0])
			record(t, recordFrontDoorDir, row.name, r.proxy.questions[0])
		}
	}
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
	eventually(t, "the status says again that the policy is enforced", func() bool {
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
