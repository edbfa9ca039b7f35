/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriertable

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// Sender sends requests to one kube-apiserver as any user.
type Sender struct {
	client *http.Client
	url    string
}

// NewSender returns a Sender. The configuration is for an administrator, who may impersonate all users.
func NewSender(admin *rest.Config) (*Sender, error) {
	config := rest.CopyConfig(admin)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Sender{client: client, url: strings.TrimSuffix(config.Host, "/")}, nil
}

// Send sends a request as a user, or as the administrator if the user is empty.
func (s *Sender) Send(ctx context.Context, name string, groups []string, method, path, contentType, body string) (code int, answer string, err error) {
	if name == "" {
		return s.SendAs(ctx, nil, method, path, contentType, body)
	}
	return s.SendAs(ctx, &user.DefaultInfo{Name: name, Groups: groups}, method, path, contentType, body)
}

// SendAs sends a request as a user with all that the user has, or as the administrator if the user is nil.
func (s *Sender) SendAs(ctx context.Context, as user.Info, method, path, contentType, body string) (code int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	client := *s.client
	if as != nil {
		client.Transport = transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{
			UserName: as.GetName(), UID: as.GetUID(), Groups: as.GetGroups(), Extra: as.GetExtra(),
		}, client.Transport)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Prepare creates the object that a row needs, if it is not there yet.
func (s *Sender) Prepare(t *testing.T, row *Row) {
	t.Helper()
	if row.Stored == "" {
		return
	}
	code, answer, err := s.Send(t.Context(), "", nil, http.MethodPost, row.Stored, "application/json", row.Object)
	if err != nil || code != http.StatusCreated && code != http.StatusConflict {
		t.Fatalf("%s: %d %s %v", row.Object, code, answer, err)
	}
}

// Try sends the request of a row, and returns what is wrong with the answer, or an empty string. A refusal must name the policy, and must
// show nothing of a stored object.
func (s *Sender) Try(t *testing.T, row *Row) string {
	t.Helper()
	code, answer, err := s.Send(t.Context(), row.User, row.Groups(), row.Method, row.Path, row.ContentType, s.body(t, row))
	switch {
	case err != nil:
		return err.Error()
	case row.Denied == "" && code != row.Code:
		return answer
	case row.Denied == "":
		return ""
	case code != http.StatusForbidden && code != http.StatusUnprocessableEntity:
		return answer
	case !strings.Contains(answer, row.Denied) && !strings.Contains(answer, strings.ReplaceAll(row.Denied, "/", ".")) && !strings.Contains(answer, NameOf(row.Denied)):
		return "the refusal does not name the policy: " + answer
	case strings.Contains(answer, "hidden-value"), strings.Contains(answer, "variables.limit"):
		return "the refusal shows too much: " + answer
	}
	return ""
}

// body returns the body of a row with the version of the stored object.
func (s *Sender) body(t *testing.T, row *Row) string {
	t.Helper()
	if !strings.Contains(row.Body, storedVersion) {
		return row.Body
	}
	path, _, _ := strings.Cut(row.Path, "?")
	_, answer, err := s.Send(t.Context(), "", nil, http.MethodGet, path, "", "")
	var object metav1.PartialObjectMetadata
	if err == nil {
		err = json.Unmarshal([]byte(answer), &object)
	}
	if err != nil {
		t.Fatalf("%s: %s %v", path, answer, err)
	}
	return strings.Replace(row.Body, storedVersion, object.ResourceVersion, 1)
}

// NameOf returns the name of the barrier of a policy.
func NameOf(policy string) string {
	if namespace, name, ok := strings.Cut(policy, "/"); ok {
		return name + "." + namespace + ".namespace.policy.proviso.dev"
	}
	return policy + ".cluster.policy.proviso.dev"
}

// Run sends the requests of all rows, after it has created what they need. With a reviewer, reviews must agree; it may be nil.
func Run(t *testing.T, s *Sender, reviewer *Reviewer) {
	t.Helper()
	rows := Rows()
	for i := range rows {
		s.Prepare(t, &rows[i])
		if reviewer != nil && reviewer.Allows(t, &rows[i]) != (rows[i].Denied == "") {
			t.Errorf("%s: reviews do not agree with a denial by %q", &rows[i], rows[i].Denied)
		}
		if problem := s.Try(t, &rows[i]); problem != "" {
			t.Errorf("%s: %.700s\nwant a denial by %q, or %d", &rows[i], problem, rows[i].Denied, rows[i].Code)
		}
	}
	t.Logf("%d requests", len(rows))
}
