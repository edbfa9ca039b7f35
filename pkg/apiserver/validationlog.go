/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"net/http"

	"k8s.io/klog/v2"
)

// duplicateValidation is the message by which the generic store logs an error that two
// validations of one update have found. The generic store itself validates labels,
// annotations, owner references and managed fields twice, so that every mistake in one of them
// is logged.
const duplicateValidation = "Found duplicate validation error"

// withoutValuesInLogs keeps objects out of the log: the generic store logs a duplicate
// validation error together with the value that is invalid.
func withoutValuesInLogs(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context())
		logger = logger.WithSink(newValidationSink(logger.GetSink()))
		handler.ServeHTTP(w, r.WithContext(klog.NewContext(r.Context(), logger)))
	})
}

// validationSink drops the values of the message duplicateValidation, and passes on every
// other message as it is.
type validationSink struct {
	klog.LogSink
}

// callDepthSink is a sink that can skip frames of the stack when it looks for the caller.
type callDepthSink interface {
	WithCallDepth(depth int) klog.LogSink
}

var (
	_ klog.LogSink  = validationSink{}
	_ callDepthSink = validationSink{}
)

func newValidationSink(sink klog.LogSink) validationSink {
	if deep, ok := sink.(callDepthSink); ok {
		sink = deep.WithCallDepth(1) // the methods of validationSink are a frame more
	}
	return validationSink{sink}
}

// Init does nothing: the sink beneath is initialised.
func (validationSink) Init(klog.RuntimeInfo) {}

// Info logs a message, without its values if it is duplicateValidation.
func (s validationSink) Info(level int, message string, keysAndValues ...any) {
	if message == duplicateValidation {
		keysAndValues = nil
	}
	s.LogSink.Info(level, message, keysAndValues...)
}

// Error logs an error.
func (s validationSink) Error(err error, message string, keysAndValues ...any) {
	s.LogSink.Error(err, message, keysAndValues...)
}

// WithValues returns a sink that adds values to every message.
func (s validationSink) WithValues(keysAndValues ...any) klog.LogSink {
	return validationSink{s.LogSink.WithValues(keysAndValues...)}
}

// WithName returns a sink that adds a name to every message.
func (s validationSink) WithName(name string) klog.LogSink {
	return validationSink{s.LogSink.WithName(name)}
}

// WithCallDepth returns a sink that skips more frames.
func (s validationSink) WithCallDepth(depth int) klog.LogSink {
	if deep, ok := s.LogSink.(callDepthSink); ok {
		return validationSink{deep.WithCallDepth(depth)}
	}
	return s
}
