/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"net/http"

	"k8s.io/klog/v2"
)

// duplicateValidation is the message that the generic store logs if two validations of one update
// return the same error. The store itself validates labels, annotations, owner references and
// managed fields twice, so that every invalid value in them is logged.
const duplicateValidation = "Found duplicate validation error"

// withoutValuesInLogs keeps objects out of the log: the generic store logs a duplicate validation
// error together with the invalid value.
func withoutValuesInLogs(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context())
		logger = logger.WithSink(newValidationSink(logger.GetSink()))
		handler.ServeHTTP(w, r.WithContext(klog.NewContext(r.Context(), logger)))
	})
}

// validationSink drops the values of the message duplicateValidation, and passes on all other
// messages unchanged.
type validationSink struct {
	klog.LogSink
}

// callDepthSink is a sink that can skip stack frames when it determines the caller.
type callDepthSink interface {
	WithCallDepth(depth int) klog.LogSink
}

var (
	_ klog.LogSink  = validationSink{}
	_ callDepthSink = validationSink{}
)

func newValidationSink(sink klog.LogSink) validationSink {
	if deep, ok := sink.(callDepthSink); ok {
		sink = deep.WithCallDepth(1) // the methods of validationSink add a frame
	}
	return validationSink{sink}
}

// Init does nothing: the wrapped sink is already initialised.
func (validationSink) Init(klog.RuntimeInfo) {}

// Info logs a message, without its values if it is duplicateValidation.
func (s validationSink) Info(level int, message string, keysAndValues ...any) {
	if message == duplicateValidation {
		keysAndValues = nil
	}
	s.LogSink.Info(level, message, keysAndValues...)
}

// Error logs an error without changes.
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

// WithCallDepth returns a sink that skips depth more frames.
func (s validationSink) WithCallDepth(depth int) klog.LogSink {
	if deep, ok := s.LogSink.(callDepthSink); ok {
		return validationSink{deep.WithCallDepth(depth)}
	}
	return s
}
