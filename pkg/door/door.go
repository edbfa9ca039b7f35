/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package door has what the handlers of both webhooks of kube-apiserver share: how long a call may take, how its time is counted, and
// what the log says of a panic. What bounds their calls is in package slots.
//
// The package must not know what a webhook decides.
package door

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"
)

// CallBuckets are the buckets, in seconds, of the time that a call takes.
var CallBuckets = []float64{0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5}

// TimeoutOf returns how long a call may take: most, or a share of the time that kube-apiserver waits, if that is less. kube-apiserver sends its timeout in the
// query.
func TimeoutOf(r *http.Request, most time.Duration, share float64) time.Duration {
	waits, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || waits <= 0 {
		return most
	}
	part := time.Duration(float64(waits) * share)
	//guard:inner-door-time-kube-apiserver
	return min(most, part)
}

// SetReadDeadline sets the read deadline of the connection to the deadline of ctx, if there is one.
func SetReadDeadline(ctx context.Context, w http.ResponseWriter) {
	if deadline, ok := ctx.Deadline(); ok {
		// A test recorder has no connection to set a deadline on.
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
	}
}

// LogPanic logs the type and the stack of a panic. The value may quote a request or an object, and is left out.
func LogPanic(ctx context.Context, door string, cause any) {
	klog.FromContext(ctx).Error(nil, "The "+door+" panicked", "type", fmt.Sprintf("%T", cause), "stack", string(debug.Stack()))
}
