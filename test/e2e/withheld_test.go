/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

const (
	// withheldSecret is in the objects that the user of these tests may not read.
	withheldSecret = "tHeSecrET"
	withheldUser   = "e2e-withheld"
	withheldHint   = "details are shown to users who may get the object"
)

// withheldProbes are JSON patches that the handlers answer with values of the object, or
// whose answers depend on values of the object. The first is valid.
var withheldProbes = []string{
	`[{"op":"add","path":"/metadata/labels/a","value":"b"}]`,
	`[{"op":"copy","from":"/spec","path":"/metadata/labels/x"}]`,
	`[{"op":"copy","from":"/metadata/labels/tier","path":"/metadata/name"}]`,
	`[{"op":"move","from":"/spec","path":"/metadata/annotations"}]`,
	`[{"op":"test","path":"/metadata/labels/tier","value":"tHeSecrET"},{"op":"add","path":"/metadata/labels/a","value":"b"}]`,
	`[{"op":"test","path":"/metadata/labels/tier","value":"other"},{"op":"add","path":"/metadata/labels/a","value":"b"}]`,
	`[{"op":"replace","path":"/spec/none","value":"b"}]`,
	`[{"op":"replace","path":"/metadata/uid","value":"00000000-0000-0000-0000-000000000000"}]`,
}

// probeWithheld has a user send requests that fail or are refused, and wants one answer.
func probeWithheld(t *testing.T, c *rest.Config, path string, deletes bool) {
	t.Helper()
	sender, as := requests.NewSender(c, nil), &requests.User{Name: withheldUser}
	send := func(body string) (int, string) {
		return sender.Send(t, as, http.MethodPatch, path, string(types.JSONPatchType), body)
	}
	var want string
	poll.Holds(t, "the policies hold", func() bool {
		_, want = send(withheldProbes[0])
		return strings.Contains(want, withheldHint)
	})
	for _, body := range withheldProbes {
		code, got := send(body)
		if code != http.StatusForbidden || got != want {
			t.Errorf("%s: %s: got %d %s, want %s", path, body, code, got, want)
		}
		if strings.Contains(got, withheldSecret) {
			t.Errorf("%s: %s shows the object: %s", path, body, got)
		}
	}
	if !deletes {
		return
	}
	code, got := sender.Send(t, as, http.MethodDelete, path, "application/json", `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"00000000-0000-0000-0000-000000000000"}}`)
	if code != http.StatusForbidden || !strings.Contains(got, withheldHint) || strings.Contains(got, "UID") {
		t.Errorf("%s: a wrong precondition: got %d %s", path, code, got)
	}
}

// TestWithheldAnswers probes machines and policies on both routes, as a user who may only
// change them on a condition that does not hold.
func TestWithheldAnswers(t *testing.T) {
	t.Parallel()
	apply(t, readText(t, "testdata/withheld.yaml"))
	const target = "e2e-withheld-target"
	for _, route := range routes {
		t.Run(route.name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{
				"/apis/demo.proviso.dev/v1alpha1/namespaces/demo/virtualmachines/" + target,
				"/apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies/" + target,
				"/apis/policy.proviso.dev/v1alpha1/namespaces/demo/authorizationpolicies/" + target,
			} {
				probeWithheld(t, config(t, "admin"+route.suffix), path, true)
			}
			// Server-side apply is how kubectl writes without reading first. Its conflicts name
			// the fields of other managers.
			manifest := fmt.Sprintf("apiVersion: demo.proviso.dev/v1alpha1\nkind: VirtualMachine\nmetadata: {name: %s, namespace: demo}\nspec: {image: other}\n", target)
			_, errs, err := kubectlWithInput(t, "admin"+route.suffix, manifest, "apply", "--as="+withheldUser, "--server-side", "--validate=false", "-f", "-")
			if err == nil || !strings.Contains(errs, "Error from server (Forbidden)") || !strings.Contains(errs, withheldHint) || strings.Contains(errs, "conflict") {
				t.Errorf("kubectl apply: got %v %s", err, errs)
			}
		})
	}
}

// checkWithheld probes a machine as a user who only has permission on a label.
func (f *fine) checkWithheld(t *testing.T) {
	t.Helper()
	f.apply(t, readText(t, "testdata/withheld-fields.yaml"))
	for _, route := range routes {
		probeWithheld(t, f.config(t, "admin"+route.suffix), "/apis/demo.proviso.dev/v1alpha1/namespaces/demo/virtualmachines/e2e-withheld-target", false)
	}
}
