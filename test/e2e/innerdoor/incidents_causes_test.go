//go:build incidents

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// incidents are the incidents. Readers know them by their numbers only.
var incidents = []incident{
	{ // A policy has a condition that is over its budget.
		alerts: []string{"ProvisoBudgetUsedUp"},
		cause: func(t *testing.T, s *site) {
			s.MustApply(t, s.policies["over budget"])
			repeat(t, s.reads(s.as("spender")))
		},
		cure: func(t *testing.T, s *site) { s.MustKubectl(t, "delete", "clusterauthorizationpolicy", "expensive") },
	},
	{ // The serving certificate has expired, and Proviso has started since.
		alerts: []string{"ProvisoDown", "ProvisoReplicaDown"},
		cause: func(t *testing.T, s *site) {
			s.signServing(t, -30*time.Second)
			s.mustRestart(t, "proviso-apiserver")
		},
		cure: func(t *testing.T, s *site) { s.signServing(t, time.Hour*24*30) },
	},
	{ // The webhooks of the inner door are gone from the manifest of kube-apiserver.
		alerts: []string{"ProvisoInnerDoorNotCalled", "ProvisoInnerDoorNotKnown"},
		cause:  func(t *testing.T, s *site) { replaceFile(t, s.Servers[0], s.Servers[0].Manifest(), "") },
		cure:   func(t *testing.T, s *site) { mustBeNil(t, s.WriteInnerDoor(t.Context())) },
	},
	{ // A policy in the store cannot be decoded.
		alerts: []string{"ProvisoPoliciesStale"},
		cause: func(t *testing.T, s *site) {
			client, err := s.store.Store(t.Context())
			mustBeNil(t, err)
			defer client.Close()
			_, err = client.Put(t.Context(), undecodable, "k8s:enc:kms:v2:provider:")
			mustBeNil(t, err)
		},
		cure: func(t *testing.T, s *site) {
			client, err := s.store.Store(t.Context())
			mustBeNil(t, err)
			defer client.Close()
			_, err = client.Delete(t.Context(), undecodable)
			mustBeNil(t, err)
		},
	},
	{ // The CA of the doors' clients has been replaced, and kube-apiserver has a certificate of the CA before.
		alerts: []string{"ProvisoFrontDoorNotCalled", "ProvisoInnerDoorNotCalled"},
		cause: func(t *testing.T, s *site) {
			other, err := pki.New(t.TempDir(), "ca", 30*24*time.Hour)
			mustBeNil(t, err)
			ca := s.sign(t, "front-door-ca", time.Hour).Files()
			mustBeNil(t, errors.Join(os.Rename(other.Files().Cert, ca.Cert), os.Rename(other.Files().Key, ca.Key)))
		},
		cure: func(t *testing.T, s *site) {
			_, err := s.sign(t, "front-door-ca", 30*24*time.Hour).Client("front-door", "kube-apiserver")
			mustBeNil(t, err)
			s.mustRestart(t, "kube-apiserver")
		},
	},
	{ // Another tool has an object with the name of a policy's barrier, so that the policy denies all requests of its rules.
		alerts: []string{"ProvisoBarriersBehind", "ProvisoPoliciesNotEffective"},
		cause: func(t *testing.T, s *site) {
			s.MustApply(t, s.policies["the name of a barrier"])
			s.post(t, s.policies["a barrier behind"])
		},
		cure: func(t *testing.T, s *site) {
			s.MustKubectl(t, "delete", "validatingadmissionpolicy", "no-late-maps.cluster.policy.proviso.dev")
		},
	},
	{ // An authorization webhook has stopped.
		alerts: []string{"ProvisoWebhookErrors"},
		cause:  func(t *testing.T, s *site) { mustBeNil(t, s.process("hook.example.com").kill()) },
		cure:   func(t *testing.T, s *site) { s.mustRestart(t, "hook.example.com") },
	},
	{ // The ClusterRoleBinding with which Proviso asks kube-apiserver is gone.
		alerts: []string{"ProvisoDown"},
		cause: func(t *testing.T, s *site) {
			s.MustKubectl(t, "delete", "clusterrolebinding", "proviso-apiserver:auth-delegator")
		},
		cure: func(t *testing.T, s *site) {
			s.MustKubectl(t, "apply", "-f", filepath.Join(s.Manifests, "base", "rbac.yaml"))
		},
	},
	{ // The disk of the store is full, and etcd has ended.
		alerts: []string{"ProvisoStoreErrors", "ProvisoPoliciesStale"},
		cause:  fillDisk,
		cure: func(t *testing.T, s *site) {
			mustBeNil(t, os.Remove(filepath.Join(s.disk(), backup)))
			s.mustRestart(t, "etcd")
		},
	},
	{ // A kube-apiserver that is listed does not exist any more.
		alerts: []string{"ProvisoInnerDoorNotCalled"},
		cause:  func(t *testing.T, s *site) { s.replaceServers(t, s.KubeAPIServerURL()+",https://"+closedAddress(t)) },
		cure:   func(t *testing.T, s *site) { s.replaceServers(t, s.KubeAPIServerURL()) },
	},
}

const (
	undecodable = "/registry/proviso/policy.proviso.dev/clusterauthorizationpolicies/team-quota"
	backup      = "snapshot-monthly.db"
)

// signServing replaces the serving certificate.
func (s *site) signServing(t *testing.T, validity time.Duration) {
	t.Helper()
	_, err := s.sign(t, "ca", validity).Server("proviso-serving", cluster.ServerName, "localhost", "127.0.0.1")
	mustBeNil(t, err)
}

// post creates a policy, whose barrier need not be written.
func (s *site) post(t *testing.T, policy string) {
	t.Helper()
	if code, answer := s.Sender.Send(t, nil, http.MethodPost, policiesPath, "application/yaml", policy); code != http.StatusCreated {
		t.Fatalf("got %d %s", code, answer)
	}
}

// fillDisk fills the disk of the store with a backup, and has a user write policies until etcd has ended.
func fillDisk(t *testing.T, s *site) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this incident fills a disk that only root can mount: run it as root")
	}
	file, err := os.Create(filepath.Join(s.disk(), backup))
	mustBeNil(t, err)
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = file.Write(block)
	}
	mustBeNil(t, file.Close())
	// Each version of the policy takes room.
	patch := `{"metadata": {"annotations": {"example.com/note": "` + strings.Repeat("x", 100<<10) + `%d"}}}`
	admin := s.as(cluster.Admin).at(s.ProvisoURL())
	i := 0
	poll.Holds(t, "etcd ends", func() bool {
		i++
		code, _, err := admin.send(t.Context(), http.MethodPatch, policiesPath+"/dana-maps", mergeType, strings.NewReader(fmt.Sprintf(patch, i)))
		return err != nil || code != http.StatusOK
	})
}

// replaceServers sets the addresses of all kube-apiservers in the arguments of Proviso, and restarts it.
func (s *site) replaceServers(t *testing.T, addresses string) {
	t.Helper()
	p := s.process("proviso-apiserver")
	args, err := os.ReadFile(p.file("args"))
	mustBeNil(t, err)
	lines := strings.Split(string(args), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "--kube-apiserver-servers=") {
			lines[i] = "--kube-apiserver-servers=" + addresses
		}
	}
	mustBeNil(t, os.WriteFile(p.file("args"), []byte(strings.Join(lines, "\n")), 0o600))
	s.mustRestart(t, p.name)
}
