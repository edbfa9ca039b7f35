/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package suggestion_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/suggestion"
)

func TestNear(t *testing.T) {
	t.Parallel()
	resources := []string{"pods", "nodes", "secrets", "services", "virtualmachines", "persistentvolumes", "persistentvolumeclaims", "jobs"}
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	for _, tc := range []struct {
		name       string
		candidates []string
		want       []string
	}{
		{"virtualmachine", resources, []string{"virtualmachines"}},
		{"VirtualMachines", resources, []string{"virtualmachines"}},
		{"pod", resources, []string{"pods"}},
		{"Pods", resources, []string{"pods"}},
		{"scerets", resources, []string{"secrets"}},
		{"persistentvolume", resources, []string{"persistentvolumeclaims", "persistentvolumes"}},
		{"elephants", resources, nil},
		{"x", resources, nil},
		{"", resources, nil},
		{"craete", verbs, []string{"create"}},
		{"updates", verbs, []string{"update"}},
		{"approve", verbs, nil},
		{"storageClass", []string{"storageMode", "storageClassName"}, []string{"storageClassName"}},
		{"create", []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}, []string{"CREATE"}},
		{"abcd1", []string{"abcd5", "abcd4", "abcd3", "abcd2"}, []string{"abcd2", "abcd3", "abcd4"}},
		{"ab", []string{"ab", "abc"}, []string{"abc"}},
		{strings.Repeat("a", 65), []string{strings.Repeat("a", 64)}, nil},
		{strings.Repeat("a", 64), []string{strings.Repeat("a", 65)}, nil},
	} {
		got := suggestion.Near(tc.name, tc.candidates)
		slices.Reverse(tc.candidates)
		if again := suggestion.Near(tc.name, tc.candidates); !slices.Equal(got, again) {
			t.Errorf("%s: got %q, and in another order %q", tc.name, got, again)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" && len(tc.want)+len(got) > 0 {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"pos":     `; did you mean "pods"?`,
		"abcd1":   `; did you mean "abcd2" or "abcd3"?`,
		"unheard": "",
	} {
		if got := suggestion.DidYouMean(name, []string{"pods", "abcd3", "abcd2"}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := suggestion.Quoted([]string{"a", "b", "c"}, "and"); got != `"a", "b" and "c"` {
		t.Errorf("got %s", got)
	}
}
