/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render_test

import "net/http"

// user is a user whom RBAC allows everything, except for the admin, with an empty name.
type user struct {
	name   string
	groups []string
}

var (
	alice    = user{name: "alice", groups: []string{"developers"}}
	releaser = user{name: "rita", groups: []string{"developers", "release-managers"}}
	lead     = user{name: "lea", groups: []string{"team-a-leads"}}
	control  = user{name: "system:serviceaccount:kube-system:replicaset-controller", groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}}
	master   = user{}
)

// row is a request, and its outcome.
type row struct {
	name         string
	user         user
	method, path string
	body         string
	// code is the status code of the answer. A row with a refusal needs none: it is 403.
	code int
	// refusal is in the message of a refusal by a barrier, and warning in the warning of a barrier of a policy in Audit.
	refusal, warning string
}

const (
	secretsRefusal = "policy=prod-secrets reason=Denied: secrets of the tier prod stay as they are"
	networkRefusal = "policy=host-network reason=Denied: no host network outside the namespace infra"
	shellRefusal   = "policy=no-shell reason=Denied: no shell in namespaces of the tier prod"
	lockedRefusal  = "policy=team-a/locked-settings reason=Denied: only team leads change locked settings"
	ownedWarning   = "policy=team-a/owned-services reason=Denied: every Service names its owner"

	podTemplate = `"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "c"}]`
)

// pod returns a pod. The field is one of its spec, or empty.
func pod(name, field string) string {
	return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "` + name + `"}, "spec": {` + field + `"containers": [{"name": "c", "image": "c"}]}}`
}

func deployment(name, field string) string {
	return `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "` + name + `"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": ` +
		`{"metadata": {"labels": {"a": "b"}}, "spec": {` + field + `"containers": [{"name": "c", "image": "c"}]}}}}`
}

func configMap(name, label string) string {
	return `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "` + name + `", "labels": {"locked": "` + label + `"}}}`
}

const hostNetwork = `"hostNetwork": true, `

// table has requests with the outcome that the policies of artifacts/render give them. Those before can change what those after find.
var table = []row{
	{name: "delete a prod secret", user: alice, method: http.MethodDelete, path: "/api/v1/namespaces/team-a/secrets/prod", refusal: secretsRefusal},
	{name: "patch a prod secret", user: alice, method: http.MethodPatch, path: "/api/v1/namespaces/team-a/secrets/prod", body: `{"data": {"a": "Yg=="}}`, refusal: secretsRefusal},
	{name: "take the label away", user: alice, method: http.MethodPatch, path: "/api/v1/namespaces/team-a/secrets/prod", body: `{"metadata": {"labels": null}}`, refusal: secretsRefusal},
	{name: "put a prod secret", user: alice, method: http.MethodPut, path: "/api/v1/namespaces/team-a/secrets/prod",
		body: `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "prod"}}`, refusal: secretsRefusal},
	{name: "delete all secrets", user: alice, method: http.MethodDelete, path: "/api/v1/namespaces/team-a/secrets?labelSelector=tier%3Dprod", refusal: secretsRefusal},
	{name: "delete dev secrets", user: alice, method: http.MethodDelete, path: "/api/v1/namespaces/team-a/secrets?labelSelector=tier%3Ddev", code: 200},
	{name: "read a prod secret", user: alice, method: http.MethodGet, path: "/api/v1/namespaces/team-a/secrets/prod", code: 200},
	{name: "create a prod secret", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-a/secrets",
		body: `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new", "labels": {"tier": "prod"}}}`, code: 201},
	{name: "delete the created prod secret", user: alice, method: http.MethodDelete, path: "/api/v1/namespaces/team-a/secrets/new", refusal: secretsRefusal},
	{name: "patch a plain secret", user: alice, method: http.MethodPatch, path: "/api/v1/namespaces/team-a/secrets/plain", body: `{"data": {"a": "Yg=="}}`, code: 200},
	{name: "a release manager patches a prod secret", user: releaser, method: http.MethodPatch, path: "/api/v1/namespaces/team-a/secrets/prod", body: `{"data": {"a": "Yg=="}}`, code: 200},
	{name: "a release manager deletes a prod secret", user: releaser, method: http.MethodDelete, path: "/api/v1/namespaces/team-a/secrets/new", code: 200},
	{name: "a controller deletes a prod secret", user: control, method: http.MethodDelete, path: "/api/v1/namespaces/team-a/secrets/old", code: 200},

	{name: "a pod with the host network", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-a/pods", body: pod("host", hostNetwork), refusal: networkRefusal},
	{name: "a pod without", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-a/pods", body: pod("other", ""), code: 201},
	{name: "a pod that says false", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-a/pods", body: pod("false", `"hostNetwork": false, `), code: 201},
	{name: "a pod of infra", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/infra/pods", body: pod("host", hostNetwork), code: 201},
	{name: "a controller creates a pod", user: control, method: http.MethodPost, path: "/api/v1/namespaces/team-a/pods", body: pod("made", hostNetwork), code: 201},
	{name: "a label of a pod with the host network", user: alice, method: http.MethodPatch, path: "/api/v1/namespaces/team-a/pods/made", body: `{"metadata": {"labels": {"a": "b"}}}`, refusal: networkRefusal},
	{name: "delete a pod with the host network", user: alice, method: http.MethodDelete, path: "/api/v1/namespaces/team-a/pods/made?gracePeriodSeconds=0", code: 200},
	{name: "a Deployment with the host network", user: alice, method: http.MethodPost, path: "/apis/apps/v1/namespaces/team-a/deployments", body: deployment("host", hostNetwork), refusal: networkRefusal},
	{name: "a Deployment without", user: alice, method: http.MethodPost, path: "/apis/apps/v1/namespaces/team-a/deployments", body: deployment("other", ""), code: 201},
	{name: "a Deployment that gets it", user: alice, method: http.MethodPatch, path: "/apis/apps/v1/namespaces/team-a/deployments/other",
		body: `{"spec": {"template": {"spec": {"hostNetwork": true}}}}`, refusal: networkRefusal},
	{name: "a Deployment by apply", user: alice, method: apply, path: "/apis/apps/v1/namespaces/team-a/deployments/applied?fieldManager=a", body: deployment("applied", hostNetwork), refusal: networkRefusal},
	{name: "a Deployment of infra", user: alice, method: http.MethodPost, path: "/apis/apps/v1/namespaces/infra/deployments", body: deployment("host", hostNetwork), code: 201},
	{name: "a Job with the host network", user: alice, method: http.MethodPost, path: "/apis/batch/v1/namespaces/team-a/jobs",
		body: `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "host"}, "spec": {"template": {` + podTemplate + `, "restartPolicy": "Never"}}}}`, refusal: networkRefusal},

	{name: "a shell in prod", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/shop/pods/web/exec?command=sh&stdout=true", refusal: shellRefusal},
	{name: "a shell in prod by GET", user: alice, method: http.MethodGet, path: "/api/v1/namespaces/shop/pods/web/exec?command=sh&stdout=true", refusal: shellRefusal},
	{name: "attach in prod", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/shop/pods/web/attach?stdout=true", refusal: shellRefusal},
	{name: "a shell elsewhere, of a pod without a node", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-a/pods/web/exec?command=sh&stdout=true", code: 400},
	{name: "a shell in prod by the admin", user: master, method: http.MethodPost, path: "/api/v1/namespaces/shop/pods/web/exec?command=sh&stdout=true", code: 400},

	{name: "change locked settings", user: alice, method: http.MethodPatch, path: "/api/v1/namespaces/team-a/configmaps/locked", body: `{"data": {"a": "b"}}`, refusal: lockedRefusal},
	{name: "unlock settings", user: alice, method: http.MethodPatch, path: "/api/v1/namespaces/team-a/configmaps/locked", body: `{"metadata": {"labels": null}}`, refusal: lockedRefusal},
	{name: "lock settings", user: alice, method: http.MethodPatch, path: "/api/v1/namespaces/team-a/configmaps/open", body: `{"metadata": {"labels": {"locked": "true"}}}`, refusal: lockedRefusal},
	{name: "create locked settings", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-a/configmaps", body: configMap("new", "true"), refusal: lockedRefusal},
	{name: "create open settings", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-a/configmaps", body: configMap("new", "false"), code: 201},
	{name: "create settings by a PUT", user: alice, method: http.MethodPut, path: "/api/v1/namespaces/team-a/configmaps/missing", body: configMap("missing", "true"), code: 404},
	{name: "delete locked settings", user: alice, method: http.MethodDelete, path: "/api/v1/namespaces/team-a/configmaps/locked", refusal: lockedRefusal},
	{name: "a lead changes locked settings", user: lead, method: http.MethodPatch, path: "/api/v1/namespaces/team-a/configmaps/locked", body: `{"data": {"a": "b"}}`, code: 200},
	{name: "locked settings of another namespace", user: alice, method: http.MethodDelete, path: "/api/v1/namespaces/team-b/configmaps/locked", code: 200},

	{name: "a Service without an owner", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-a/services",
		body: `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}`, code: 201, warning: ownedWarning},
	{name: "a Service with an owner", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-a/services",
		body: `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b", "labels": {"owner": "alice"}}, "spec": {"ports": [{"port": 80}]}}`, code: 201},
	{name: "a Service of another namespace", user: alice, method: http.MethodPost, path: "/api/v1/namespaces/team-b/services",
		body: `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}`, code: 201},

	{name: "the admin deletes a prod secret", user: master, method: http.MethodDelete, path: "/api/v1/namespaces/team-a/secrets/prod", code: 200},
}
