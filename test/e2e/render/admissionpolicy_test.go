/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/nearmiss"
)

// admissionSuite is a suite of kubectl proviso test with ValidatingAdmissionPolicies. The fields are those that the examples use.
type admissionSuite struct {
	dir         string
	Permissions []rbacv1.PolicyRule
	Objects     []string
	Tests       []admissionTest
}

type admissionTest struct {
	Name        string
	Request     authorizationv1alpha1.SubjectAccessReviewSpec
	Data        authorizationv1alpha1.AuthorizationConditionsRequest
	Permissions []rbacv1.PolicyRule
	Expect      struct {
		Outcome          any // a boolean or a string
		Message          string
		Policies         []string
		Warnings         []string
		Audited          []string
		AuditAnnotations map[string]string
	}
}

// isDenied reports whether the outcome is no.
func (tc *admissionTest) isDenied() bool {
	return tc.Expect.Outcome == false || tc.Expect.Outcome == "no"
}

// admissionSuites reads the examples, without the one that needs a policy of Proviso.
func admissionSuites(t *testing.T, r *rig) (suites []admissionSuite) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.repository, "artifacts", "examples", "admission-policies", "*", "test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		s := admissionSuite{dir: filepath.Dir(file)}
		if filepath.Base(s.dir) == "beside-proviso" {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(content, &s); err != nil {
			t.Fatal(err)
		}
		// Requests that policies change come first: they are sent until the policies are loaded.
		slices.SortStableFunc(s.Tests, func(a, b admissionTest) int {
			changed := func(tc admissionTest) int {
				if tc.isDenied() || len(tc.Expect.Warnings) > 0 {
					return 0
				}
				return 1
			}
			return changed(a) - changed(b)
		})
		suites = append(suites, s)
	}
	return suites
}

// TestAdmissionPolicies makes the requests of the examples of ValidatingAdmissionPolicies to a kube-apiserver. The outcomes are those that kubectl proviso
// test finds offline. A request that is refused passes with the near miss that kubectl proviso explain finds offline.
func TestAdmissionPolicies(t *testing.T) {
	t.Parallel()
	onEachKubernetes(t, func(t *testing.T, r *rig) {
		suites := admissionSuites(t, r)
		prepareSuites(t, r, suites)
		count, misses := 0, 0
		for _, s := range suites {
			policies := " -f " + filepath.Join(s.dir, "policy.yaml")
			r.must(t, "kubectl apply"+policies)
			for _, tc := range s.Tests {
				count++
				difference := ""
				eventuallyAgrees(t, filepath.Base(s.dir)+": "+tc.Name, &difference, func() bool {
					difference = tc.differenceOn(t, r)
					return difference == ""
				})
				if tc.isDenied() && tc.triesNearMiss(t, r, s.dir) {
					misses++
				}
			}
			r.must(t, "kubectl delete --wait=false"+policies)
		}
		if count < 35 || misses < 10 || len(suites) != 8 {
			t.Errorf("%d tests and %d near misses in %d suites, so the test proves little", count, misses, len(suites))
		}
	})
}

// eventuallyAgrees is eventually with the last difference in the error.
func eventuallyAgrees(t *testing.T, what string, difference *string, condition func() bool) {
	t.Helper()
	t.Cleanup(func() {
		if *difference != "" {
			t.Errorf("%s: %s", what, *difference)
		}
	})
	eventually(t, what, condition)
}

// prepareSuites gives users the permissions of the tests instead of all, and creates what the tests need.
func prepareSuites(t *testing.T, r *rig, suites []admissionSuite) {
	t.Helper()
	objects := []any{}
	for i, s := range suites {
		for j, tc := range s.Tests {
			rules := tc.Permissions
			if rules == nil {
				rules = s.Permissions
			}
			name := fmt.Sprintf("suite-%d-%d", i, j)
			objects = append(objects,
				map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name}, "rules": rules},
				map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
					"roleRef":  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
					"subjects": []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tc.Request.User}}})
		}
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Kubectl(t.Context(), string(list), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	r.must(t, "kubectl delete clusterrolebinding everything; kubectl create -f artifacts/examples/admission-policies/replica-limit-by-environment/definition.yaml; kubectl wait --for=condition=Established --timeout=30s crd/replicalimits.rules.example.com")
	script := "kubectl create"
	for _, s := range suites {
		for _, file := range s.Objects {
			script += " -f " + filepath.Join(s.dir, file)
		}
	}
	r.must(t, script)
	for _, s := range suites {
		for _, tc := range s.Tests {
			if tc.Data.OldObject != nil {
				attributes := *tc.Request.ResourceAttributes
				attributes.Name = ""
				if code, answer, _ := r.send(t, user{}, http.MethodPost, pathOf(&attributes), string(tc.Data.OldObject.Raw)); code != http.StatusCreated {
					t.Fatalf("%s: %d %s", tc.Name, code, answer)
				}
			}
		}
	}
}

// pathOf returns the path of a resource.
func pathOf(a *authorizationv1.ResourceAttributes) string {
	path := "/apis/" + a.Group + "/" + a.Version
	if a.Group == "" {
		path = "/api/" + a.Version
	}
	if a.Namespace != "" {
		path += "/namespaces/" + a.Namespace
	}
	path += "/" + a.Resource
	if a.Name != "" {
		path += "/" + a.Name
	}
	return path
}

// differenceOn makes the request of a test without writing anything, and returns what differs from the expectation.
func (tc *admissionTest) differenceOn(t *testing.T, r *rig) string {
	t.Helper()
	id := string(uuid.NewUUID())
	code, answer, header := tc.sendTo(t, r, string(tc.Data.Object.Raw), id)
	var status struct{ Message string } // of a refusal
	if err := json.Unmarshal([]byte(answer), &status); err != nil {
		t.Fatal(err)
	}
	denied := code == http.StatusForbidden || code == http.StatusUnprocessableEntity
	switch {
	case !denied && code/100 != 2, denied != tc.isDenied():
		return fmt.Sprintf("got %d %s", code, answer)
	case denied && !strings.Contains(status.Message, tc.Expect.Message):
		return fmt.Sprintf("got %s, want %s", status.Message, tc.Expect.Message)
	}
	if denied && len(tc.Expect.Policies) > 0 && !strings.Contains(status.Message, "ValidatingAdmissionPolicy '"+tc.Expect.Policies[0]+"'") {
		return fmt.Sprintf("got %s, want %s", status.Message, tc.Expect.Policies)
	}
	warnings := header.Values("Warning")
	if tc.Expect.Warnings != nil && len(warnings) != len(tc.Expect.Warnings) || len(warnings) > 0 && !strings.Contains(warnings[0], tc.Expect.Warnings[0]) {
		return fmt.Sprintf("got the warnings %q", warnings)
	}
	return tc.auditDifference(t, r, id)
}

// sendTo makes the request of a test with an object, and with an ID in the audit log, without writing anything.
func (tc *admissionTest) sendTo(t *testing.T, r *rig, object, id string) (code int, answer string, header http.Header) {
	t.Helper()
	method := map[string]string{"create": http.MethodPost, "update": http.MethodPut}[tc.Request.ResourceAttributes.Verb]
	return r.sendWithID(t, user{name: tc.Request.User, groups: tc.Request.Groups}, method, withDryRun(pathOf(tc.Request.ResourceAttributes)), object, id)
}

// triesNearMiss makes the request with the near miss that explain finds. It returns false if there is none, or if the schema of the object refuses it,
// which explain does not know.
func (tc *admissionTest) triesNearMiss(t *testing.T, r *rig, dir string) bool {
	t.Helper()
	out, errOut, code := r.shell(t, fmt.Sprintf("kubectl proviso explain -f %s --test=%q -o json", filepath.Join(dir, "test.yaml"), tc.Name))
	e := struct{ NearMiss *nearmiss.NearMiss }{}
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 1 {
		t.Fatalf("%s: got %d %s%s", tc.Name, code, out, errOut)
	}
	if e.NearMiss == nil {
		return false
	}
	var object any
	if err := json.Unmarshal(tc.Data.Object.Raw, &object); err != nil || e.NearMiss.Object != "object" {
		t.Fatalf("%s: %v, %+v", tc.Name, err, e.NearMiss)
	}
	changed, err := json.Marshal(e.NearMiss.Apply(t, object))
	if err != nil {
		t.Fatal(err)
	}
	code, answer, _ := tc.sendTo(t, r, string(changed), string(uuid.NewUUID()))
	switch {
	case code/100 == 2, code == http.StatusConflict: // there is such an object, which is found out after admission
		return true
	case code == http.StatusUnprocessableEntity && !strings.Contains(answer, "ValidatingAdmissionPolicy"):
		return false // the schema refuses it before admission
	}
	t.Errorf("%s, with the near miss %+v: %d %s", tc.Name, *e.NearMiss, code, answer)
	return true
}

// auditDifference returns what differs in the audit event.
func (tc *admissionTest) auditDifference(t *testing.T, r *rig, id string) string {
	t.Helper()
	if tc.Expect.Audited == nil && tc.Expect.AuditAnnotations == nil {
		return ""
	}
	content, err := os.ReadFile(r.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		event := auditv1.Event{}
		if !strings.Contains(line, id) || json.Unmarshal([]byte(line), &event) != nil {
			continue
		}
		failure := event.Annotations["validation.policy.admission.k8s.io/validation_failure"]
		if tc.Expect.Audited != nil && (failure != "") != (len(tc.Expect.Audited) > 0) || len(tc.Expect.Audited) > 0 && !strings.Contains(failure, `"`+tc.Expect.Audited[0]+`"`) {
			return fmt.Sprintf("got the failure %q, want %q", failure, tc.Expect.Audited)
		}
		for key, value := range tc.Expect.AuditAnnotations {
			if event.Annotations[key] != value {
				return fmt.Sprintf("got the audit annotation %s: %q, want %q", key, event.Annotations[key], value)
			}
		}
		return ""
	}
	return "no audit event"
}
