/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// fine is a control plane of its own, whose Proviso has the gate FineGrainedAuthorization on,
// behind its front door too.
type fine struct {
	*cluster.Cluster
	kube    kubernetes.Interface // of admin
	audited string               // the audit log of Proviso
}

func newFine(t *testing.T) *fine {
	t.Helper()
	dir, err := os.MkdirTemp(stack.Dir, "fine-")
	must(t, err)
	auditPolicy := writeFile(t, "policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n")
	f := &fine{audited: filepath.Join(dir, "proviso-audit.log")}
	f.Cluster, err = cluster.New(cluster.Config{
		Dir: dir, Bin: stack.Bin, Manifests: stack.Manifests,
		Args: []string{"--feature-gates=FineGrainedAuthorization=true", "--audit-policy-file=" + auditPolicy, "--audit-log-path=" + f.audited},
	})
	must(t, err)
	f.StopAfter(t)
	must(t, f.Up(t.Context()))
	if f.kube, err = kubernetes.NewForConfig(f.config(t, "admin")); err != nil {
		t.Fatal(err)
	}
	return f
}

// config returns the client configuration for a context of the control plane.
func (f *fine) config(t *testing.T, user string) *rest.Config {
	t.Helper()
	c, err := f.Client(user)
	must(t, err)
	c.QPS = -1 // a test is no client to be slowed down
	return c
}

// run runs kubectl in a context; what `kubectl edit` shows goes through sed.
func (f *fine) run(t *testing.T, user, input, sed string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(f.Bin, "kubectl"),
		append([]string{"--kubeconfig", f.Kubeconfig(), "--context", user, "--cache-dir", filepath.Join(f.Dir, "kubectl-cache", user)}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	cmd.Env = append(os.Environ(), "KUBE_EDITOR=sed -i -e "+sed)
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (f *fine) apply(t *testing.T, manifest string) {
	t.Helper()
	must(t, f.Apply(t.Context(), manifest))
}

// The marks of rows: those that are tried through kube-apiserver only, and those about which the front door asks kube-apiserver.
const (
	markKube  = "kube"
	markAsked = "asked"
)

// fineAnnotations are the annotations of an audit event: the verdict of one of both sides, and the beginnings of what it is about.
type fineAnnotations struct{ Include, Exclude, Fields, Verbs string }

// TestFineGrainedBehindKubeAPIServer is an operator who may touch what has its prefix only, and a field
// that is excluded, with kubectl, through kube-apiserver and its front door, and directly.
// Both ways come to the same, and Proviso's audit log says which fields were checked.
func TestFineGrainedBehindKubeAPIServer(t *testing.T) {
	t.Parallel()
	f := newFine(t)
	f.apply(t, readText(t, "testdata/fine-rights.yaml"))
	f.checkWithheld(t)
	var about struct{ Audit map[string]*fineAnnotations }
	table := requests.ReadFile(t, "testdata/fine.yaml", &about, markKube, markAsked)
	for _, row := range table.Rows["kubectl"] {
		for _, route := range routes {
			if row.Is(markKube) && route.name != "kube" {
				continue // nobody serves it there
			}
			runner := &requests.Runner{Values: map[string]string{"route": route.name}} // so that each time something changes
			runner.Kubectl = func(_ context.Context, row *requests.Row, args ...string) (string, error) {
				out, errs, err := f.run(t, row.User.Name+route.suffix, row.Input, row.Editor, append([]string{"--namespace=demo"}, args...)...)
				if err != nil {
					err = fmt.Errorf("%w: %s%s", err, out, errs)
				}
				return out, err
			}
			poll.Eventually(t, route.name+": "+row.String(), func() string { return runner.Try(t, row) })
			if want := about.Audit[row.Name]; want != nil {
				f.checkAnnotations(t, row, want)
			}
		}
	}
	// What was written may have changed back and forth, but must not have values in the log.
	if log := readText(t, f.audited); strings.Contains(log, "debian-1") || strings.Contains(log, `"edited`) {
		t.Error("the audit log has values of fields")
	}
	poll.Holds(t, "kubectl shows that the mapping is ready", func() bool {
		out, _, _ := f.run(t, "admin", "", "", "get", "fieldpermissionmappings")
		return slices.Equal(strings.Fields(out)[:6], []string{"NAME", "RESOURCES", "PERMISSIONS", "EXCLUDED", "READY", "AGE"}) && strings.Contains(out, "spec.adminAccess   True")
	})
	f.checkGranularChecks(t, table.Rows["asks"])
}

// checkAnnotations reads Proviso's audit event of the last write of a user.
func (f *fine) checkAnnotations(t *testing.T, row *requests.Row, want *fineAnnotations) {
	t.Helper()
	var last auditv1.Event
	for line := range strings.Lines(readText(t, f.audited)) {
		var event auditv1.Event
		must(t, json.Unmarshal([]byte(line), &event))
		if event.User.Username == row.User.Name && slices.Contains([]string{"create", "update", "patch"}, event.Verb) {
			last = event
		}
	}
	key, verdict := "granular.proviso.dev/include", want.Include
	if want.Exclude != "" {
		key, verdict = "granular.proviso.dev/exclude", want.Exclude
	}
	if got := last.Annotations; got[key] != verdict || !strings.HasPrefix(got[key+"-fields"], want.Fields) || !strings.HasPrefix(got[key+"-verbs"], want.Verbs) {
		t.Errorf("%s: got annotations %v, want %+v", row, got, want)
	}
	if code := last.ResponseStatus.Code; (code == http.StatusForbidden) != (verdict == "refused") {
		t.Errorf("%s: the event has status %d", row, code)
	}
}

// checkGranularChecks counts how often the front door asks kube-apiserver back: once for a write
// on which policies have no opinion, and never for anything else.
func (f *fine) checkGranularChecks(t *testing.T, rows []*requests.Row) {
	t.Helper()
	proviso, counter := requests.NewSender(f.config(t, "admin-direct"), nil), regexp.MustCompile(`(?m)^proviso_webhook_authorize_granular_checks_total\{.* (\d+)$`)
	asked := func() (n int) {
		_, body := proviso.Send(t, nil, http.MethodGet, "/metrics", "", "")
		for _, match := range counter.FindAllStringSubmatch(body, -1) {
			count, err := strconv.Atoi(match[1])
			must(t, err)
			n += count
		}
		return n
	}
	runner, before := &requests.Runner{Sender: requests.NewSender(f.config(t, "admin"), nil)}, asked()
	runner.After = func(row *requests.Row, _ *requests.Answer, _ []*admissionv1.AdmissionRequest) {
		after, want := asked(), 0
		if row.Is(markAsked) {
			want = 1
		}
		if after-before != want {
			t.Errorf("%s: got %d checks, want %d", row, after-before, want)
		}
		before = after
	}
	runner.Run(t, rows)
}
