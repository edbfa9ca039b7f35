/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import "testing"

// TestReadsRequestField finds the fields of request that an expression reads, also inside other fields.
func TestReadsRequestField(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		expression string
		path       []string
		want       bool
	}{
		{`request.userInfo.username == "a"`, []string{"userInfo"}, true},
		{`request.userInfo.username == "a"`, []string{"userInfo", "username"}, true},
		{`request.userInfo.username == "a"`, []string{"userInfo", "groups"}, false},
		{`request.userInfo == request.userInfo`, []string{"userInfo", "groups"}, true},
		{`request == request`, []string{"userInfo", "groups"}, true},
		{`request.?userInfo.groups.hasValue()`, []string{"userInfo", "groups"}, true},
		{`["a"].exists(x, x in request.userInfo.groups)`, []string{"userInfo", "groups"}, true},
		{`request.userInfo.extra["k"] == ["v"]`, []string{"userInfo", "extra", "k"}, true},
		{`request.name == "a"`, []string{"userInfo"}, false},
		{`object.metadata.name == "a"`, []string{"name"}, false},
	} {
		if got := compile(t, tc.expression).ReadsRequestField(tc.path[0], tc.path[1:]...); got != tc.want {
			t.Errorf("%s reads %v: got %v, want %v", tc.expression, tc.path, got, tc.want)
		}
	}
}
