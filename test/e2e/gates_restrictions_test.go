/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

const (
	restricted       = "gates-restricted"
	restrictedTarget = "gates-target"
)

// restrictionPolicies allow a user much, but neither to connect to machines nor to act as another
// user, as far as the gates enforce that.
func restrictionPolicies() []*policyv1alpha1.ClusterAuthorizationPolicy {
	policy := func(name string, effect policyv1alpha1.PolicyEffect, user string, verbs []string, group string, resources ...string) *policyv1alpha1.ClusterAuthorizationPolicy {
		return &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1alpha1.AuthorizationPolicySpec{
			Effect: effect, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
			Rules: []policyv1alpha1.PolicyRule{{Verbs: verbs, APIGroups: []string{group}, Resources: resources}},
		}}
	}
	const allow, deny = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny
	return []*policyv1alpha1.ClusterAuthorizationPolicy{
		policy("write", allow, restricted, []string{"get", "patch", "create"}, "demo.proviso.dev", "virtualmachines", "virtualmachines/console"),
		policy("impersonate", allow, restricted, []string{"impersonate"}, "", "users"),
		policy("look", allow, restrictedTarget, []string{"get"}, "demo.proviso.dev", "virtualmachines"),
		policy("no-connection", deny, restricted, []string{"create"}, "demo.proviso.dev", "virtualmachines/console"),
		policy("no-impersonation", deny, restricted, []string{"constrainedimpersonate"}, "authentication.k8s.io", "users"),
	}
}

// TestRestrictionsAndGates turns each gate off and on again, on one store. What is forbidden by an
// exclusion, by the second verb of a connection, and by a Deny policy for the mode conditional of
// impersonation is as the table of gates in docs/operations.md says.
func TestRestrictionsAndGates(t *testing.T) {
	t.Parallel()
	const (
		allGates  = "--feature-gates=FineGrainedAuthorization=true,ConditionalImpersonation=true,ConditionalAuthorization=true,AuthorizeConnectWithCreate=true"
		ignore    = "--ignore-field-exclusions"
		allRefuse = "exclusion: forbidden, connection: forbidden, impersonation: forbidden"
	)
	certFile, keyFile, err := stack.NewUser(restricted)
	if err != nil {
		t.Fatal(err)
	}
	s := newSeparate(t, "restrictions", "--enable-demo-api", allGates)
	m := &mapped{s}
	if err := makeMachine(t, s.client, "m", "dev"); err != nil {
		t.Fatal(err)
	}
	m.put(t, "admin-access", "spec.adminAccess", "adminDevices", &policyv1alpha1.FieldExclusion{})
	for _, p := range restrictionPolicies() {
		if _, err := s.client.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	user := s.Client("admin")
	user.CertFile, user.KeyFile = certFile, keyFile
	start := func(args ...string) error {
		if err := s.KillProviso(); err != nil {
			return err
		}
		s.SetArgs(append([]string{"--enable-demo-api"}, args...)...)
		return s.StartProviso(t.Context(), "/readyz")
	}
	for _, tc := range []struct {
		name, gates string
		flag        []string
		want        string // "" if the server does not start
	}{
		{"all gates", allGates, nil, allRefuse},
		{"no FineGrainedAuthorization", "--feature-gates=FineGrainedAuthorization=false,ConditionalImpersonation=true", nil, ""},
		{"no FineGrainedAuthorization, exclusions ignored", "--feature-gates=FineGrainedAuthorization=false,ConditionalImpersonation=true", []string{ignore}, "exclusion: allowed, connection: forbidden, impersonation: forbidden"},
		{"all gates again", allGates, nil, allRefuse},
		{"all gates, and a flag that means nothing then", allGates, []string{ignore}, allRefuse},
		{"no AuthorizeConnectWithCreate", allGates + ",AuthorizeConnectWithCreate=false", nil, "exclusion: forbidden, connection: allowed, impersonation: forbidden"},
		{"no ConditionalImpersonation", "--feature-gates=FineGrainedAuthorization=true,ConditionalImpersonation=false", nil, "exclusion: forbidden, connection: forbidden, impersonation: allowed"},
		{"no ConditionalAuthorization", "--feature-gates=ConditionalAuthorization=false", nil, ""},
		{"no ConditionalAuthorization, exclusions ignored", "--feature-gates=ConditionalAuthorization=false", []string{ignore}, "exclusion: allowed, connection: forbidden, impersonation: allowed"},
		{"all gates at the end", allGates, nil, allRefuse},
	} {
		gates := strings.Replace(tc.gates, "AuthorizeConnectWithCreate=true,AuthorizeConnectWithCreate=false", "AuthorizeConnectWithCreate=false", 1)
		err := start(append(tc.flag, gates)...)
		if tc.want == "" {
			if err == nil || !strings.Contains(err.Error(), `enforcing them (FieldPermissionMapping \"admin-access\")`) && !strings.Contains(err.Error(), `enforcing them (FieldPermissionMapping "admin-access")`) {
				t.Errorf("%s: got %v, want the server to refuse to start, and to say why", tc.name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got := settled(t, tc.want, func() string { return restrictions(t, user) }); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// restrictions is which requests of the restricted user are forbidden.
func restrictions(t *testing.T, user *rest.Config) string {
	t.Helper()
	client := func(as string) versioned.Interface {
		c := rest.CopyConfig(user)
		c.Impersonate.UserName = as
		result, err := versioned.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	verdict := func(err error) string {
		switch {
		case err == nil:
			return "allowed"
		case apierrors.IsForbidden(err):
			return "forbidden"
		}
		return err.Error()
	}
	own := client("").DemoV1alpha1()
	_, patched := own.VirtualMachines("demo").Patch(t.Context(), "m", types.MergePatchType, []byte(patchAccess), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	connected := own.RESTClient().Get().Namespace("demo").Resource("virtualmachines").Name("m").SubResource("console").Param("command", "id").Do(t.Context()).Error()
	_, listed := client(restrictedTarget).DemoV1alpha1().VirtualMachines("demo").Get(t.Context(), "m", metav1.GetOptions{})
	return "exclusion: " + verdict(patched) + ", connection: " + verdict(connected) + ", impersonation: " + verdict(listed)
}

// TestExclusionsThatCannotBeRead starts servers without the gate where it cannot be told whether
// fields are excluded.
func TestExclusionsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	m := newMapped(t, "unread-exclusions")
	if err := m.KillProviso(); err != nil {
		t.Fatal(err)
	}
	m.SetArgs("--enable-demo-api")

	// A store out of reach does not keep the server from starting; then the mapping is found.
	if err := m.KillEtcd(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.StartProviso(context.WithoutCancel(t.Context()), "/readyz") }()
	poll.Holds(t, "the server says that the store does not answer", func() bool {
		log, _ := m.Log()
		return strings.Contains(log, storeDoesNotAnswer)
	})
	if err := m.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "set --ignore-field-exclusions") {
		t.Errorf("a store that was out of reach: got %v, want the server to end", err)
	}

	// What cannot be decoded may exclude anything.
	store := m.store(t)
	if _, err := store.Put(t.Context(), mappingKey+"admin-access", "garbage"); err != nil {
		t.Fatal(err)
	}
	if err := m.StartProviso(t.Context(), "/readyz"); err == nil || !strings.Contains(err.Error(), "reading FieldPermissionMappings") {
		t.Errorf("a mapping that cannot be decoded: got %v, want the server to refuse to start", err)
	}
	if _, err := store.Delete(t.Context(), mappingKey+"admin-access"); err != nil {
		t.Fatal(err)
	}
	if err := m.StartProviso(t.Context(), "/readyz"); err != nil {
		t.Errorf("no mapping: %v", err)
	}

	// The server becomes ready when a store that was out of reach tells that nothing is excluded.
	if err := m.KillProviso(); err != nil {
		t.Fatal(err)
	}
	if err := m.KillEtcd(); err != nil {
		t.Fatal(err)
	}
	log, _ := m.Log()
	before := strings.Count(log, storeDoesNotAnswer)
	go func() { ended <- m.StartProviso(context.WithoutCancel(t.Context()), "/readyz") }()
	poll.Holds(t, "the server says again that the store does not answer", func() bool {
		log, _ := m.Log()
		return strings.Count(log, storeDoesNotAnswer) > before
	})
	if err := m.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("a store without mappings that was out of reach: %v", err)
	}
}

const storeDoesNotAnswer = "The store does not answer, so that it is unknown whether fields are excluded"
