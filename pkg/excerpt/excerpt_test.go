/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package excerpt_test

import (
	"testing"

	"github.com/proviso-authz/proviso/pkg/excerpt"
)

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{
		{"", ""}, {"12345678", "12345678"}, {"123456789", "12345…"}, {"1234ä789", "1234…"}, {"123ä6789", "123ä…"}, {"1234\xff6789", "1234…"},
	} {
		if got := excerpt.Of(tc.text, 8); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.text, got, tc.want)
		}
	}
}
