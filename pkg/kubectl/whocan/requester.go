/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// requester is a subject as a user that makes a request.
type requester struct {
	subject rbacv1.Subject
	user    *user.DefaultInfo
}

// normalized returns a subject that is the same for the same users: a service account is never a user.
func normalized(s rbacv1.Subject) rbacv1.Subject {
	if s.Kind == rbacv1.UserKind {
		if namespace, name, err := serviceaccount.SplitUsername(s.Name); err == nil {
			return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
		}
	}
	if s.Kind != rbacv1.ServiceAccountKind {
		s.Namespace = ""
	}
	s.APIGroup = ""
	return s
}

// requesterOf returns a user with the groups that every such user has. Its other groups are not known.
func requesterOf(s rbacv1.Subject) requester {
	r := requester{subject: s, user: &user.DefaultInfo{Name: s.Name}}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		r.user.Name = serviceaccount.MakeUsername(s.Namespace, s.Name)
		//guard:who-can-groups-service-accounts
		r.user.Groups = append(serviceaccount.MakeGroupNames(s.Namespace), user.AllAuthenticated)
	case rbacv1.GroupKind:
		r.user = &user.DefaultInfo{Groups: groupsOfMembers(s.Name)}
	default:
		r.user.Groups = []string{user.AllAuthenticated}
		if s.Name == user.Anonymous {
			r.user.Groups = []string{user.AllUnauthenticated}
		}
	}
	return r
}

// groupsOfMembers returns the groups that every member of a group has.
func groupsOfMembers(group string) []string {
	groups := []string{group}
	if strings.HasPrefix(group, serviceaccount.ServiceAccountGroupPrefix) {
		groups = append(groups, serviceaccount.AllServiceAccountsGroup)
	}
	if group != user.AllAuthenticated && group != user.AllUnauthenticated {
		groups = append(groups, user.AllAuthenticated)
	}
	return groups
}

// requestersOf returns each subject of some lists once, in the order of kinds, namespaces and names.
func requestersOf(lists ...[]rbacv1.Subject) []requester {
	var subjects []rbacv1.Subject
	for _, list := range lists {
		for _, s := range list {
			subjects = append(subjects, normalized(s))
		}
	}
	slices.SortFunc(subjects, func(a, b rbacv1.Subject) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var requesters []requester
	for _, s := range slices.Compact(subjects) {
		requesters = append(requesters, requesterOf(s))
	}
	return requesters
}
