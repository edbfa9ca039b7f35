/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// proxy is between kube-apiserver and Proviso's port. It keeps the AdmissionReviews, and the questions at the front door after they
// have been answered. Those about canaries it passes on only.
type proxy struct {
	url string

	mu     sync.Mutex
	target string
	// admitting are the targets of AdmissionReviews, of which one is chosen at random. If there are none, target is.
	admitting []string
	client    *http.Client
	reviews   []*admissionv1.AdmissionRequest
	bodies    [][]byte
	asked     []authorizationv1.SubjectAccessReviewSpec
	// forgetful keeps nothing else than admittedBy.
	forgetful bool
	// admittedBy has the targets that the AdmissionReviews of each object were sent to, by its name, if it is not nil.
	admittedBy map[string][]string
	// questions are the bodies with asked.
	questions [][]byte
	// delay is how long AdmissionReviews are held back, and lost has their answers get lost, but for those about canaries: if those
	// failed, the front door would refuse before the inner door is asked. down refuses connections.
	delay      time.Duration
	down, lost bool
}

// newProxy returns the proxy of a kube-apiserver, whose client certificate it has.
func newProxy(t *testing.T, c *cluster.Cluster, of *cluster.KubeAPIServer) *proxy {
	t.Helper()
	doorCert, doorKey, err := of.FrontDoorCertificate()
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, err := c.ServingCertificate("proxy")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: c.FrontDoorURL(), client: clientWith(t, c, doorCert, doorKey)}
	p.url = serve(t, certFile, keyFile, tls.RequireAnyClientCert, p)
	return p
}

// doorClient returns a client with kube-apiserver's certificate for Proviso's port.
func doorClient(t *testing.T, c *cluster.Cluster) *http.Client {
	t.Helper()
	certFile, keyFile, err := c.FrontDoorCertificate()
	if err != nil {
		t.Fatal(err)
	}
	return clientWith(t, c, certFile, keyFile)
}

// clientWith returns a client with a certificate, or without one.
func clientWith(t *testing.T, c *cluster.Cluster, certFile, keyFile string) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(c.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(ca)
	if certFile != "" {
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, answer, err := p.forward(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the connection breaks, as if Proviso were down
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(answer)
}

var (
	errDown = errors.New("down")
	errLost = errors.New("the answer is lost")
)

func (p *proxy) forward(r *http.Request) (int, []byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, err
	}
	p.mu.Lock()
	delay, down, lost, target := p.delay, p.down, p.lost, p.target
	if len(p.admitting) > 0 && strings.HasPrefix(r.URL.Path, manifest.AdmitPath) {
		target = p.admitting[rand.IntN(len(p.admitting))]
		p.noteTarget(body, target)
	}
	p.mu.Unlock()
	if down {
		return 0, nil, errDown
	}
	isOfUser := strings.HasPrefix(r.URL.Path, manifest.AdmitPath) && p.keep(body)
	if isOfUser {
		time.Sleep(delay)
	}
	request, err := http.NewRequestWithContext(r.Context(), r.Method, target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header = r.Header.Clone()
	response, err := p.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if r.URL.Path == frontdoor.AuthorizePath {
		p.keepQuestion(body)
	}
	if isOfUser && lost {
		return 0, nil, errLost
	}
	return response.StatusCode, answer, err
}

// noteTarget notes where an AdmissionReview is sent. The caller has the lock.
func (p *proxy) noteTarget(body []byte, target string) {
	var review struct {
		Request struct {
			Name string `json:"name"`
		} `json:"request"`
	}
	if p.admittedBy != nil && json.Unmarshal(body, &review) == nil {
		p.admittedBy[review.Request.Name] = append(p.admittedBy[review.Request.Name], target)
	}
}

// targetsOf returns where AdmissionReviews about an object were sent.
func (p *proxy) targetsOf(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.admittedBy[name])
}

// keep keeps an AdmissionReview, unless it is about a canary, and reports whether it is about something else.
func (p *proxy) keep(body []byte) bool {
	review := &admissionv1.AdmissionReview{}
	if json.Unmarshal(body, review) != nil || review.Request == nil || review.Request.UserInfo.Username == innerdoor.CanaryUser {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.forgetful {
		p.reviews, p.bodies = append(p.reviews, review.Request), append(p.bodies, body)
	}
	return true
}

// keepQuestion keeps a question at the front door, unless it is about a canary.
func (p *proxy) keepQuestion(body []byte) {
	review := &authorizationv1.SubjectAccessReview{}
	if json.Unmarshal(body, review) != nil || review.Spec.User == innerdoor.CanaryUser {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forgetful {
		return
	}
	p.asked, p.questions = append(p.asked, review.Spec), append(p.questions, body)
}

// reset forgets what has been kept.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reviews, p.bodies, p.asked, p.questions = nil, nil, nil, nil
}

// calls returns the AdmissionReviews since the last reset.
func (p *proxy) calls() []*admissionv1.AdmissionRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reviews)
}

// take returns the calls about a user, and forgets them.
func (p *proxy) take(user string) (taken []*admissionv1.AdmissionRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reviews = slices.DeleteFunc(p.reviews, func(r *admissionv1.AdmissionRequest) bool {
		if r.UserInfo.Username == user {
			taken = append(taken, r)
		}
		return r.UserInfo.Username == user
	})
	return taken
}

func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// caller sends requests of one user to one server.
type caller struct {
	sender *requests.Sender
	user   *requests.User
}

// send sends a request, and returns the status code with the body.
func (c *caller) send(ctx context.Context, method, path, contentType string, body io.Reader) (int, string, error) {
	answer, err := c.sender.Do(ctx, c.user, requests.Request{Method: method, Path: path, ContentType: contentType, Body: body})
	if err != nil {
		return 0, "", err
	}
	return answer.Code, answer.Body, nil
}

// at returns the caller at another server.
func (c *caller) at(url string) *caller { return &caller{c.sender.At(url), c.user} }
