/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package render_test applies rendered barriers to clusters on which no part of Proviso runs.
package render_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/documents"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// rig is an etcd and a kube-apiserver without any flag for Proviso.
type rig struct{ *plane.Own }

// onEachKubernetes runs a test with each kube-apiserver that is built.
func onEachKubernetes(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	for _, kubernetes := range cluster.BuiltKubernetes(filepath.Join("..", "..", "..", "_output", "bin")) {
		t.Run(kubernetes, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, kubernetes))
		})
	}
}

func newRig(t *testing.T, kubernetes string) *rig {
	t.Helper()
	r := &rig{plane.Prepare(t, cluster.Config{Managed: true, Kubernetes: kubernetes})}
	r.Start(t, r.StartEtcd, r.StartKubeAPIServer)
	r.MustApply(t, plane.TestData(t, "setup.yaml"))
	return r
}

// shell runs a script in the root of the repository as the admin, with the plugin on the path, and returns what it printed to standard
// output and to standard error, and its exit code.
func (r *rig) shell(t *testing.T, script string) (out, errOut string, code int) {
	t.Helper()
	cmd := r.Shell(t.Context(), script)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// must is shell for a script that succeeds. It returns all that was printed.
func (r *rig) must(t *testing.T, script string) string {
	t.Helper()
	out, errOut, code := r.shell(t, script)
	if code != 0 {
		t.Fatalf("%s: exit code %d\n%s%s", script, code, out, errOut)
	}
	return out + errOut
}

// command is a row of commands.yaml.
type command struct {
	Name, Run string
	Code      int
	// Prints and Warns are all of what the command prints to standard output and to standard error. If they are nil, Has and WarnsOf are texts that are in it.
	Prints, Warns *string
	Has, WarnsOf  []string
	// Hides are texts that are not in standard error.
	Hides []string
}

// commands returns the rows of a group of commands.yaml.
func commands(t *testing.T, group string) []command {
	t.Helper()
	var groups map[string][]command
	plane.ReadYAML(t, "commands.yaml", &groups)
	if len(groups[group]) == 0 {
		t.Fatalf("there are no commands %s", group)
	}
	return groups[group]
}

// runCommands runs the commands of a group.
func runCommands(t *testing.T, r *rig, group string) {
	t.Helper()
	for _, c := range commands(t, group) {
		out, errOut, code := r.shell(t, c.Run)
		lacks := func(text string, is *string, has []string) bool {
			return is != nil && text != *is || slices.ContainsFunc(has, func(part string) bool { return !strings.Contains(text, part) })
		}
		if code != c.Code || lacks(out, c.Prints, c.Has) || lacks(errOut, c.Warns, c.WarnsOf) || slices.ContainsFunc(c.Hides, func(part string) bool { return strings.Contains(errOut, part) }) {
			t.Errorf("%s%s: got exit code %d, %q and %q", c.Name, c.Run, code, out, errOut)
		}
	}
}

// runTable waits until each policy refuses the first request of the table that it is to refuse, and then sends all requests in order. No policy is named in the answer to a request that passes.
func runTable(t *testing.T, r *rig) {
	t.Helper()
	rows, runner := table(t), &requests.Runner{Sender: r.Sender}
	runner.Want = func(row *requests.Row) *requests.Outcome {
		want := row.Outcome
		if want.Code != http.StatusForbidden {
			want.Hides = requests.Texts{"policy="}
		}
		return &want
	}
	runner.AwaitEach(t, rows)
	runner.Run(t, rows)
}

func table(t *testing.T) []*requests.Row {
	t.Helper()
	return requests.ReadFile(t, filepath.Join("testdata", "table.yaml"), nil).Rows["table"]
}

// TestTable applies the rendered example to a cluster. The table decides as the policies do, and --check sees no difference.
func TestTable(t *testing.T) {
	t.Parallel()
	onEachKubernetes(t, func(t *testing.T, r *rig) {
		const render = "kubectl proviso render -R -f artifacts/render/policies"
		r.must(t, render+" --strict | kubectl apply -f -")
		runTable(t, r)
		if out := r.must(t, render+" --check"); strings.Count(out, " same") != 5 {
			t.Errorf("got %s", out)
		}
		if out := r.must(t, render+" -o json | kubectl diff -f -"); out != "" && !strings.HasPrefix(out, "POLICY") {
			t.Errorf("got %s", out)
		}
		checkTampering(t, r, render)
		r.must(t, render+" | kubectl apply --server-side --force-conflicts -f -")
		r.must(t, render+" --check")
		r.must(t, render+" | kubectl delete -f -")
		poll.Holds(t, "the barriers are gone", func() bool {
			const pod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "host"}, "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "c"}]}}`
			code, _ := r.Sender.Send(t, &requests.User{Name: "alice"}, http.MethodPost, "/api/v1/namespaces/team-a/pods?dryRun=All", "application/json", pod)
			return code == http.StatusCreated
		})
		if _, _, code := r.shell(t, render+" --check"); code != 1 {
			t.Errorf("without barriers: exit code %d", code)
		}
	})
}

// TestGroups applies the example with other policies about the same requests as groups. The table decides as before, and an error of one policy
// refuses what it denies, and nothing else.
func TestGroups(t *testing.T) {
	t.Parallel()
	onEachKubernetes(t, func(t *testing.T, r *rig) {
		const render = "kubectl proviso render -R -f artifacts/render/policies -f test/e2e/render/testdata/neighbours.yaml --group"
		r.must(t, render+" | kubectl apply -f -")
		runTable(t, r)
		runCommands(t, r, "groups")
		if out := r.must(t, render+" --check"); strings.Count(out, " same") != 5 || !strings.Contains(out, "host-secrets,prod-secrets") {
			t.Errorf("got %s", out)
		}
		r.must(t, render+" | kubectl delete -f -")
	})
}

// checkTampering changes barriers in the cluster, and repairs them by applying the manifests again.
func checkTampering(t *testing.T, r *rig, render string) {
	t.Helper()
	for _, tc := range commands(t, "tampering") {
		r.must(t, tc.Run)
		out, errOut, code := r.shell(t, render+" --check")
		if code != 1 || errOut != "" {
			t.Errorf("%s: exit code %d: %s", tc.Name, code, errOut)
		}
		lines := map[string]bool{}
		for line := range strings.Lines(out) {
			lines[strings.Join(strings.Fields(line), " ")] = true
		}
		if slices.ContainsFunc(tc.Has, func(line string) bool { return !lines[line] }) || strings.Count(out, " same") != 4 {
			t.Errorf("%s: got %s, want the lines %q", tc.Name, out, tc.Has)
		}
		r.must(t, render+" | kubectl apply -f -")
		r.must(t, render+" --check")
	}
	out, _, code := r.shell(t, "kubectl proviso render -f artifacts/render/policies/pods.yaml --check")
	if want := "unexpected   no barrier of these policies: ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding"; code != 1 || strings.Count(out, want) != 3 {
		t.Errorf("for some of the policies: exit code %d, %s", code, out)
	}
	out, errOut, code := r.shell(t, render+" --check --as=system:anonymous")
	if code != 2 || out != "" || !strings.Contains(errOut, "error: ") {
		t.Errorf("a user who may not list: exit code %d, %s%s", code, out, errOut)
	}
}

// TestDocument runs the commands of the document in one shell, in order. The refusal that it shows is one that the table has.
func TestDocument(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	content, err := os.ReadFile(filepath.Join(r.Repository, "docs", "kubectl-proviso.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := documents.Blocks(string(content)); n < 4 {
		t.Errorf("found %d blocks", n)
	}
	r.must(t, documents.Script(string(content)))
	if out := r.must(t, "kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings -l app.kubernetes.io/managed-by=proviso -o name"); out != "" {
		t.Errorf("the document leaves %s", out)
	}
	if want := table(t)[0].Says[0]; !strings.Contains(string(content), want) {
		t.Errorf("the document does not show %q", want)
	}
}

// TestReaders has the commands that change nothing run beside each other on one cluster.
func TestReaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	for _, group := range []string{"can-i", "others", "lint", "explain"} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			runCommands(t, r, group)
		})
	}
	t.Run("bad input", func(t *testing.T) { testBadInput(t, r) })
}

// TestPlugin runs the plugin by kubectl, and completes with the script for kubectl on the path.
func TestPlugin(t *testing.T) {
	t.Parallel()
	repository, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(repository, "_output", "bin")
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "kubectl"), args...)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(repository, "hack", "kubectl")+":"+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "KUBECONFIG=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	if out := run("proviso", "version"); !strings.HasPrefix(out, "v0.1.0") {
		t.Errorf("got %s", out)
	}
	if out := run("plugin", "list"); !strings.Contains(out, "kubectl-proviso") {
		t.Errorf("got %s", out)
	}
	if out := run("__complete", "proviso", "render", "--exempt-"); !strings.Contains(out, "--exempt-group") {
		t.Errorf("got %s", out)
	}
}
