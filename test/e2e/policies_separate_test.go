/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"bytes"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// apply runs kubectl apply against the server itself, as the admin.
func (s *separate) apply(t *testing.T, manifest string) {
	t.Helper()
	cert, key := stack.UserCertificate("admin")
	cmd := exec.CommandContext(t.Context(), filepath.Join(stack.Bin, "kubectl"), "--server="+s.URL(), "--certificate-authority="+stack.CAFile(),
		"--client-certificate="+cert, "--client-key="+key, "--cache-dir="+t.TempDir(), "apply", "-f", "-")
	var output bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(manifest), &output, &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("kubectl apply: %v: %s", err, &output)
	}
}

// runner sends requests to the server itself. The administrator is the admin. It has its own connections, because a restart of the server closes the connections of earlier runners.
func (s *separate) runner() *requests.Runner {
	c := s.Client("admin")
	c.Dial = (&net.Dialer{}).DialContext // keeps the transport from being shared
	return &requests.Runner{Sender: requests.NewSender(c, certificates)}
}

// TestWorkedExample asks what the KEP's worked example asks, of a real server.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	s, table := newSeparate(t, "example"), readRequests(t, "worked-example.yaml")
	s.apply(t, table.Manifest())
	for _, name := range []string{"one", "two"} {
		poll.Holds(t, name+" is in force", func() bool { return s.ready(t, name).Status == metav1.ConditionTrue })
	}
	s.runner().Run(t, table.Rows["all"])
}

// TestWeakeningADeny tries every way to make less of a Deny policy, without the permission
// to restrict.
func TestWeakeningADeny(t *testing.T) {
	t.Parallel()
	s, table := newSeparate(t, "weaken"), readRequests(t, "weakening.yaml")
	apply(t, table.Manifest())
	runner := s.runner()
	runner.Run(t, table.Rows["before"])
	poll.Holds(t, "it is in force", func() bool {
		ready := s.ready(t, "guard")
		return ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == 2
	})
	awaitRows(t, runner, table.Rows["may write"])
	runner.Run(t, table.Rows["may write"])
	get := func() any {
		t.Helper()
		stored, err := s.client.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(t.Context(), "guard", metav1.GetOptions{})
		must(t, err)
		return stored
	}
	before := get()
	runner.After = func(row *requests.Row, _ *requests.Answer, _ []*admissionv1.AdmissionRequest) {
		if diff := cmp.Diff(before, get()); diff != "" {
			t.Errorf("%s: it was stored (-before +after):\n%s", row, diff)
		}
	}
	runner.Run(t, table.Rows["refused"])
	runner.After = nil
	runner.Run(t, table.Rows["after"])
}
