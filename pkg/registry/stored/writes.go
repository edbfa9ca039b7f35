/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/proviso-authz/proviso/pkg/slots"
)

// A policy or a mapping is compiled when it is written, dry runs included, which takes up to some tenths of a second of
// processor time. 150 writes at once kept reviews from being answered in time. The bounds are for each kind: authors of
// namespaces keep no administrator of the cluster from writing.
const (
	// maxWrites bounds the writes at the same time. maxWritesOfOne bounds the writes in one namespace, or by one user if the
	// kind has no namespaces. Most of the time of a write is spent on waiting for etcd and kube-apiserver.
	maxWrites      = 8
	maxWritesOfOne = 2
	// maxWritesInAll bounds the writes of one user in all namespaces together.
	maxWritesInAll = 4
	// maxWaiting bounds the writes that wait. maxWaitingOfOne bounds the waiting writes of one user in one namespace, or of one
	// user if the kind has no namespaces, and maxWaitingInAll the waiting writes of one user in all namespaces together. A tool
	// that applies a directory writes fewer at a time.
	maxWaiting      = 256
	maxWaitingOfOne = 32
	maxWaitingInAll = 128
	// writeTimeout is how long a write waits. Clients wait for half a minute and more, and repeat a write that is refused.
	writeTimeout = 10 * time.Second
	// retryAfterSeconds is when a client is to try again.
	retryAfterSeconds = 1
)

// NewWrites returns a function for Kind.Begin that bounds the writes of one kind of objects that are compiled. noun is the name of the objects in
// the plural, for refusals.
//
// The function waits until an object may be written. The caller must call end after the write. The error is a 429: too many writes wait,
// or this write has waited for writeTimeout or until ctx ended. Authors in a namespace share its writes, because they may use the
// names of all of its service accounts.
func NewWrites(noun string, namespaced bool) func(ctx context.Context) (end func(), err error) {
	bounds := slots.Bounds{
		All: maxWrites, PerUser: maxWritesOfOne, Waiting: maxWaiting, WaitingOfOneUser: maxWaitingOfOne,
		Refusal: apierrors.NewTooManyRequests("too many "+noun+" are being written: try again later", retryAfterSeconds),
	}
	if namespaced {
		bounds.PerUser, bounds.WaitingOfOneUser = maxWritesInAll, maxWaitingInAll
		bounds.PerNamespace, bounds.PerUserInNamespace, bounds.WaitingOfOneUserInNamespace = maxWritesOfOne, maxWritesOfOne, maxWaitingOfOne
	}
	writes := slots.New(bounds)
	return func(ctx context.Context) (end func(), err error) {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		name, namespace := "", ""
		if user, ok := genericapirequest.UserFrom(ctx); ok {
			name = user.GetName()
		}
		if namespaced {
			namespace = genericapirequest.NamespaceValue(ctx)
		}
		return writes.Acquire(ctx, name, namespace)
	}
}
