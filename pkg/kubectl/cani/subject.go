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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// subject is the user of --as, about whom the caller asks.
type subject struct{ authenticationv1.UserInfo }

// subjectOf returns the user that a server would impersonate, with the groups that the server adds.
func subjectOf(as *rest.ImpersonationConfig) *subject {
	s := &subject{authenticationv1.UserInfo{Username: as.UserName, UID: as.UID, Groups: slices.Clone(as.Groups)}}
	for key, values := range as.Extra {
		if s.Extra == nil {
			s.Extra = map[string]authenticationv1.ExtraValue{}
		}
		s.Extra[strings.ToLower(key)] = values // as the names of the headers are
	}
	if namespace, _, err := serviceaccount.SplitUsername(s.Username); err == nil && len(s.Groups) == 0 {
		s.Groups = serviceaccount.MakeGroupNames(namespace)
	}
	group := user.AllAuthenticated
	if s.Username == user.Anonymous || slices.Contains(s.Groups, user.AllUnauthenticated) {
		group = user.AllUnauthenticated
	}
	if !slices.Contains(s.Groups, group) {
		s.Groups = append(s.Groups, group)
	}
	return s
}

// errReview adds what the caller needs to an error of a review about a user.
func (s *subject) errReview(err error) error {
	if s != nil && apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: to ask about another user, you need the ClusterRole proviso:reviewer", err)
	}
	return err
}
