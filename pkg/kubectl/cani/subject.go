/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// subject is the user of --as, about whom the caller asks.
type subject struct{ user.DefaultInfo }

// subjectOf returns the user that a server would impersonate, with the groups that the server adds.
func subjectOf(as *rest.ImpersonationConfig) *subject {
	s := &subject{user.DefaultInfo{Name: as.UserName, UID: as.UID, Groups: slices.Clone(as.Groups), Extra: map[string][]string{}}}
	for key, values := range as.Extra {
		s.Extra[strings.ToLower(key)] = values // as the names of the headers are
	}
	if namespace, _, err := serviceaccount.SplitUsername(s.Name); err == nil && len(s.Groups) == 0 {
		s.Groups = serviceaccount.MakeGroupNames(namespace)
	}
	group := user.AllAuthenticated
	if s.Name == user.Anonymous || slices.Contains(s.Groups, user.AllUnauthenticated) {
		group = user.AllUnauthenticated
	}
	if !slices.Contains(s.Groups, group) {
		s.Groups = append(s.Groups, group)
	}
	return s
}

// spec returns the part of a SubjectAccessReview that describes the user.
func (s *subject) spec() authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: s.Name, UID: s.UID, Groups: s.Groups}
	for key, values := range s.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	return spec
}

// userInfo returns the user as conditions see it.
func (s *subject) userInfo() *authenticationv1.UserInfo {
	info := &authenticationv1.UserInfo{Username: s.Name, UID: s.UID, Groups: s.Groups}
	for key, values := range s.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// errReview adds what the caller needs to an error of a review about a user.
func (s *subject) errReview(err error) error {
	if s != nil && apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: to ask about another user, you need the ClusterRole proviso:reviewer", err)
	}
	return err
}
