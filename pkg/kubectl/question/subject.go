/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package question

import (
	"context"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// AsCaller returns a configuration with which the caller asks about the user of --as, and the user. Without --as both are as before, and nil: a user in the
// kubeconfig is the one who asks. The flags make clients of the caller, too.
func AsCaller(flags *genericclioptions.ConfigFlags, config *rest.Config) (*rest.Config, *authenticationv1.UserInfo) {
	if ptr.Deref(flags.Impersonate, "") == "" {
		return config, nil
	}
	subject := subjectOf(&config.Impersonate)
	withoutImpersonation := func(config *rest.Config) *rest.Config {
		config = rest.CopyConfig(config)
		config.Impersonate = rest.ImpersonationConfig{}
		return config
	}
	flags.WithWrapConfigFn(withoutImpersonation) // for discovery
	return withoutImpersonation(config), subject
}

// SubjectWithoutServer returns the user of --as and of the flags beside it, or nil. No kubeconfig is read.
func SubjectWithoutServer(flags *genericclioptions.ConfigFlags) *authenticationv1.UserInfo {
	as := &rest.ImpersonationConfig{UserName: ptr.Deref(flags.Impersonate, ""), UID: ptr.Deref(flags.ImpersonateUID, ""), Groups: ptr.Deref(flags.ImpersonateGroup, nil)}
	if as.UserName == "" {
		return nil
	}
	as.Extra = map[string][]string{}
	for _, extra := range ptr.Deref(flags.ImpersonateUserExtra, nil) {
		key, value, _ := strings.Cut(extra, "=")
		as.Extra[key] = append(as.Extra[key], value)
	}
	return subjectOf(as)
}

// subjectOf returns the user that a server would impersonate, with the groups that the server adds.
func subjectOf(as *rest.ImpersonationConfig) *authenticationv1.UserInfo {
	s := &authenticationv1.UserInfo{Username: as.UserName, UID: as.UID, Groups: slices.Clone(as.Groups), Extra: map[string]authenticationv1.ExtraValue{}}
	for _, key := range slices.Sorted(maps.Keys(as.Extra)) {
		name := strings.ToLower(key) // as the names of the headers are
		s.Extra[name] = append(s.Extra[name], as.Extra[key]...)
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

// Self returns the user of a client.
func Self(ctx context.Context, client authenticationclient.SelfSubjectReviewsGetter) (*authenticationv1.UserInfo, error) {
	self, err := client.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &self.Status.UserInfo, nil
}
