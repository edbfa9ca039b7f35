/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package convert_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/standin"
)

// The lists of a cluster.
const (
	listClusterRoles = "GET /apis/rbac.authorization.k8s.io/v1/clusterroles"
	listBindings     = "GET /apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	listRoles        = "GET /apis/rbac.authorization.k8s.io/v1/roles"
	listRoleBindings = "GET /apis/rbac.authorization.k8s.io/v1/rolebindings"
	listRolesOfN     = "GET /apis/rbac.authorization.k8s.io/v1/namespaces/n/roles"
	listBindingsOfN  = "GET /apis/rbac.authorization.k8s.io/v1/namespaces/n/rolebindings"
)

// roles are the answers of a cluster with a ClusterRole and a Role, each with a binding.
func roles() standin.Answers {
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: name}
	}
	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	alice := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}}
	role := rbacv1.RoleList{TypeMeta: kind("RoleList"), Items: []rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "n"}, Rules: rules}}}
	roleBinding := rbacv1.RoleBindingList{TypeMeta: kind("RoleBindingList"), Items: []rbacv1.RoleBinding{{
		ObjectMeta: metav1.ObjectMeta{Name: "rb", Namespace: "n"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"}, Subjects: alice,
	}}}
	return standin.Answers{
		listClusterRoles: rbacv1.ClusterRoleList{TypeMeta: kind("ClusterRoleList"), Items: []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "cr"}, Rules: rules}}},
		// In two pages.
		listBindings: standin.Handler(func(r *http.Request, _ []byte) any {
			binding := func(name string) []rbacv1.ClusterRoleBinding {
				return []rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cr"}, Subjects: alice}}
			}
			if r.URL.Query().Get("continue") == "" {
				return rbacv1.ClusterRoleBindingList{TypeMeta: kind("ClusterRoleBindingList"), ListMeta: metav1.ListMeta{Continue: "more"}, Items: binding("crb-1")}
			}
			return rbacv1.ClusterRoleBindingList{TypeMeta: kind("ClusterRoleBindingList"), Items: binding("crb-2")}
		}),
		listRoles: role, listRolesOfN: role, listRoleBindings: roleBinding, listBindingsOfN: roleBinding,
	}
}

// convertCluster converts the roles of a cluster.
func convertCluster(ctx context.Context, t *testing.T, answers standin.Answers, args ...string) (out, errOut string, code int, requests []string) {
	t.Helper()
	server := standin.New(t, answers)
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	code = kubectl.Run(ctx, append([]string{"convert", "rbac", "--kubeconfig=/dev/null", "--server=" + server.URL}, args...), streams)
	return stdout.String(), stderr.String(), code, server.Requests()
}

// reportOf returns the source and the second column of each row of a report.
func reportOf(errOut string) map[string]string {
	report := map[string]string{}
	for line := range strings.Lines(errOut) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.HasPrefix(fields[1], `"`) {
			report[fields[0]+" "+strings.Trim(fields[1], `"`)] = fields[2]
		}
	}
	return report
}

// TestCluster converts a cluster in which the user may not read some roles and bindings. The command converts the others, and its exit code says that
// some may be missing.
func TestCluster(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(rbacv1.Resource("roles"), "", errors.New("not \x1b[2J you"))
	const crb1, crb2, rb, cr = "ClusterRoleBinding crb-1", "ClusterRoleBinding crb-2", "RoleBinding n/rb", "ClusterRole cr"
	for _, tc := range []struct {
		name string
		args []string
		// other are answers of the server that replace the usual ones.
		other    standin.Answers
		policies int
		code     int
		report   map[string]string
		requests []string
		warning  string
	}{
		{"everything", nil, nil, 3, 0, map[string]string{crb1: "yes", crb2: "yes", rb: "yes"}, []string{listBindings, listBindings, listClusterRoles, listRoleBindings, listRoles}, ""},
		{"a namespace", []string{"-n", "n"}, nil, 3, 0, map[string]string{crb1: "yes", crb2: "yes", rb: "yes"}, []string{listBindings, listBindings, listClusterRoles, listBindingsOfN, listRolesOfN}, ""},
		{"roles that cannot be read", nil, standin.Answers{listRoles: forbidden}, 2, 1, map[string]string{crb1: "yes", crb2: "yes", rb: "no"}, nil, `Warning: Roles cannot be listed: roles.rbac.authorization.k8s.io is forbidden: not \x1b[2J you`},
		{"ClusterRoles that cannot be read", nil, standin.Answers{listClusterRoles: forbidden}, 1, 1, map[string]string{crb1: "no", crb2: "no", rb: "yes"}, nil, "Warning: ClusterRoles cannot be listed: "},
		{"bindings that cannot be read", nil, standin.Answers{listBindings: forbidden}, 1, 1, map[string]string{rb: "yes", cr: "allows"}, nil, "Warning: ClusterRoleBindings cannot be listed: "},
		{"bindings of a namespace that cannot be read", []string{"-n", "n"}, standin.Answers{listBindingsOfN: forbidden}, 2, 1, map[string]string{crb1: "yes", crb2: "yes", "Role n/r": "allows"}, nil, "Warning: RoleBindings cannot be listed: "},
		{"a role that does not exist", nil, standin.Answers{listRoles: rbacv1.RoleList{}}, 2, 0, map[string]string{crb1: "yes", crb2: "yes", rb: "allows"}, nil, ""},
		{"nothing", nil, standin.Answers{listBindings: rbacv1.ClusterRoleBindingList{}, listRoleBindings: rbacv1.RoleBindingList{}, listRoles: rbacv1.RoleList{}, listClusterRoles: rbacv1.ClusterRoleList{}}, 0, 0, map[string]string{}, nil, ""},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			answers := roles()
			maps.Copy(answers, tc.other)
			out, errOut, code, requests := convertCluster(t.Context(), t, answers, tc.args...)
			if code != tc.code || strings.Count(out, "AuthorizationPolicy\n") != tc.policies {
				t.Errorf("got %d and\n%s%swant %d and %d policies", code, out, errOut, tc.code, tc.policies)
			}
			if diff := cmp.Diff(tc.report, reportOf(errOut)); diff != "" {
				t.Errorf("another report (-want +got):\n%s", diff)
			}
			if !strings.Contains(errOut, tc.warning) || strings.Contains(errOut, "Warning") != (tc.warning != "") {
				t.Errorf("got %s, want the warning %q", errOut, tc.warning)
			}
			if diff := cmp.Diff(tc.requests, requests); tc.requests != nil && diff != "" {
				t.Errorf("other requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClusterErrors checks that a cluster that does not answer is an error, and no report of a cluster without roles.
func TestClusterErrors(t *testing.T) {
	t.Parallel()
	all := func(answer any) standin.Answers {
		return standin.Answers{listClusterRoles: answer, listBindings: answer, listRoles: answer, listRoleBindings: answer}
	}
	hanging := standin.Handler(func(r *http.Request, _ []byte) any {
		<-r.Context().Done()
		return nil
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		answers standin.Answers
		args    []string
		want    string
	}{
		{"not served", t.Context(), nil, nil, "error: ClusterRoleBindings cannot be listed: the server could not find the requested resource"},
		{"forbidden", t.Context(), all(apierrors.NewForbidden(rbacv1.Resource("x"), "", errors.New("no"))), nil, "is forbidden: no"},
		{"unauthorized", t.Context(), all(apierrors.NewUnauthorized("who are you")), nil, "ClusterRoleBindings cannot be listed: "},
		{"an internal error", t.Context(), all(apierrors.NewInternalError(errors.New("etcd"))), nil, "etcd"},
		{"another object", t.Context(), all([]string{"a"}), nil, "ClusterRoleBindings cannot be listed: "},
		{"a server that hangs", t.Context(), all(hanging), []string{"--request-timeout=50ms"}, "ClusterRoleBindings cannot be listed: "},
		{"a command that is interrupted", ended, roles(), nil, "context canceled"},
		{"a certificate that cannot be read", t.Context(), roles(), []string{"--certificate-authority=/does/not/exist"}, "/does/not/exist"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			out, errOut, code, _ := convertCluster(tc.ctx, t, tc.answers, tc.args...)
			if code != 2 || out != "" || !strings.Contains(errOut, tc.want) || strings.Contains(errOut, "SOURCE") {
				t.Errorf("got %d %q %q, want 2 and %s", code, out, errOut, tc.want)
			}
		})
	}
}

// brokenPipe is an output that cannot be written.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestBrokenPipe checks that policies or a report that cannot be written are an error.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	input := "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}"
	for name, broken := range map[string]func(*genericiooptions.IOStreams){
		"policies": func(s *genericiooptions.IOStreams) { s.Out = brokenPipe{} }, "report": func(s *genericiooptions.IOStreams) { s.ErrOut = brokenPipe{} },
	} {
		streams, in, _, _ := genericiooptions.NewTestIOStreams()
		in.WriteString(input)
		broken(&streams)
		if code := kubectl.Run(t.Context(), []string{"convert", "rbac", "-f", "-", "-o", "json"}, streams); code != 2 {
			t.Errorf("%s: got %d, want 2", name, code)
		}
	}
}
