/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/klog/v2"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/upstreamform"
)

// The groups, with a slash, and the versions of the reviews that are sent to a webhook.
const (
	officialGroup   = authorizationapi.GroupName + "/"
	ownGroup        = authorizationapi.ProvisoGroupName + "/"
	versionV1       = "v1"
	versionV1alpha1 = "v1alpha1"
)

// Webhook is an authorizer outside the process that answers SubjectAccessReviews: a webhook of the
// file of a Source, or Proviso for ForProviso. Its answer may be conditional if the webhook also
// evaluates conditions. It is safe for concurrent use.
type Webhook struct {
	name string
	// group and version are the API group and version of the reviews that the webhook gets.
	group, version string
	// reviews is the endpoint for SubjectAccessReviews, and conditions the one for
	// AuthorizationConditionsReviews. conditions is nil if the webhook does not evaluate
	// conditions.
	reviews, conditions *endpoint
	matcher             *authorizationcel.CELMatcher // nil if every request matches
	failOpen            bool
	// form is the form in which conditions are requested. relaxed also accepts conditions by the letter of KEP-5681, and has
	// conditions evaluated in the form of the answer that they came in.
	form    form
	relaxed bool
	answers *answers // nil if no answers are cached
}

var (
	_ authorization.Decider          = &Webhook{}
	_ authorization.ConditionsAuthor = &Webhook{}
)

// Decide returns the decision of the webhook. It requests conditions if the caller wants them, the webhook can
// evaluate them, and the attributes have no wildcards.
func (w *Webhook) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	mode := authorization.RequestOf(attributes).Mode
	if w.conditions == nil || authorization.HasWildcards(attributes) {
		mode = authorizationapi.ConditionsModeNone
	}
	return w.decide(ctx, attributes, mode)
}

var errCircle = errors.New("too many servers have passed this review on: the configured webhooks call each other in a circle, or their line is too long")

// question is what a webhook is asked.
type question struct {
	// key is the cache key, and review the JSON.
	key    string
	review []byte
}

// decide calls the webhook, unless the answer is cached. It returns NoOpinion without a call if the request does
// not match, and the result of failed if there is no valid answer.
func (w *Webhook) decide(ctx context.Context, attributes authorizer.Attributes, mode authorization.Mode) authorization.Decision {
	asks, matches, err := w.prepare(ctx, attributes, mode)
	switch {
	case err != nil:
		return w.failed(ctx, err)
	case !matches:
		return authorization.NoOpinion("", nil)
	}
	if decision, ok := w.answers.get(asks.key); ok {
		cacheHits.WithLabelValues(w.name).Inc()
		return decision
	}
	form := formNone
	if mode != authorizationapi.ConditionsModeNone {
		form = w.form
	}
	decision, size, err := w.ask(ctx, asks.review, form)
	if err != nil {
		return w.failed(ctx, err)
	}
	w.answers.remember(asks.key, decision, size)
	return decision
}

// prepare returns what the webhook is asked about a request. It returns false if the request does not match. That takes time if the request has long selectors, and calls
// no server.
func (w *Webhook) prepare(ctx context.Context, attributes authorizer.Attributes, mode authorization.Mode) (asks question, matches bool, err error) {
	//guard:webhooks-bounds-preparation
	release, err := AcquirePreparation(ctx)
	if err != nil {
		return asks, false, err
	}
	defer release()
	spec := reviewSpecOf(attributes)
	if w.matcher != nil {
		matches, err := w.matcher.Eval(ctx, &authorizationv1.SubjectAccessReview{Spec: spec})
		if err != nil {
			return asks, false, fmt.Errorf("%w: %w", errMatch, err)
		}
		if !matches {
			return asks, false, nil
		}
	}
	hops := len(spec.Extra[authorization.DelegationMarker]) + 1
	if hops > maxHops {
		return asks, false, errCircle
	}
	spec.Extra = marked(spec.Extra, hops)
	asks.key, asks.review, err = w.review(spec, mode)
	return asks, true, err
}

// review returns the JSON of a review in the version of the webhook, and the cache key for the answer
// to the review. The key contains everything that the webhook can decide from.
func (w *Webhook) review(spec authorizationv1.SubjectAccessReviewSpec, mode authorization.Mode) (key string, body []byte, err error) {
	meta := metav1.TypeMeta{APIVersion: w.group + w.version, Kind: "SubjectAccessReview"}
	var (
		keyed, review any
		conditional   *authorizationv1alpha1.ConditionalAuthorizationConfiguration
		options       *authorizationv1alpha1.AuthorizationOptions
	)
	switch {
	case mode == authorizationapi.ConditionsModeNone:
	case w.form == formUpstream:
		options = &authorizationv1alpha1.AuthorizationOptions{HandledDecisionTypes: upstreamform.HandledDecisionTypes}
	default:
		conditional = &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsMode(mode)}
	}
	if w.version == versionV1 {
		r := &reviewV1{SubjectAccessReview: authorizationv1.SubjectAccessReview{TypeMeta: meta}, Spec: specV1{spec, conditional, options}}
		keyed, review = r.Spec, r
	} else {
		r := &authorizationv1alpha1.SubjectAccessReview{TypeMeta: meta, Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			ResourceAttributes: spec.ResourceAttributes, NonResourceAttributes: spec.NonResourceAttributes,
			User: spec.User, Groups: spec.Groups, Extra: spec.Extra, UID: spec.UID,
			ConditionalAuthorization: conditional, AuthorizationOptions: options,
		}}
		keyed, review = r.Spec, r
	}
	encoded, err := json.Marshal(keyed)
	if err != nil {
		return "", nil, fmt.Errorf("encoding the review: %w", err)
	}
	body, err = json.Marshal(review)
	return string(encoded), body, err
}

// reviewV1 is a SubjectAccessReview of v1 that may request conditions, which the types of v1 cannot.
type reviewV1 struct {
	authorizationv1.SubjectAccessReview `json:",inline"`

	Spec specV1 `json:"spec"`
}

type specV1 struct {
	authorizationv1.SubjectAccessReviewSpec `json:",inline"`

	ConditionalAuthorization *authorizationv1alpha1.ConditionalAuthorizationConfiguration `json:"conditionalAuthorization,omitempty"`
	AuthorizationOptions     *authorizationv1alpha1.AuthorizationOptions                  `json:"authorizationOptions,omitempty"`
}

// ask posts a review that requests conditions in a form, or none. It returns the decision and the size of the answer in bytes.
func (w *Webhook) ask(ctx context.Context, review []byte, asked form) (decision authorization.Decision, size int, err error) {
	err = w.reviews.post(ctx, asked, review, func(answer []byte) error {
		read, in, err := decisionFrom(answer, w.group+w.version, w.name, asked != formNone, w.relaxed)
		decision, size = w.authored(read, in), len(answer)
		return err
	})
	return decision, size, err
}

// authored returns a decision whose conditions are sent back in the form of the answer. Conditions that a client has sent to
// this server for evaluation have lost that form, and are sent back in the form in which this server asks.
func (w *Webhook) authored(decision authorization.Decision, in form) authorization.Decision {
	//guard:webhook-form-answer
	if !w.relaxed || decision.IsUnconditional() {
		return decision
	}
	sets := decision.Chain()
	if len(sets) == 0 {
		return decision // its conditions have no author
	}
	for i := range sets {
		sets[i] = sets[i].WithAuthor(&answered{Webhook: w, in: in})
	}
	return authorization.Chained(sets...)
}

// failed returns the decision if there is no valid answer: Deny, or NoOpinion if that is the failure
// policy. Three errors are Deny for every failure policy: conditions that were not requested, because
// they might have denied the request; a circle of servers, because a client that forges the
// delegation marker could make any review look like part of a circle; and a webhook that was not called, because a client
// that sends many requests could cause it, and so could a webhook before it that takes all the time.
func (w *Webhook) failed(ctx context.Context, err error) authorization.Decision {
	// A caller that has gone away does not use the answer, so that the failure has let nothing pass.
	isUsed := !errors.Is(ctx.Err(), context.Canceled)
	if isUsed {
		klog.FromContext(ctx).Error(err, "Authorization webhook failed", "name", w.name)
	}
	result := resultOf(ctx, err)
	//guard:webhook-errors-decisions
	err = fmt.Errorf("webhook %q: %w", w.name, shown(err))
	//guard:webhook-conditions-were-not-asked
	if !w.failOpen || errors.Is(err, errUnasked) || errors.Is(err, errCircle) || errors.Is(err, errNotCalled) {
		return authorization.Deny("the authorization webhook failed", err)
	}
	if isUsed {
		failOpen.WithLabelValues(w.name, result).Inc()
	}
	return authorization.NoOpinion("the authorization webhook failed", err)
}

// fresh returns a copy of the webhook without cached answers.
func (w *Webhook) fresh() *Webhook {
	fresh := *w
	fresh.answers = nil
	return &fresh
}

// withUnconditionalCache returns a copy of the webhook that shares its cached answers, but neither uses nor caches conditional answers.
func (w *Webhook) withUnconditionalCache() *Webhook {
	other := *w
	if w.answers != nil {
		cached := *w.answers
		cached.freshConditions = true
		other.answers = &cached
	}
	return &other
}

// maxCachedAnswerBytes bounds the size of cached answers, and with it the memory of a cache to 128
// MiB or a small multiple.
const maxCachedAnswerBytes = 16 << 10

// answers caches decisions with all of their conditions, so that the conditions are of one
// revision of the webhook's policies (KEP-5681, "Supporting webhooks through the
// AuthorizationConditionsReview API"). It may be nil.
type answers struct {
	decisions *cache.LRUExpireCache
	// authorized is how long an Allow is cached, and unauthorized how long a Deny or NoOpinion; 0
	// disables caching. A conditional answer may become any of them, and is cached for the shorter
	// time.
	authorized, unauthorized time.Duration
	// freshConditions says that conditional answers are neither used nor cached.
	freshConditions bool
}

func (a *answers) get(key string) (authorization.Decision, bool) {
	if a == nil {
		return authorization.Decision{}, false
	}
	found, ok := a.decisions.Get(key)
	if !ok {
		return authorization.Decision{}, false
	}
	decision := found.(authorization.Decision)
	if a.freshConditions && !decision.IsUnconditional() {
		return authorization.Decision{}, false
	}
	return decision, true
}

func (a *answers) remember(key string, decision authorization.Decision, size int) {
	if a == nil || len(key) > maxCacheKeyBytes || size > maxCachedAnswerBytes {
		return
	}
	ttl := min(a.authorized, a.unauthorized)
	switch {
	case decision.IsAllow():
		ttl = a.authorized
	case decision.IsUnconditional():
		ttl = a.unauthorized
	case a.freshConditions:
		return
	}
	if ttl > 0 {
		a.decisions.Add(key, decision, ttl)
	}
}
