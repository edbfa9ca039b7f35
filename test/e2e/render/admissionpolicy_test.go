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

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/proviso-authz/proviso/test/testutil/nearmiss"
	"github.com/proviso-authz/proviso/test/testutil/policysuite"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// admissionTest is a test of a suite with ValidatingAdmissionPolicies.
type admissionTest policysuite.Test

// admissionSuites reads the examples, without the one that needs a policy of Proviso.
func admissionSuites(t *testing.T, r *rig) (suites []policysuite.Suite) {
	t.Helper()
	suites = slices.DeleteFunc(policysuite.Read(t, filepath.Join(r.Repository, "artifacts", "examples", "admission-policies")), func(s policysuite.Suite) bool {
		return s.Name == "beside-proviso"
	})
	for i := range suites {
		// Requests that policies change come first: they are sent until the policies are loaded.
		slices.SortStableFunc(suites[i].Tests, func(a, b policysuite.Test) int {
			changed := func(tc policysuite.Test) int {
				if tc.IsDenied() || len(tc.Expect.Warnings) > 0 {
					return 0
				}
				return 1
			}
			return changed(a) - changed(b)
		})
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
		schemas := schemasOf(t, r)
		count, denials, misses := 0, 0, 0
		for _, s := range suites {
			policies := " -f " + filepath.Join(s.Dir, "policy.yaml")
			r.must(t, "kubectl apply"+policies)
			for i := range s.Tests {
				count++
				tc := (*admissionTest)(&s.Tests[i])
				poll.Eventually(t, s.Name+": "+tc.Name, func() string { return tc.differenceOn(t, r) })
				if !s.Tests[i].IsDenied() {
					continue
				}
				denials++
				if tc.triesNearMiss(t, r, &s, schemas) {
					misses++
				}
			}
			r.must(t, "kubectl delete --wait=false"+policies)
		}
		if count < 35 || denials != 16 || misses != 10 || len(suites) != 8 {
			t.Errorf("%d tests, %d denials and %d near misses that pass in %d suites, want 16 denials and 10 near misses", count, denials, misses, len(suites))
		}
	})
}

// prepareSuites gives users the permissions of the tests instead of all, and creates what the tests need.
func prepareSuites(t *testing.T, r *rig, suites []policysuite.Suite) {
	t.Helper()
	objects := []any{}
	for i, s := range suites {
		for j, tc := range s.Tests {
			name := fmt.Sprintf("suite-%d-%d", i, j)
			objects = append(objects,
				map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name}, "rules": tc.Permissions},
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
			script += " -f " + filepath.Join(s.Dir, file)
		}
	}
	r.must(t, script)
	for _, s := range suites {
		for _, tc := range s.Tests {
			if tc.Data.OldObject != nil {
				attributes := *tc.Request.ResourceAttributes
				attributes.Name = ""
				if code, answer := r.Sender.Send(t, nil, http.MethodPost, policysuite.PathOf(&attributes), "application/json", string(tc.Data.OldObject.Raw)); code != http.StatusCreated {
					t.Fatalf("%s: %d %s", tc.Name, code, answer)
				}
			}
		}
	}
}

// differenceOn makes the request of a test without writing anything, and returns what differs from the expectation.
func (tc *admissionTest) differenceOn(t *testing.T, r *rig) string {
	t.Helper()
	id := string(uuid.NewUUID())
	sent := tc.sendTo(t, r, string(tc.Data.Object.Raw), id)
	code, answer := sent.Code, sent.Body
	var status struct{ Message string } // of a refusal
	if err := json.Unmarshal([]byte(answer), &status); err != nil {
		t.Fatal(err)
	}
	denied := code == http.StatusForbidden || code == http.StatusUnprocessableEntity
	switch {
	case !denied && code/100 != 2, denied != (*policysuite.Test)(tc).IsDenied():
		return fmt.Sprintf("got %d %s", code, answer)
	case denied && !strings.Contains(status.Message, tc.Expect.Message):
		return fmt.Sprintf("got %s, want %s", status.Message, tc.Expect.Message)
	}
	if denied && len(tc.Expect.Policies) > 0 && !strings.Contains(status.Message, "ValidatingAdmissionPolicy '"+tc.Expect.Policies[0]+"'") {
		return fmt.Sprintf("got %s, want %s", status.Message, tc.Expect.Policies)
	}
	warnings := sent.Header.Values("Warning")
	if tc.Expect.Warnings != nil && len(warnings) != len(tc.Expect.Warnings) || len(warnings) > 0 && !strings.Contains(warnings[0], tc.Expect.Warnings[0]) {
		return fmt.Sprintf("got the warnings %q", warnings)
	}
	return tc.auditDifference(t, r, id)
}

// sendTo makes the request of a test with an object, and with an ID in the audit log, without writing anything.
func (tc *admissionTest) sendTo(t *testing.T, r *rig, object, id string) *requests.Answer {
	t.Helper()
	method := map[string]string{"create": http.MethodPost, "update": http.MethodPut}[tc.Request.ResourceAttributes.Verb]
	answer, err := r.Sender.Do(t.Context(), &requests.User{Name: tc.Request.User, Groups: tc.Request.Groups}, requests.Request{
		Method: method, Path: policysuite.PathOf(tc.Request.ResourceAttributes) + "?dryRun=All", ContentType: "application/json",
		Body: strings.NewReader(object), Header: http.Header{"Audit-Id": {id}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// without has the denials that have no near miss that passes, by SUITE: TEST, and the near miss that explain finds without the schema of the object, if
// there is one. kube-apiserver refuses it.
var without = map[string]string{
	"allowed-registries: a Namespace with an owner that does not match": "", // one annotation has to match a pattern
	"allowed-registries: a Namespace without an owner":                  "",
	"host-access: alice lacks the permission":                           "", // three fields have to change
	"replica-limit-by-environment: a parameter that is missing":         "", // no field of the object is the reason
	"team-labels: an image without a tag":                               "set spec.containers to []",
	"team-labels: the tag latest in a Deployment":                       "set spec.template.spec.containers to []",
}

// schemasOf writes the schemas of a kube-apiserver to files, and returns the flag that names them.
func schemasOf(t *testing.T, r *rig) (flag string) {
	t.Helper()
	dir := t.TempDir()
	for i, group := range []string{"api/v1", "apis/apps/v1"} {
		r.must(t, fmt.Sprintf("kubectl get --raw /openapi/v3/%s > %s/%d.json", group, dir, i))
		flag += fmt.Sprintf(" --openapi=%s/%d.json", dir, i)
	}
	return flag
}

// nearMiss returns the near miss that explain finds, or nil.
func (tc *admissionTest) nearMiss(t *testing.T, r *rig, suite *policysuite.Suite, flags string) *nearmiss.NearMiss {
	t.Helper()
	out, errOut, code := r.shell(t, fmt.Sprintf("kubectl proviso explain -f %s --test=%q -o json%s", suite.File(), tc.Name, flags))
	e := struct{ NearMiss *nearmiss.NearMiss }{}
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != 1 {
		t.Fatalf("%s: got %d %s%s", tc.Name, code, out, errOut)
	}
	return e.NearMiss
}

// triesNearMiss makes the request with the near miss that explain finds, with and without the schema of the object. It returns false if there is none that
// passes, which a row says.
func (tc *admissionTest) triesNearMiss(t *testing.T, r *rig, suite *policysuite.Suite, schemas string) bool {
	t.Helper()
	key := suite.Name + ": " + tc.Name
	offered, isExpected := without[key]
	blind, miss := tc.nearMiss(t, r, suite, ""), tc.nearMiss(t, r, suite, schemas)
	got := ""
	if blind != nil {
		got = blind.Action + " " + blind.Field + " to " + blind.Value
	}
	switch {
	case !isExpected && (miss == nil || blind == nil || *miss != *blind):
		t.Errorf("%s: got the near miss %+v with schemas, and %+v without", key, miss, blind)
		return false
	case isExpected && (miss != nil || got != offered):
		t.Errorf("%s: got the near miss %+v with schemas, and %q without, want %q without", key, miss, got, offered)
		return false
	case blind == nil:
		return false
	}
	code, answer := tc.sendChanged(t, r, blind)
	switch {
	case !isExpected && (code/100 == 2 || code == http.StatusConflict): // there is such an object, which is found out after admission
		return true
	case isExpected && code == http.StatusUnprocessableEntity && strings.Contains(answer, "Required value"):
		return false
	}
	t.Errorf("%s, with the near miss %+v: %d %s", key, *blind, code, answer)
	return false
}

// sendChanged makes the request with a near miss.
func (tc *admissionTest) sendChanged(t *testing.T, r *rig, miss *nearmiss.NearMiss) (int, string) {
	t.Helper()
	var object any
	if err := json.Unmarshal(tc.Data.Object.Raw, &object); err != nil || miss.Object != "object" {
		t.Fatalf("%s: %v, %+v", tc.Name, err, miss)
	}
	changed, err := json.Marshal(miss.Apply(t, object))
	if err != nil {
		t.Fatal(err)
	}
	answer := tc.sendTo(t, r, string(changed), string(uuid.NewUUID()))
	return answer.Code, answer.Body
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
