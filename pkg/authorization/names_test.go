/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization_test

import (
	"slices"
	"testing"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// TestNames writes names into a warning, and reads them.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, n := range []authorization.Names{{}, {Names: []string{"a"}}, {Names: []string{"a", `b" and others`}, IsOpen: true}, {IsOpen: true}, {Names: []string{"a"}, IsOpen: true, By: "n/p"}, {IsOpen: true, By: "p"}} {
		warning := n.Warning()
		got, ok := authorization.NamesIn(warning)
		if !slices.Equal(got.Names, n.Names) || got.IsOpen != n.IsOpen || got.By != n.By || ok != (warning != "") {
			t.Errorf("%+v: got %q, %+v, %t", n, warning, got, ok)
		}
	}
	cut := authorization.Names{Names: []string{"a", "b"}}.Warning()
	if got, ok := authorization.NamesIn(cut[:len(cut)-3]); !ok || len(got.Names) > 0 || !got.IsOpen {
		t.Errorf("a warning that was cut: got %+v, %t", got, ok)
	}
	if _, ok := authorization.NamesIn("policies are out of date"); ok {
		t.Error("another warning has names")
	}
}

func TestLacksName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		verb, subresource, name string
		want                    bool
	}{
		{verb: "get", want: true},
		{verb: "delete", name: "a"},
		{verb: "patch", subresource: "status", want: true},
		{verb: "create"},
		{verb: "create", subresource: "exec", want: true},
		{verb: "list"},
		{verb: "deletecollection"},
	} {
		if got := authorization.LacksName(tc.verb, tc.subresource, tc.name); got != tc.want {
			t.Errorf("%+v: got %t", tc, got)
		}
	}
}
