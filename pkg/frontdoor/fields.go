/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/place"
)

// askTimeout bounds a check by kube-apiserver. It is well below the three seconds that
// kube-apiserver waits for the front door: if the front door does not answer in time,
// kube-apiserver applies its failure policy, but if kube-apiserver does not answer in time, the
// result is NoOpinion.
const askTimeout = time.Second

// Fields allows writes by users who lack permission on the object but may change some of its fields (KEP-3617). If policies
// have no opinion on a write whose conditions this server or the inner door evaluates, the front door checks whether the user has
// the verb "granular" on the object. The policies decide this check first, and then the authorizers after them. If they have no opinion
// on it either, kube-apiserver is asked once. The front door allows the write if the answer is Allow; this server or the inner door then checks the changed fields
// at admission. An obstacle of the place is one to fields, too.
//
// The check by kube-apiserver carries the delegation marker. kube-apiserver asks the front door about such a check, and the front door
// makes no further check for it.
type Fields struct {
	// Check returns the attributes of the check about a write. It returns false if the
	// request is not a write, or if no component would check the fields.
	Check func(authorizer.Attributes) (check authorizer.Attributes, ok bool)
	// KubeAPIServer answers the check. It must send the delegation marker, and must not retry.
	KubeAPIServer authorizer.UnconditionalAuthorizer
}

// onFields returns the decision about a request on which policies have no opinion. It is Allow if the place checks which fields change, if the user
// may change some fields of the object, and if the request would also pass on conditions. As in the server, a policy may also grant or deny the verb
// granular. Otherwise the decision stays as it is. An error counts as no.
func (d *Decider) onFields(ctx context.Context, p place.Place, decision authorization.Decision, r *place.Request, within limit) authorization.Decision {
	if !p.Terms().DecidesAgain {
		return decision
	}
	check, ok := d.fieldsCheck(r.Attributes)
	if !ok {
		return decision
	}
	// Another authorizer may allow the request, so that its checks together must not take longer than one.
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	//guard:frontdoor-fields-listed-resources-who-asked-nothing
	if p.Obstacle(ctx, r, nil) != nil || !d.isAllowed(ctx, check, within, d.config.Fields.KubeAPIServer, observeCheck) {
		return decision
	}
	//guard:frontdoor-fields-listed-resources-reading
	if found := d.obstacle(ctx, p, r, within); found != nil {
		return authorization.NoOpinion(strings.TrimPrefix(decision.Reason()+"; "+reasonNotOnFields+found.Reason, "; "), decision.Err())
	}
	conditionalAnswers.WithLabelValues(answerAllowedOnFields).Inc()
	return authorization.Allow(reasonFields, nil)
}

// fieldsCheck returns the check whether the user may change some fields of the object of a request. It returns false if there is no
// permission on fields for such a request.
func (d *Decider) fieldsCheck(attributes authorizer.Attributes) (check authorizer.Attributes, ok bool) {
	if d.config.Fields == nil {
		return nil, false
	}
	return d.config.Fields.Check(attributes)
}

// isAllowed reports whether a check that the front door makes itself is allowed, without conditions, as requests are: if neither the policies nor the
// authorizers after them deny it, by one of them or, if they have no opinion, by one check of kube-apiserver, which observe counts. An error counts as no.
func (d *Decider) isAllowed(ctx context.Context, check authorizer.Attributes, within limit, kubeAPIServer authorizer.UnconditionalAuthorizer, observe func(authorizer.Decision, error)) bool {
	byPolicies, err := d.byPolicies(ctx, check, within)
	if err != nil {
		return false
	}
	//guard:frontdoor-inner-door-get-could-denied
	folded := byPolicies.Fold()
	if d.config.AfterPolicies != nil && !folded.IsDeny() {
		//guard:after-policies-checks-front-door
		if after := d.unconditionalAfterPolicies(ctx, check, another{within}); after.IsDeny() || folded.IsNoOpinion() {
			folded = after
		}
	}
	if !folded.IsNoOpinion() {
		return folded.IsAllow()
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	decision, _, err := kubeAPIServer.Authorize(ctx, check)
	observe(decision, err)
	if err != nil {
		klog.FromContext(ctx).Error(err, "kube-apiserver did not answer a check of the front door", "verb", check.GetVerb())
		//guard:frontdoor-inner-door-errors
		return false
	}
	return decision == authorizer.DecisionAllow
}
