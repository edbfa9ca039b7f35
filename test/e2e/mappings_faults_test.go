/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

const mappingKey = "/registry/proviso/policy.proviso.dev/fieldpermissionmappings/"

// mapped is a Proviso with an etcd of its own and permission on fields.
type mapped struct {
	*separate
}

func newMapped(t *testing.T, name string) *mapped {
	t.Helper()
	m := &mapped{newSeparate(t, name, "--enable-demo-api", "--feature-gates=FineGrainedAuthorization=true", "--policy-staleness-bound=1s")}
	must(t, makeMachine(t, m.client, "m", "dev"))
	m.put(t, "admin-access", "spec.adminAccess", "adminDevices", &policyv1alpha1.FieldExclusion{})
	return m
}

func (m *mapped) put(t *testing.T, name, path, permission string, exclusion *policyv1alpha1.FieldExclusion) {
	t.Helper()
	if _, err := m.client.PolicyV1alpha1().FieldPermissionMappings().Create(t.Context(), &policyv1alpha1.FieldPermissionMapping{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1alpha1.FieldPermissionMappingSpec{
			Resources: []policyv1alpha1.FieldPermissionResource{{APIGroup: "demo.proviso.dev", Resource: "virtualmachines"}},
			Fields:    []policyv1alpha1.FieldPermission{{Path: path, Permission: permission, Exclusion: exclusion}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// patch rehearses a change of the machine, and returns why it is refused.
func (m *mapped) patch(t *testing.T, user, body string) string {
	t.Helper()
	c := m.Client("admin")
	c.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := versioned.NewForConfig(c)
	must(t, err)
	_, err = client.DemoV1alpha1().VirtualMachines("demo").Patch(context.WithoutCancel(t.Context()), "m", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return ""
	case apierrors.IsForbidden(err):
		return err.Error()
	}
	return "no refusal: " + err.Error()
}

const (
	patchLabel  = `{"metadata":{"labels":{"a":"b"}}}`
	patchImage  = `{"spec":{"image":"other"}}`
	patchAccess = `{"spec":{"adminAccess":true}}`
)

// expect waits until changes of the labels by who may change those, and of the image and of
// the excluded field by who may write machines, are refused with some words, or allowed.
func (m *mapped) expect(t *testing.T, what, label, image, access string) {
	t.Helper()
	got := ""
	is := func(message, want string) bool {
		return want == "" && message == "" || want != "" && strings.Contains(message, want)
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s: got last %s", what, got)
		}
	}()
	poll.Holds(t, what, func() bool {
		a, b, c := m.patch(t, "e2e-mapped-labels", patchLabel), m.patch(t, "e2e-mapped-writer", patchImage), m.patch(t, "e2e-mapped-writer", patchAccess)
		got = fmt.Sprintf("%q, %q, %q", a, b, c)
		return is(a, label) && is(b, image) && is(c, access)
	})
}

// status waits until a mapping says of itself that it is ready, or why not, and the metric
// counts so many mappings by state.
func (m *mapped) status(t *testing.T, name string, ready metav1.ConditionStatus, reason, message, counts string) {
	t.Helper()
	poll.Holds(t, name+" is "+reason, func() bool {
		got, err := m.client.PolicyV1alpha1().FieldPermissionMappings().Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		c := meta.FindStatusCondition(got.Status.Conditions, policyv1alpha1.PolicyReady)
		metric := func(state string) string {
			return m.metric(t, `proviso_policy_field_permission_mappings{state="`+state+`"}`)
		}
		return c != nil && c.Status == ready && c.Reason == reason && strings.Contains(c.Message, message) && c.ObservedGeneration == got.Generation &&
			metric("ready")+" "+metric("contradicting")+" "+metric("broken") == counts
	})
}

// TestMappingsFail breaks mappings and loses them: each time what is excluded stays so or is
// more, nothing is granted that was not, and the mapping, the metric and the readiness say so.
func TestMappingsFail(t *testing.T) {
	t.Parallel()
	grantMachines(t, "e2e-mapped-labels", "granular", "granular:labels")
	grantMachines(t, "e2e-mapped-writer", "create", "update", "patch")
	m := newMapped(t, "mapped")
	const excluded = `needs the verb "granular:adminDevices"`
	m.expect(t, "the mapping takes effect", "", "", excluded)
	m.status(t, "admin-access", metav1.ConditionTrue, "Compiled", "takes effect", "1 0 0")

	m.put(t, "noise", "spec.adminAccess", "noise", nil)
	for _, name := range []string{"admin-access", "noise"} {
		m.status(t, name, metav1.ConditionFalse, "Contradicted", "spec.adminAccess has permission", "0 2 0")
	}
	m.expect(t, "a contradiction", "", "", "no permission covers it (spec.adminAccess has permission")
	must(t, m.client.PolicyV1alpha1().FieldPermissionMappings().Delete(t.Context(), "noise", metav1.DeleteOptions{}))
	m.status(t, "admin-access", metav1.ConditionTrue, "Compiled", "takes effect", "1 0 0")

	store := m.store(t)
	path := func(path string) func(map[string]any) {
		return func(spec map[string]any) { spec["fields"].([]any)[0].(map[string]any)["path"] = path }
	}
	spoilKey(t, store, mappingKey+"admin-access", path("spec.."))
	m.status(t, "admin-access", metav1.ConditionFalse, "CompileFailed", "spec.fields[0].path", "0 0 1")
	const broken = `FieldPermissionMapping "admin-access" is not valid`
	m.expect(t, "what is not valid closes its resources", broken, broken, broken)
	m.restart(t, "/readyz")
	m.expect(t, "also after a restart", broken, broken, broken)
	m.status(t, "admin-access", metav1.ConditionFalse, "CompileFailed", "spec.fields[0].path", "0 0 1")
	spoilKey(t, store, mappingKey+"admin-access", path("spec.adminAccess"))
	m.expect(t, "it is mended", "", "", excluded)
	m.status(t, "admin-access", metav1.ConditionTrue, "Compiled", "takes effect", "1 0 0")

	// What cannot be decoded keeps all mappings from being read, while objects can be written.
	if _, err := store.Put(t.Context(), mappingKey+"undecodable", "{not json"); err != nil {
		t.Fatal(err)
	}
	m.expect(t, "mappings are out of date", "no authorizer can allow the request", "", excluded)
	if code, body := m.get(t, "/readyz"); code != http.StatusInternalServerError || !strings.Contains(body, "[-]field-permission-mappings failed") {
		t.Errorf("readiness: got %d %s", code, body)
	}
	m.restart(t, "/livez")
	m.expect(t, "without mappings", "no refusal", "no refusal", "no refusal") // 500
	if _, err := store.Delete(t.Context(), mappingKey+"undecodable"); err != nil {
		t.Fatal(err)
	}
	m.expect(t, "mappings are there again", "", "", excluded)

	must(t, m.KillEtcd())
	if !poll.Until(t.Context(), 30*time.Second, func() bool {
		code, body := m.get(t, "/readyz")
		return code == http.StatusInternalServerError && strings.Contains(body, "[-]field-permission-mappings failed")
	}) {
		t.Fatal("the server is still ready, in spite of the mappings")
	}
	for user, want := range map[string]bool{"e2e-mapped-labels": false, "e2e-mapped-writer": true} {
		answer, err := m.client.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: user, ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: "HumanReadable"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo", Name: "m"},
		}}, metav1.CreateOptions{})
		must(t, err)
		sets := answer.Status.ConditionsChain
		if got := len(sets) == 2 && sets[0].AuthorizerName == "exclude.granular.proviso.dev" && sets[1].Allowed; got != want || answer.Status.Allowed {
			t.Errorf("without a store, %s: got %+v, want that it is allowed unless an excluded field changes: %t", user, answer.Status, want)
		}
		for _, set := range sets {
			if set.AuthorizerName == "include.granular.proviso.dev" {
				t.Errorf("without a store, %s: something is included: %+v", user, answer.Status)
			}
		}
	}
	must(t, m.StartEtcd(t.Context()))
	m.expect(t, "the store is there again", "", "", excluded)
}
