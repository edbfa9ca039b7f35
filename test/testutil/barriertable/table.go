/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package barriertable has Deny policies on resources that kube-apiserver serves, and requests of users whom RBAC allows them, with
// their outcomes.
package barriertable

import (
	_ "embed"
	"fmt"
	"net/http"
	"strings"
)

// Policies are the policies, in YAML.
//
//go:embed policies.yaml
var Policies string

// Setup has what the requests need, in YAML: namespaces, and roles that allow the users every request.
const Setup = `
apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: v1
kind: Namespace
metadata: {name: infra}
---
apiVersion: v1
kind: Namespace
metadata: {name: prod, labels: {tier: prod}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: barrier-table}
rules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: barrier-table}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: barrier-table}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: barrier-table}]
`

// The media types of patches.
const (
	Merge     = "application/merge-patch+json"
	JSONPatch = "application/json-patch+json"
	Apply     = "application/apply-patch+yaml"
)

// storedVersion stands for the resourceVersion of the stored object in a body.
const storedVersion = "{rv}"

// Row is a request.
type Row struct {
	// User is the user. The groups are "barrier-table" and Group, if it has one.
	User, Group string
	// Method is the method. Of a patch, ContentType says which one it is.
	Method, ContentType, Path, Body string
	// Stored is the path of an object, and Object is the object, which the administrator creates before the request. Both are empty if the request
	// needs none.
	Stored, Object string
	// Denied is the name of the policy that denies the request, with its namespace. It is empty for a request that is allowed, whose
	// answer has the code Code.
	Denied string
	Code   int
}

func (r *Row) String() string {
	return fmt.Sprintf("%s %s %s %s as %s %s", r.Method, r.ContentType, r.Path, r.Body, r.User, r.Group)
}

// Groups are the groups of the user.
func (r *Row) Groups() []string {
	groups := []string{"barrier-table", "system:authenticated"}
	if r.Group != "" {
		groups = append(groups, r.Group)
	}
	return groups
}

// builder makes rows, each with an object of its own.
type builder struct {
	rows []Row
}

// kind is a resource with objects.
type kind struct {
	// collection is the path of a collection.
	collection, apiVersion, kind string
	// body is an object without its metadata, as JSON without the outer braces.
	body string
}

func (k kind) object(name, metadata, body string) string {
	if metadata != "" {
		metadata = ", " + metadata
	}
	if body != "" {
		body = ", " + body
	}
	return fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": %q%s}%s}`, k.apiVersion, k.kind, name, metadata, body)
}

func (b *builder) name() string { return fmt.Sprintf("row-%d", len(b.rows)) }

// writes adds all ways in which a user creates or changes an object so that it becomes one: POST, PUT, three patches and a dry run.
func (b *builder) writes(user, group string, k kind, stored, metadata, body, denied string) {
	add := func(method, contentType, path, object, stored string, code int) {
		row := Row{User: user, Group: group, Method: method, ContentType: contentType, Path: path, Body: object, Denied: denied, Code: code}
		if stored != "" {
			row.Stored, row.Object = k.collection, stored
		}
		b.rows = append(b.rows, row)
	}
	name := b.name()
	add(http.MethodPost, "application/json", k.collection, k.object(name, metadata, body), "", http.StatusCreated)
	name = b.name()
	add(http.MethodPost, "application/json", k.collection+"?dryRun=All", k.object(name, metadata, body), "", http.StatusCreated)
	name = b.name()
	add(http.MethodPut, "application/json", k.collection+"/"+name, k.object(name, strings.TrimPrefix(metadata+`, "resourceVersion": "`+storedVersion+`"`, ", "), body), k.object(name, "", stored), http.StatusOK)
	name = b.name()
	patch := "{" + body + "}"
	if body == "" {
		patch = `{"metadata": {` + metadata + "}}"
	}
	add(http.MethodPatch, Merge, k.collection+"/"+name, patch, k.object(name, "", stored), http.StatusOK)
	name = b.name()
	add(http.MethodPatch, Apply, k.collection+"/"+name+"?fieldManager=table&force=true", k.object(name, metadata, body), k.object(name, "", stored), http.StatusOK)
	name = b.name()
	add(http.MethodPatch, Apply, k.collection+"/"+name+"?fieldManager=table", k.object(name, metadata, body), "", http.StatusCreated)
}

// changes adds all ways in which a user changes or deletes an object that has metadata.
func (b *builder) changes(user, group string, k kind, metadata, body, denied string, verbs ...string) {
	for _, verb := range verbs {
		name := b.name()
		stored := k.object(name, metadata, body)
		row := Row{User: user, Group: group, Path: k.collection + "/" + name, Stored: k.collection, Object: stored, Denied: denied, Code: http.StatusOK}
		switch verb {
		case "put":
			row.Method, row.ContentType, row.Body = http.MethodPut, "application/json", k.object(name, `"labels": {"changed": "true"}`, body)
		case "merge":
			row.Method, row.ContentType, row.Body = http.MethodPatch, Merge, `{"metadata": {"labels": null}}`
		case "json":
			row.Method, row.ContentType, row.Body = http.MethodPatch, JSONPatch, `[{"op": "add", "path": "/metadata/finalizers", "value": []}]`
		case "apply":
			row.Method, row.ContentType, row.Path, row.Body = http.MethodPatch, Apply, row.Path+"?fieldManager=table&force=true", k.object(name, `"labels": {"changed": "true"}`, "")
		case "delete":
			row.Method = http.MethodDelete
		case "delete dry":
			row.Method, row.Path = http.MethodDelete, row.Path+"?dryRun=All"
		case "collection":
			row.Method, row.Path = http.MethodDelete, k.collection+"?fieldSelector=metadata.name="+name
		}
		b.rows = append(b.rows, row)
	}
}

// Rows returns the requests. They do not depend on each other.
func Rows() []Row {
	b := &builder{}
	in := func(namespace, resource, apiVersion, name, body string) kind {
		prefix := "/api/" + apiVersion
		if strings.Contains(apiVersion, "/") {
			prefix = "/apis/" + apiVersion
		}
		return kind{collection: prefix + "/namespaces/" + namespace + "/" + resource, apiVersion: apiVersion, kind: name, body: body}
	}
	secrets := in("demo", "secrets", "v1", "Secret", "")
	every := []string{"put", "merge", "json", "apply", "delete", "delete dry", "collection"}
	b.changes("ada", "", secrets, `"labels": {"tier": "prod"}`, `"stringData": {"password": "hidden-value"}`, "prod-secrets", every...)
	b.changes("ada", "release-managers", secrets, `"labels": {"tier": "prod"}`, "", "", every...)
	b.changes("ada", "", secrets, `"labels": {"tier": "dev"}`, "", "", every...)
	b.changes("ada", "", secrets, "", "", "", "put", "delete")
	b.writes("ada", "", secrets, "", `"labels": {"tier": "prod"}`, "", "")

	const container = `"containers": [{"name": "c", "image": "i"}]`
	pods, infra := in("demo", "pods", "v1", "Pod", ""), in("infra", "pods", "v1", "Pod", "")
	create := func(user string, k kind, body, denied string) {
		for _, query := range []string{"", "?dryRun=All"} {
			b.rows = append(b.rows, Row{User: user, Method: http.MethodPost, ContentType: "application/json", Path: k.collection + query, Body: k.object(b.name(), "", body), Denied: denied, Code: http.StatusCreated})
		}
		name := b.name()
		b.rows = append(b.rows, Row{User: user, Method: http.MethodPatch, ContentType: Apply, Path: k.collection + "/" + name + "?fieldManager=table", Body: k.object(name, "", body), Denied: denied, Code: http.StatusCreated})
	}
	create("ada", pods, `"spec": {"hostNetwork": true, `+container+"}", "no-host-network")
	create("ada", pods, `"spec": {"hostNetwork": false, `+container+"}", "")
	create("ada", pods, `"spec": {`+container+"}", "")
	create("ada", infra, `"spec": {"hostNetwork": true, `+container+"}", "")
	b.changes("ada", "", pods, `"labels": {"a": "b"}`, `"spec": {"hostNetwork": true, `+container+"}", "no-host-network", "put", "merge", "json")
	b.changes("ada", "", pods, `"labels": {"a": "b"}`, `"spec": {"hostNetwork": true, `+container+"}", "", "delete", "delete dry")

	for _, subresource := range []string{"exec?command=sh", "attach?stdin=true"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for namespace, denied := range map[string]string{"prod": "no-shell-in-prod", "demo": ""} {
				b.rows = append(b.rows, Row{User: "ada", Method: method, Path: "/api/v1/namespaces/" + namespace + "/pods/none/" + subresource, Denied: denied, Code: http.StatusNotFound})
			}
		}
	}

	settings, others := in("infra", "configmaps", "v1", "ConfigMap", ""), in("demo", "configmaps", "v1", "ConfigMap", "")
	for _, k := range []kind{settings, others} {
		denied := ""
		if k.collection == settings.collection {
			denied = "infra/keep-settings"
		}
		b.rows = append(b.rows,
			Row{User: "ada", Method: http.MethodDelete, Path: k.collection + "/settings?dryRun=All", Stored: k.collection, Object: k.object("settings", "", ""), Denied: denied, Code: http.StatusOK},
			Row{User: "ada", Method: http.MethodPatch, ContentType: Merge, Path: k.collection + "/settings", Body: `{"data": {"a": "b"}}`, Code: http.StatusOK},
		)
	}
	b.changes("ada", "", others, `"annotations": {"owner": "bob"}`, "", "owners-delete", "delete", "delete dry", "collection")
	b.changes("bob", "", others, `"annotations": {"owner": "bob"}`, "", "", "delete", "delete dry", "collection")
	b.changes("ada", "", others, "", "", "", "delete", "collection")
	b.changes("ada", "", others, `"annotations": {"owner": "bob"}`, "", "", "put", "merge", "apply")

	deployment := func(replicas string) string {
		return `"spec": {` + replicas + `"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {` + container + `}}}`
	}
	deployments := in("demo", "deployments", "apps/v1", "Deployment", "")
	b.writes("ada", "", deployments, deployment(""), "", deployment(`"replicas": 4, `), "few-replicas")
	b.writes("ada", "", deployments, deployment(""), "", deployment(`"replicas": 3, `), "")
	for replicas, denied := range map[string]string{"9": "few-replicas", "2": ""} {
		name := b.name()
		b.rows = append(b.rows, Row{
			User: "ada", Method: http.MethodPatch, ContentType: Merge, Path: deployments.collection + "/" + name + "/scale", Body: `{"spec": {"replicas": ` + replicas + `}}`,
			Stored: deployments.collection, Object: deployments.object(name, "", deployment("")), Denied: denied, Code: http.StatusOK,
		})
	}

	services := in("demo", "services", "v1", "Service", "")
	const balancer, clusterIP = `"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}`, `"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}`
	b.writes("mallory", "", services, clusterIP, "", balancer, "no-load-balancers-for-mallory")
	b.writes("ada", "", services, clusterIP, "", balancer, "")

	namespaces := kind{collection: "/api/v1/namespaces", apiVersion: "v1", kind: "Namespace"}
	b.changes("ada", "", namespaces, `"labels": {"protected": "true"}`, "", "protected-namespaces", "delete", "delete dry")
	b.changes("ada", "", namespaces, `"labels": {"protected": "false"}`, "", "", "delete dry", "merge")

	claims := in("demo", "persistentvolumeclaims", "v1", "PersistentVolumeClaim", "")
	claim := func(size string) string {
		return `"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "` + size + `"}}}`
	}
	create("ada", claims, claim("11Gi"), "small-claims")
	create("ada", claims, claim("10240Mi"), "")

	roles := kind{collection: "/apis/rbac.authorization.k8s.io/v1/clusterroles", apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole"}
	b.writes("ada", "", roles, `"rules": []`, "", `"rules": [{"verbs": ["*"], "apiGroups": ["example.com"], "resources": ["things"]}]`, "no-wildcards")
	b.writes("ada", "", roles, `"rules": []`, "", `"rules": [{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]}]`, "")

	leases := in("demo", "leases", "coordination.k8s.io/v1", "Lease", "")
	b.writes("ada", "", leases, "", `"labels": {"team": "red"}`, "", "")
	b.writes("ada", "", leases, "", `"labels": {"team": "blue"}`, "", "team-of-leases")
	b.writes("ada", "", leases, "", `"labels": {"other": "red"}`, "", "team-of-leases") // an error
	b.changes("ada", "", leases, `"labels": {"team": "blue"}`, "", "team-of-leases", "delete", "collection")
	b.changes("ada", "", leases, `"labels": {"team": "red"}`, "", "", "delete", "collection")
	return b.rows
}
