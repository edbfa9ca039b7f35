/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/documents"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// removal is a control plane from which Proviso is removed in a wrong order.
type removal struct {
	*plane.Own
	rows map[string][]*requests.Row
	// withBarrier ends the writes that the barrier refuses.
	withBarrier func()
}

// TestRemovedInWrongOrder deletes Proviso's namespace, or its APIServices, before kube-apiserver has stopped to call Proviso. Nothing that was refused by a component that
// is still there passes, the administrator sees the cause, and the commands of docs/operations.md make the cluster as it was.
func TestRemovedInWrongOrder(t *testing.T) {
	t.Parallel()
	t.Run("the namespace first", func(t *testing.T) {
		t.Parallel()
		r := newRemoval(t, "NoOpinion")
		r.deleteNamespaces(t)
		r.are(t, "NoOpinion")
		for _, namespace := range []string{cluster.Namespace, "other"} {
			r.says(t, "policy.proviso.dev/v1alpha1: stale GroupVersion discovery", "get", "namespace", namespace, `-o=jsonpath={.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")].message}`)
		}
		r.says(t, "the server is currently unable to handle the request", "get", "clusterauthorizationpolicies.v1alpha1.policy.proviso.dev")
		r.says(t, "ServiceNotFound", "get", "apiservice", "v1alpha1.policy.proviso.dev", "-o=jsonpath={.status.conditions[*].reason}")
		r.mend(t)
	})
	t.Run("the APIServices first", func(t *testing.T) {
		t.Parallel()
		r := newRemoval(t, "Deny")
		r.MustKubectl(t, "delete", "apiservice", "v1alpha1.policy.proviso.dev", "v1alpha1.authorization.k8s.io", "v1alpha1.authorization.proviso.dev", "v1alpha1.demo.proviso.dev")
		r.are(t, "working") // the doors need no APIService
		r.deleteNamespaces(t)
		r.are(t, "Deny")
		r.mend(t)
	})
}

func newRemoval(t *testing.T, failurePolicy string) *removal {
	t.Helper()
	read := table(t, "removal.yaml")
	r := &removal{Own: plane.Prepare(t, cluster.Config{
		ControllerManager: true, Args: []string{"--barriers"},
		InnerDoor: &cluster.InnerDoor{Configuration: "resources: [{resource: configmaps}]", KubeAPIServer: "  frontDoorFailurePolicy: " + failurePolicy},
	}), rows: read.Rows}
	r.Start(t, r.Up)
	r.MustApply(t, read.Manifest())
	r.MustKubectl(t, "create", "namespace", "other")
	r.MustKubectl(t, "wait", "--for=condition=Effective", "clusterauthorizationpolicy/host-network", "--timeout=1m")
	r.are(t, "working")
	r.withBarrier = r.never(t, r.rows["barrier"][0])
	return r
}

// never sends a row again and again, until stop is called or the test ends: it must not pass.
func (r *removal) never(t *testing.T, row *requests.Row) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		sent := 0
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			answer, err := (&requests.Runner{Sender: r.Sender}).Send(ctx, t, row)
			if err == nil && answer.Code < http.StatusBadRequest {
				t.Errorf("%s has passed: %.300s", row, answer.Body)
				return
			}
			if err == nil {
				sent++
			}
		}
		// While a door does not answer, one refusal takes seconds.
		if t.Logf("%s was refused %d times", row, sent); sent == 0 {
			t.Errorf("%s has no answer: this says nothing", row)
		}
	})
	stop = func() {
		cancel()
		group.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// are waits until each row of a state has its outcome.
func (r *removal) are(t *testing.T, state string) {
	t.Helper()
	await(t, &requests.Runner{Sender: r.Sender}, r.rows[state])
}

// says waits until kubectl, which may fail, prints a text.
func (r *removal) says(t *testing.T, text string, args ...string) {
	t.Helper()
	poll.Eventually(t, strings.Join(args, " "), func() string {
		output, err := r.Kubectl(t.Context(), "", args...)
		if strings.Contains(output, text) {
			return ""
		}
		return output + " " + errorText(err)
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// deleteNamespaces deletes Proviso with its namespace, and another namespace.
func (r *removal) deleteNamespaces(t *testing.T) {
	t.Helper()
	mustBeNil(t, r.Kill())
	r.never(t, r.rows["conditions"][0])
	r.MustKubectl(t, "delete", "namespace", cluster.Namespace, "other", "--wait=false")
}

// mend takes Proviso out of the files of kube-apiserver, runs the commands of docs/operations.md, and expects that nothing of Proviso is left.
func (r *removal) mend(t *testing.T) {
	t.Helper()
	server, authorization := r.Servers[0], map[string]any{}
	file := filepath.Join(server.InnerDoorFiles(), "authorization.yaml")
	content, err := os.ReadFile(file)
	mustBeNil(t, err)
	mustBeNil(t, yaml.Unmarshal(content, &authorization))
	authorization["authorizers"] = authorization["authorizers"].([]any)[1:]
	content, err = yaml.Marshal(authorization)
	mustBeNil(t, err)
	replaceFile(t, server, file, string(content))
	r.are(t, "barriers alone")
	mustBeNil(t, os.Remove(server.Manifest()))

	mine := filepath.Join(r.Manifests, "mine")
	mustBeNil(t, errors.Join(os.Mkdir(mine, 0o700),
		os.WriteFile(filepath.Join(mine, "kustomization.yaml"), []byte("resources: [../overlays/demo]\ncomponents: [../inner-door, ../barriers]\n"), 0o600)))
	r.withBarrier()
	for _, part := range []struct{ document, mark string }{{"barriers.md", "without Proviso"}, {"operations.md", "deleted in another order"}} {
		content, err := os.ReadFile(filepath.Join(r.Repository, "docs", part.document))
		mustBeNil(t, err)
		commands, err := documents.Console(string(content), part.mark)
		mustBeNil(t, err)
		output, err := r.Shell(t.Context(), strings.ReplaceAll(commands, "artifacts/overlays/demo", mine)).CombinedOutput()
		if t.Logf("%s", output); err != nil {
			t.Fatalf("%s: %v", part.document, err)
		}
	}
	r.are(t, "removed")
	if output, err := r.Kubectl(t.Context(), "", "api-resources"); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	left := r.MustKubectl(t, "get", "namespaces,apiservices,clusterroles,clusterrolebindings,flowschemas,prioritylevelconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o=name")
	left += r.MustKubectl(t, "get", "roles,rolebindings,configmaps,leases", "--all-namespaces", "-o=name")
	for line := range strings.Lines(left) {
		if name := strings.TrimSpace(line); strings.Contains(name, "proviso") || name == "namespace/other" {
			t.Errorf("%s is left", name)
		}
	}
}
