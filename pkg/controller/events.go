/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// Recorder records events. Others may read events than may read policies, so that a note must have no text of one.
type Recorder interface {
	Event(regarding *corev1.ObjectReference, eventType, reason, action, note string)
}

// Events sends events to kube-apiserver, those about cluster-scoped objects to the namespace default. Equal events within some minutes become one
// with a count.
type Events struct {
	broadcaster events.EventBroadcaster
	recorder    events.EventRecorder
}

// NewEvents returns Events of a reporting controller, such as proviso.dev/policies.
func NewEvents(client eventsclient.EventsV1Interface, reportingController string) *Events {
	broadcaster := events.NewBroadcaster(&sink{EventSink: &events.EventSinkImpl{Interface: client}})
	return &Events{broadcaster, broadcaster.NewRecorder(runtime.NewScheme(), reportingController)}
}

// Event implements Recorder. An event before Start is lost.
func (e *Events) Event(regarding *corev1.ObjectReference, eventType, reason, action, note string) {
	e.recorder.Eventf(regarding, nil, eventType, reason, action, "%s", note)
}

// Start sends events until ctx ends.
func (e *Events) Start(ctx context.Context) {
	if err := e.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot send events")
	}
	context.AfterFunc(ctx, e.broadcaster.Shutdown)
}

// sink drops the events that kube-apiserver forbids, and logs the first one: without permission the server goes on without events.
type sink struct {
	events.EventSink
	forbidden sync.Once
}

// Create implements events.EventSink.
func (s *sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	created, err := s.EventSink.Create(ctx, event)
	return s.permitted(ctx, event, created, err)
}

// Patch implements events.EventSink.
func (s *sink) Patch(ctx context.Context, event *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	patched, err := s.EventSink.Patch(ctx, event, patch)
	return s.permitted(ctx, event, patched, err)
}

func (s *sink) permitted(ctx context.Context, sent, stored *eventsv1.Event, err error) (*eventsv1.Event, error) {
	if !apierrors.IsForbidden(err) {
		return stored, err
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) { // no permission is missing
		return sent, nil
	}
	s.forbidden.Do(func() {
		klog.FromContext(ctx).Error(err, "kube-apiserver forbids an event, and others like it are not logged", "reportingController", sent.ReportingController)
	})
	return sent, nil
}
