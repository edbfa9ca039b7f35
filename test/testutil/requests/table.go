/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package requests reads tables of requests from YAML files, sends the requests to a kube-apiserver, and compares the answers with what the rows
// expect. It is the only runner of such tables.
//
// A file has users, paths and objects by name, and groups of rows. A row is one request:
//
//	values: [ns]                    # placeholders that the test sets
//	users: {ada: {groups: [dev]}}
//	paths: {maps: "/api/v1/namespaces/{ns}/configmaps"}
//	objects: {map: {apiVersion: v1, kind: ConfigMap}}
//	operations:
//	  write:
//	  - {do: post, to: maps, object: map, body: {metadata: {name: "{row}", labels: {team: "{team}"}}}, code: 201}
//	  - {do: merge, to: maps/a, body: {metadata: {labels: {team: "{team}"}}}, code: 200}
//	rows:
//	  all:
//	  - {as: ada, do: write, with: {team: blue}}
//	  - {as: ada, do: write, with: {team: red}, by: only-blue}
//	  - {name: read another one, as: ada, do: get, to: maps/b, headers: {X-Trace: "1"}, code: 404}
//
// Reading is strict: an unknown field, user, path, object, placeholder or mark, an operation that no row uses, two rows with one name, and a row that expects
// nothing are errors.
package requests

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/yaml"
)

// Administrator is the name in the field as of the administrator, who sends requests without impersonation.
const Administrator = "admin"

// Table has the requests of a file.
type Table struct {
	// Rows are the rows by group, in the order of the file. Operations have been replaced by their rows.
	Rows map[string][]*Row
	// Users are the users of the rows. As is the user of the rows that name none.
	Users map[string]*User
	As    *User
	// Setup are objects that the rows need, for the test to create.
	Setup []any

	values []string
	file   *file
	marks  []string
}

// User sends requests. A nil user is the administrator.
type User struct {
	Name   string              `json:"name,omitempty"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
	// Certificate says that the user has a client certificate, and Token is the user's bearer token, which may be a placeholder. Without both, the administrator impersonates
	// the user.
	Certificate bool   `json:"certificate,omitempty"`
	Token       string `json:"token,omitempty"`
}

// isImpersonated reports whether the administrator impersonates the user.
func (u *User) isImpersonated() bool { return u != nil && !u.Certificate && u.Token == "" }

// Row is a request, and its outcome.
type Row struct {
	// Name says in a few words what the request does. It may be empty.
	Name string
	// User sends the request. Nil is the administrator.
	User *User
	// Do is the method, or the kind of a patch: one of the keys of methods.
	Do string
	// To is the path, with a query. Placeholders that the test sets are still in it, and in the bodies.
	To string
	// Headers are headers of the request, such as those that impersonate a user.
	Headers map[string]Texts
	// Body is the body. Text is a body that is sent as it is written, so that the form of its numbers stays. Change is a merge patch, or a JSON patch, that makes the
	// body of a PUT from the stored object.
	Body   any
	Text   string
	Change any
	// Command has the arguments of kubectl for the method kubectl, Input is its standard input, and Editor is the expression of sed that edits what `kubectl edit` shows.
	Command       []string
	Input, Editor string
	// Stored are objects that the administrator creates before the request, unless they exist.
	Stored []Stored
	// Allowed is the code of the answer to users whom another authorizer allows the request, or 0 if the table does not say.
	Allowed int
	// Marks are facts about the row for the test. Read gets those that there are, beside NoDryRun.
	Marks []string
	Outcome

	manager string
}

// NoDryRun is the mark of a row that is never sent as a dry run, such as a command without this flag. Connections never are.
const NoDryRun = "no dry run"

// Stored is an object of a collection.
type Stored struct {
	To   string
	Body any
}

// The results of reviews.
const (
	ReviewAllowed = "allowed"
	ReviewRefused = "refused"
	// ReviewConditional is the result if no data is known with which the conditions could be evaluated.
	ReviewConditional = "conditional"
)

// Outcome is what a row expects.
type Outcome struct {
	// Code is the code of the answer. It is 403 if a policy refuses the request and no code is written.
	Code int `json:"code,omitempty"`
	// By names the policy that refuses the request, NAME or NAMESPACE/NAME. The answer must name it or its barrier.
	By string `json:"by,omitempty"`
	// Says are texts that the answer has, and Hides are texts that it must not have.
	Says  Texts `json:"says,omitempty"`
	Hides Texts `json:"hides,omitempty"`
	// Warns are texts in the warnings of the answer. If it is empty, no warning must name a policy.
	Warns Texts `json:"warns,omitempty"`
	// Called says whether kube-apiserver calls the inner door for the request. Nil means that the table does not say.
	Called *bool `json:"called,omitempty"`
	// Review is the result of reviews about the request. If it is empty, it is ReviewAllowed for codes below 400, and ReviewRefused for others.
	Review string `json:"review,omitempty"`

	// Not is a code that the answer must not have. A test that computes outcomes sets it alone.
	Not int `json:"-"`
}

// Texts are one or more texts.
type Texts []string

// UnmarshalJSON reads a string or a list of strings.
func (t *Texts) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*t = Texts{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(t))
}

// methods are the methods and content types of the field do.
var methods = map[string]struct{ method, contentType string }{
	"get":       {method: http.MethodGet},
	"delete":    {method: http.MethodDelete},
	"post":      {http.MethodPost, "application/json"},
	"put":       {http.MethodPut, "application/json"},
	"merge":     {http.MethodPatch, "application/merge-patch+json"},
	"json":      {http.MethodPatch, "application/json-patch+json"},
	"strategic": {http.MethodPatch, "application/strategic-merge-patch+json"},
	"apply":     {http.MethodPatch, "application/apply-patch+yaml"},
	"kubectl":   {},
}

// file is a file as it is written. Rows are decoded after placeholders have been replaced.
type file struct {
	About      json.RawMessage             `json:"about"`
	Values     []string                    `json:"values"`
	Manager    string                      `json:"manager"`
	As         string                      `json:"as"`
	Users      map[string]*User            `json:"users"`
	Paths      map[string]string           `json:"paths"`
	Objects    map[string]any              `json:"objects"`
	Setup      []any                       `json:"setup"`
	Operations map[string][]map[string]any `json:"operations"`
	Rows       map[string][]map[string]any `json:"rows"`
}

// fields are the fields of a row.
type fields struct {
	Name    string           `json:"name"`
	As      string           `json:"as"`
	Do      Texts            `json:"do"`
	To      string           `json:"to"`
	Headers map[string]Texts `json:"headers"`
	Object  any              `json:"object"`
	Body    any              `json:"body"`
	Text    string           `json:"text"`
	Change  any              `json:"change"`
	Command []string         `json:"command"`
	Input   string           `json:"input"`
	Editor  string           `json:"editor"`
	Stored  []struct {
		To     string `json:"to"`
		Object any    `json:"object"`
		Body   any    `json:"body"`
	} `json:"stored"`
	Allowed int      `json:"allowed"`
	Marks   []string `json:"marks"`
	Outcome
}

// ReadFile reads a file.
func ReadFile(t *testing.T, name string, about any, marks ...string) *Table {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Read(content, about, marks...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return table
}

// Read reads the content of a file. The field about is decoded into about, which is nil for files without it. Rows may have the marks.
func Read(content []byte, about any, marks ...string) (*Table, error) {
	f := &file{Manager: "table"}
	if err := yaml.UnmarshalStrict(content, f, useNumber); err != nil {
		return nil, err
	}
	if (len(f.About) > 0) != (about != nil) {
		return nil, fmt.Errorf("the field about is there: %t, and is read: %t", len(f.About) > 0, about != nil)
	}
	if about != nil {
		if err := decode(f.About, about); err != nil {
			return nil, fmt.Errorf("about: %w", err)
		}
	}
	t := &Table{Rows: map[string][]*Row{}, Users: f.Users, values: f.Values, file: f, marks: marks}
	for name, u := range f.Users {
		if name == Administrator || u == nil {
			return nil, fmt.Errorf("the user %s is the administrator, or has no value", name)
		}
		if u.Name == "" {
			u.Name = name
		}
		if err := t.check(u.Token); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
	}
	t.As = f.Users[f.As]
	for _, parts := range f.Setup {
		object, err := t.compose(parts, nil)
		if err == nil {
			err = t.check(object)
		}
		if err != nil {
			return nil, fmt.Errorf("setup: %w", err)
		}
		t.Setup = append(t.Setup, object)
	}
	used := map[string]bool{}
	number := 0
	for _, group := range slices.Sorted(maps.Keys(f.Rows)) {
		names := map[string]bool{}
		for i, raw := range f.Rows[group] {
			expanded, err := t.expand(raw, used)
			if err != nil {
				return nil, fmt.Errorf("rows %s[%d]: %w", group, i, err)
			}
			for _, tree := range expanded {
				number++
				row, err := t.row(replace(tree, map[string]any{"row": fmt.Sprintf("row-%d", number)}).(map[string]any))
				if err != nil {
					return nil, fmt.Errorf("rows %s[%d]: %w", group, i, err)
				}
				if row.Name != "" && names[row.Name] {
					return nil, fmt.Errorf("rows %s[%d]: there are two rows %q", group, i, row.Name)
				}
				names[row.Name] = true
				t.Rows[group] = append(t.Rows[group], row)
			}
		}
	}
	for name := range f.Operations {
		if !used[name] {
			return nil, fmt.Errorf("no row uses the operation %s", name)
		}
	}
	return t, nil
}

// outcomes are the fields of outcomes. If a row has one of them, it replaces the whole outcome of its operation.
var outcomes = []string{"code", "by", "says", "hides", "warns", "called", "review"}

// expand returns the rows of the operations of a row, or the row.
func (t *Table) expand(raw map[string]any, used map[string]bool) ([]map[string]any, error) {
	names := []any{raw["do"]}
	if list, isList := raw["do"].([]any); isList {
		names = list
	}
	parameters, _ := raw["with"].(map[string]any)
	var expanded []map[string]any
	var written strings.Builder
	for _, name := range names {
		name, _ := name.(string)
		if _, isMethod := methods[name]; isMethod && len(names) == 1 && parameters == nil {
			return []map[string]any{raw}, nil
		}
		rows := t.file.Operations[name]
		if rows == nil {
			return nil, fmt.Errorf("there is no operation %q", name)
		}
		used[name] = true
		written.WriteString(marshal(rows))
		for _, row := range rows {
			tree := replace(row, parameters).(map[string]any)
			if slices.ContainsFunc(outcomes, func(field string) bool { return raw[field] != nil }) {
				for _, field := range outcomes {
					delete(tree, field)
				}
			}
			for field, value := range raw {
				if field == "name" && tree["name"] != nil {
					value = fmt.Sprintf("%s, %s", value, tree["name"])
				}
				if field != "do" && field != "with" {
					tree[field] = value
				}
			}
			expanded = append(expanded, tree)
		}
	}
	for parameter := range parameters {
		if !strings.Contains(written.String(), "{"+parameter+"}") {
			return nil, fmt.Errorf("no operation of %v has the placeholder {%s}", names, parameter)
		}
	}
	return expanded, nil
}

// row decodes a row.
func (t *Table) row(tree map[string]any) (*Row, error) {
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	f := &fields{}
	if err := decode(text, f); err != nil {
		return nil, err
	}
	row := &Row{Name: f.Name, Do: strings.Join(f.Do, ","), To: t.path(f.To), Headers: f.Headers, Text: f.Text, Change: f.Change, Command: f.Command, Input: f.Input, Editor: f.Editor, Allowed: f.Allowed, Marks: f.Marks, Outcome: f.Outcome, manager: t.file.Manager}
	as := f.As
	if as == "" {
		as = t.file.As
	}
	isKnown := as == Administrator
	if row.User = t.Users[as]; row.User != nil {
		isKnown = true
	}
	if row.Body, err = t.compose(f.Object, f.Body); err != nil {
		return nil, err
	}
	for _, s := range f.Stored {
		body, err := t.compose(s.Object, s.Body)
		if err != nil {
			return nil, err
		}
		row.Stored = append(row.Stored, Stored{To: t.path(s.To), Body: body})
	}
	bodies := 0
	for _, isSet := range []bool{row.Body != nil, row.Text != "", row.Change != nil, len(row.Command) > 0} {
		if isSet {
			bodies++
		}
	}
	_, isMethod := methods[row.Do]
	switch {
	case !isMethod:
		return nil, fmt.Errorf("%s is no method", row.Do)
	case !isKnown:
		return nil, fmt.Errorf("there is no user %q", as)
	case row.Code == 0 && row.By == "":
		return nil, fmt.Errorf("%s expects nothing: it needs a code, or the policy that refuses it", row)
	case row.By != "" && row.Code != 0 && row.Code < http.StatusBadRequest:
		return nil, fmt.Errorf("%s: a policy refuses it, and its code is %d", row, row.Code)
	case row.Review != "" && row.Review != ReviewAllowed && row.Review != ReviewRefused && row.Review != ReviewConditional:
		return nil, fmt.Errorf("%s: reviews have no result %q", row, row.Review)
	case bodies > 1, (row.Do == "kubectl") != (len(row.Command) > 0), (row.To == "") != (row.Do == "kubectl"), row.Change != nil && row.Do != "put":
		return nil, fmt.Errorf("%s needs one path and at most one body, or a command", row)
	case row.Headers[authenticationv1.ImpersonateUserHeader] != nil && row.User.isImpersonated():
		return nil, fmt.Errorf("%s: the user needs a certificate or a token to impersonate another one", row)
	case row.Input+row.Editor != "" && row.Do != "kubectl":
		return nil, fmt.Errorf("%s: only kubectl has an input or an editor", row)
	case len(row.Headers) > 0 && row.Do == "kubectl":
		return nil, fmt.Errorf("%s: kubectl sends no headers of a row", row)
	case row.To != "" && !strings.HasPrefix(row.To, "/"):
		return nil, fmt.Errorf("%s: there is no path %q", row, row.To)
	}
	for _, mark := range row.Marks {
		if mark != NoDryRun && !slices.Contains(t.marks, mark) {
			return nil, fmt.Errorf("%s: there is no mark %q", row, mark)
		}
	}
	if row.Code == 0 {
		row.Code = http.StatusForbidden
	}
	return row, t.check([]any{row.To, row.Headers, row.Body, row.Text, row.Change, row.Says, row.Hides, row.Stored, row.Command, row.Input, row.Editor})
}

// Manifest returns the objects of Setup as a manifest.
func (t *Table) Manifest() string {
	var b strings.Builder
	for _, object := range t.Setup {
		b.WriteString("---\n" + marshal(object) + "\n")
	}
	return b.String()
}

// path returns the path that begins with the name of a path of the file.
func (t *Table) path(to string) string {
	end := strings.IndexAny(to, "/?")
	if end < 0 {
		end = len(to)
	}
	if path, isName := t.file.Paths[to[:end]]; isName {
		return path + to[end:]
	}
	return to
}

// Is reports whether a row has a mark.
func (r *Row) Is(mark string) bool { return slices.Contains(r.Marks, mark) }

// Creates reports whether the request creates an object although its method is one of updates.
func (r *Row) Creates() bool {
	return (r.Do == "put" || r.Do == "apply") && (r.Allowed == http.StatusCreated || r.Code == http.StatusCreated)
}

func (r *Row) String() string {
	user := Administrator
	if r.User != nil {
		user = r.User.Name
	}
	body := r.Text
	if r.Body != nil {
		body = marshal(r.Body)
	}
	return strings.Join(slices.DeleteFunc([]string{r.Name, user, r.Do, r.To, strings.Join(r.Command, " "), body}, func(s string) bool { return s == "" }), " ")
}
