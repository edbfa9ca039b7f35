/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package requests_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// head is the beginning of tables whose rows are tested.
const head = `
values: [ns]
users: {ada: {groups: [dev]}}
paths: {maps: "/api/v1/namespaces/{ns}/configmaps"}
objects: {map: {apiVersion: v1, kind: ConfigMap, data: {a: b, c: d}}}
`

// TestStrictness reads tables with one mistake each: a table with a row that cannot fail, or that says something else than its author meant, is not read.
func TestStrictness(t *testing.T) {
	t.Parallel()
	const good = `{as: ada, do: get, to: maps/a, code: 200}`
	if _, err := requests.Read([]byte(head+"rows: {all: ["+good+"]}"), nil); err != nil {
		t.Fatal(err)
	}
	operation := func(row, with string) string {
		return head + "operations: {op: [" + row + "]}\nrows: {all: [{as: ada, do: op, with: " + with + "}]}"
	}
	for _, tc := range []struct{ name, row, table, want string }{
		{name: "nothing is expected", row: `{as: ada, do: get, to: maps/a}`, want: "expects nothing"},
		{name: "a text alone is expected", row: `{as: ada, do: get, to: maps/a, says: x}`, want: "expects nothing"},
		{name: "a policy refuses a request that passes", row: `{as: ada, do: get, to: maps/a, code: 200, by: p}`, want: "its code is 200"},
		{name: "an unknown field", row: `{as: ada, do: get, to: maps/a, code: 200, sais: x}`, want: `unknown field "sais"`},
		{name: "an unknown field of the file", table: head + "row: {}", want: `unknown field "row"`},
		{name: "two fields with one name", row: `{as: ada, do: get, to: maps/a, code: 200, code: 403}`, want: "already set"},
		{name: "no user", row: `{do: get, to: maps/a, code: 200}`, want: `there is no user ""`},
		{name: "an unknown user", row: `{as: bob, do: get, to: maps/a, code: 200}`, want: `there is no user "bob"`},
		{name: "a user who is the administrator", table: "users: {admin: {}}", want: "the user admin"},
		{name: "an unknown method", row: `{as: ada, do: fetch, to: maps/a, code: 200}`, want: `there is no operation "fetch"`},
		{name: "an unknown path", row: `{as: ada, do: get, to: secrets/a, code: 200}`, want: `there is no path "secrets/a"`},
		{name: "no path", row: `{as: ada, do: get, code: 200}`, want: "needs one path"},
		{name: "an unknown object", row: `{as: ada, do: post, to: maps, object: secret, code: 201}`, want: `there is no object "secret"`},
		{name: "an object that is a number", row: `{as: ada, do: post, to: maps, object: 1, code: 201}`, want: "cannot be merged"},
		{name: "two bodies", row: `{as: ada, do: put, to: maps/a, object: map, change: {a: b}, code: 200}`, want: "at most one body"},
		{name: "a change by a POST", row: `{as: ada, do: post, to: maps, change: {a: b}, code: 201}`, want: "at most one body"},
		{name: "a command of another method", row: `{as: ada, do: get, to: maps, command: [get], code: 200}`, want: "or a command"},
		{name: "kubectl without a command", row: `{as: ada, do: kubectl, code: 200}`, want: "or a command"},
		{name: "a placeholder without value in the path", row: `{as: ada, do: get, to: "maps/{name}", code: 200}`, want: "{name} has no value"},
		{name: "a placeholder without value in the body", row: `{as: ada, do: post, to: maps, body: {a: ["{name}"]}, code: 201}`, want: "{name} has no value"},
		{name: "a placeholder without value in a key", row: `{as: ada, do: post, to: maps, body: {"{name}": a}, code: 201}`, want: "{name} has no value"},
		{name: "a placeholder without value in the answer", row: `{as: ada, do: get, to: maps, code: 403, says: "{name}"}`, want: "{name} has no value"},
		{name: "a placeholder without value in a stored object", row: `{as: ada, do: get, to: maps, code: 403, stored: [{to: maps, body: {a: "{name}"}}]}`, want: "{name} has no value"},
		{name: "a placeholder without value in the setup", table: head + `setup: [[map, {a: "{name}"}]]`, want: "{name} has no value"},
		{name: "a placeholder without value in a header", row: `{as: ada, do: get, to: maps, headers: {X-A: [a, "{name}"]}, code: 200}`, want: "{name} has no value"},
		{name: "a placeholder without value in a token", table: `users: {bob: {token: "{name}"}}`, want: "{name} has no value"},
		{name: "an impersonated user who impersonates", row: `{as: ada, do: get, to: maps, headers: {Impersonate-User: bob}, code: 200}`, want: "needs a certificate or a token"},
		{name: "an input of another method", row: `{as: ada, do: get, to: maps, input: a, code: 200}`, want: "only kubectl has an input"},
		{name: "an editor of another method", row: `{as: ada, do: get, to: maps, editor: a, code: 200}`, want: "only kubectl has an input"},
		{name: "a placeholder without value in a command", row: `{as: ada, do: kubectl, command: [get, "{name}"], code: 200}`, want: "{name} has no value"},
		{name: "headers of kubectl", row: `{as: ada, do: kubectl, command: [get], headers: {X-A: a}, code: 200}`, want: "kubectl sends no headers"},
		{name: "an unknown mark", row: `{as: ada, do: get, to: maps/a, code: 200, marks: [slow]}`, want: `there is no mark "slow"`},
		{name: "an unknown result of reviews", row: `{as: ada, do: get, to: maps/a, code: 200, review: maybe}`, want: `no result "maybe"`},
		{name: "two rows with one name", row: `{name: a, as: ada, do: get, to: maps/a, code: 200}, {name: a, as: ada, do: get, to: maps/b, code: 200}`, want: `two rows "a"`},
		{name: "an operation that is not used", table: head + "operations: {op: [" + good + "]}\nrows: {all: [" + good + "]}", want: "no row uses the operation op"},
		{name: "a mistake in an operation", table: operation(`{do: get, to: "maps/{name}", code: 200, sais: x}`, "{name: a}"), want: `unknown field "sais"`},
		{name: "an operation whose parameter is missing", table: operation(`{do: get, to: "maps/{name}", code: 200}`, "{}"), want: "{name} has no value"},
		{name: "a parameter that the operation does not have", table: operation(`{do: get, to: maps/a, code: 200}`, "{name: a}"), want: "has the placeholder {name}"},
		{name: "facts that are not read", table: "about: {a: b}\n" + head, want: "the field about"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			table := tc.table
			if tc.row != "" {
				table = head + "rows: {all: [" + tc.row + "]}"
			}
			if _, err := requests.Read([]byte(table), nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	var about struct{ Lists string }
	if _, err := requests.Read([]byte(head), &about); err == nil {
		t.Error("facts that are missing are read")
	}
	if _, err := requests.Read([]byte("about: {list: a}\n"+head), &about); err == nil {
		t.Error("an unknown fact is read")
	}
	if _, err := requests.Read([]byte("about: {lists: a}\n"+head), &about); err != nil || about.Lists != "a" {
		t.Errorf("got %+v, %v", about, err)
	}
}

// TestOperations replaces operations by their rows.
func TestOperations(t *testing.T) {
	t.Parallel()
	table, err := requests.Read([]byte(head+`
operations:
  write:
  - {name: create, do: post, to: maps, object: [map, "{part}"], body: {metadata: {name: "{row}"}, data: {a: null}}, code: 201, called: true, allowed: 201}
  - {do: merge, to: "maps/{name}-{row}", object: "{part}", stored: [{to: maps, object: map, body: {metadata: {name: "{row}"}}}], code: 200}
  read:
  - {do: get, to: "maps/{name}", code: 200}
rows:
  all:
  - {as: ada, do: [write, read], with: {part: {size: 9007199254740993}, name: x}}
  - {name: denied, as: ada, do: write, with: {part: map, name: "{ns}"}, by: only-blue, hides: secret}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range table.Rows["all"] {
		text := row.String()
		for _, s := range row.Stored {
			text += " stored in " + s.To
		}
		got = append(got, text)
	}
	want := []string{
		`create ada post /api/v1/namespaces/{ns}/configmaps {"apiVersion":"v1","data":{"c":"d"},"kind":"ConfigMap","metadata":{"name":"row-1"},"size":9007199254740993}`,
		`ada merge /api/v1/namespaces/{ns}/configmaps/x-row-2 {"size":9007199254740993} stored in /api/v1/namespaces/{ns}/configmaps`,
		`ada get /api/v1/namespaces/{ns}/configmaps/x`,
		`denied, create ada post /api/v1/namespaces/{ns}/configmaps {"apiVersion":"v1","data":{"c":"d"},"kind":"ConfigMap","metadata":{"name":"row-4"}}`,
		`denied ada merge /api/v1/namespaces/{ns}/configmaps/{ns}-row-5 {"apiVersion":"v1","data":{"a":"b","c":"d"},"kind":"ConfigMap"} stored in /api/v1/namespaces/{ns}/configmaps`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The outcome of the row replaces the outcome of the operation, and not what other users are answered.
	denied := table.Rows["all"][3]
	if diff := cmp.Diff(requests.Outcome{Code: 403, By: "only-blue", Hides: requests.Texts{"secret"}}, denied.Outcome); diff != "" || denied.Allowed != 201 {
		t.Errorf("allowed %d (-want +got):\n%s", denied.Allowed, diff)
	}
}
