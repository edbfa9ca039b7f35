/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestCertificatesByCommand makes certificates as `make certs` does. The other tests make theirs by function calls.
func TestCertificatesByCommand(t *testing.T) {
	t.Parallel()
	serving, frontDoor := filepath.Join(t.TempDir(), "serving"), filepath.Join(t.TempDir(), "front-door")
	cmd := exec.CommandContext(t.Context(), "go", "run", "./hack/certs", serving, frontDoor)
	cmd.Dir = stack.Repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for folder, want := range map[string]string{serving: filepath.Join(stack.Manifests, "base", "certs"), frontDoor: filepath.Join(stack.Manifests, "front-door", "certs")} {
		if got, want := fileNames(t, folder), fileNames(t, want); !slices.Equal(got, want) {
			t.Errorf("got the files %v, want %v", got, want)
		}
	}
}

func fileNames(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestOverlaysAreValid has kube-apiserver check every manifest, strictly, in a namespace
// of its own: the objects of the running server have been adapted to this machine.
func TestOverlaysAreValid(t *testing.T) {
	t.Parallel()
	const namespace = "proviso-check"
	mustKubectl(t, "admin", "create", "namespace", namespace)
	for _, folder := range []string{"base", "overlays/demo", "overlays/ha", "overlays/managed"} {
		dir := filepath.Join(stack.Manifests, "check", filepath.Base(folder))
		must(t, os.MkdirAll(dir, 0o755))
		kustomization := fmt.Sprintf("namespace: %s\nresources: [../../%s]\n", namespace, folder)
		must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600))
		out := mustKubectl(t, "admin", "apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "--field-manager=test", "-k", dir)
		wantApplied(t, folder, out, "apiservice.apiregistration.k8s.io/v1alpha1.authorization.k8s.io")
	}
}

// wantApplied wants the main objects of an overlay, and some more, among those that kubectl prints.
func wantApplied(t *testing.T, name, out string, more ...string) {
	t.Helper()
	for _, want := range append([]string{
		"deployment.apps/proviso-apiserver", "service/proviso-apiserver", "apiservice.apiregistration.k8s.io/v1alpha1.authorization.proviso.dev",
		"apiservice.apiregistration.k8s.io/v1alpha1.policy.proviso.dev", "clusterrole.rbac.authorization.k8s.io/proviso:policy-admin",
		"poddisruptionbudget.policy/proviso-apiserver", "networkpolicy.networking.k8s.io/proviso-apiserver",
		"flowschema.flowcontrol.apiserver.k8s.io/proviso-apiserver", "prioritylevelconfiguration.flowcontrol.apiserver.k8s.io/proviso-apiserver",
	}, more...) {
		if !strings.Contains(out, want+" serverside-applied (server dry run)") {
			t.Errorf("%s: %s was not applied:\n%s", name, want, out)
		}
	}
}

// groupsOfOthers are the groups of objects in the chart whose CustomResourceDefinitions this cluster does not have.
var groupsOfOthers = []string{"apiVersion: cert-manager.io/", "apiVersion: monitoring.coreos.com/"}

// TestChartIsValid has kube-apiserver check the objects of each variant of the chart in the same way.
func TestChartIsValid(t *testing.T) {
	t.Parallel()
	const namespace = "proviso-chart"
	mustKubectl(t, "admin", "create", "namespace", namespace)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "render", "-root", stack.Repository, "-dir", dir)
	cmd.Dir = filepath.Join(stack.Repository, "hack", "release")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names := fileNames(t, dir)
	if len(names) < 9 {
		t.Errorf("got only the variants %v", names)
	}
	for _, name := range names {
		documents := slices.DeleteFunc(strings.Split(readText(t, filepath.Join(dir, name)), "\n---\n"), func(document string) bool {
			return slices.ContainsFunc(groupsOfOthers, func(group string) bool { return strings.Contains(document, group) })
		})
		manifest := strings.ReplaceAll(strings.Join(documents, "\n---\n"), "namespace: "+cluster.Namespace, "namespace: "+namespace)
		out, errs, err := kubectlWithInput(t, "admin", manifest, "apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "--field-manager=test", "-f", "-")
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, errs)
		}
		wantApplied(t, name, out)
	}
}

// TestDeploymentsOfOverlays checks what differs between one replica, which is away until the next one is ready, and several, and that kubelet pulls
// no image that the node has.
func TestDeploymentsOfOverlays(t *testing.T) {
	t.Parallel()
	for folder, wantDelay := range map[string]bool{"base": false, "overlays/demo": false, "overlays/ha": true, "overlays/managed": false} {
		out := mustKubectl(t, "admin", "kustomize", filepath.Join(stack.Manifests, folder))
		var deployment appsv1.Deployment
		for document := range strings.SplitSeq(out, "\n---\n") {
			if strings.Contains(document, "\nkind: Deployment\n") {
				must(t, yaml.Unmarshal([]byte(document), &deployment))
			}
		}
		containers := deployment.Spec.Template.Spec.Containers
		if len(containers) != 1 || containers[0].ImagePullPolicy != corev1.PullIfNotPresent {
			t.Errorf("%s: got the containers %v, want one with the policy IfNotPresent", folder, containers)
			continue
		}
		if got := slices.Contains(containers[0].Args, "--shutdown-delay-duration=5s"); got != wantDelay {
			t.Errorf("%s: a delay of the shutdown: got %v, want %v with %d replicas", folder, got, wantDelay, *deployment.Spec.Replicas)
		}
	}
}

// TestManifestsAreStrict makes sure that the check above can fail.
func TestManifestsAreStrict(t *testing.T) {
	t.Parallel()
	const misspelt = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: x, namespace: default}\nspec: {maxUnavailabel: 1}\n"
	if out, errs, err := kubectlWithInput(t, "admin", misspelt, "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-"); err == nil || !strings.Contains(errs, "maxUnavailabel") {
		t.Errorf("a misspelt field: got %v, %s%s, want a refusal", err, out, errs)
	}
}

// TestChecksHaveTheirOwnShare checks that kube-apiserver counts Proviso's checks in their own priority level.
func TestChecksHaveTheirOwnShare(t *testing.T) {
	t.Parallel()
	const series = `apiserver_flowcontrol_dispatched_requests_total{flow_schema="proviso-apiserver",priority_level="proviso-apiserver"} `
	poll.Holds(t, "kube-apiserver has "+series, func() bool {
		_, _, _ = kubectl(t, "alice-direct", "get", "--raw", "/apis/policy.proviso.dev/v1alpha1/authorizationpolicies") // Proviso asks whether she may
		return strings.Contains(mustKubectl(t, "admin", "get", "--raw", "/metrics"), series)
	})
}

func TestRunsAsNonRootOnReadOnlyRoot(t *testing.T) {
	status := readText(t, fmt.Sprintf("/proc/%d/status", stack.Pid()))
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		switch fields[0] {
		case "Uid:", "Gid:":
			if os.Getuid() == 0 && fields[1] != "65532" {
				t.Errorf("the server runs with %s", line)
			}
		case "NoNewPrivs:":
			if fields[1] != "1" {
				t.Error("the server may gain privileges")
			}
		case "CapEff:":
			if os.Getuid() == 0 && strings.Trim(fields[1], "0") != "" {
				t.Errorf("the server has capabilities: %s", line)
			}
		}
	}
	mounts := readText(t, fmt.Sprintf("/proc/%d/mountinfo", stack.Pid()))
	root := ""
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); fields[4] == "/" {
			root = fields[5] // the last one is on top
		}
	}
	if !strings.HasPrefix(root, "ro") {
		t.Errorf("the root of the server is mounted %q, want ro", root)
	}
}

// TestRunsWithTheArgumentsOfTheDeployment compares the running process with the
// manifest: the same arguments, but for the two variables that say where to listen.
func TestRunsWithTheArgumentsOfTheDeployment(t *testing.T) {
	kube, _ := clients(t, "admin")
	deployment, err := kube.AppsV1().Deployments(cluster.Namespace).Get(t.Context(), cluster.Service, metav1.GetOptions{})
	must(t, err)
	cmdline := readText(t, fmt.Sprintf("/proc/%d/cmdline", stack.Pid()))
	got := strings.Split(strings.TrimSuffix(cmdline, "\x00"), "\x00")[1:]
	want := append(argumentsOf(deployment), cluster.UncachedArgs...)
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		prefix, _, isVariable := strings.Cut(want[i], "$(")
		same := got[i] == want[i] || (isVariable && strings.HasPrefix(got[i], prefix))
		if !same {
			t.Errorf("argument %d: got %q, want %q", i, got[i], want[i])
		}
	}
}

func argumentsOf(deployment *appsv1.Deployment) []string {
	return deployment.Spec.Template.Spec.Containers[0].Args
}

// TestProbes asks what a kubelet would ask, as a kubelet does: without credentials.
func TestProbes(t *testing.T) {
	kube, _ := clients(t, "admin")
	deployment, err := kube.AppsV1().Deployments(cluster.Namespace).Get(t.Context(), cluster.Service, metav1.GetOptions{})
	must(t, err)
	c := deployment.Spec.Template.Spec.Containers[0]
	for name, probe := range map[string]string{"startup": c.StartupProbe.HTTPGet.Path, "liveness": c.LivenessProbe.HTTPGet.Path, "readiness": c.ReadinessProbe.HTTPGet.Path} {
		if code, body := request(t, anonymous(t), "GET", probe, nil, ""); code != 200 {
			t.Errorf("%s probe %s: got %d %s", name, probe, code, body)
		}
	}
}
