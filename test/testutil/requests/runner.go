/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// Runner sends rows to one kube-apiserver. All fields but Sender may be unset.
type Runner struct {
	Sender *Sender
	// Values are the values of the placeholders of the table.
	Values map[string]string
	// As returns the user who sends a row instead of its own.
	As func(*Row) *User
	// Want returns the outcome that counts instead of the row's own, or nil to leave out the row.
	Want func(*Row) *Outcome
	// Calls returns the calls of the inner door about a user, and forgets them. Without it, rows must not say whether the inner door is called.
	Calls func(user string) []*admissionv1.AdmissionRequest
	// Reviewer asks reviews about each row, which must agree with its outcome.
	Reviewer *Reviewer
	// DryRun sends all writes as dry runs, but for connections and rows with the mark NoDryRun.
	DryRun bool
	// Kubectl runs the commands of rows, with their input and editor. If the user of a row has a certificate, Kubectl must choose the credentials of that user.
	Kubectl func(ctx context.Context, row *Row, args ...string) (string, error)
	// After is called after each row of Run.
	After func(row *Row, answer *Answer, calls []*admissionv1.AdmissionRequest)
}

// Run sends rows in their order. The outcome of each must be as it is wanted.
func (r *Runner) Run(t *testing.T, rows []*Row) {
	t.Helper()
	if len(rows) == 0 {
		t.Fatal("there are no rows")
	}
	for _, row := range rows {
		if want := r.want(t, row); want != nil {
			if problem := r.Try(t, row); problem != "" {
				t.Errorf("%s\n%s\nwant %s", row, problem, marshal(want))
			}
		}
	}
}

// Try sends a row, and returns how the outcome differs from the one that is wanted, or an empty string.
func (r *Runner) Try(t *testing.T, row *Row) string {
	t.Helper()
	want, user := r.want(t, row), r.user(row)
	if want.Called != nil && r.Calls == nil {
		t.Fatalf("%s says whether the inner door is called, which is not known here", row)
	}
	r.Store(t, row)
	q := r.resolve(t, row)
	review := ""
	if r.Reviewer != nil && r.Calls == nil {
		review = r.Reviewer.result(t, r, row, q, nil)
	}
	answer, err := r.send(t.Context(), t, row, q)
	if err != nil {
		t.Fatalf("%s: %v", row, err)
	}
	var calls []*admissionv1.AdmissionRequest
	if r.Calls != nil {
		calls = r.Calls(nameOf(user))
	}
	if r.Reviewer != nil && r.Calls != nil {
		review = r.Reviewer.result(t, r, row, q, calls)
	}
	if r.After != nil {
		r.After(row, answer, calls)
	}
	if problem := want.differs(answer); problem != "" {
		return problem
	}
	if want.Called != nil && *want.Called != (len(calls) > 0) {
		return fmt.Sprintf("the inner door is called %d times; got %d %.500s", len(calls), answer.Code, answer.Body)
	}
	if r.Reviewer != nil && review != want.review() {
		return fmt.Sprintf("reviews say that it is %s", review)
	}
	return ""
}

// Await sends a row as a dry run, again and again, until its outcome is as it is wanted: until policies and permissions are in effect.
func (r *Runner) Await(t *testing.T, row *Row) {
	t.Helper()
	dry := *r
	dry.DryRun, dry.After, dry.Reviewer = true, nil, nil
	poll.Eventually(t, row.String(), func() string { return dry.Try(t, row) })
}

// AwaitEach waits for the first row that each policy refuses, and for the first row of each user that passes.
func (r *Runner) AwaitEach(t *testing.T, rows []*Row) {
	t.Helper()
	seen := map[string]bool{}
	for _, row := range rows {
		want := r.want(t, row)
		if want == nil || want.Not != 0 {
			continue
		}
		key := policyIn.FindString(strings.Join(append(slices.Clone(want.Says), want.Warns...), " "))
		if want.By != "" {
			key = "policy=" + want.By
		}
		isPolicy := key != ""
		if !isPolicy {
			key = nameOf(r.user(row))
		}
		if !seen[key] && (isPolicy || want.Code < http.StatusMultipleChoices) {
			seen[key] = true
			r.Await(t, row)
		}
	}
}

var policyIn = regexp.MustCompile(`policy=\S+`)

// want returns the outcome of a row that counts, with the placeholders of its texts replaced.
func (r *Runner) want(t *testing.T, row *Row) *Outcome {
	t.Helper()
	want := &row.Outcome
	if r.Want != nil {
		want = r.Want(row)
	}
	if want == nil {
		return nil
	}
	filled := *want
	filled.Says, filled.Hides, filled.Warns = r.fillEach(t, want.Says), r.fillEach(t, want.Hides), r.fillEach(t, want.Warns)
	return &filled
}

func (r *Runner) user(row *Row) *User {
	if r.As != nil {
		return r.As(row)
	}
	return row.User
}

func nameOf(u *User) string {
	if u == nil {
		return Administrator
	}
	return u.Name
}

// Store creates the stored objects of a row that do not exist.
func (r *Runner) Store(t *testing.T, row *Row) {
	t.Helper()
	for _, s := range row.Stored {
		path, body := r.fill(t, s.To), marshal(r.replace(s.Body))
		if code, answer := r.Sender.Send(t, nil, http.MethodPost, path, "application/json", body); code != http.StatusCreated && code != http.StatusConflict {
			t.Fatalf("%s: %s: %d %s", path, body, code, answer)
		}
	}
}

func (r *Runner) replace(value any) any {
	by := make(map[string]any, len(r.Values))
	for name, text := range r.Values {
		by[name] = text
	}
	return replace(value, by)
}

// fill replaces the placeholders of the test in a text.
func (r *Runner) fill(t *testing.T, text string) string {
	t.Helper()
	filled := r.replace(text).(string)
	if left := placeholder.FindString(filled); left != "" {
		t.Fatalf("the test has no value for %s in %s", left, text)
	}
	return filled
}

// fillEach is fill for several texts.
func (r *Runner) fillEach(t *testing.T, texts []string) (filled []string) {
	t.Helper()
	for _, text := range texts {
		filled = append(filled, r.fill(t, text))
	}
	return filled
}

// resolved is a request as it is sent.
type resolved struct {
	method, path, contentType, body string
	info                            *genericapirequest.RequestInfo
}

var requestInfos = &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// resolve replaces the placeholders of a row.
func (r *Runner) resolve(t *testing.T, row *Row) *resolved {
	t.Helper()
	q := r.target(t, row)
	q.body = r.body(t, row, q)
	if q.method == http.MethodDelete && q.body != "" {
		q.contentType = "application/json"
	}
	return q
}

// target is resolve without the body.
func (r *Runner) target(t *testing.T, row *Row) *resolved {
	t.Helper()
	if row.Do == "kubectl" {
		return &resolved{}
	}
	method := methods[row.Do]
	q := &resolved{method: method.method, path: r.fill(t, row.To), contentType: method.contentType}
	target, err := url.Parse(q.path)
	if err != nil {
		t.Fatal(err)
	}
	if q.info, err = requestInfos.NewRequestInfo(&http.Request{Method: q.method, URL: target}); err != nil {
		t.Fatal(err)
	}
	if row.Do == "apply" && !target.Query().Has("fieldManager") {
		q.path = withQuery(q.path, "fieldManager="+row.manager+"&force=true")
	}
	isConnection := slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, q.info.Subresource)
	if r.DryRun && !row.Is(NoDryRun) && !isConnection && q.method != http.MethodGet && !target.Query().Has("dryRun") {
		q.path = withQuery(q.path, "dryRun=All")
	}
	return q
}

// Body returns the body of a row as it is sent.
func (r *Runner) Body(t *testing.T, row *Row) string {
	t.Helper()
	return r.resolve(t, row).body
}

func withQuery(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}

// body returns the body of a row.
func (r *Runner) body(t *testing.T, row *Row, q *resolved) string {
	t.Helper()
	text, _ := r.replace(row.Text).(string)
	switch {
	case row.Change != nil:
		text = marshal(r.replace(row.Change))
	case row.Body != nil:
		text = marshal(r.replace(row.Body))
	}
	if row.Change == nil && !strings.Contains(text, "{"+storedVersion+"}") && !strings.Contains(text, "{"+storedEntry) {
		return text
	}
	path, _, _ := strings.Cut(q.path, "?")
	if q.info.Subresource != "" && q.info.Subresource != "scale" {
		path = strings.TrimSuffix(path, "/"+q.info.Subresource)
	}
	code, stored := r.Sender.Send(t, nil, http.MethodGet, path, "", "")
	object := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal([]byte(stored), &object); err != nil || code != http.StatusOK {
		t.Fatalf("%s: %s: %d %s %v", row, path, code, stored, err)
	}
	by := map[string]any{storedVersion: object.ResourceVersion}
	for i, entry := range object.ManagedFields {
		by[storedEntry+entry.Manager] = i
	}
	text = replace(text, by).(string)
	if left := placeholder.FindString(text); left != "" {
		t.Fatalf("%s: %s has no %s: %s", row, path, left, stored)
	}
	if row.Change == nil {
		return text
	}
	changed, err := jsonpatch.MergePatch([]byte(stored), []byte(text))
	if strings.HasPrefix(text, "[") {
		patch, invalid := jsonpatch.DecodePatch([]byte(text))
		if invalid != nil {
			t.Fatal(invalid)
		}
		changed, err = patch.Apply([]byte(stored))
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", row, err, stored)
	}
	return string(changed)
}

// Send sends a row, and returns the answer.
func (r *Runner) Send(ctx context.Context, t *testing.T, row *Row) (*Answer, error) {
	t.Helper()
	return r.send(ctx, t, row, r.resolve(t, row))
}

// send sends a request, or runs the command of the row.
func (r *Runner) send(ctx context.Context, t *testing.T, row *Row, q *resolved) (*Answer, error) {
	t.Helper()
	as := r.user(row)
	if row.Do == "kubectl" {
		return r.command(t, row, as), nil
	}
	if as != nil && as.Token != "" {
		own := *as
		own.Token = r.fill(t, as.Token)
		as = &own
	}
	return r.Sender.Do(ctx, as, Request{Method: q.method, Path: q.path, ContentType: q.contentType, Body: strings.NewReader(q.body), Header: r.headers(t, row)})
}

// headers returns the headers of a row as they are sent.
func (r *Runner) headers(t *testing.T, row *Row) http.Header {
	t.Helper()
	header := http.Header{}
	for name, texts := range row.Headers {
		for _, text := range texts {
			header.Add(name, r.fill(t, text))
		}
	}
	return header
}

// command runs kubectl, and returns the code that its outcome stands for.
func (r *Runner) command(t *testing.T, row *Row, as *User) *Answer {
	t.Helper()
	if r.Kubectl == nil || as == nil || as.Token != "" {
		t.Fatalf("%s: kubectl cannot be run here", row)
	}
	filled := *row
	filled.Input, filled.Editor = r.fill(t, row.Input), r.fill(t, row.Editor)
	args := r.fillEach(t, row.Command)
	if as.isImpersonated() {
		args = append(args, "--as="+as.Name)
		for _, group := range as.Groups {
			args = append(args, "--as-group="+group)
		}
	}
	if r.DryRun && !row.Is(NoDryRun) {
		args = append(args, "--dry-run=server")
	}
	output, err := r.Kubectl(t.Context(), &filled, args...)
	switch {
	case err == nil:
		return &Answer{Code: http.StatusOK, Body: output}
	case strings.Contains(strings.ToLower(err.Error()), "forbidden"), strings.Contains(err.Error(), "denied the request"): // some commands leave out the status
		return &Answer{Code: http.StatusForbidden, Body: err.Error()}
	default:
		return &Answer{Code: http.StatusInternalServerError, Body: err.Error()}
	}
}

// differs returns how an answer differs from the outcome, or an empty string.
func (o *Outcome) differs(a *Answer) string {
	got := fmt.Sprintf("got %d %.700s", a.Code, a.Body)
	if o.Not != 0 {
		if a.Code == o.Not {
			return got
		}
		return ""
	}
	if a.Code != o.Code {
		return got
	}
	if o.By != "" && !a.Has("policy="+o.By+" ") && !a.Has("'"+BarrierOf(o.By)+"'") {
		return "the refusal does not name the policy: " + got
	}
	for _, text := range o.Says {
		if !a.Has(text) {
			return fmt.Sprintf("no %q: %s", text, got)
		}
	}
	for _, text := range o.Hides {
		if a.Has(text) {
			return fmt.Sprintf("the answer shows %q: %s", text, got)
		}
	}
	warnings := strings.Join(a.Header.Values("Warning"), "\n")
	for _, text := range o.Warns {
		if !strings.Contains(warnings, text) {
			return fmt.Sprintf("got the warnings %q", warnings)
		}
	}
	if len(o.Warns) == 0 && strings.Contains(warnings, "policy=") {
		return fmt.Sprintf("got the warnings %q", warnings)
	}
	return ""
}

// review returns the result of reviews that the outcome wants.
func (o *Outcome) review() string {
	switch {
	case o.Review != "":
		return o.Review
	case o.Code < http.StatusBadRequest:
		return ReviewAllowed
	default:
		return ReviewRefused
	}
}

// BarrierOf returns the name of the barrier of a policy, NAME or NAMESPACE/NAME.
func BarrierOf(policy string) string {
	if namespace, name, ok := strings.Cut(policy, "/"); ok {
		return name + "." + namespace + ".namespace.policy.proviso.dev"
	}
	return policy + ".cluster.policy.proviso.dev"
}
