/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package render_test applies rendered barriers to clusters on which no part of Proviso runs.
package render_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/documents"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// rig is an etcd and a kube-apiserver without any flag for Proviso.
type rig struct {
	*cluster.Cluster

	repository string
	sender     *requests.Sender
}

// onEachKubernetes runs a test with each kube-apiserver that is built.
func onEachKubernetes(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	for _, kubernetes := range cluster.BuiltKubernetes(filepath.Join("..", "..", "..", "_output", "bin")) {
		t.Run(kubernetes.Name, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, kubernetes.Oldest))
		})
	}
}

func newRig(t *testing.T, oldest bool) *rig {
	t.Helper()
	repository, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "render-") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{repository: repository}
	r.Cluster, err = cluster.New(cluster.Config{
		Dir: dir, Bin: filepath.Join(repository, "_output", "bin"), Manifests: filepath.Join(repository, "artifacts"), Managed: true, Oldest: oldest, Log: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.StopAfter(t)
	for _, start := range []func(context.Context) error{r.StartEtcd, r.StartKubeAPIServer} {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Kubectl(t.Context(), everything, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	admin, err := r.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	r.sender = requests.NewSender(admin, r.NewUser)
	return r
}

// everything lets all users do everything, and has the objects of the table.
const everything = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
---
{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: team-b}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: infra}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {tier: prod}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: team-a}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: infra}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: shop}}
---
{apiVersion: v1, kind: Secret, metadata: {name: prod, namespace: team-a, labels: {tier: prod}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: dev, namespace: team-a, labels: {tier: dev}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: plain, namespace: team-a}}
---
{apiVersion: v1, kind: Secret, metadata: {name: old, namespace: team-a, labels: {tier: prod}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: locked, namespace: team-a, labels: {locked: "true"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: open, namespace: team-a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: locked, namespace: team-b, labels: {locked: "true"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: team-a}, spec: {containers: [{name: c, image: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: c, image: c}]}}
`

// shell runs a script in the root of the repository as the admin, with the plugin on the path, and returns what it printed to standard
// output and to standard error, and its exit code.
func (r *rig) shell(t *testing.T, script string) (out, errOut string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-o", "errexit", "-o", "nounset", "-o", "pipefail", "-c", script)
	cmd.Dir = r.repository
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.Kubeconfig(), "PATH="+r.Bin+":"+os.Getenv("PATH"), "HOME="+r.Dir)
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

// runTable waits until each policy refuses the first request of the table that it is to refuse, and then sends all requests in order. No policy is named in the answer to a request that passes.
func runTable(t *testing.T, r *rig) {
	t.Helper()
	rows, runner := table(t), &requests.Runner{Sender: r.sender}
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
			code, _ := r.sender.Send(t, &requests.User{Name: "alice"}, http.MethodPost, "/api/v1/namespaces/team-a/pods?dryRun=All", "application/json", pod)
			return code == http.StatusCreated
		})
		if _, _, code := r.shell(t, render+" --check"); code != 1 {
			t.Errorf("without barriers: exit code %d", code)
		}
	})
}

// checkTampering changes barriers in the cluster, and repairs them by applying the manifests again.
func checkTampering(t *testing.T, r *rig, render string) {
	t.Helper()
	const secrets, pods = "prod-secrets.cluster.policy.proviso.dev", "host-network.cluster.policy.proviso.dev"
	for _, tc := range []struct{ name, script, want, wantDiff string }{
		{name: "a failure policy", script: `kubectl patch validatingadmissionpolicy ` + secrets + ` --type=merge -p '{"spec":{"failurePolicy":"Ignore"}}'`,
			want: secrets + " prod-secrets different the ValidatingAdmissionPolicy differs", wantDiff: "- failurePolicy: Ignore"},
		{name: "an expression", script: `kubectl patch validatingadmissionpolicy ` + pods + ` --type=json -p '[{"op":"replace","path":"/spec/variables/0/expression","value":"false"}]'`,
			want: pods + " host-network different the ValidatingAdmissionPolicy differs", wantDiff: `- - expression: "false"`},
		{name: "a weaker binding", script: `kubectl patch validatingadmissionpolicybinding ` + secrets + ` --type=merge -p '{"spec":{"validationActions":["Warn"]}}'`,
			want: secrets + " prod-secrets different the ValidatingAdmissionPolicyBinding differs", wantDiff: "- - Warn"},
		{name: "a binding that is gone", script: `kubectl delete validatingadmissionpolicybinding ` + secrets,
			want: secrets + " prod-secrets missing there is no ValidatingAdmissionPolicyBinding"},
		{name: "a label that is gone", script: `kubectl label validatingadmissionpolicy ` + secrets + ` app.kubernetes.io/managed-by-`,
			want: secrets + " prod-secrets different the ValidatingAdmissionPolicy differs", wantDiff: "+ app.kubernetes.io/managed-by: proviso"},
		{name: "another annotation", script: `kubectl annotate --overwrite validatingadmissionpolicybinding ` + secrets + ` policy.proviso.dev/policy=other`,
			want: secrets + " prod-secrets different the ValidatingAdmissionPolicyBinding differs", wantDiff: "- policy.proviso.dev/policy: other"},
	} {
		r.must(t, tc.script)
		out, errOut, code := r.shell(t, render+" --check")
		if code != 1 || errOut != "" {
			t.Errorf("%s: exit code %d: %s", tc.name, code, errOut)
		}
		lines := map[string]bool{"": true}
		for line := range strings.Lines(out) {
			lines[strings.Join(strings.Fields(line), " ")] = true
		}
		if !lines[tc.want] || !lines[tc.wantDiff] || strings.Count(out, " same") != 4 {
			t.Errorf("%s: got %s, want %q and %q", tc.name, out, tc.want, tc.wantDiff)
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
	r := newRig(t, false)
	content, err := os.ReadFile(filepath.Join(r.repository, "docs", "kubectl-proviso.md"))
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
	r := newRig(t, false)
	for name, test := range map[string]func(*testing.T, *rig){
		"can-i": testCanI, "others": testOthers, "lint": testLint, "explain": testExplain, "bad input": testBadInput,
	} {
		t.Run(name, func(t *testing.T) { test(t, r) })
	}
}

// testCanI asks a cluster without Proviso: it answers like kubectl auth can-i, and warns of what it does not see.
func testCanI(t *testing.T, r *rig) {
	t.Parallel()
	const warning = "Warning: the server does not serve authorization.proviso.dev: "
	for _, tc := range []struct {
		args      string
		want      string
		code      int
		isWarning bool
	}{
		{args: "create pods", want: "yes\n", isWarning: true},
		{args: "create -f artifacts/render/configmap.yaml", code: 2},
		{args: "'*' '*' --as=system:anonymous", code: 2},
		{args: "--list --no-headers > /dev/null", isWarning: true},
	} {
		out, errOut, code := r.shell(t, "kubectl proviso can-i "+tc.args)
		if out != tc.want || code != tc.code || strings.Contains(errOut, warning) != tc.isWarning {
			t.Errorf("%s: got %q, exit code %d and %s", tc.args, out, code, errOut)
		}
	}
}

// testOthers runs the other commands on a cluster without Proviso.
func testOthers(t *testing.T, r *rig) {
	t.Parallel()
	for _, tc := range []struct {
		args, out, errOut string
		code              int
	}{
		{args: "who-can create pods", out: "yes      Group system:masters", errOut: "Warning: the server does not serve policy.proviso.dev: this is the answer of RBAC alone"},
		{args: "who-can create pods -o json", out: `"complete": true`, errOut: "Warning: the server does not serve policy.proviso.dev"},
		{args: "can-impersonate alice get pods", errOut: "error: the server does not serve ImpersonationReviews of authorization.proviso.dev: Proviso is not installed", code: 2},
		{args: "convert rbac", out: "name: cluster-admin", errOut: "SOURCE"},
	} {
		out, errOut, code := r.shell(t, "kubectl proviso "+tc.args)
		if code != tc.code || !strings.Contains(out, tc.out) || tc.out == "" && out != "" || !strings.Contains(errOut, tc.errOut) {
			t.Errorf("%s: exit code %d, %s and %s", tc.args, code, out, errOut)
		}
	}
}

// testLint checks a policy with a field that does not exist against the schemas of a cluster: from the cluster, and from a file.
func testLint(t *testing.T, r *rig) {
	t.Parallel()
	const policy = `printf '%s' '{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: a}, spec: {effect: Deny, rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [RESOURCE]}], condition: "object.spec.hostNetwrk == true"}}' |
kubectl proviso lint -f - `
	for _, tc := range []struct {
		name, command, resource string
		want                    []string
	}{
		{name: "the cluster", command: policy + "--cluster", resource: "pods", want: []string{"hostNetwrk"}},
		{name: "a file", command: "schemas=$(mktemp)\nkubectl get --raw /openapi/v3/api/v1 > $schemas\n" + policy + "--openapi=$schemas", resource: "pods", want: []string{"hostNetwrk"}},
		{name: "a resource that does not exist", command: policy + "--cluster", resource: "pod", want: []string{`"pod"`, "pods"}},
		{name: "no schemas", command: policy, resource: "pods"},
	} {
		out, errOut, code := r.shell(t, strings.ReplaceAll(tc.command, "RESOURCE", tc.resource))
		if (code == 1) != (tc.want != nil) || errOut != "" {
			t.Errorf("%s: exit code %d: %s%s", tc.name, code, out, errOut)
		}
		for _, want := range tc.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: got %s, want %s", tc.name, out, want)
			}
		}
	}
}

// testExplain explains by the policies of a cluster that has none.
func testExplain(t *testing.T, r *rig) {
	t.Parallel()
	const want = "error: the cluster has no policies of Proviso: it does not serve policy.proviso.dev/v1alpha1; name files with policies with -f\n"
	if out, errOut, code := r.shell(t, "kubectl proviso explain -f artifacts/examples/storage-class/review.yaml"); code != 2 || out != "" || errOut != want {
		t.Errorf("got %d %s%s", code, out, errOut)
	}
	out, errOut, code := r.shell(t, `dir=$(mktemp -d)
kubectl get --raw /openapi/v3/api/v1 > $dir/schemas.json
cat > $dir/request.yaml <<'EOF'
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: d}
spec:
  effect: Deny
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [services]}]
  condition: object.spec.type == "LoadBalancer"
---
apiVersion: authorization.k8s.io/v1alpha1
kind: SubjectAccessReview
spec: {user: alice, resourceAttributes: {verb: create, version: v1, resource: services, namespace: team-a}}
---
apiVersion: authorization.k8s.io/v1alpha1
kind: AuthorizationConditionsReview
request: {operation: CREATE, object: {apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: LoadBalancer}}}
EOF
kubectl proviso explain -f $dir/request.yaml --rbac-allows --openapi=$dir/schemas.json`)
	if code != 1 || errOut != "" || !strings.Contains(out, `near miss: set spec.type to "ClusterIP" (now "LoadBalancer")`) {
		t.Errorf("with the schemas of a cluster: got %d %s%s", code, out, errOut)
	}
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
