/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package plane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// Own is a control plane of one test.
type Own struct {
	*cluster.Cluster
	// Repository is the root of the repository.
	Repository string
	// Sender sends requests to the first kube-apiserver, once that runs.
	Sender *requests.Sender
}

// Prepare returns a control plane that does not run yet, and ends with the test. It sets the Dir, Bin, Manifests and Log of the configuration. The package of the test is three
// folders below the root of the repository.
func Prepare(t *testing.T, config cluster.Config) *Own {
	t.Helper()
	repository, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "e2e-") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config.Dir, config.Bin, config.Log = dir, filepath.Join(repository, "_output", "bin"), t.Logf
	if config.Manifests, err = CopyManifests(repository, dir); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	c.StopAfter(t)
	return &Own{Cluster: c, Repository: repository}
}

// Start starts servers, one after the other, and makes the sender.
func (o *Own) Start(t *testing.T, servers ...func(context.Context) error) {
	t.Helper()
	for _, start := range servers {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := o.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	o.Sender = requests.NewSender(admin, o.NewUser)
}

// MustApply applies a manifest, and waits until it is ready.
func (o *Own) MustApply(t *testing.T, manifest string) {
	t.Helper()
	if err := o.Apply(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
}

// MustDelete deletes the objects of a manifest; some may be gone.
func (o *Own) MustDelete(t *testing.T, manifest string) {
	t.Helper()
	if err := o.Delete(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
}

// MustKubectl runs kubectl as the administrator, and returns what it printed.
func (o *Own) MustKubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := o.Kubectl(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// ProcessorTime returns the processor time of a process.
func (o *Own) ProcessorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	total := 0
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(string(field))
		if err != nil {
			t.Fatal(err)
		}
		total += ticks
	}
	return time.Duration(total) * 10 * time.Millisecond
}

// TestData returns the content of a file in the folder testdata of a test.
func TestData(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// ReadYAML reads a file in the folder testdata of a test. Unknown fields fail the test.
func ReadYAML(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(TestData(t, name)), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
