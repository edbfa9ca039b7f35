/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bridge

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// askTimeout bounds how long kube-apiserver is asked back. It is well below the three
// seconds that kube-apiserver waits for the front door: there, no answer is a matter of its
// failure policy, here it is NoOpinion.
const askTimeout = time.Second

// Fields lets those pass who may not write an object but some of its fields (KEP-3617). Who
// they are is the one thing that the front door asks kube-apiserver: where policies have no
// opinion on a write, kube-apiserver is asked once, with the delegation marker, for the verb
// granular. A question that has the marker itself never leads to another one.
type Fields struct {
	// Question returns what is to be asked about a write, and false if nothing is: if it is
	// none, or if nobody would check the fields.
	Question func(authorizer.Attributes) (question authorizer.Attributes, ok bool)
	// KubeAPIServer answers. Its questions must carry the delegation marker, and it must not
	// repeat them.
	KubeAPIServer authorizer.UnconditionalAuthorizer
}

// mayChangeFields reports whether a user, on whose request policies have no opinion, is
// allowed as far as fields go. As in the server, the verb granular may come from a policy,
// too. Whatever fails is no.
func (d *FrontDoor) mayChangeFields(ctx context.Context, attributes authorizer.Attributes, within limit) bool {
	if d.config.Fields == nil || !d.config.Enforces(attributes) || authorization.AsksAboutMany(attributes) {
		return false
	}
	question, ok := d.config.Fields.Question(attributes)
	if !ok {
		return false
	}
	switch byPolicies, err := within(func() authorization.Decision { return d.config.Chain.Decide(ctx, question).Fold() }); {
	case err != nil:
		return false
	case byPolicies.IsAllow():
		return true
	case byPolicies.IsDeny():
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	decision, _, err := d.config.Fields.KubeAPIServer.Authorize(ctx, question)
	observeQuestion(decision, err)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Asking kube-apiserver for permission on fields failed")
		return false
	}
	return decision == authorizer.DecisionAllow
}
