/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/warning"
)

// TestWarningsArrive sends warnings with the filter of the generic server. It shortens and omits warnings on its own, without
// telling the client: none of that must happen.
func TestWarningsArrive(t *testing.T) {
	t.Parallel()
	many := func(n, bytes int) (warnings []string) {
		for i := range n {
			warnings = append(warnings, fmt.Sprintf("%04d", i)+strings.Repeat("x", bytes-4))
		}
		return warnings
	}
	for _, tc := range []struct {
		name     string
		warnings []string
		want     int
		wantLast string
	}{
		{"none", nil, 0, ""},
		{"one", []string{"a"}, 1, "a"},
		{"control characters", []string{"a\nb\tc\x7fd"}, 1, "a b c d"},
		{"another direction", []string{"a\u202eb"}, 1, "a b"},
		{"invalid characters", []string{"a\xffb"}, 1, "a\uFFFDb"},
		{"quotes", []string{`did you mean "pods"?`}, 1, `did you mean "pods"?`},
		{"a long one", []string{strings.Repeat("ä", 1000)}, 1, strings.Repeat("ä", 382) + "…"},
		{"as many as fit", many(10, 300), 10, many(10, 300)[9]},
		{"too many", many(20, 300), 11, "there are 10 more warnings"},
		{"far too many", many(2000, 100), 31, "there are 1970 more warnings"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want := boundedWarnings(tc.warnings)
			handler := filters.WithWarningRecorder(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				warning.AddWarning(r.Context(), "", strings.Repeat("y", 1000)) // one of the generic server
				for _, w := range want {
					warning.AddWarning(r.Context(), "", w)
				}
			}))
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
			var got []string
			for _, header := range recorder.Header()["Warning"][1:] {
				text := strings.TrimSuffix(strings.TrimPrefix(header, `299 - "`), `"`)
				got = append(got, strings.ReplaceAll(text, `\"`, `"`))
			}
			if len(got) != tc.want || !slices.Equal(got, want) {
				t.Fatalf("got %d warnings, want %d: %q", len(got), tc.want, got)
			}
			if tc.want > 0 && got[len(got)-1] != tc.wantLast {
				t.Errorf("the last one is %q, want %q", got[len(got)-1], tc.wantLast)
			}
		})
	}
}

// TestQuietErrors checks that the text of an error that is a Status has no values, and that clients get the same Status.
func TestQuietErrors(t *testing.T) {
	t.Parallel()
	const secret = "dGhlIHNlY3JldA"
	status := apierrors.NewBadRequest("invalid value " + secret)
	got := quiet(status)
	if text := got.Error(); strings.Contains(text, secret) || text != "BadRequest (400)" {
		t.Errorf("got %q, want the reason and the code", text)
	}
	if diff := cmp.Diff(responsewriters.ErrorToAPIStatus(status), responsewriters.ErrorToAPIStatus(got)); diff != "" {
		t.Errorf("clients get another answer: %s", diff)
	}
	if !apierrors.IsBadRequest(got) || !errors.Is(got, status) && !errors.As(got, &status) {
		t.Errorf("got %#v, want an error that is still a bad request", got)
	}
	other := errors.New("etcdserver: request is too large") // the handlers look at its type
	if got := quiet(other); got != other {                  //nolint:errorlint // it must be the same
		t.Errorf("got %v, want the error as it is", got)
	}
	if got := quiet(nil); got != nil {
		t.Errorf("got %v, want no error", got)
	}
}
