/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationpolicy

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/proviso-authz/proviso/pkg/slots"
)

// A policy is compiled when it is written, dry runs included, which takes up to some tenths of a second of processor time. 150
// writes at once kept reviews from being answered in time. The bounds are for each of the two kinds: authors of
// namespaces keep no administrator of the cluster from writing.
const (
	// maxWrites is how many policies are written at the same time, and maxWritesOfOne how many of one namespace, or by one user
	// if they have none. Most of the time of a write is spent on waiting for etcd and kube-apiserver.
	maxWrites      = 8
	maxWritesOfOne = 2
	// maxWaiting and maxWaitingOfOne are how many wait. A tool that applies a directory writes fewer at a time.
	maxWaiting      = 256
	maxWaitingOfOne = 32
	// writeTimeout is how long a write waits. Clients wait for half a minute and more, and repeat a write that is refused.
	writeTimeout = 10 * time.Second
	// retryAfterSeconds is when a client is to try again.
	retryAfterSeconds = 1
)

// writes bounds the writes of one kind of policies.
type writes struct {
	slots *slots.Slots
	kind  kind
}

func newWrites(k kind) *writes {
	return &writes{kind: k, slots: slots.New(slots.Bounds{
		All: maxWrites, PerUser: maxWritesOfOne, Waiting: maxWaiting, WaitingOfOneUser: maxWaitingOfOne,
		Refusal: apierrors.NewTooManyRequests("too many policies are being written: try again later", retryAfterSeconds),
	})}
}

// begin waits until a policy may be written.
func (w *writes) begin(ctx context.Context) (end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return w.slots.Acquire(ctx, w.shareOf(ctx), "")
}

// shareOf names those who share the writes of one. The authors of a namespace may use the names of all of its service accounts.
func (w *writes) shareOf(ctx context.Context) string {
	if w.kind.namespaced {
		return genericapirequest.NamespaceValue(ctx)
	}
	if user, ok := genericapirequest.UserFrom(ctx); ok {
		return user.GetName()
	}
	return ""
}
