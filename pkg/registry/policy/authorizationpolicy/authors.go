/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
	"github.com/proviso-authz/proviso/pkg/registry/virtual"
)

const (
	// verbEscalate lets a user write policies that allow more than the user's own permissions, as
	// in RBAC.
	verbEscalate = "escalate"
	// verbRestrict lets a user create, change and delete restrictions: policies with the effect
	// Deny or NoOpinion.
	verbRestrict = "restrict"
)

// MaxChecks bounds the checks by the authorizers for one write of an Allow policy. Each check can be
// a call to kube-apiserver, and a few hundred calls take a second. For larger policies the author
// needs the verb escalate.
const MaxChecks = 1024

// Authors decides which users may write policies, in addition to the permission for the request
// itself:
//
//   - The author of an Allow policy must be allowed to make every request that its rules describe, unconditionally,
//     or have the verb escalate on the policy. Permissions that depend on conditions, or that another policy
//     restricts in part, cannot be granted.
//   - The author who creates, changes or deletes a Deny or NoOpinion policy needs the verb restrict on it. A change
//     of the effect from Allow needs it, too, and a change to Allow needs it beside what an Allow policy needs.
//   - The author of a condition that makes checks for service accounts needs permission to create subjectaccessreviews: the answer to a request shows
//     what the check found. Service accounts of the namespace of an AuthorizationPolicy need none.
//   - A change that leaves the specification as it is needs none of these. It can complete a deletion by removing the last
//     finalizer; the deletion was authorized when it was requested.
//
// A missing user, and an error or a Deny of the authorizers, refuse the write. NoOpinion counts as a missing permission.
type Authors struct {
	chain      authorizer.UnconditionalAuthorizer
	restricted Restricted
}

// Restricted returns the policy that restricts some of the requests that a check stands for, for the user in the
// check. It is needed because a chain answers a check of * only from policies that match every value, so
// that a Deny of one verb does not show in the answer.
type Restricted func(ctx context.Context, check authorizer.Attributes) (policy string, found bool)

var errNoChain = errors.New("the guard of policies needs a chain and a function for restrictions, without which every user could write every policy")

// NewAuthors returns Authors. The chain must decide as for requests, and must fold conditional
// decisions.
func NewAuthors(chain authorizer.UnconditionalAuthorizer, restricted Restricted) (*Authors, error) {
	if chain == nil || restricted == nil {
		return nil, errNoChain
	}
	return &Authors{chain: chain, restricted: restricted}, nil
}

// guard is the stored.Guard of one policy kind, ClusterAuthorizationPolicy or AuthorizationPolicy. Before a policy is
// written, it applies the rules of Authors to the user who writes it.
type guard struct {
	*Authors
	kind kind
	// checksForOthers is Checker.ChecksForOthers.
	checksForOthers func(spec *policy.AuthorizationPolicySpec, namespace string) bool
}

var _ stored.Guard = &guard{}

// MayCreate implements stored.Guard.
func (g *guard) MayCreate(ctx context.Context, obj runtime.Object) error {
	w, err := g.write(ctx, obj)
	if err != nil {
		return err
	}
	return w.mayWrite(isRestriction(w.policy))
}

// MayUpdate implements stored.Guard.
func (g *guard) MayUpdate(ctx context.Context, obj, old runtime.Object) error {
	w, err := g.write(ctx, obj)
	if err != nil {
		return err
	}
	before, err := partsOf(old)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if apiequality.Semantic.DeepEqual(w.policy.Spec, before.Spec) {
		return nil
	}
	//guard:policies-checks-others-changes
	return w.mayWrite(isRestriction(w.policy) || isRestriction(before))
}

// mayWrite returns an error unless the author may write the specification. restricts says that the write needs the verb restrict.
func (w *write) mayWrite(restricts bool) error {
	if err := w.need(restricts, !isRestriction(w.policy)); err != nil {
		return err
	}
	//guard:policies-checks-others
	if w.checksForOthers(w.policy.Spec, w.policy.Meta.Namespace) {
		return w.mayReview()
	}
	return nil
}

// MayDelete implements stored.Guard.
func (g *guard) MayDelete(ctx context.Context, obj runtime.Object) error {
	w, err := g.write(ctx, obj)
	if err != nil {
		return err
	}
	return w.need(isRestriction(w.policy), false)
}

// MayDeleteUnread implements stored.Guard. A policy that cannot be read may be a restriction.
func (g *guard) MayDeleteUnread(ctx context.Context, name string) error {
	obj := g.kind.newObject()
	p := mustParts(obj)
	p.Meta.Name = name
	if g.kind.namespaced {
		p.Meta.Namespace = genericapirequest.NamespaceValue(ctx)
	}
	w, err := g.write(ctx, obj)
	if err != nil {
		return err
	}
	return w.need(true, false)
}

// isRestriction reports whether a policy may restrict requests: its effect is not Allow.
func isRestriction(p parts) bool { return p.Spec.Effect != policy.PolicyEffectAllow }

// write is one write of a policy by its author.
type write struct {
	*guard
	//nolint:containedctx // lives for one request
	ctx    context.Context
	policy parts
	author user.Info
}

func (g *guard) write(ctx context.Context, obj runtime.Object) (*write, error) {
	p, err := partsOf(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	w := &write{guard: g, ctx: ctx, policy: p}
	author, ok := genericapirequest.UserFrom(ctx)
	if !ok || author == nil {
		return nil, w.forbidden("the request has no user")
	}
	w.author = author
	return w, nil
}

func (w *write) need(restrict, grant bool) error {
	if restrict {
		if err := w.mayRestrict(); err != nil {
			return err
		}
	}
	if grant {
		return w.mayGrant()
	}
	return nil
}

func (w *write) mayRestrict() error {
	answer, why := w.ask(w.about(verbRestrict))
	if answer == authorizer.DecisionAllow {
		return nil
	}
	return w.forbidden("%s is attempting to create, change or delete a policy that may restrict others; that needs the verb restrict on %s%s", w.who(), w.kindName(), why)
}

func (w *write) mayGrant() error {
	switch answer, why := w.ask(w.about(verbEscalate)); answer {
	case authorizer.DecisionAllow:
		return nil
	case authorizer.DecisionNoOpinion:
	default:
		return w.forbidden("%s may not write Allow policies, because the verb escalate on %s is denied%s", w.who(), w.kindName(), why)
	}
	if n := checkCount(w.policy.Spec); n > MaxChecks {
		return w.forbidden("%s is attempting to grant %d permissions, and at most %d can be checked; use fewer rules, or get the verb escalate on %s", w.who(), n, MaxChecks, w.kindName())
	}
	for _, check := range checks(w.policy.Spec, w.policy.Meta.Namespace) {
		check.User = w.author
		if answer, why := w.ask(check); answer != authorizer.DecisionAllow {
			return w.forbidden("%s is attempting to grant permissions not currently held: %s; the author needs them unconditionally, or the verb escalate on %s%s", w.who(), describe(check), w.kindName(), why)
		}
		if by, found := w.restricted(w.ctx, check); found {
			return w.forbidden("%s is attempting to grant permissions that are held only in part: %s, which %s restricts in part; the author needs them unconditionally, or the verb escalate on %s", w.who(), describe(check), by, w.kindName())
		}
	}
	return nil
}

// mayReview returns an error unless the author may learn the permissions of all users.
func (w *write) mayReview() error {
	answer, why := w.ask(virtual.CreateReviews(w.author))
	//guard:policies-checks-others-answers
	if answer == authorizer.DecisionAllow {
		return nil
	}
	whose, instead := "service accounts", ""
	if namespace := w.policy.Meta.Namespace; namespace != "" {
		whose, instead = fmt.Sprintf("service accounts outside namespace %q", namespace), ", or the namespace of the policy as the first argument of serviceAccount: its name, or request.namespace"
	}
	return w.forbidden("%s is attempting to write a condition that checks what %s may do; that needs the verb create on subjectaccessreviews.%s%s%s", w.who(), whose, authorizationapi.GroupName, instead, why)
}

// about returns the check whether the author has a verb on the policy.
func (w *write) about(verb string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: w.author, Verb: verb, ResourceRequest: true,
		APIGroup: v1alpha1.GroupName, APIVersion: v1alpha1.SchemeGroupVersion.Version, Resource: w.kind.resource,
		Namespace: w.policy.Meta.Namespace, Name: w.policy.Meta.Name,
	}
}

// ask returns the decision of the authorizers, and their reason for messages. An error is Deny. It
// is logged and not returned, because its text may contain information that the author must not
// see.
func (w *write) ask(check authorizer.AttributesRecord) (answer authorizer.Decision, why string) {
	answer, reason, err := w.chain.Authorize(w.ctx, check)
	if err != nil {
		klog.FromContext(w.ctx).Error(err, "Asking whether an author may write a policy failed", "resource", w.kind.resource, "policy", klog.KRef(w.policy.Meta.Namespace, w.policy.Meta.Name), "verb", check.Verb)
		return authorizer.DecisionDeny, ": the authorizers failed to answer"
	}
	if reason != "" {
		why = ": " + reason
	}
	return answer, why
}

func (w *write) who() string {
	return fmt.Sprintf("user %q (groups=%q)", w.author.GetName(), w.author.GetGroups())
}

func (w *write) kindName() string { return policy.Resource(w.kind.resource).String() }

func (w *write) forbidden(format string, args ...any) error {
	return apierrors.NewForbidden(policy.Resource(w.kind.resource), w.policy.Meta.Name, fmt.Errorf(format, args...))
}
