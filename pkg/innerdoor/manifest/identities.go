/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package manifest

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Identities are the users, and the members of groups, about whom kube-apiserver does not ask Proviso, at either door.
type Identities struct {
	// Users are names of users.
	Users []string `json:"users,omitempty"`
	// Groups are names of groups.
	Groups []string `json:"groups,omitempty"`
}

// DefaultIdentities are Proviso itself, which runs in a namespace, nodes and the control plane. They must go on without Proviso.
func DefaultIdentities(namespace string) Identities {
	return Identities{
		Users: []string{
			"system:serviceaccount:" + namespace + ":proviso-apiserver",
			user.KubeScheduler, user.KubeControllerManager, user.KubeProxy, user.APIServerUser,
		},
		Groups: []string{user.NodesGroup, "system:serviceaccounts:kube-system"},
	}
}

// expression returns a CEL expression that is true for a request by another identity. name and groups are expressions for
// the user's name and groups. groups is only read if present is true.
func (i Identities) expression(name, groups, present string) string {
	return "!(" + name + " in " + listOf(i.Users) + ") && !(" + present + " && " + groups + ".exists(g, g in " + listOf(i.Groups) + "))"
}

// listOf writes a list of texts in CEL. It keeps their order.
func listOf(texts []string) string {
	quoted := make([]string, 0, len(texts))
	for _, text := range texts {
		quoted = append(quoted, strconv.Quote(text))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// withPrivileged adds the group that kube-apiserver always allows, and asks no authorizer about.
func (i Identities) withPrivileged() Identities {
	return Identities{Users: i.Users, Groups: append(slices.Clone(i.Groups), user.SystemPrivilegedGroup)}
}

// LeavesOut reports whether the manifest leaves out a user. The front door must let no write of such a user pass on conditions, because
// the inner door is not called for it. It returns true for nil.
func (c Config) LeavesOut(u user.Info) bool {
	if u == nil {
		return true
	}
	identities := c.withDefaults().Identities.withPrivileged()
	//guard:manifest-groups-left-out
	return slices.Contains(identities.Users, u.GetName()) ||
		slices.ContainsFunc(u.GetGroups(), func(group string) bool { return slices.Contains(identities.Groups, group) })
}
