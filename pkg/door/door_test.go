/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package door_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/pkg/door"
)

// TestTimeoutOf has what kube-apiserver sends, and what others may send.
func TestTimeoutOf(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{
		"": 4 * time.Second, "?timeout=10s": 4 * time.Second, "?timeout=1s": 800 * time.Millisecond,
		"?timeout=0s": 4 * time.Second, "?timeout=-1s": 4 * time.Second, "?timeout=soon": 4 * time.Second,
	} {
		if got := door.TimeoutOf(httptest.NewRequest(http.MethodPost, "/"+query, nil), 4*time.Second, 0.8); got != want {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
}
