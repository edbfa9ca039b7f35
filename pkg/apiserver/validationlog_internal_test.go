/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// TestValidationLogHasNoValues logs what the generic store logs, and what it must not change.
func TestValidationLogHasNoValues(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	handler := withoutValuesInLogs(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context())
		logger.Info(duplicateValidation, "kind", "k", "error", "secret")
		logger.WithValues("a", "b").WithName("n").Info(duplicateValidation, "error", "secret")
		logger.Info("another message", "error", "kept")
		logger.Error(errors.New("cause"), "failed", "key", "value")
	}))
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out)))
	handler.ServeHTTP(httptest.NewRecorder(), request.WithContext(klog.NewContext(request.Context(), logger)))
	log := out.String()
	if strings.Contains(log, "secret") {
		t.Errorf("the log has a value: %s", log)
	}
	for _, want := range []string{duplicateValidation, `"another message" error="kept"`, `err="cause"`, `key="value"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
	// The place in the code is the caller's, not the sink's.
	if n := strings.Count(log, "validationlog_internal_test.go:"); n != 4 {
		t.Errorf("%d of 4 messages name their place: %s", n, log)
	}
}
