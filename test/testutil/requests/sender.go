/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// Certificates returns the files of a client certificate for a user.
type Certificates func(name string, groups ...string) (certFile, keyFile string, err error)

// Sender sends requests to one server as any user. It may be used concurrently.
type Sender struct {
	config       *rest.Config
	certificates Certificates

	mu *sync.Mutex
	// clients are the clients by name of the user. The administrator has an empty name, and all users with a token have one client.
	clients map[string]*http.Client
}

// NewSender returns a Sender. The configuration is for an administrator, who may impersonate all users. Without certificates, users cannot have
// a certificate of their own.
func NewSender(admin *rest.Config, certificates Certificates) *Sender {
	config := rest.CopyConfig(admin)
	config.QPS, config.WarningHandler, config.Host = -1, rest.NoWarnings{}, strings.TrimSuffix(admin.Host, "/")
	return &Sender{config: config, certificates: certificates, mu: &sync.Mutex{}, clients: map[string]*http.Client{}}
}

// At returns the sender for another server with the same CAs.
func (s *Sender) At(url string) *Sender {
	other := *s
	other.config = rest.CopyConfig(s.config)
	other.config.Host = url
	return &other
}

// bearer is the name of the client of users with a token. No user can have it.
const bearer = "\x00bearer"

// client returns the client of a user with a certificate or a token, or of the administrator.
func (s *Sender) client(u *User) (*http.Client, error) {
	name := ""
	switch {
	case u != nil && u.Token != "":
		name = bearer
	case u != nil && u.Certificate:
		name = u.Name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if client := s.clients[name]; client != nil {
		return client, nil
	}
	config := s.config
	if name != "" {
		config = rest.AnonymousClientConfig(s.config)
	}
	if name != "" && name != bearer {
		if s.certificates == nil {
			return nil, fmt.Errorf("there is no certificate for %s", name)
		}
		certFile, keyFile, err := s.certificates(name, u.Groups...)
		if err != nil {
			return nil, err
		}
		config.CertFile, config.KeyFile = certFile, keyFile
	}
	roundTripper, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	s.clients[name] = &http.Client{Transport: roundTripper}
	return s.clients[name], nil
}

// Request is a request.
type Request struct {
	Method, Path, ContentType string
	Body                      io.Reader
	Header                    http.Header
}

// Answer is the answer to a request.
type Answer struct {
	Code   int
	Body   string
	Header http.Header
}

// Has reports whether a text is in the body, or in the message of the status that the body is.
func (a *Answer) Has(text string) bool {
	var status struct {
		Message string `json:"message"`
	}
	return strings.Contains(a.Body, text) || json.Unmarshal([]byte(a.Body), &status) == nil && strings.Contains(status.Message, text)
}

// Do sends a request as a user, or as the administrator if the user is nil.
func (s *Sender) Do(ctx context.Context, as *User, q Request) (*Answer, error) {
	client, err := s.client(as)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, q.Method, s.config.Host+q.Path, q.Body)
	if err != nil {
		return nil, err
	}
	if q.Header != nil {
		request.Header = q.Header.Clone()
	}
	if q.ContentType != "" {
		request.Header.Set("Content-Type", q.ContentType)
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/json")
	}
	if as != nil && as.Token != "" {
		request.Header.Set("Authorization", "Bearer "+as.Token)
	}
	if as.isImpersonated() {
		impersonating := *client
		impersonating.Transport = transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{UserName: as.Name, UID: as.UID, Groups: as.Groups, Extra: as.Extra}, client.Transport)
		client = &impersonating
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", q.Method, q.Path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return &Answer{Code: response.StatusCode, Body: string(body), Header: response.Header}, err
}

// Send sends a request, and returns the code and the body of the answer.
func (s *Sender) Send(t *testing.T, as *User, method, path, contentType, body string) (int, string) {
	t.Helper()
	answer, err := s.Do(t.Context(), as, Request{Method: method, Path: path, ContentType: contentType, Body: strings.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Code, answer.Body
}
