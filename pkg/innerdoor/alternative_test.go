/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// TestAlternatives lists what looks the same at admission as a request with a check: the rest of its own checks, and the
// checks of the other ways.
func TestAlternatives(t *testing.T) {
	t.Parallel()
	claims, status := innerdoor.Resource{Resource: "persistentvolumeclaims"}, innerdoor.Resource{Resource: "persistentvolumeclaims", Subresource: "status"}
	services, token := innerdoor.Resource{Resource: "services"}, innerdoor.Resource{Resource: "serviceaccounts", Subresource: "token"}
	for _, tc := range []struct {
		resource innerdoor.Resource
		verb     string
		named    bool
		want     []string
	}{
		{claims, "create", false, []string{"/ create/x patch/x"}},
		{claims, "create", true, []string{"patch/x / create"}},
		{claims, "update", true, []string{"/ patch/x"}},
		{claims, "patch", true, []string{"create/x / create", "/ update/x"}},
		{claims, "delete", true, []string{"/"}},
		{claims, "deletecollection", false, []string{"/"}},
		{claims, "delete", false, nil},
		{claims, "deletecollection", true, nil},
		{claims, "update", false, nil},
		{claims, "get", true, nil},
		{claims, "*", true, nil},
		{claims, "", false, nil},
		{services, "create", false, []string{"/ create/x update/x patch/x"}},
		{services, "create", true, []string{"update/x / create patch/x", "patch/x / create update/x"}},
		{services, "update", true, []string{"create/x / create create/x patch/x", "/ patch/x"}},
		{services, "patch", true, []string{"create/x / create create/x update/x", "/ update/x"}},
		{status, "create", false, nil},
		{status, "create", true, nil},
		{status, "update", true, []string{"/ patch/x"}},
		{status, "patch", true, []string{"/ update/x"}},
		{status, "delete", true, nil},
		{status, "deletecollection", false, nil},
		{token, "create", true, []string{"/"}},
		{token, "create", false, nil},
		{token, "update", true, nil},
	} {
		t.Run(fmt.Sprintf("%s %s %t", tc.verb, tc.resource, tc.named), func(t *testing.T) {
			t.Parallel()
			show := func(checks []innerdoor.Check) (shown []string) {
				for _, c := range checks {
					name := ""
					if c.Named {
						name = "/x"
					}
					shown = append(shown, c.Verb+name)
				}
				return shown
			}
			var got []string
			for _, a := range innerdoor.Alternatives(tc.resource, innerdoor.Check{Verb: tc.verb, Named: tc.named}) {
				got = append(got, strings.Join(append(append(show(a.Rest), "/"), show(a.Others)...), " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rest and others (-want +got):\n%s", diff)
			}
		})
	}
}
