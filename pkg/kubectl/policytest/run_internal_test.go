/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest

import "testing"

// TestHaveParts finds a text for each part, even if a text that has several parts comes first.
func TestHaveParts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		texts, parts []string
		want         bool
	}{
		{nil, nil, true},
		{[]string{"ab", "a"}, []string{"a", "ab"}, true},
		{[]string{"abc", "ab", "a"}, []string{"a", "b", "c"}, true},
		{[]string{"a", "a"}, []string{"a", "a"}, true},
		{[]string{"ab"}, []string{"a", "b"}, false},
		{[]string{"ab", "c"}, []string{"a", "b"}, false},
		{[]string{"a", "b"}, []string{"a"}, false},
	} {
		if got := haveParts(tc.texts, tc.parts); got != tc.want {
			t.Errorf("%q has the parts %q: got %t", tc.texts, tc.parts, got)
		}
	}
}
