/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package templatetable has, for each template of artifacts/templates, the requests that it is meant for and the ways to step around it,
// with their outcomes on clusters with the front door and on managed clusters. docs/templates.md shows them.
package templatetable

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Template is a folder of artifacts/templates.
type Template struct {
	// Name is the name of the folder.
	Name string
	// Managed says in a few words where the template holds on a cluster without the front door.
	Managed string
	// As is the user that the template is for.
	As *user.DefaultInfo
	// Setup has the objects that the requests need, in YAML.
	Setup string
	// Steps are requests of an administrator after Setup.
	Steps []Row
	// Rows are the requests. They are sent in this order.
	Rows []Row
}

// method is a method of HTTP, with the media type of the body.
type method struct{ name, contentType string }

var (
	get       = method{name: http.MethodGet}
	post      = method{http.MethodPost, "application/json"}
	put       = method{http.MethodPut, "application/json"}
	remove    = method{name: http.MethodDelete}
	merge     = method{http.MethodPatch, "application/merge-patch+json"}
	jsonPatch = method{http.MethodPatch, "application/json-patch+json"}
	strategic = method{http.MethodPatch, "application/strategic-merge-patch+json"}
	apply     = method{http.MethodPatch, "application/apply-patch+yaml"}
)

// Row is a request.
type Row struct {
	// What says in a few words what the request does.
	What       string
	method     method
	path, body string
	// command has the arguments of kubectl for a request that kubectl makes. method, path and body are unset then.
	command []string
	// As is the user, or nil for the user of the template.
	As *user.DefaultInfo
	// By names the policy that refuses the request, also if RBAC allows the user everything. It is empty if the request passes.
	By string
	// Role says that no barrier refuses the request on a managed cluster, and that the role of the template does not grant it.
	Role bool
	// Budget says that a PodDisruptionBudget refuses the request where no policy does.
	Budget bool
	// once says that the request cannot be a dry run.
	once bool
	// review says that an administrator asks by a review whether the user may do it. It is refused if the review does not allow it.
	review bool
}

// passes returns a request that passes.
func passes(what string, m method, path, body string) Row {
	return Row{What: what, method: m, path: path, body: body}
}

// refused returns a request that a policy refuses on every cluster.
func refused(by, what string, m method, path, body string) Row {
	return Row{What: what, method: m, path: path, body: body, By: by}
}

// passesByKubectl returns the row of a command of kubectl that passes.
func passesByKubectl(args ...string) Row {
	return Row{What: "`kubectl " + strings.Join(args, " ") + "`", command: args}
}

// refusedByKubectl returns the row of a command of kubectl that a policy refuses on every cluster.
func refusedByKubectl(by string, args ...string) Row {
	row := passesByKubectl(args...)
	row.By = by
	return row
}

// byRole returns the row of a request that only the role keeps from passing on a managed cluster.
func (r Row) byRole() Row {
	r.Role = true
	return r
}

// byBudget returns the row of a request that a PodDisruptionBudget refuses if no policy does.
func (r Row) byBudget() Row {
	r.Budget, r.once = true, true
	return r
}

// isNoDryRun returns the row of a connection, or a command of kubectl, for which there is no dry run.
func (r Row) isNoDryRun() Row {
	r.once = true
	return r
}

// asked returns the row of a review, for what the administrator cannot do as another user: impersonation.
func (r Row) asked() Row {
	r.review = true
	return r
}

// as returns the row as another user sends it.
func (r Row) as(u *user.DefaultInfo) Row {
	r.As = u
	return r
}

// Outcome returns what happens to the request, with the front door or on a managed cluster without it, as the document shows it.
func (r *Row) Outcome(frontDoor bool) string {
	switch {
	case r.By == "" && r.Budget, !frontDoor && r.Budget:
		return "refused by the PodDisruptionBudget"
	case r.By == "":
		return "passes"
	case !frontDoor && r.Role:
		return "refused by the role"
	default:
		return "refused by `" + r.By + "`"
	}
}

// person returns a user.
func person(name string, groups ...string) *user.DefaultInfo {
	return &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}
}

// serviceAccount returns a service account as kube-apiserver knows it.
func serviceAccount(namespace, name string) *user.DefaultInfo {
	return person("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
}
