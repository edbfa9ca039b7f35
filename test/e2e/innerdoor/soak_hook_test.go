//go:build soak

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

const (
	// hookKind is the kind of the webhook among the servers.
	hookKind = "webhook"
	honest   = "honest"
	// hookLag is longer than replicas wait for an answer.
	hookLag = 2500 * time.Millisecond
)

// hook is an authorization webhook that allows fred to write maps, and hugo to write machines with the label open, by a condition that it evaluates itself. It has no opinion
// about others.
type hook struct {
	mu     sync.Mutex
	is     string
	honest *history
}

// newHook serves a webhook, and writes its configuration.
func newHook(t *testing.T, c *cluster.Cluster) *hook {
	t.Helper()
	h := &hook{honest: &history{allowed: map[int][]period{}}}
	h.set(honest)
	certFile, keyFile, err := c.ServingCertificate("hook")
	mustBeNil(t, err)
	writeAuthorizers(t, c.Dir, serve(t, certFile, keyFile, tls.NoClientCert, h), c.CAFile(), `matchConditions: [{expression: "request.user in ['fred', 'hugo', 'sue']"}]
    conditionsReview: {version: v1alpha1}
    cacheAuthorizedRequests: false
    cacheUnauthorizedRequests: false`)
	return h
}

func (h *hook) set(is string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.is = is; is == honest {
		h.honest.begin(1, time.Now())
		return
	}
	h.honest.end(1)
}

// judge says what may happen to a write of fred or hugo, which passes only if the webhook allows it honestly.
func (h *hook) judge(value string, sent, answered time.Time) verdict {
	switch {
	case value != "open" || !h.honest.wasAllowed(1, sent, answered):
		return mustBeRefused
	case h.honest.throughout(1, sent.Add(-hookLag), answered): // calls that hang keep others waiting
		return mustPass
	}
	return either
}

// misbehave has the webhook be slow, fail, send garbage and lie in turns, until the function that it returns is called.
func (h *hook) misbehave(c *chaos) (stop func()) {
	end, group := make(chan struct{}), sync.WaitGroup{}
	isOver := func(after time.Duration) bool {
		select {
		case <-end:
			return true
		case <-time.After(after):
			return false
		}
	}
	group.Go(func() {
		for turn := 0; !isOver(6 * time.Second); turn++ {
			is := []string{"slow", "failing", "sending garbage", "lying"}[turn%4]
			_ = c.cause(is, &cluster.Server{Kind: hookKind}, func() error {
				h.set(is)
				isOver(4 * time.Second)
				return nil
			}, func() error { h.set(honest); return nil })
		}
	})
	return func() {
		close(end)
		group.Wait()
	}
}

// asked has what the webhook reads of the two kinds of reviews.
type asked struct {
	Kind string
	Spec struct {
		User                 string
		AuthorizationOptions *struct{}
		ResourceAttributes   struct{ Verb, Resource string }
	}
	Request struct {
		AdmissionRequest struct {
			UID               string
			Object, OldObject *stored
		}
	}
}

const (
	reviewAnswer     = `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": {%s}}`
	conditionsAnswer = `{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "AuthorizationConditionsReview", "response": {"uid": %q, "decision": %s}}`
	allows           = `{"type": "Allow", "allow": {}}`
	onCondition      = `"conditionalDecision": {"type": "ConditionsMap", "conditionsMap": {"allowConditions": [{"id": "example.com/open", "type": "example.com/open"}]}}`
)

// answer returns the honest answer.
func (a *asked) answer() string {
	admission := a.Request.AdmissionRequest
	switch {
	case a.Kind == "AuthorizationConditionsReview":
		object, decision := admission.Object, `{"type": "NoOpinion", "noOpinion": {}}`
		if object == nil {
			object = admission.OldObject
		}
		if object != nil && object.Metadata.Labels["generation"] == "open" {
			decision = allows
		}
		return fmt.Sprintf(conditionsAnswer, admission.UID, decision)
	case a.allowsConditions():
		return fmt.Sprintf(reviewAnswer, onCondition)
	case a.Spec.User == "fred" && a.Spec.ResourceAttributes.Resource == "configmaps":
		return fmt.Sprintf(reviewAnswer, `"allowed": true`)
	}
	return fmt.Sprintf(reviewAnswer, `"allowed": false`)
}

// allowsConditions reports whether the review is about a write of hugo, and may be answered with conditions.
func (a *asked) allowsConditions() bool {
	return a.Spec.User == "hugo" && a.Spec.AuthorizationOptions != nil && a.Spec.ResourceAttributes.Resource == "virtualmachines" &&
		slices.Contains([]string{"create", "update", "patch", "delete"}, a.Spec.ResourceAttributes.Verb)
}

// lie returns an answer that allows the request, and must not be believed.
func (a *asked) lie() string {
	if a.Kind == "AuthorizationConditionsReview" {
		uid := a.Request.AdmissionRequest.UID
		return oneOf(
			fmt.Sprintf(conditionsAnswer, "of another request", allows),
			fmt.Sprintf(conditionsAnswer, uid, `{"type": "Allow"}`),
			fmt.Sprintf(conditionsAnswer, uid, `{"type": "Allow", "allow": {}, "deny": {}}`),
			fmt.Sprintf(conditionsAnswer, uid, allows+`, "allowed": true`),
			fmt.Sprintf(conditionsAnswer, uid, `{"type": "NoOpinion", "noOpinion": {}}, "decision": `+allows),
			`{"apiVersion": "authorization.k8s.io/v1", "kind": "AuthorizationConditionsReview", "response": {"uid": "`+uid+`", "decision": `+allows+`}}`,
			fmt.Sprintf(reviewAnswer, `"allowed": true`),
		)
	}
	lies := []string{
		fmt.Sprintf(reviewAnswer, `"allowed": true, "allowed": false`),
		fmt.Sprintf(reviewAnswer, `"allowed": true, "denied": true`),
		fmt.Sprintf(reviewAnswer, `"allowed": false, "allowed": true`),
		fmt.Sprintf(reviewAnswer, `"Allowed": true`),
		`{"apiVersion": "authorization.k8s.io/v1beta1", "kind": "SubjectAccessReview", "status": {"allowed": true}}`,
		`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "allowed": true}`,
		fmt.Sprintf(conditionsAnswer, "1", allows),
	}
	if a.allowsConditions() {
		lies = append(lies,
			a.answer(), // and its condition is evaluated to a lie
			a.answer(), a.answer(), a.answer(), a.answer(), a.answer(),
			fmt.Sprintf(reviewAnswer, `"allowed": true, `+onCondition),
			fmt.Sprintf(reviewAnswer, `"conditionalDecision": `+allows),
			fmt.Sprintf(reviewAnswer, `"conditionalDecision": {"type": "ConditionsMap", "conditionsMap": {"allowConditions": [{"id": "example.com/open", "type": "authorizer.kubernetes.io/cel", "condition": "object.("}]}}`),
		)
	}
	return oneOf(lies...)
}

// ServeHTTP answers both kinds of reviews.
func (h *hook) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	h.mu.Lock()
	is := h.is
	h.mu.Unlock()
	review := &asked{}
	if err := json.NewDecoder(request.Body).Decode(review); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	answer := review.answer()
	switch is {
	case "slow":
		time.Sleep(hookLag)
	case "failing":
		response.WriteHeader([]int{http.StatusInternalServerError, http.StatusForbidden}[time.Now().Second()%2])
	case "sending garbage":
		answer = oneOf("", "null", "allowed", "<html>allowed</html>", answer[:len(answer)-1], answer+answer)
	case "lying":
		answer = review.lie()
	}
	_, _ = io.WriteString(response, answer)
}
