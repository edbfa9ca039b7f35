/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package webhook asks other servers for authorization decisions: kube-apiserver
// (Authorizer), and the webhooks that a file names (Source and Dynamic), whose answers may
// be conditional (KEP-5681, "Supporting webhooks through the AuthorizationConditionsReview
// API").
//
// Invariants: an error, a timeout or an answer that makes no sense never becomes
// Allow. From kube-apiserver it is Deny; the generic delegating authorizer of
// k8s.io/apiserver answers NoOpinion there, after which a later authorizer could allow what
// kube-apiserver would have denied. From a webhook it is what its failure policy says;
// conditions that were not asked for are Deny whatever that says. kube-apiserver is never
// sent conditions: the one that fronts a Proviso would send them back to it.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilwebhook "k8s.io/apiserver/pkg/util/webhook"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// DelegationMarker is the user extra that every SubjectAccessReview sent by Proviso
// carries. An authorization webhook of Proviso that sees it knows that Proviso itself is
// asking, and never answers Allow, so that no decision is founded on itself. Whoever
// forges it only loses rights.
const DelegationMarker = "authorization.proviso.dev/delegated"

const (
	// cacheSize bounds the cached decisions, as the webhook authorizer of Kubernetes does.
	cacheSize = 8192
	// maxCacheKeyBytes bounds the questions that are cached at all. Names, paths and
	// selectors come from the client, who could fill the memory with long ones.
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
	// AllowCacheTTL and DenyCacheTTL are how long decisions are reused. Zero means that
	// they are not. Errors are never reused.
	AllowCacheTTL, DenyCacheTTL time.Duration
	// Backoff says how calls that failed in passing are repeated.
	Backoff wait.Backoff
}

// Authorizer asks by authorization.k8s.io/v1 SubjectAccessReview. It bounds the questions that
// it has in flight, and shares them between the users whose requests cause them; see ErrBusy.
// It is safe for concurrent use.
type Authorizer struct {
	config    Config
	decisions *memory
	inFlight  *inFlight
}

var _ authorization.Decider = &Authorizer{}

// New makes an Authorizer.
func New(config Config) (*Authorizer, error) {
	if config.Client == nil {
		return nil, errors.New("a client is needed")
	}
	if config.Backoff.Steps < 1 {
		return nil, fmt.Errorf("at least one attempt is needed, not %d", config.Backoff.Steps)
	}
	RegisterMetrics()
	return &Authorizer{config: config, decisions: newMemory(realClock{}), inFlight: newInFlight()}, nil
}

// answer is a decision as it is cached: whole.
type answer struct {
	decision authorizer.Decision
	reason   string
}

// Authorize asks. Allow, Deny and NoOpinion are what the server answered; whenever there
// is an error, and when the server does not take the question, the decision is Deny.
func (a *Authorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: specOf(attributes)}
	key, err := json.Marshal(review.Spec)
	if err != nil {
		return authorizer.DecisionDeny, "", fmt.Errorf("encoding the question: %w", err)
	}
	if cached, ok := a.decisions.get(string(key)); ok {
		found := cached.(answer)
		return found.decision, found.reason, nil
	}
	status, err := a.ask(ctx, causeOf(ctx, attributes), review)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		// The question makes no sense to kube-apiserver: the request is at fault, and no
		// repetition helps. An error would be answered with 500.
		return authorizer.DecisionDeny, fmt.Sprintf("kube-apiserver refuses to say: %v", err), nil
	}
	if err != nil {
		return authorizer.DecisionDeny, "", fmt.Errorf("asking kube-apiserver for authorization: %w", err)
	}
	result, err := answerOf(status)
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	a.remember(string(key), result)
	return result.decision, result.reason, nil
}

// ask asks what a request of a user causes. A question that is repeated has a place among those
// in flight during each attempt, and none between attempts.
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
	case status.Allowed && status.Denied:
		return answer{}, errContradiction
	case status.Denied:
		result.decision = authorizer.DecisionDeny
	case status.Allowed:
		result.decision = authorizer.DecisionAllow
	}
	if status.EvaluationError != "" && !status.Allowed {
		// An error there that still led to an answer, such as a binding to a missing role,
		// is part of why; it is no failure of the question.
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
		a.decisions.add(key, result, ttl)
	}
}

// Decide asks. The v1 API has no conditions, so the decision is never conditional.
func (a *Authorizer) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	return authorization.Unconditional(a.Authorize(ctx, attributes))
}
