/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// namedSelector finds the selector in a refusal.
var namedSelector = regexp.MustCompile(`: use the (label|field) selector (\S+)`)

// testSelectors has a user who is refused lists, and copies the selector from the message.
func testSelectors(t *testing.T, r *rig) {
	kubectl := func(args ...string) (string, error) {
		return r.Kubectl(t.Context(), "", append([]string{"--as", "lisa", "--namespace", demo}, args...)...)
	}
	poll.Holds(t, "the policies are in effect", func() bool {
		_, err := kubectl("get", "configmaps", "--selector", "team=blue")
		_, pods := kubectl("get", "pods", "--field-selector", "spec.nodeName=node-1")
		return err == nil && pods == nil
	})
	for _, tc := range []struct{ resource, flag, want string }{
		{"configmaps", "--selector", "ours"}, {"virtualmachines", "--selector", ""}, {"pods", "--field-selector", ""},
	} {
		_, err := kubectl("get", tc.resource, "--output=name")
		if err == nil {
			t.Fatalf("%s: the list is not refused", tc.resource)
		}
		named := namedSelector.FindStringSubmatch(err.Error())
		if named == nil || !strings.Contains(err.Error(), "(Forbidden)") || !strings.Contains(tc.flag, strings.ReplaceAll(named[1], "label", "--selector")) {
			t.Errorf("%s: the refusal names no selector: %v", tc.resource, err)
			continue
		}
		output, err := kubectl("get", tc.resource, "--output=name", tc.flag, named[2])
		if err != nil || strings.Contains(output, "theirs") || !strings.Contains(output, tc.want) {
			t.Errorf("%s with %s %s: got %s, %v", tc.resource, tc.flag, named[2], output, err)
		}
	}
	machines := "/apis/demo.proviso.dev/v1alpha1/namespaces/" + demo + "/virtualmachines"
	for _, request := range [][2]string{{http.MethodGet, maps + "?watch=1&timeoutSeconds=1&"}, {http.MethodDelete, machines + "?"}} {
		code, answer := r.send(t, "lisa", request[0], request[1], "", "")
		named := namedSelector.FindStringSubmatch(strings.ReplaceAll(answer, `"`, " "))
		if code != http.StatusForbidden || named == nil {
			t.Errorf("%v: got %d %s, want 403 with a selector", request, code, answer)
			continue
		}
		if code, answer := r.send(t, "lisa", request[0], request[1]+"labelSelector="+url.QueryEscape(named[2]), "", ""); code != http.StatusOK {
			t.Errorf("%v with %s: got %d %s", request, named[2], code, answer)
		}
	}
}
