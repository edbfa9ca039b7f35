/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package managed_test runs control planes like those of managed clusters: kube-apiserver has no flag and no file for Proviso, and
// Proviso runs as configured by artifacts/overlays/managed.
package managed_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

func TestMain(m *testing.M) {
	cluster.MaybeContainer()
	os.Exit(m.Run())
}

// onEachKubernetes runs a test on a managed cluster with each kube-apiserver that is built.
func onEachKubernetes(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	onEach(t, cluster.Config{Deployment: true}, (*cluster.Cluster).Up, test)
}

// onEachKubernetesAlone is onEachKubernetes without Proviso.
func onEachKubernetesAlone(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	onEach(t, cluster.Config{}, func(c *cluster.Cluster, ctx context.Context) error {
		return errors.Join(c.StartEtcd(ctx), c.StartKubeAPIServer(ctx))
	}, test)
}

func onEach(t *testing.T, config cluster.Config, up func(*cluster.Cluster, context.Context) error, test func(*testing.T, *rig)) {
	t.Helper()
	for _, kubernetes := range cluster.BuiltKubernetes(filepath.Join("..", "..", "..", "_output", "bin")) {
		t.Run(kubernetes, func(t *testing.T) {
			t.Parallel()
			own := config
			own.Managed, own.Kubernetes = true, kubernetes
			test(t, newRig(t, own, up))
		})
	}
}

// TestOneDeployment has tests that follow each other on one cluster. Each leaves it as it was, but for the last one. No request of Proviso may be
// forbidden in any of them.
func TestOneDeployment(t *testing.T) {
	t.Parallel()
	onEachKubernetes(t, func(t *testing.T, r *rig) {
		for _, part := range []struct {
			name string
			test func(*testing.T, *rig)
		}{
			{"overlay", testOverlay}, {"controller", testController}, {"finalizer of an author", testFinalizerOfAuthor}, {"first steps", testFirstSteps},
			{"templates", testTemplates}, {"rendered barriers agree", testRenderAgrees}, {"locked out", testLockedOut},
		} {
			t.Run(part.name, func(t *testing.T) { part.test(t, r) })
		}
		r.checkForbidden(t)
	})
}

// rig is the control plane of a test.
type rig struct{ *plane.Own }

// newRig starts a control plane.
func newRig(t *testing.T, config cluster.Config, up func(*cluster.Cluster, context.Context) error) *rig {
	t.Helper()
	config.KubeAPIServerArgs = append(config.KubeAPIServerArgs, "--audit-policy-file="+auditPolicy(t))
	r := &rig{plane.Prepare(t, config)}
	r.Start(t, func(ctx context.Context) error { return up(r.Cluster, ctx) })
	return r
}

// auditPolicy returns the audit policy, which records the requests of Proviso, and nothing else.
func auditPolicy(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("testdata", "audit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// runner sends rows to kube-apiserver.
func (r *rig) runner() *requests.Runner { return &requests.Runner{Sender: r.Sender} }

// table reads a table.
func table(t *testing.T, name string) *requests.Table {
	t.Helper()
	return requests.ReadFile(t, filepath.Join("testdata", name), nil)
}

// effective waits until policies and mappings are effective.
func (r *rig) effective(t *testing.T, objects ...string) {
	t.Helper()
	r.MustKubectl(t, append([]string{"wait", "--for=condition=Effective", "--timeout=1m"}, objects...)...)
}

// requests returns the audit events of Proviso's requests so far.
func (r *rig) requests(t *testing.T) (events []auditv1.Event) {
	t.Helper()
	file, err := os.Open(r.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err == nil { // the last line may be incomplete
			events = append(events, event)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

// checkForbidden checks that no request of Proviso was forbidden, but those that are sent to be refused by the sentinel of barriers.
func (r *rig) checkForbidden(t *testing.T) {
	t.Helper()
	for _, event := range r.requests(t) {
		if _, isProbe := barrier.NumberIn(event.ResponseStatus.Message); event.ResponseStatus.Code == 403 && !isProbe {
			t.Errorf("Proviso may not %s %s: %s", event.Verb, event.RequestURI, event.ResponseStatus.Message)
		}
	}
}
