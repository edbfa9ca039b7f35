/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package node_test installs the image and the manifests in a real node: kubelet, containerd and kube-proxy beside the control plane. The other
// tests read the manifests as a kubelet would, and have no pods.
package node_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// node is the node of hack/node, and a copy of artifacts with certificates.
type node struct {
	root, dir, artifacts string
}

// TestNode installs Proviso as docs/operations.md says, then the front door as artifacts/front-door/README.md says. make test-node builds what it needs.
func TestNode(t *testing.T) {
	root, err := filepath.Abs("../..")
	must(t, err)
	n := &node{root: root, dir: filepath.Join(root, "_output", "node")}
	n.artifacts = filepath.Join(n.dir, "artifacts")
	if _, err := os.Stat(n.dir); err == nil {
		t.Fatalf("%s exists: run make down before", n.dir)
	}
	before := traces(t, root)
	t.Cleanup(func() {
		if _, err := os.Stat(n.dir); err == nil && t.Failed() {
			n.explain(t)
		}
		timed(t, "down", func() { n.script(t, "down") })
		var left []string
		if !poll.Until(context.Background(), 10*time.Second, func() bool { left = added(before, traces(t, root)); return len(left) == 0 }) {
			t.Errorf("these are left:\n%s", strings.Join(left, "\n"))
		}
	})
	timed(t, "up", func() { n.script(t, "up") })
	timed(t, "deploy", func() { n.deploy(t) })
	timed(t, "tests", func() { n.testBarriers(t) })
	timed(t, "the front door", func() { n.openFrontDoor(t) })
	timed(t, "tests of the front door", func() { n.testFrontDoor(t) })
	timed(t, "backup and restore", func() { n.testBackup(t) })
}

// deploy applies the overlay for managed clusters.
func (n *node) deploy(t *testing.T) {
	must(t, os.CopyFS(n.artifacts, os.DirFS(filepath.Join(n.root, "artifacts"))))
	for folder, write := range map[string]func(string) (string, error){"base": pki.WriteServing, "front-door": pki.WriteFrontDoorClient} {
		certs := filepath.Join(n.artifacts, folder, "certs")
		must(t, os.RemoveAll(certs))
		_, err := write(certs)
		must(t, err)
	}
	n.apply(t, "overlays/managed")
	n.available(t)
	if out := n.kubectl(t, "create", "--filename="+filepath.Join(n.artifacts, "examples/reviews/self-access.yaml"), "--output=yaml"); !strings.Contains(out, "allowed: true") {
		t.Errorf("a review: got %s, want allowed", out)
	}
}

// apply applies a kustomization, and waits until its pods are ready.
func (n *node) apply(t *testing.T, folder string) {
	n.kubectl(t, "apply", "--server-side", "--kustomize="+filepath.Join(n.artifacts, folder))
	n.rollout(t)
}

func (n *node) rollout(t *testing.T) {
	n.kubectl(t, "--namespace=proviso-system", "rollout", "status", "deployment/proviso-apiserver", "--timeout=2m")
}

// available waits until kube-apiserver reaches Proviso.
func (n *node) available(t *testing.T) {
	n.kubectl(t, "wait", "--for=condition=Available", "--timeout=2m", "apiservice", "--selector=app.kubernetes.io/name=proviso-apiserver")
}

func (n *node) testBarriers(t *testing.T) {
	n.kubectl(t, "apply", "--filename=testdata/shop.yaml")
	n.kubectl(t, "--namespace=shop", "wait", "--for=condition=Ready", "--timeout=2m", "pod/web")
	n.kubectl(t, "wait", "--for=condition=Effective", "--timeout=2m", "clusterauthorizationpolicies", "--all")
	n.run(t, []row{
		{name: "logs", as: "alice", command: "logs web --container=web", want: "started"},
		{name: "exec into a container that the policy names", as: "alice", command: "exec web --container=tools -- id", want: "uid=0"},
		{name: "exec into another container", as: "alice", command: "exec web --container=web -- id", refused: "policy=exec-tools-only reason=Denied"},
		{name: "exec by SPDY", as: "alice", command: "exec web --container=web -- id", env: "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", refused: "policy=exec-tools-only reason=Denied"},
		{name: "a pod in the network of the host", as: "alice", command: `run host --image=localhost/busybox:1 --overrides={"spec":{"hostNetwork":true}}`, refused: "policy=host-network reason=Denied"},
		{name: "another pod", as: "alice", command: "run other --image=localhost/busybox:1", want: "pod/other created"},
		{name: "which gets ready", as: "alice", command: "wait --for=condition=Ready --timeout=1m pod/other", want: "condition met"},
	})
}

// openFrontDoor adds the front door, and only then starts kube-apiserver with its flag, with the address of the Service.
func (n *node) openFrontDoor(t *testing.T) {
	n.write(t, "with-front-door/kustomization.yaml", "resources: [../overlays/managed]\ncomponents: [../front-door]\n")
	n.apply(t, "with-front-door")
	address := n.kubectl(t, "--namespace=proviso-system", "get", "service/proviso-apiserver-front-door", "--output=jsonpath={.spec.clusterIP}")
	const installed = "/etc/kubernetes/proviso/"
	folder := filepath.Join(n.artifacts, "front-door")
	paths := strings.NewReplacer(installed+"serving-ca.crt", filepath.Join(n.artifacts, "base/certs/ca.crt"), installed+"client", filepath.Join(folder, "certs/client"),
		installed, folder+"/", "https://127.0.0.1:", "https://"+address+":")
	for _, name := range []string{"authorization.yaml", "kubeconfig.yaml"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		must(t, err)
		n.write(t, "front-door/"+name, paths.Replace(string(content)))
	}
	n.script(t, "kube-apiserver", "--authorization-config="+filepath.Join(folder, "authorization.yaml"))
}

func (n *node) testFrontDoor(t *testing.T) {
	n.kubectl(t, "apply", "--filename=testdata/front-door.yaml")
	n.kubectl(t, "wait", "--for=condition=Effective", "--timeout=2m", "clusterauthorizationpolicies", "--all")
	n.run(t, []row{
		{name: "a user without RBAC", as: "bob", command: "get pods", want: "web"},
		{name: "in another namespace", as: "bob", command: "get pods --namespace=default", refused: "forbidden"},
		{name: "to write", as: "bob", command: "delete pod web", refused: "forbidden"},
		{name: "logs", as: "bob", command: "logs web --container=web", want: "started"},
		{name: "exec into a container that the policy names", as: "bob", command: "exec web --container=tools -- id", want: "uid=0"},
		{name: "exec into another container", as: "bob", command: "exec web --container=web -- id", refused: "policy=exec-tools-only reason=Denied"},
		{name: "a read that RBAC allows and a policy denies", as: "alice", command: "get secrets", refused: "policy=no-secrets"},
		{name: "another read", as: "alice", command: "get configmaps", want: "kube-root-ca.crt"},
	})
}

// testBackup restores a policy that was deleted after the backup, with the commands of docs/operations.md.
func (n *node) testBackup(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(n.root, "docs", "operations.md"))
	must(t, err)
	paste := func(heading string) {
		_, section, _ := strings.Cut(string(document), "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		script := "set -ex -o pipefail\ncd " + n.dir + "\n"
		for line := range strings.Lines(section) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				script += command + "\n"
			}
		}
		if out := n.script(t, "run", "bash", "-c", script); heading == "Restore" && !strings.Contains(out, "The earlier data are in ") {
			t.Errorf("restore: got %s", out)
		}
	}
	paste("Back up")
	n.kubectl(t, "delete", "clusterauthorizationpolicies/no-secrets")
	paste("Restore")
	n.kubectl(t, "--namespace=proviso-system", "scale", "deployment/proviso-apiserver", "--replicas=1")
	n.rollout(t)
	n.available(t)
	n.kubectl(t, "wait", "--for=condition=Effective", "--timeout=2m", "clusterauthorizationpolicies/no-secrets")
}

// row is a command of kubectl in the namespace shop. It has to pass and print want, or to be refused with a message.
type row struct {
	name, as, command, env string
	want, refused          string
}

func (n *node) run(t *testing.T, rows []row) {
	for _, r := range rows {
		out, err := n.command(slices.Concat([]string{"run", "env"}, strings.Fields(r.env), []string{"kubectl", "--context=" + r.as, "--namespace=shop"}, strings.Fields(r.command))...)
		switch {
		case r.refused == "" && (err != nil || !strings.Contains(out, r.want)):
			t.Errorf("%s: kubectl %s as %s: got %v, %s, want %q", r.name, r.command, r.as, err, out, r.want)
		case r.refused != "" && (err == nil || !strings.Contains(out, r.refused)):
			t.Errorf("%s: kubectl %s as %s: got %v, %s, want a refusal with %q", r.name, r.command, r.as, err, out, r.refused)
		}
	}
}

// explain logs what helps to find the mistake.
func (n *node) explain(t *testing.T) {
	for _, command := range []string{
		"get nodes,pods,persistentvolumeclaims,apiservices --all-namespaces --output=wide", "describe pods --all-namespaces", "describe clusterauthorizationpolicies",
		"get events --all-namespaces", "logs --namespace=proviso-system --tail=100 deployment/proviso-apiserver",
		"logs --namespace=proviso-system --tail=100 --previous deployment/proviso-apiserver",
	} {
		out, _ := n.command(append([]string{"run", "kubectl"}, strings.Fields(command)...)...)
		t.Logf("kubectl %s:\n%s", command, out)
	}
	out, _ := exec.Command("bash", "-c", "tail --lines=20 "+n.dir+"/logs/*.log").CombinedOutput()
	t.Logf("the logs of the node:\n%s", out)
}

func (n *node) write(t *testing.T, name, content string) {
	file := filepath.Join(n.artifacts, name)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(content), 0o600))
}

// command runs hack/node/node.sh.
func (n *node) command(args ...string) (string, error) {
	out, err := exec.Command(filepath.Join(n.root, "hack/node/node.sh"), args...).CombinedOutput()
	return string(out), err
}

func (n *node) script(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.command(args...)
	if err != nil {
		t.Fatalf("node.sh %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// kubectl runs kubectl as an administrator.
func (n *node) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return n.script(t, append([]string{"run", "kubectl"}, args...)...)
}

func timed(t *testing.T, what string, do func()) {
	began := time.Now()
	do()
	t.Logf("%s: %.1f s", what, time.Since(began).Seconds())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
