/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package requests_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// echo answers with the code that the path ends with, 200 for GET, and what it was sent, one line for each request.
type echo struct{ lines []string }

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.lines = append(e.lines, fmt.Sprintf("%s %s %s %s %s%v", r.Method, r.URL, r.Header.Get("Content-Type"), body, r.Header.Get("Impersonate-User"), r.Header["Impersonate-Group"]))
	code := http.StatusOK
	if _, err := fmt.Sscanf(r.URL.Path[strings.LastIndex(r.URL.Path, "/"):], "/%d", &code); err != nil || r.Method == http.MethodGet {
		code = http.StatusOK
	}
	w.Header().Set("Warning", `299 - "a warning"`)
	if strings.Contains(r.URL.Path, "audited") {
		w.Header().Set("Warning", `299 - "policy=audited reason=Denied"`)
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"message":  `policy=ns/named reason=Denied: "quoted" text`,
		"metadata": map[string]any{"resourceVersion": "7", "managedFields": []any{map[string]any{"manager": "other"}, map[string]any{"manager": "mine"}}},
	})
}

func newRunner(t *testing.T, handler http.Handler) *requests.Runner {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &requests.Runner{Sender: requests.NewSender(&rest.Config{Host: server.URL}, nil), Values: map[string]string{"ns": "demo"}}
}

func rows(t *testing.T, text string) []*requests.Row {
	t.Helper()
	table, err := requests.Read([]byte(head+"rows:\n  all:\n"+text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return table.Rows["all"]
}

// TestOutcomes compares one answer with outcomes that it has, and with outcomes that it does not have.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ row, want string }{
		{row: `do: post, to: maps/201, code: 201`},
		{row: `do: post, to: maps/201, code: 200`, want: "got 201"},
		{row: `do: post, to: maps/403, by: ns/named`},
		{row: `do: post, to: maps/422, code: 422, by: ns/named`},
		{row: `do: post, to: maps/422, by: ns/named`, want: "got 422"},
		{row: `do: post, to: maps/403, by: named`, want: "does not name the policy"},
		{row: `do: post, to: maps/403, by: ns/name`, want: "does not name the policy"},
		{row: `do: post, to: maps/403, code: 403, says: ['"quoted"', reason=Denied]`},
		{row: `do: post, to: maps/403, code: 403, says: [reason=Denied, unsaid]`, want: `no "unsaid"`},
		{row: `do: post, to: maps/403, code: 403, hides: ['"quoted"']`, want: "the answer shows"},
		{row: `do: post, to: maps/403, code: 403, says: "policy={ns}/named"`},
		{row: `do: post, to: maps/403, code: 403, says: "policy={ns}/other"`, want: `no "policy=ns/other"`},
		{row: `do: post, to: maps/403, code: 403, hides: "policy={ns}/named"`, want: "the answer shows"},
		{row: `do: get, to: maps/a, code: 200, warns: a warning`},
		{row: `do: get, to: maps/a, code: 200, warns: another`, want: "got the warnings"},
		{row: `do: get, to: maps/audited, code: 200`, want: "got the warnings"},
		{row: `do: get, to: maps/audited, code: 200, warns: policy=audited`},
		{row: `do: post, to: maps/201, code: 201, called: true`},
		{row: `do: post, to: maps/201, code: 201, called: false`, want: "the inner door is called 1 times"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			t.Parallel()
			runner := newRunner(t, &echo{})
			runner.Values["ns"] = "ns"
			runner.Calls = func(string) []*admissionv1.AdmissionRequest { return []*admissionv1.AdmissionRequest{{}} }
			got := runner.Try(t, rows(t, "  - {as: ada, "+tc.row+"}\n")[0])
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRequests has what is sent for rows.
func TestRequests(t *testing.T) {
	t.Parallel()
	sent := &echo{}
	runner := newRunner(t, sent)
	table := rows(t, `
  - {as: ada, do: post, to: maps, object: map, stored: [{to: maps/201, body: {a: "{ns}"}}], code: 200}
  - {as: admin, do: delete, to: "maps?labelSelector=a", body: {gracePeriodSeconds: 0}, code: 200}
  - {as: ada, do: apply, to: maps/a, text: '{"a": 25e-1}', code: 200}
  - {as: ada, do: apply, to: "maps/a?fieldManager=me", text: "{}", code: 200}
  - {as: ada, do: put, to: maps/a/status, body: {version: "{rv}"}, code: 200}
  - {as: ada, do: put, to: maps/a, change: {message: null, metadata: {managedFields: null, name: "{rv}"}}, code: 200}
  - {as: ada, do: put, to: maps/a, change: [{op: remove, path: /message}, {op: remove, path: "/metadata/managedFields/{entry mine}"}], code: 200}
  - {as: ada, do: get, to: maps, code: 200}
  - {as: ada, do: post, to: maps/a/exec, code: 200, marks: [no dry run]}
`)
	runner.Run(t, table[:7])
	runner.DryRun = true
	runner.Run(t, table[7:])
	runner.Run(t, table[:1])
	const maps = "/api/v1/namespaces/demo/configmaps"
	const read = "GET " + maps + "/a   []"
	want := []string{
		"POST " + maps + `/201 application/json {"a":"demo"} []`,
		"POST " + maps + ` application/json {"apiVersion":"v1","data":{"a":"b","c":"d"},"kind":"ConfigMap"} ada[dev]`,
		"DELETE " + maps + `?labelSelector=a application/json {"gracePeriodSeconds":0} []`,
		"PATCH " + maps + `/a?fieldManager=table&force=true application/apply-patch+yaml {"a": 25e-1} ada[dev]`,
		"PATCH " + maps + "/a?fieldManager=me application/apply-patch+yaml {} ada[dev]",
		read, "PUT " + maps + `/a/status application/json {"version":"7"} ada[dev]`,
		read, "PUT " + maps + `/a application/json {"metadata":{"name":"7","resourceVersion":"7"}} ada[dev]`,
		read, "PUT " + maps + `/a application/json {"metadata":{"managedFields":[{"manager":"other"}],"resourceVersion":"7"}} ada[dev]`,
		"GET " + maps + "   ada[dev]",
		"POST " + maps + "/a/exec application/json  ada[dev]",
		"POST " + maps + `/201 application/json {"a":"demo"} []`,
		"POST " + maps + `?dryRun=All application/json {"apiVersion":"v1","data":{"a":"b","c":"d"},"kind":"ConfigMap"} ada[dev]`,
	}
	if diff := cmp.Diff(want, sent.lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHeaders sends headers of rows, and requests of a user with a token. The test sees the answers.
func TestHeaders(t *testing.T) {
	t.Parallel()
	var got []string
	runner := newRunner(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, fmt.Sprintf("%v %v %v", r.Header["Authorization"], r.Header["Impersonate-User"], r.Header["X-Trace"]))
		w.Header().Set("Audit-Id", fmt.Sprint(len(got)))
	}))
	runner.Values["token"] = "secret"
	runner.After = func(row *requests.Row, answer *requests.Answer, _ []*admissionv1.AdmissionRequest) {
		got = append(got, row.Name+" "+answer.Header.Get("Audit-Id"))
	}
	table, err := requests.Read([]byte(`
values: [ns, token]
users: {ada: {}, bob: {token: "{token}"}}
rows:
  all:
  - {name: one, as: ada, do: get, to: /a, headers: {X-Trace: ["{ns}", b]}, code: 200}
  - {name: two, as: bob, do: get, to: /a, headers: {Impersonate-User: ada}, code: 200}
  - {name: three, as: admin, do: get, to: /a, headers: {Impersonate-User: bob}, code: 200}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	runner.Run(t, table.Rows["all"])
	want := []string{"[] [ada] [demo b]", "one 1", "[Bearer secret] [ada] []", "two 3", "[] [bob] []", "three 5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAwaitEach waits for the first row of each policy, and for the first row of each user that passes, as dry runs.
func TestAwaitEach(t *testing.T) {
	t.Parallel()
	attempts := map[string]int{}
	runner := newRunner(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if attempts[name]++; !strings.Contains(r.URL.RawQuery, "dryRun=All") {
			t.Errorf("%s is no dry run", r.URL)
		}
		if name != "passes" && attempts[name] > 2 { // the policy is in effect
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, "policy=%s reason=Denied", name)
		}
	}))
	runner.AwaitEach(t, rows(t, `
  - {as: ada, do: delete, to: maps/passes, code: 200}
  - {as: ada, do: delete, to: maps/one, by: one}
  - {as: ada, do: delete, to: maps/same, by: one}
  - {as: ada, do: delete, to: maps/two, code: 403, says: policy=two reason=Denied}
  - {as: ada, do: delete, to: maps/another, code: 200}
  - {as: ada, do: delete, to: maps/missing, code: 404}
`))
	if diff := cmp.Diff(map[string]int{"passes": 1, "one": 3, "two": 3}, attempts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOtherOutcomes lets a test replace the outcomes and the users of rows, and leave out rows.
func TestOtherOutcomes(t *testing.T) {
	t.Parallel()
	sent := &echo{}
	runner := newRunner(t, sent)
	runner.As = func(*requests.Row) *requests.User { return &requests.User{Name: "eve"} }
	runner.Want = func(row *requests.Row) *requests.Outcome {
		if row.Do == "delete" {
			return nil
		}
		return &requests.Outcome{Not: http.StatusForbidden}
	}
	table := rows(t, "  - {as: ada, do: delete, to: maps/a, code: 200}\n  - {as: ada, do: post, to: maps/404, by: any}\n  - {as: ada, do: post, to: maps/403, by: any}\n")
	runner.Run(t, table[:2])
	if got := runner.Try(t, table[2]); got == "" {
		t.Error("403 is not 403")
	}
	if len(sent.lines) != 2 || !strings.HasSuffix(sent.lines[0], "eve[]") {
		t.Errorf("got %q", sent.lines)
	}
}
