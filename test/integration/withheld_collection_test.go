/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proviso-authz/proviso/pkg/apiserver"
)

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
