/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package webhook calls other servers for authorization decisions: kube-apiserver (Authorizer),
// and the webhooks that a file configures (Source and Dynamic), whose answers may be conditional
// (KEP-5681, "Supporting webhooks through the AuthorizationConditionsReview API").
//
// Invariants: an error, a timeout or an invalid answer never becomes Allow. For kube-apiserver it
// becomes Deny. The generic delegating authorizer of k8s.io/apiserver returns NoOpinion instead,
// so that a later authorizer could allow a request that kube-apiserver would have denied. For a
// webhook its failure policy decides, except that three failures are always Deny: conditions that
// were not requested, a review that too many servers have passed on, and a webhook that was not
// called. A file must not name kube-apiserver as the evaluator of conditions: it would proxy them
// back to the Proviso behind it. Only a server that is not Proviso sends conditions by way of
// kube-apiserver (ForProviso).
// An error that leaves the package shows no address of another server, and nothing that it answered.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilwebhook "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

const (
	// cacheSize bounds the number of cached decisions of one webhook. It is the bound of the webhook authorizer
	// of Kubernetes.
	cacheSize = 8192
	// kubeAPIServerCacheSize bounds the cached decisions of kube-apiserver. Reviews name objects, so that most answers are used
	// once, and an expired one is kept until another takes its place.
	kubeAPIServerCacheSize = 2048
	// maxCacheKeyBytes bounds the size of reviews whose answers are cached. Clients choose names, paths
	// and selectors, and could fill the memory with long ones.
	maxCacheKeyBytes = 10000
)

// SubjectAccessReviews creates reviews. The client of k8s.io/client-go is one.
type SubjectAccessReviews interface {
	Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, options metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Config configures an authorizer that asks by SubjectAccessReview.
type Config struct {
	// Client creates the reviews. Its transport must have a timeout. It must not limit its rate
	// itself: the Authorizer bounds what is in flight, and kube-apiserver shares its own capacity.
	Client SubjectAccessReviews
	// AllowCacheTTL and DenyCacheTTL are how long decisions are cached. Zero disables caching.
	// Errors are never cached.
	AllowCacheTTL, DenyCacheTTL time.Duration
	// Backoff is the schedule for retries of calls with a transient error.
	Backoff wait.Backoff
}

// Authorizer asks kube-apiserver for decisions by SubjectAccessReviews of authorization.k8s.io/v1. It
// bounds the number of checks in flight, and divides it fairly between the users whose requests cause
// them; see ErrBusy. It is safe for concurrent use.
type Authorizer struct {
	config    Config
	decisions *cache.LRUExpireCache
	inFlight  *inFlight
}

var _ authorization.Decider = &Authorizer{}

// New returns an Authorizer. It returns an error if config has no client, or if its Backoff has no
// step.
func New(config Config) (*Authorizer, error) {
	if config.Client == nil {
		return nil, errors.New("the authorizer needs a client")
	}
	if config.Backoff.Steps < 1 {
		return nil, fmt.Errorf("the backoff must have at least one attempt, not %d", config.Backoff.Steps)
	}
	RegisterMetrics()
	return &Authorizer{config: config, decisions: cache.NewLRUExpireCache(kubeAPIServerCacheSize), inFlight: newInFlight()}, nil
}

// answer is a decision with its reason, as it is cached.
type answer struct {
	decision authorizer.Decision
	reason   string
}

// Authorize returns the decision of kube-apiserver: Allow, Deny or NoOpinion, which may come from the
// cache. If kube-apiserver rejects the check as invalid, it returns Deny without an error. If the
// check fails in another way, it returns Deny and the error.
func (a *Authorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: specOf(attributes)}
	// JSON would have one text for all names that are not UTF-8.
	key, err := review.Spec.Marshal()
	if err != nil {
		return authorizer.DecisionDeny, "", fmt.Errorf("encoding the review: %w", err)
	}
	if cached, ok := a.decisions.Get(string(key)); ok {
		found := cached.(answer)
		return found.decision, found.reason, nil
	}
	status, err := a.ask(ctx, causeOf(ctx, attributes), review)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		// kube-apiserver rejected the check as invalid. The request is at fault, and a retry
		// does not help. An error would be answered with 500.
		return authorizer.DecisionDeny, fmt.Sprintf("kube-apiserver rejected the authorization check as invalid: %v", err), nil
	}
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) && !errors.Is(err, ErrBusy) { // a flood would fill the log
			klog.FromContext(ctx).Error(err, "Asking kube-apiserver for authorization failed")
		}
		//guard:webhook-errors-kube-apiserver
		return authorizer.DecisionDeny, "", fmt.Errorf("asking kube-apiserver for authorization: %w", shown(err))
	}
	result, err := answerOf(status)
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	a.remember(string(key), result)
	return result.decision, result.reason, nil
}

// ask sends a check that a request of user causes. The check takes a place among the checks in
// flight for each attempt, and frees it between attempts.
func (a *Authorizer) ask(ctx context.Context, user string, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReviewStatus, error) {
	var result *authorizationv1.SubjectAccessReview
	err := utilwebhook.WithExponentialBackoff(ctx, a.config.Backoff, func() error {
		release, err := a.inFlight.acquire(ctx, user)
		if err != nil {
			return err
		}
		defer release()
		result, err = a.config.Client.Create(ctx, review, metav1.CreateOptions{})
		return err
	}, utilwebhook.DefaultShouldRetry)
	if err != nil {
		return nil, err
	}
	return &result.Status, nil
}

var errContradiction = errors.New("the answer of kube-apiserver is both allowed and denied")

func answerOf(status *authorizationv1.SubjectAccessReviewStatus) (answer, error) {
	result := answer{decision: authorizer.DecisionNoOpinion, reason: status.Reason}
	switch {
	//guard:webhook-contradictions
	case status.Allowed && status.Denied:
		return answer{}, errContradiction
	case status.Denied:
		result.decision = authorizer.DecisionDeny
	case status.Allowed:
		result.decision = authorizer.DecisionAllow
	}
	if status.EvaluationError != "" && !status.Allowed {
		// The error did not prevent an answer, and explains it: for example, a binding refers to a
		// missing role.
		if result.reason != "" {
			result.reason += "; "
		}
		result.reason += status.EvaluationError
	}
	return result, nil
}

func (a *Authorizer) remember(key string, result answer) {
	ttl := a.config.DenyCacheTTL
	if result.decision == authorizer.DecisionAllow {
		ttl = a.config.AllowCacheTTL
	}
	if ttl > 0 && len(key) <= maxCacheKeyBytes {
		a.decisions.Add(key, result, ttl)
	}
}

// Decide returns the decision of Authorize. The v1 API has no conditions, so the decision is never
// conditional.
func (a *Authorizer) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	return authorization.Unconditional(a.Authorize(ctx, attributes))
}
