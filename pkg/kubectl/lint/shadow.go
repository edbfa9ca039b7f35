/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package lint

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// maxRequests bounds the requests with which one policy is compared with the others. A policy that describes more is not compared.
const maxRequests = 2000

// other is the name of a user that no policy names.
var other = string(uuid.NewUUID())

// isUnconditional reports whether a policy decides all requests that it matches, for all objects.
func isUnconditional(p *policyfile.Policy) bool {
	return p.Spec.Condition == "" && p.Spec.Enforcement != policyv1alpha1.PolicyEnforcementAudit
}

// find returns the policies that decide all requests of a policy before it, or as it does. It returns none if some request is not
// decided, or if the policy decides nothing itself.
func (l *linter) find(ctx context.Context, p *policyfile.Policy) ([]string, error) {
	requests := requestsOf(p)
	if p.Spec.Enforcement == policyv1alpha1.PolicyEnforcementAudit || len(requests) == 0 || len(requests) > maxRequests {
		return nil, nil
	}
	specs := map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}
	for i := range l.policies {
		by := &l.policies[i]
		if by.Key == p.Key || !isUnconditional(by) || !isAsStrong(by.Spec.Effect, p.Spec.Effect) {
			continue
		}
		if by.Spec.Effect == p.Spec.Effect && isUnconditional(p) && p.Key.Compare(by.Key) < 0 {
			// Of two policies about the same requests only the later one is reported.
			isSame, err := l.covers(ctx, map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{p.Key: p.Spec}, requestsOf(by))
			if err != nil {
				return nil, err
			}
			if isSame != nil {
				continue
			}
		}
		specs[by.Key] = by.Spec
	}
	return l.covers(ctx, specs, requests)
}

// isAsStrong reports whether a policy with one effect and no condition leaves nothing to decide to a policy with another effect.
func isAsStrong(by, than policyv1alpha1.PolicyEffect) bool {
	return by == policyv1alpha1.PolicyEffectDeny || by == than || by == policyv1alpha1.PolicyEffectNoOpinion && than == policyv1alpha1.PolicyEffectAllow
}

// covers returns the policies that decide these requests, or none if they do not decide all of them.
func (l *linter) covers(ctx context.Context, specs map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec, requests []*simulation.Request) (names []string, err error) {
	if len(specs) == 0 || len(requests) == 0 {
		return nil, nil
	}
	source, err := l.compilers.SourceOf(specs)
	if err != nil {
		return nil, err
	}
	for _, r := range requests {
		decisions, err := l.compilers.Decide(ctx, source, r)
		if err != nil {
			return nil, err
		}
		decided := false
		for _, entry := range decisions.Entries {
			if entry.Word != authorization.WordAllowed && entry.Word != authorization.WordDenied && entry.Word != authorization.WordHeldBack {
				continue
			}
			decided = true
			if name := strings.TrimPrefix(entry.Name, "policy="); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if !decided {
			return nil, nil
		}
	}
	slices.Sort(names)
	return names, nil
}

// requestsOf returns requests that stand for all requests that a policy matches: one for each user, verb, resource, version and name in
// it. A wildcard in the policy is a wildcard in the request, which only wildcards match.
func requestsOf(p *policyfile.Policy) (requests []*simulation.Request) {
	for _, u := range usersOf(p.Spec) {
		for i := range p.Spec.Rules {
			rule := &p.Spec.Rules[i]
			for _, verb := range rule.Verbs {
				for _, path := range rule.NonResourceURLs {
					requests = append(requests, requestOf(u, nil, &authorizationv1.NonResourceAttributes{Verb: verb, Path: path}))
				}
				for _, a := range resourcesOf(p.Key.Namespace, verb, rule) {
					if requests = append(requests, requestOf(u, &a, nil)); len(requests) > maxRequests {
						return requests
					}
				}
			}
		}
	}
	return requests
}

func requestOf(u user.DefaultInfo, a *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) *simulation.Request {
	return &simulation.Request{Spec: &authorizationv1alpha1.SubjectAccessReviewSpec{User: u.Name, Groups: u.Groups, ResourceAttributes: a, NonResourceAttributes: path}}
}

// resourcesOf returns the requests for resources of a rule with one verb. Without a namespace, a request matches no policy of a namespace.
func resourcesOf(namespace, verb string, rule *policyv1alpha1.PolicyRule) (found []authorizationv1.ResourceAttributes) {
	versions, names := rule.APIVersions, rule.ResourceNames
	if len(versions) == 0 {
		versions = []string{"*"}
	}
	if len(names) == 0 {
		names = []string{""} // matches no policy about some names
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			resource, subresource, _ := strings.Cut(resource, "/")
			for _, version := range versions {
				for _, name := range names {
					found = append(found, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Version: version, Resource: resource, Subresource: subresource, Name: name})
					if len(found) > maxRequests {
						return found
					}
				}
			}
		}
	}
	return found
}

// usersOf returns a user for each subject.
func usersOf(s *policyv1alpha1.AuthorizationPolicySpec) (users []user.DefaultInfo) {
	if len(s.Subjects) == 0 {
		users = append(users, user.DefaultInfo{Name: other})
		if s.Effect != policyv1alpha1.PolicyEffectAllow {
			users = append(users, user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}})
		}
		return users
	}
	for _, subject := range s.Subjects {
		switch subject.Kind {
		case rbacv1.GroupKind:
			u := user.DefaultInfo{Name: other, Groups: []string{subject.Name}}
			if subject.Name == user.AllUnauthenticated {
				u.Name = user.Anonymous
			}
			users = append(users, u)
		case rbacv1.ServiceAccountKind:
			users = append(users, user.DefaultInfo{Name: serviceaccount.MakeUsername(subject.Namespace, subject.Name)})
		default:
			users = append(users, user.DefaultInfo{Name: subject.Name})
		}
	}
	return users
}
