/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// recorder sends events to kube-apiserver. Events about cluster-scoped policies go to the namespace default.
type recorder struct {
	broadcaster events.EventBroadcaster
	events      events.EventRecorder
	start       func()
}

var _ Recorder = &recorder{}

func newRecorder(client kubernetes.Interface) *recorder {
	r := &recorder{broadcaster: events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})}
	r.events = r.broadcaster.NewRecorder(runtime.NewScheme(), "proviso.dev/barriers")
	r.start = sync.OnceFunc(func() {
		if err := r.broadcaster.StartRecordingToSinkWithContext(context.Background()); err != nil {
			klog.Background().Error(err, "Cannot send events about barriers")
		}
	})
	return r
}

// Event sends an event.
func (r *recorder) Event(regarding *corev1.ObjectReference, eventType, reason, action, note string) {
	r.start()
	r.events.Eventf(regarding, nil, eventType, reason, action, "%s", note)
}
