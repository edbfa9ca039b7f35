/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	kubectlplugin "github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/nearmiss"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/policysuite"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// suiteRow says how a denial of a suite differs from the others. Its key is SUITE: TEST.
type suiteRow struct {
	// Why says why the denial is a row.
	Why string
	// OwnRule is a text in the refusal of a rule of kube-apiserver, which comes before admission.
	OwnRule string
	// Version is the version in which the request is sent.
	Version string
	// IsReviewed says that the near miss is tried by a review of its conditions.
	IsReviewed bool
	// HasNone says that there is no near miss.
	HasNone bool
}

// suiteSender sends the requests of suites.
type suiteSender struct {
	*recipeSender

	// fillers have the fields without which kube-apiserver stores no object of a kind.
	fillers map[string]map[string]any
	schemas []string
	sent    int
}

// testSuites sends the requests that the suites of the examples and of the templates refuse, and again with the near miss that kubectl proviso explain
// finds offline, with the schemas of kube-apiserver and without them. Another test tries those of the ValidatingAdmissionPolicies.
func (a *recipeSender) testSuites(t *testing.T) {
	var file struct {
		Fillers map[string]map[string]any
		Denials map[string]suiteRow
	}
	plane.ReadYAML(t, "suites.yaml", &file)
	s := &suiteSender{recipeSender: a, fillers: file.Fillers}
	for i, path := range []string{"api/v1", "apis/apps/v1", "apis/certificates.k8s.io/v1", "apis/resource.k8s.io/v1", "apis/authorization.k8s.io/v1"} {
		code, schemas := s.sendAs(t, nil, http.MethodGet, "/openapi/v3/"+path, "", nil)
		file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.json", i))
		if err := os.WriteFile(file, []byte(schemas), 0o600); err != nil || code != http.StatusOK {
			t.Fatal(code, err)
		}
		s.schemas = append(s.schemas, file)
	}
	seen, tried, denials := map[string]bool{}, 0, 0
	for _, suite := range policysuite.Read(t, a.Manifests) {
		if isOther := filepath.Base(filepath.Dir(suite.Dir)) == "admission-policies" && suite.Name != "beside-proviso"; isOther {
			continue
		}
		s.with(t, &suite, func(tc *policysuite.Test) {
			key := suite.Name + ": " + tc.Name
			row := file.Denials[key]
			seen[key] = true
			denials++
			if s.testDenial(t, &suite, tc, &row) {
				tried++
			}
		})
	}
	for key := range file.Denials {
		if !seen[key] {
			t.Errorf("no suite has the denial %q", key)
		}
	}
	t.Logf("%d denials, %d near misses tried, %d requests", denials, tried, s.sent)
	if denials != 38 || tried != 28 {
		t.Errorf("got %d denials and %d near misses that were tried, want 38 and 28: add the new ones, and rows if they differ", denials, tried)
	}
}

// with applies the policies of a suite, and calls test for each denial.
func (s *suiteSender) with(t *testing.T, suite *policysuite.Suite, test func(*policysuite.Test)) {
	t.Helper()
	isApplied := false
	for i := range suite.Tests {
		tc := &suite.Tests[i]
		if !tc.IsDenied() {
			continue
		}
		if a := tc.Request.ResourceAttributes; a.Namespace != "" {
			s.sendAs(t, nil, http.MethodPost, "/api/v1/namespaces", jsonType, map[string]any{"metadata": map[string]any{"name": a.Namespace}}) // it may be there
		}
		if !isApplied {
			isApplied = true
			s.MustKubectl(t, "apply", "-f", filepath.Join(suite.Dir, "policy.yaml"))
		}
		grants := ""
		if len(tc.Permissions) > 0 {
			grants = grantTo(t, tc)
			s.MustApply(t, grants)
		}
		test(tc)
		if grants != "" {
			s.MustDelete(t, grants)
		}
	}
	if isApplied {
		s.MustKubectl(t, "delete", "-f", filepath.Join(suite.Dir, "policy.yaml"))
	}
}

// grantTo returns a role with the permissions of a test, and its binding.
func grantTo(t *testing.T, tc *policysuite.Test) string {
	t.Helper()
	meta := map[string]any{"name": "suite"}
	return asJSON(t, map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": tc.Permissions}) + "---\n" +
		asJSON(t, map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": meta,
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "suite"},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": tc.Request.User}},
		})
}

// suiteExplanation is what the test reads of an explanation.
type suiteExplanation struct {
	Chain []struct {
		Policies []struct {
			Policy  string
			Decides bool
		}
	}
	NearMiss *nearmiss.NearMiss
}

// explain explains a denial offline.
func (s *suiteSender) explain(t *testing.T, suite *policysuite.Suite, tc *policysuite.Test, schemas ...string) (e suiteExplanation) {
	t.Helper()
	args := []string{"explain", "-f", suite.File(), "--test", tc.Name, "-o", "json"}
	for _, file := range schemas {
		args = append(args, "--openapi", file)
	}
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	code := kubectlplugin.Run(t.Context(), args, streams)
	if err := json.Unmarshal(out.Bytes(), &e); err != nil || code != 1 {
		t.Fatalf("%s: %d %v %s", tc.Name, code, err, errOut)
	}
	return e
}

// testDenial sends the request of one denial. It reports whether a near miss was tried, and passed.
func (s *suiteSender) testDenial(t *testing.T, suite *policysuite.Suite, tc *policysuite.Test, row *suiteRow) bool {
	t.Helper()
	key := suite.Name + ": " + tc.Name
	without, with := s.explain(t, suite, tc), s.explain(t, suite, tc, s.schemas...)
	switch {
	case row.HasNone || without.NearMiss == nil:
		if without.NearMiss != nil || !row.HasNone || with.NearMiss != nil {
			t.Errorf("%s: got the near misses %+v and, with schemas, %+v", key, without.NearMiss, with.NearMiss)
		}
		return false
	case row.IsReviewed:
		return s.review(t, key, tc, with.NearMiss)
	case without.NearMiss.Action == "select":
		a, selector := tc.Request.ResourceAttributes, strings.Trim(strings.TrimPrefix(without.NearMiss.Selectors, "-l "), "'")
		path := "/api/v1/namespaces/" + a.Namespace + "/" + a.Resource + "?labelSelector=" + url.QueryEscape(selector)
		return s.wait(t, key+" passes with the selector "+selector, func() (bool, string) {
			code, answer := s.sendAs(t, &requests.User{Name: tc.Request.User, Groups: tc.Request.Groups}, http.MethodGet, path, jsonType, nil)
			return code == http.StatusOK, answer
		})
	}
	if a := tc.Request.ResourceAttributes; a.Verb == "create" && a.Subresource == "" {
		metadata, _ := objectIn(t, tc.Data.Object)["metadata"].(map[string]any)
		if name, _ := metadata["name"].(string); name != "" {
			s.purge(t, policysuite.PathOf(a)+"/"+name)
		}
	}
	s.wait(t, key+" is refused", func() (bool, string) {
		code, answer := s.try(t, tc, row, nil)
		if row.OwnRule != "" {
			return code == http.StatusUnprocessableEntity && strings.Contains(answer, row.OwnRule), answer
		}
		return (code == http.StatusForbidden || code == http.StatusUnprocessableEntity) && with.names(answer), answer
	})
	if with.NearMiss == nil || *with.NearMiss != *without.NearMiss {
		t.Errorf("%s: got the near miss %+v with schemas, and %+v without", key, with.NearMiss, without.NearMiss)
		return false
	}
	return s.wait(t, fmt.Sprintf("%s passes with the near miss %+v", key, *with.NearMiss), func() (bool, string) {
		code, answer := s.try(t, tc, row, with.NearMiss)
		return code == http.StatusOK || code == http.StatusCreated, answer
	})
}

// names reports whether a refusal names one of the policies that decide.
func (e *suiteExplanation) names(answer string) bool {
	for _, m := range e.Chain {
		for _, p := range m.Policies {
			if p.Decides && (strings.Contains(answer, "policy="+p.Policy+" ") || strings.Contains(answer, "ValidatingAdmissionPolicy '"+p.Policy+"'")) {
				return true
			}
		}
	}
	return false
}

// wait waits until policies and permissions are known.
func (s *suiteSender) wait(t *testing.T, what string, holds func() (bool, string)) bool {
	t.Helper()
	var answer string
	is := poll.Until(t.Context(), 30*time.Second, func() (is bool) { is, answer = holds(); return is })
	if !is {
		t.Errorf("not in time: %s: %.900s", what, answer)
	}
	return is
}

// sendAs sends a request as a user, or as the admin.
func (s *suiteSender) sendAs(t *testing.T, as *requests.User, method, path, contentType string, body any) (int, string) {
	t.Helper()
	s.sent++
	text := ""
	if body != nil {
		text = strings.ReplaceAll(asJSON(t, body), "{csr}", s.csr)
	}
	return s.Sender.Send(t, as, method, path, contentType, text)
}

// objectIn returns an object of the data of a request, or nil.
func objectIn(t *testing.T, raw *runtime.RawExtension) map[string]any {
	t.Helper()
	if raw == nil {
		return nil
	}
	return fromJSON(t, string(raw.Raw))
}

// try sends the request of a denial, with or without the near miss, as a dry run: what a policy refuses once it is in force could not be removed then.
// Conditions see the option dryRun; no suite depends on it.
func (s *suiteSender) try(t *testing.T, tc *policysuite.Test, row *suiteRow, miss *nearmiss.NearMiss) (int, string) {
	t.Helper()
	attributes := *tc.Request.ResourceAttributes
	object, old := objectIn(t, tc.Data.Object), objectIn(t, tc.Data.OldObject)
	if miss != nil {
		into := map[string]*map[string]any{"object": &object, "oldObject": &old}[miss.Object]
		*into = miss.Apply(t, *into).(map[string]any)
	}
	if row.Version != "" {
		attributes.Version, object["apiVersion"] = row.Version, attributes.Group+"/"+row.Version
	}
	as := &requests.User{Name: tc.Request.User, Groups: tc.Request.Groups, Extra: map[string][]string{}}
	for name, values := range tc.Request.Extra {
		as.Extra[name] = values
	}
	path := policysuite.PathOf(&attributes)
	const dry = "?dryRun=All"
	switch attributes.Verb {
	case "create":
		if attributes.Subresource != "" {
			s.MustApply(t, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: `+attributes.Name+`, namespace: `+attributes.Namespace+`}}`)
		}
		return s.sendAs(t, as, http.MethodPost, path+dry, jsonType, s.filled(t, object))
	case "delete":
		s.store(t, path, old)
		defer s.purge(t, path)
		return s.sendAs(t, as, http.MethodDelete, path+dry, "", nil)
	}
	stored := s.store(t, path, old)
	defer s.purge(t, path)
	change, err := jsonpatch.CreateMergePatch([]byte(asJSON(t, old)), []byte(asJSON(t, object)))
	if err != nil {
		t.Fatal(err)
	}
	if attributes.Verb == "patch" {
		return s.sendAs(t, as, http.MethodPatch, path+dry, mergeType, fromJSON(t, string(change)))
	}
	changed, err := jsonpatch.MergePatch([]byte(stored), change)
	if err != nil {
		t.Fatal(err)
	}
	return s.sendAs(t, as, http.MethodPut, path+dry, jsonType, fromJSON(t, string(changed)))
}

// filled returns an object with the fields that kube-apiserver requires.
func (s *suiteSender) filled(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	filler := s.fillers[object["kind"].(string)]
	if filler == nil {
		return object
	}
	return merged(fromJSON(t, asJSON(t, filler)), object)
}

// store creates the stored object of a request, as the suite has it: kube-apiserver adds finalizers. It returns what is stored.
func (s *suiteSender) store(t *testing.T, path string, old map[string]any) string {
	t.Helper()
	s.purge(t, path)
	collection := path[:strings.LastIndex(path, "/")]
	if code, answer := s.sendAs(t, nil, http.MethodPost, collection, jsonType, s.filled(t, old)); code != http.StatusCreated {
		t.Fatalf("%s: %d %s", collection, code, answer)
	}
	finalizers := map[string]any{"metadata": map[string]any{"finalizers": old["metadata"].(map[string]any)["finalizers"]}}
	code, stored := s.sendAs(t, nil, http.MethodPatch, path, mergeType, finalizers)
	if code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, code, stored)
	}
	return stored
}

// purge deletes an object, if it is there. kube-apiserver refuses a change while a policy is not in force yet, so purge tries again.
func (s *suiteSender) purge(t *testing.T, path string) {
	t.Helper()
	s.wait(t, path+" is gone", func() (bool, string) {
		code, patched := s.sendAs(t, nil, http.MethodPatch, path, mergeType, map[string]any{"metadata": map[string]any{"finalizers": nil}})
		if code == http.StatusNotFound {
			return true, ""
		}
		s.sendAs(t, nil, http.MethodDelete, path, jsonType, map[string]any{"gracePeriodSeconds": 0})
		code, answer := s.sendAs(t, nil, http.MethodGet, path, "", nil)
		return code == http.StatusNotFound, patched + answer
	})
}

// review asks Proviso by reviews for the conditions of the request, and whether the object with the near miss meets them.
func (s *suiteSender) review(t *testing.T, key string, tc *policysuite.Test, miss *nearmiss.NearMiss) bool {
	t.Helper()
	const path = "/apis/authorization.k8s.io/v1alpha1/"
	ask := func(resource, kind, field string, content any) map[string]any {
		code, answer := s.sendAs(t, nil, http.MethodPost, path+resource, jsonType, map[string]any{"apiVersion": "authorization.k8s.io/v1alpha1", "kind": kind, field: content})
		if code != http.StatusCreated {
			t.Fatalf("%s: %d %s", key, code, answer)
		}
		return fromJSON(t, answer)
	}
	isAllowed := func(change *nearmiss.NearMiss) bool {
		review := ask("subjectaccessreviews", "SubjectAccessReview", "spec", tc.Request)
		request := fromJSON(t, asJSON(t, tc.Data))
		request["conditionSets"] = review["status"].(map[string]any)["conditionsChain"]
		if change != nil {
			request[change.Object] = change.Apply(t, request[change.Object])
		}
		response, _ := ask("authorizationconditionsreviews", "AuthorizationConditionsReview", "request", request)["response"].(map[string]any)
		return response["allowed"] == true
	}
	s.wait(t, key+": the policies are known", func() (bool, string) {
		review := ask("subjectaccessreviews", "SubjectAccessReview", "spec", tc.Request)
		chain, _ := review["status"].(map[string]any)["conditionsChain"].([]any)
		return len(chain) > 0, asJSON(t, review)
	})
	before, after := isAllowed(nil), isAllowed(miss)
	if before || !after {
		t.Errorf("%s: allowed: %t, and with the near miss %+v: %t", key, before, *miss, after)
	}
	return !before && after
}
