/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package node_test installs a release in a real node: kubelet, containerd and kube-proxy beside the control plane. The other tests read the
// manifests as a kubelet would, and have no pods.
package node_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// node is the node of hack/node. release is a copy of the files of a release, to which the test adds certificates.
type node struct {
	root, dir, release string
}

// TestNode installs a release from its files alone: first a manifest, as docs/operations.md says, then the front door and the inner door from the
// chart. make test-node builds what it needs, and sets PROVISO_RELEASE, the directory of these files.
func TestNode(t *testing.T) {
	root, err := filepath.Abs("../..")
	must(t, err)
	n := &node{root: root, dir: filepath.Join(root, "_output", "node")}
	n.release = filepath.Join(n.dir, "release")
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
	timed(t, "the manifest", func() { n.install(t) })
	timed(t, "tests", func() { n.testBarriers(t) })
	timed(t, "the front door", func() { n.openFrontDoor(t) })
	timed(t, "tests of the front door", func() { n.testFrontDoor(t) })
	timed(t, "backup and restore", func() { n.testBackup(t) })
	timed(t, "the inner door", func() { n.openInnerDoor(t) })
	timed(t, "the demo", func() { n.testDemo(t) })
}

// install imports the image, and applies the manifest for managed clusters, with the commands of docs/operations.md.
func (n *node) install(t *testing.T) {
	must(t, os.CopyFS(n.release, os.DirFS(os.Getenv("PROVISO_RELEASE"))))
	kustomization := filepath.Join(n.release, "kustomization.yaml")
	content, err := os.ReadFile(kustomization)
	must(t, err)
	n.bash(t, "[[ ! -e SHA256SUMS ]] || "+n.commands(t, "## Install a release", "sha256sum"))
	must(t, os.WriteFile(kustomization, bytes.Replace(content, []byte("install-base.yaml"), []byte("install-managed.yaml"), 1), 0o600))
	n.bash(t, n.commands(t, "## Install a release", "ctr", "openssl req", "cp tls.crt", "kubectl apply"))
	n.rollout(t)
	n.available(t)
	if out := n.kubectl(t, "create", "--filename="+filepath.Join(n.root, "artifacts/examples/reviews/self-access.yaml"), "--output=yaml"); !strings.Contains(out, "allowed: true") {
		t.Errorf("a review: got %s, want allowed", out)
	}
}

// commands returns the commands of a section of docs/operations.md that begin with one of the prefixes, in their order. There is one of each.
func (n *node) commands(t *testing.T, heading string, prefixes ...string) string {
	t.Helper()
	document, err := os.ReadFile(filepath.Join(n.root, "docs", "operations.md"))
	must(t, err)
	_, section, _ := strings.Cut(string(document), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	var commands []string
	for line := range strings.Lines(section) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if ok && slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(command, prefix) }) {
			commands = append(commands, command)
		}
	}
	if len(commands) != len(prefixes) {
		t.Fatalf("%s of docs/operations.md: got the commands %q, want one with each of %q", heading, commands, prefixes)
	}
	return strings.Join(commands, "\n")
}

// bash runs commands beside the files of the release.
func (n *node) bash(t *testing.T, commands string) string {
	t.Helper()
	return n.script(t, "run", "bash", "-c", "set -ex -o pipefail\ncd "+n.release+"\n"+commands)
}

// apply applies the objects of the chart for values, and waits until its pods are ready.
func (n *node) apply(t *testing.T, values map[string]any) {
	values["createNamespace"] = true
	values["managed"] = map[string]any{"enabled": true}
	values["tls"] = map[string]any{"ca": n.read(t, "ca.crt")}
	text, err := yaml.Marshal(values)
	must(t, err)
	archives, err := filepath.Glob(filepath.Join(n.release, "proviso-*.tgz"))
	must(t, err)
	if len(archives) != 1 {
		t.Fatalf("got the charts %q, want one", archives)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archives[0]), "proviso-"), ".tgz")
	cmd := exec.Command("go", "run", ".", "template", "-dir", n.release, "-tag", version)
	cmd.Dir, cmd.Stdin, cmd.Stderr = filepath.Join(n.root, "hack", "release"), bytes.NewReader(text), os.Stderr
	manifest, err := cmd.Output()
	must(t, err)
	n.write(t, "chart.yaml", string(manifest))
	n.kubectl(t, "apply", "--server-side", "--filename="+filepath.Join(n.release, "chart.yaml"))
	n.rollout(t)
	n.available(t)
}

func (n *node) rollout(t *testing.T) {
	t.Helper()
	n.kubectl(t, "--namespace=proviso-system", "rollout", "status", "deployment/proviso-apiserver", "--timeout=2m")
}

// available waits until kube-apiserver reaches Proviso.
func (n *node) available(t *testing.T) {
	t.Helper()
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

// openFrontDoor applies the chart with the front door, and only then starts kube-apiserver with its flag, with the address of the Service. The
// configuration of kube-apiserver is no part of a release.
func (n *node) openFrontDoor(t *testing.T) {
	_, err := pki.WriteFrontDoorClient(filepath.Join(n.release, "front-door"))
	must(t, err)
	n.bash(t, n.commands(t, "### With Helm", "kubectl create secret"))
	n.apply(t, map[string]any{"frontDoor": n.frontDoor(t)})
	const installed = "/etc/kubernetes/proviso/"
	paths := strings.NewReplacer(installed+"serving-ca.crt", filepath.Join(n.release, "ca.crt"), installed+"client", filepath.Join(n.release, "front-door/client"),
		installed, n.release+"/", "https://127.0.0.1:", "https://"+n.address(t)+":")
	for _, name := range []string{"authorization.yaml", "kubeconfig.yaml"} {
		content, err := os.ReadFile(filepath.Join(n.root, "artifacts", "front-door", name))
		must(t, err)
		n.write(t, name, paths.Replace(string(content)))
	}
	n.script(t, "kube-apiserver", "--authorization-config="+filepath.Join(n.release, "authorization.yaml"))
}

func (n *node) frontDoor(t *testing.T) map[string]any {
	t.Helper()
	return map[string]any{"enabled": true, "clientCA": n.read(t, "front-door/ca.crt")}
}

// address returns the address of the Service of both doors.
func (n *node) address(t *testing.T) string {
	t.Helper()
	return n.kubectl(t, "--namespace=proviso-system", "get", "service/proviso-apiserver-front-door", "--output=jsonpath={.spec.clusterIP}")
}

// openInnerDoor applies the chart with both doors, and a serving certificate for the address of the Service. The server in the image writes the
// files of kube-apiserver.
func (n *node) openInnerDoor(t *testing.T) {
	address := n.address(t)
	certificate := n.commands(t, "## Install a release", "openssl req", "cp tls.crt")
	n.bash(t, strings.Replace(certificate, "subjectAltName=", "subjectAltName=IP:"+address+",", 1)+
		"\nkubectl --namespace=proviso-system delete secret proviso-apiserver-tls\n"+n.commands(t, "### With Helm", "kubectl create secret"))
	door := filepath.Join(n.release, "inner-door")
	must(t, os.MkdirAll(door, 0o755))
	configuration, err := os.ReadFile("testdata/inner-door.yaml")
	must(t, err)
	// The pod reads this file, too, with the CA beside it.
	n.write(t, "inner-door.yaml", strings.NewReplacer("ADDRESS", address, "DIRECTORY", door).Replace(string(configuration)))
	n.apply(t, map[string]any{"frontDoor": n.frontDoor(t), "innerDoor": map[string]any{"enabled": true, "configuration": n.read(t, "inner-door.yaml"), "servingCA": n.read(t, "ca.crt")}})
	n.bash(t, `cp ca.crt serving-ca.crt
cp front-door/client.* inner-door
mkdir image
ctr --namespace k8s.io images mount "$(kubectl --namespace=proviso-system get deployment/proviso-apiserver -o jsonpath='{.spec.template.spec.containers[0].image}')" image
trap 'ctr --namespace k8s.io images unmount --rm image' EXIT
image/proviso-apiserver inner-door-config --config inner-door.yaml --output inner-door`)
	n.script(t, "kube-apiserver", "--authorization-config="+filepath.Join(door, "authorization.yaml"), "--admission-control-config-file="+filepath.Join(door, "admission.yaml"))
	n.available(t)
	n.kubectl(t, "wait", "--for=condition=Effective", "--timeout=2m", "clusterauthorizationpolicies", "--all")
}

// testDemo runs the steps of hack/demo.sh, but for those that start and stop servers.
func (n *node) testDemo(t *testing.T) {
	n.kubectl(t, "delete", "clusterauthorizationpolicies", "--all")
	n.kubectl(t, "--namespace=shop", "delete", "pods", "--all", "--now")
	n.kubectl(t, "delete", "namespace", "shop")
	n.kubectl(t, "apply", "--filename="+filepath.Join(n.root, "artifacts", "dev", "users.yaml"))
	demo, err := os.ReadFile(filepath.Join(n.root, "hack", "demo.sh"))
	must(t, err)
	steps, rest, found := strings.Cut(string(demo), "\ntitle \"The cluster keeps running")
	if !found || rest == "" {
		t.Fatal("hack/demo.sh has another end")
	}
	scale := "kubectl --namespace=proviso-system scale deployment/proviso-apiserver --replicas="
	for _, replace := range []struct{ old, new string }{
		{`root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)`, "root=" + n.root},
		{"\nhack/dev-up.sh\n", "\n"},
		{"run 'export KUBECONFIG=$PWD/_output/dev/kubeconfig PATH=$PWD/_output/bin:$PATH'\n", ""},
		{"kill -9 $(cat _output/dev/proviso-apiserver.pid)", scale + "0 && kubectl --namespace=proviso-system wait --for=delete pod --all"},
		{"run \"hack/dev-up.sh\"", "run \"" + scale + "1\""},
	} {
		if strings.Count(steps, replace.old) != 1 {
			t.Fatalf("hack/demo.sh does not have %q once", replace.old)
		}
		steps = strings.Replace(steps, replace.old, replace.new, 1)
	}
	n.bash(t, steps)
}

func (n *node) testFrontDoor(t *testing.T) {
	n.kubectl(t, "apply", "--filename=testdata/front-door.yaml")
	n.kubectl(t, "wait", "--for=condition=Effective", "--timeout=2m", "clusterauthorizationpolicies", "--all")
	// Until Proviso knows the client certificate of kube-apiserver, the front door denies what it would leave to a barrier.
	n.bash(t, "timeout 60 bash -c 'until kubectl --context=bob --namespace=shop exec web --container=tools -- id; do sleep 1; done'")
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

// testBackup restores a policy that was deleted after the backup, with the commands of docs/operations.md. A release has no pod that restores.
func (n *node) testBackup(t *testing.T) {
	must(t, os.CopyFS(filepath.Join(n.release, "artifacts", "restore"), os.DirFS(filepath.Join(n.root, "artifacts", "restore"))))
	n.bash(t, n.commands(t, "## Back up", "kubectl"))
	n.kubectl(t, "delete", "clusterauthorizationpolicies/no-secrets")
	if out := n.bash(t, n.commands(t, "## Restore", "image=", "kubectl", "sed", "kubectl", "kubectl", "kubectl", "kubectl")); !strings.Contains(out, "The earlier data are in ") {
		t.Errorf("restore: got %s", out)
	}
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
	t.Helper()
	must(t, os.WriteFile(filepath.Join(n.release, name), []byte(content), 0o600))
}

func (n *node) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(n.release, name))
	must(t, err)
	return string(content)
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
