/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditpolicy "k8s.io/apiserver/pkg/audit/policy"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

// hidden is in the stored machine, which alice may not read.
const hidden = "dGhlIHNlY3JldA"

const jsonPatch = "application/json-patch+json"

// hiddenMachine is a machine with a value in each of some places.
func hiddenMachine(metadata string) string {
	return machineJSON(fmt.Sprintf(`%s,"labels":{"tier":%q},"annotations":{"hiddennote":%q}`, metadata, hidden, hidden), hidden+" (image)")
}

// probe is a request that fails before its conditions are evaluated, or whose conditions do
// not hold, or that depends on a value of the stored object.
type probe struct{ name, method, path, contentType, body string }

func probesOf(path, valid string) []probe {
	patch := func(name, body string) probe { return probe{name, http.MethodPatch, path, jsonPatch, body} }
	return []probe{
		patch("refused by the condition", `[{"op":"add","path":"/metadata/labels/a","value":"b"}]`),
		patch("copy of the specification to a label", `[{"op":"copy","from":"/spec","path":"/metadata/labels/x"}]`),
		patch("copy of a value to a label", `[{"op":"copy","from":"/spec/image","path":"/metadata/labels/x"}]`),
		patch("move of a value to a label", `[{"op":"move","from":"/spec/image","path":"/metadata/labels/x"}]`),
		patch("copy to the name", `[{"op":"copy","from":"/metadata/labels/tier","path":"/metadata/name"}]`),
		patch("copy to the UID", `[{"op":"copy","from":"/metadata/labels/tier","path":"/metadata/uid"}]`),
		patch("copy of annotations to labels", `[{"op":"copy","from":"/metadata/annotations","path":"/metadata/labels"}]`),
		patch("copy to a field that there is not", `[{"op":"copy","from":"/metadata/annotations","path":"/spec"}]`),
		patch("copy from a field that there is not", `[{"op":"copy","from":"/spec/none","path":"/metadata/labels/x"}]`),
		patch("test that fails", `[{"op":"test","path":"/metadata/labels/tier","value":"other"},{"op":"add","path":"/metadata/labels/a","value":"b"}]`),
		patch("test that succeeds", fmt.Sprintf(`[{"op":"test","path":"/metadata/labels/tier","value":%q},{"op":"add","path":"/metadata/labels/a","value":"b"}]`, hidden)),
		patch("replace of what is not there", `[{"op":"replace","path":"/metadata/labels/none","value":"b"}]`),
		patch("remove of what is not there", `[{"op":"remove","path":"/metadata/labels/none"}]`),
		patch("another UID", `[{"op":"replace","path":"/metadata/uid","value":"00000000-0000-0000-0000-000000000000"}]`),
		patch("another version", `[{"op":"replace","path":"/metadata/resourceVersion","value":"1"}]`),
		{"merge patch of an invalid label", http.MethodPatch, path, mergePatch, `{"metadata":{"labels":{"a":"!"}}}`},
		{"server-side apply against another manager", http.MethodPatch, path + "?fieldManager=probe", applyPatch, valid},
	}
}

func (p probe) send(ctx context.Context, s *server.Server, accept string) *httptest.ResponseRecorder {
	return s.Answer(func() *http.Request {
		request := httptest.NewRequest(p.method, p.path, strings.NewReader(p.body)).WithContext(ctx)
		request.Header.Set(server.UserHeader, "alice")
		if p.contentType != "" {
			request.Header.Set("Content-Type", p.contentType)
		}
		if accept != "" {
			request.Header.Set("Accept", accept)
		}
		return request
	})
}

// answerOf is an answer without what identifies the request.
func answerOf(got *httptest.ResponseRecorder) string {
	headers := got.Header().Clone()
	for _, name := range []string{"Audit-Id", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"} {
		headers.Del(name)
	}
	return fmt.Sprint(got.Code, headers, got.Body)
}

// TestRefusedRequestsShowNothing probes an object that alice may change on a condition, which
// does not hold. Whatever is wrong with a request, the answer to its verb is the same.
func TestRefusedRequestsShowNothing(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{
		"Allow patch,update,delete virtualmachines,virtualmachines/status": `oldObject.spec.image == "mine"`,
	})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	for _, path := range []string{alicesMachine, alicesMachine + "/status"} {
		want := ""
		for _, p := range probesOf(path, machineJSON(named, "other")) {
			got := p.send(t.Context(), e.Server, "")
			if want == "" {
				want = answerOf(got)
			}
			if diff := cmp.Diff(want, answerOf(got)); diff != "" || got.Code != http.StatusForbidden {
				t.Errorf("%s: %s answers %d differently (-refused +got):\n%s", path, p.name, got.Code, diff)
			}
			if strings.Contains(answerOf(got), hidden) || strings.Contains(answerOf(got), "hiddennote") {
				t.Errorf("%s: %s shows the object: %s", path, p.name, got.Body)
			}
		}
	}
	for name, others := range map[string][]probe{
		"update": {
			{"refused by the condition", http.MethodPut, alicesMachine, jsonType, machineJSON(named, "x")},
			{"another UID", http.MethodPut, alicesMachine, jsonType, machineJSON(named+`,"uid":"00000000-0000-0000-0000-000000000000"`, "x")},
			{"another version", http.MethodPut, alicesMachine, jsonType, machineJSON(named+`,"resourceVersion":"1"`, "x")},
			{"an invalid label", http.MethodPut, alicesMachine, jsonType, machineJSON(named+`,"labels":{"a":"!"}`, "x")},
		},
		"delete": {
			{"refused by the condition", http.MethodDelete, alicesMachine, jsonType, ""},
			{"another UID", http.MethodDelete, alicesMachine, jsonType, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"00000000-0000-0000-0000-000000000000"}}`},
			{"another version", http.MethodDelete, alicesMachine, jsonType, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"1"}}`},
		},
	} {
		want := answerOf(others[0].send(t.Context(), e.Server, ""))
		for _, p := range others {
			if diff := cmp.Diff(want, answerOf(p.send(t.Context(), e.Server, ""))); diff != "" || !strings.HasPrefix(want, "403") {
				t.Errorf("%s: %s answers differently (-refused +got):\n%s", name, p.name, diff)
			}
		}
	}
}

// TestReadersSeeWhatIsWrong is the same for a user who may get the object: answers tell.
func TestReadersSeeWhatIsWrong(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow patch virtualmachines": `oldObject.spec.image == "mine"`, "Allow get virtualmachines": ""})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	codes := map[string]int{}
	for _, p := range probesOf(alicesMachine, machineJSON(named, "other")) {
		codes[p.name] = p.send(t.Context(), e.Server, "").Code
	}
	for name, want := range map[string]int{
		"refused by the condition": 403, "copy of a value to a label": 422, "copy to the name": 400, "copy to the UID": 422,
		"test that fails": 422, "test that succeeds": 403, "another version": 409, "server-side apply against another manager": 409,
	} {
		if codes[name] != want {
			t.Errorf("%s: got %d, want %d", name, codes[name], want)
		}
	}
}

// TestAllowedChangesAreExplained has a condition that holds: nothing is withheld from a
// request that succeeds.
func TestAllowedChangesAreExplained(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow patch virtualmachines": `!dryRun`})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	p := probe{"", http.MethodPatch, alicesMachine, mergePatch, `{"metadata":{"labels":{"a":"b"}}}`}
	if got := p.send(t.Context(), e.Server, ""); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), hidden) {
		t.Errorf("got %d %s, want the object", got.Code, got.Body)
	}
}

// TestWithheldAnswersAreNegotiated decodes the answer in every media type.
func TestWithheldAnswersAreNegotiated(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow patch virtualmachines": `oldObject.spec.image == "mine"`})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	for accept, wantType := range map[string]string{
		"": "application/json", "application/json": "application/json", "application/yaml": "application/yaml",
		"application/vnd.kubernetes.protobuf,application/json":                      "application/vnd.kubernetes.protobuf", // only a Status has it
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json":             "application/json",
		"application/cbor,application/json;q=0.9":                                   "application/json",
		"application/vnd.kubernetes.protobuf;q=0.1,application/yaml;q=0.9,*/*;q=.0": "application/yaml",
	} {
		got := probesOf(alicesMachine, machineJSON(named, "other"))[1].send(t.Context(), e.Server, accept)
		if got.Header().Get("Content-Type") != wantType {
			t.Errorf("accepting %q: got %s, want %s", accept, got.Header().Get("Content-Type"), wantType)
		}
		object, err := runtime.Decode(apiserver.Codecs.UniversalDeserializer(), got.Body.Bytes())
		if err != nil {
			t.Fatalf("accepting %q: %v: %s", accept, err, got.Body)
		}
		status, ok := object.(*metav1.Status)
		if !ok || status.Code != http.StatusForbidden || status.Reason != metav1.StatusReasonForbidden || !strings.Contains(status.Message, "allowed only on conditions") {
			t.Errorf("accepting %q: got %#v", accept, object)
		}
	}
}

// TestFailingConditionsQuoteNothing has conditions whose errors quote the object. The user
// reads the class of the failure, and so does the administrator in the audit log.
func TestFailingConditionsQuoteNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, condition, want string }{
		{"an IP address", `ip(oldObject.spec.image) == ip("::1")`, "conversion failed"},
		{"a network", `cidr(oldObject.spec.image).containsIP("1.1.1.1")`, "conversion failed"},
		{"a look-up by a value", `{"a": true}[oldObject.spec.image]`, "no such key"},
		{"an index", `[true][int(oldObject.spec.image.size())]`, "index out of bounds"},
		{"a pattern", `"a".matches(oldObject.spec.image)`, "invalid regular expression"},
		{"a number", `int(oldObject.spec.image) == 1`, "conversion failed"},
		{"a field", `oldObject.metadata.none == "a"`, "no such key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			log := &auditLog{}
			e := newEnforcing(t, rights{"Allow get,update virtualmachines": "", "Deny update virtualmachines": tc.condition}, func(c *server.Config) {
				c.Generic = func(generic *genericapiserver.Config) {
					generic.AuditBackend = log
					generic.AuditPolicyRuleEvaluator = auditpolicy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, []auditinternal.Stage{auditinternal.StageRequestReceived})
				}
			})
			e.must(t, http.MethodPost, machinesPath, machineJSON(named, "(secret"))
			got := send(e.Server, "alice", http.MethodPut, alicesMachine, jsonType, machineJSON(named, "x"))
			body := got.Body.String()
			if got.Code != http.StatusForbidden || !strings.Contains(body, tc.want) || !strings.Contains(body, "deny-update-virtualmachines") {
				t.Errorf("got %d %s, want 403 with the policy and %q", got.Code, body, tc.want)
			}
			audited, err := json.Marshal(log.last())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(body+string(audited), "secret") {
				t.Errorf("the object is quoted: %s; %s", body, audited)
			}
		})
	}
}

// TestFailingDenyAtAuthorization has Deny conditions that fail before the body is read.
func TestFailingDenyAtAuthorization(t *testing.T) {
	t.Parallel()
	for verb, method := range map[string]string{"get": http.MethodGet, "update": http.MethodPut, "delete": http.MethodDelete} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			e := newEnforcing(t, rights{"Allow " + verb + " virtualmachines": "", "Deny " + verb + " virtualmachines": `request.userInfo.extra["none"][0] == "x"`})
			got := send(e.Server, "alice", method, alicesMachine, jsonType, machineJSON(named, "x"))
			if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "deny-"+verb+"-virtualmachines") || !strings.Contains(got.Body.String(), "could not be evaluated: no such key: none") {
				t.Errorf("got %d %s, want 403 with the policy, the class of its failure, and the key that the condition names", got.Code, got.Body)
			}
		})
	}
}

// TestValidationLogsNoValues sends an update with a label that is invalid, which the generic
// store validates twice.
func TestValidationLogsNoValues(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow patch virtualmachines": ""})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	p := probesOf(alicesMachine, "")[2]
	if got := p.send(klog.NewContext(t.Context(), logger), e.Server, ""); got.Code != http.StatusUnprocessableEntity {
		t.Fatalf("got %d %s, want 422", got.Code, got.Body)
	}
	if !strings.Contains(log.String(), "Found duplicate validation error") || strings.Contains(log.String(), hidden) {
		t.Errorf("the log must have the message, and no value: %s", log.String())
	}
}

// mine is the right to delete machines with an image of one's own.
const mine = `oldObject.spec.image == "mine"`

// revision returns the resource version of the list of machines.
func (e *enforcing) revision(tb testing.TB) string {
	tb.Helper()
	e.stored(tb) // until the cache is filled
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(send(e.Server, "admin", http.MethodGet, machinesPath, "", "").Body.Bytes(), &list); err != nil {
		tb.Fatal(err)
	}
	return list.ResourceVersion
}

// continueAt returns a token that continues a list at a revision.
func continueAt(revision string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"v":"meta.k8s.io/v1","rv":%s,"start":"/a"}`, revision))
}

// TestDeletedCollectionsAreNotShown deletes collections that were listed at an earlier revision. The store passes over
// an object that is gone, evaluates no condition on it, and returns it with its list.
func TestDeletedCollectionsAreNotShown(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow deletecollection virtualmachines": mine})
	e.must(t, http.MethodPost, machinesPath, hiddenMachine(named))
	revision := e.revision(t)
	e.must(t, http.MethodDelete, alicesMachine, "")
	for name, query := range map[string]string{
		"an exact revision":        "?resourceVersionMatch=Exact&resourceVersion=" + revision,
		"and rehearsed":            "?dryRun=All&resourceVersionMatch=Exact&resourceVersion=" + revision,
		"and selected":             "?fieldSelector=metadata.name%3Done&resourceVersionMatch=Exact&resourceVersion=" + revision,
		"a continue token":         "?limit=5&continue=" + continueAt(revision),
		"a token and no limit":     "?continue=" + continueAt(revision),
		"a cache that may be late": "?resourceVersion=0",
	} {
		got := send(e.Server, "alice", http.MethodDelete, machinesPath+query, "", "")
		if strings.Contains(answerOf(got), hidden) || strings.Contains(got.Body.String(), "items") {
			t.Errorf("%s: got %d %s, want nothing of the objects", name, got.Code, got.Body)
		}
	}
}

// TestDeletedCollectionsAreNotCounted has a limit, with which a list tells how many objects are left.
func TestDeletedCollectionsAreNotCounted(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow deletecollection virtualmachines": mine})
	for _, name := range []string{"aaa", "hidden1", "hidden2"} {
		image := "theirs"
		if name == "aaa" {
			image = "mine"
		}
		e.must(t, http.MethodPost, machinesPath, machineJSON(fmt.Sprintf(`"name":%q`, name), image))
	}
	e.revision(t)
	for _, query := range []string{"?dryRun=All&limit=1", "?limit=1"} {
		got := send(e.Server, "alice", http.MethodDelete, machinesPath+query, "", "")
		if body := got.Body.String(); got.Code != http.StatusOK || strings.Contains(body, "remainingItemCount") || strings.Contains(body, "continue") || strings.Contains(body, "aaa") {
			t.Errorf("%s: got %d %s, want success without a list", query, got.Code, got.Body)
		}
	}
	if _, left := e.stored(t)["aaa"]; left {
		t.Error("the machine was not deleted")
	}
}

// TestDeletedCollectionsAreShownToReaders has users who may list the objects unconditionally, and users whose
// deletecollection depends on nothing.
func TestDeletedCollectionsAreShownToReaders(t *testing.T) {
	t.Parallel()
	for name, policies := range map[string]rights{
		"may list":                {"Allow deletecollection virtualmachines": mine, "Allow list virtualmachines": ""},
		"deletes unconditionally": {"Allow deletecollection virtualmachines": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnforcing(t, policies)
			e.must(t, http.MethodPost, machinesPath, machineJSON(named, "mine"))
			e.revision(t)
			got := send(e.Server, "alice", http.MethodDelete, machinesPath, "", "")
			if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `"image":"mine"`) {
				t.Errorf("got %d %s, want the list", got.Code, got.Body)
			}
		})
	}
}

// TestDeletedCollectionsAreNegotiated decodes the success in every media type, a table among them.
func TestDeletedCollectionsAreNegotiated(t *testing.T) {
	t.Parallel()
	e := newEnforcing(t, rights{"Allow deletecollection virtualmachines": mine})
	e.must(t, http.MethodPost, machinesPath, machineJSON(named, "mine"))
	e.revision(t)
	for accept, wantType := range map[string]string{
		"": "application/json", "application/yaml": "application/yaml",
		"application/json;as=Table;v=v1;g=meta.k8s.io":                     "application/json",
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io": "application/json",
	} {
		got := probe{"", http.MethodDelete, machinesPath + "?dryRun=All", "", ""}.send(t.Context(), e.Server, accept)
		object, err := runtime.Decode(apiserver.Codecs.UniversalDeserializer(), got.Body.Bytes())
		if err != nil {
			t.Fatalf("accepting %q: %v: %s", accept, err, got.Body)
		}
		status, ok := object.(*metav1.Status)
		if !ok || got.Code != http.StatusOK || status.Code != http.StatusOK || status.Status != metav1.StatusSuccess || got.Header().Get("Content-Type") != wantType {
			t.Errorf("accepting %q: got %d %s %#v, want success as %s", accept, got.Code, got.Header(), object, wantType)
		}
	}
}
