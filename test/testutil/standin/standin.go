/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package standin is a stand-in for a kube-apiserver: it answers the requests of clients from a table, in JSON.
package standin

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
)

// Answers are the answers to requests by their method and path, such as "GET /api/v1/namespaces/a". An answer is an object; an error of
// apimachinery, which is written as its Status; Warned; or a Handler. A request that has no answer gets the Status 404.
type Answers map[string]any

// Handler returns the answer to a request with a body.
type Handler func(r *http.Request, body []byte) any

// Warned is an answer with warnings for the client.
type Warned struct {
	Warnings []string
	Answer   any
}

// To returns a Handler that reads the body, and calls a function with the object in it.
func To[T any](answer func(*T) any) Handler {
	return func(_ *http.Request, body []byte) any {
		object := new(T)
		if err := decode(body, object); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		return answer(object)
	}
}

// decode reads JSON, or an object of Kubernetes in Protobuf.
func decode(body []byte, into any) error {
	object, isObject := into.(runtime.Object)
	if !isObject || !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return json.Unmarshal(body, into)
	}
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, object)
	return err
}

// codeWarning is the code of warnings.
const codeWarning = 299

// Server is a stand-in that listens.
type Server struct {
	URL string

	answers  Answers
	mu       sync.Mutex
	requests []string
}

// New returns a server that stops after the test.
func New(tb testing.TB, answers ...Answers) *Server {
	tb.Helper()
	s := &Server{answers: Answers{}}
	for _, more := range answers {
		maps.Copy(s.answers, more)
	}
	listening := httptest.NewServer(s)
	tb.Cleanup(listening.Close)
	s.URL = listening.URL
	return s
}

// Requests returns the requests so far but those of discovery, sorted.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.requests))
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	key := r.Method + " " + r.URL.Path
	answer, ok := s.answers[key]
	if _, isDiscovery := answer.(discovery); !isDiscovery {
		s.mu.Lock()
		s.requests = append(s.requests, key)
		s.mu.Unlock()
	}
	if handler, isHandler := answer.(Handler); isHandler {
		answer = handler(r, body)
	}
	if warned, isWarned := answer.(Warned); isWarned {
		for _, text := range warned.Warnings {
			if header, err := utilnet.NewWarningHeader(codeWarning, "-", text); err == nil {
				w.Header().Add("Warning", header)
			}
		}
		answer = warned.Answer
	}
	if !ok || answer == nil {
		answer = apierrors.NewGenericServerResponse(http.StatusNotFound, strings.ToLower(r.Method), schema.GroupResource{}, "", "", 0, false)
	}
	w.Header().Set("Content-Type", "application/json")
	if status, isStatus := answer.(apierrors.APIStatus); isStatus {
		written := status.Status()
		written.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(written.Code))
		answer = written
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// discovery is an answer to a request of discovery.
type discovery struct{ any }

// MarshalJSON writes the object.
func (d discovery) MarshalJSON() ([]byte, error) { return json.Marshal(d.any) }

// Discovery returns the answers to the requests of discovery in a cluster with some resources.
func Discovery(lists ...metav1.APIResourceList) Answers {
	answers := Answers{}
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	core := metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}}
	for i := range lists {
		list := lists[i]
		list.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}
		if version, isCore := strings.CutPrefix("/"+list.GroupVersion, "/v"); isCore && !strings.Contains(version, "/") {
			core.Versions = append(core.Versions, list.GroupVersion)
			answers["GET /api/"+list.GroupVersion] = discovery{list}
			continue
		}
		answers["GET /apis/"+list.GroupVersion] = discovery{list}
		group, version, _ := strings.Cut(list.GroupVersion, "/")
		served := metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion, Version: version}
		if at := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group }); at >= 0 {
			groups.Groups[at].Versions = append(groups.Groups[at].Versions, served)
			continue
		}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served})
	}
	answers["GET /api"], answers["GET /apis"] = discovery{core}, discovery{groups}
	return answers
}
