/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package playground

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"runtime"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

//go:embed assets
var assets embed.FS

const (
	// maxBodyBytes bounds a request. The largest policy has 100 KiB, and the largest object that etcd stores 1.5 MiB.
	maxBodyBytes = 2 << 20
	// decideTimeout bounds a decision. The search for a near miss alone takes up to 10 seconds.
	decideTimeout = 20 * time.Second
	// waitTimeout bounds the wait for decisions of other requests.
	waitTimeout = 5 * time.Second
)

// The headers of all answers. The policy for content lets a page load nothing but the assets of this server, and makes the browser
// refuse scripts, styles and attributes in a text.
var headers = map[string]string{
	//guard:playground-no-scripts-others
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cache-Control":                "no-store",
}

// server answers the requests of the page.
type server struct {
	// host is the address of the server, which requests must name.
	host      string
	compilers *simulation.Compilers
	// files are what -f names, or nil. secret is what a page needs to see them: other users of the machine reach the server, too.
	files  *example
	secret string
	// running has an entry for each decision that is being made.
	running chan struct{}
	// timeout bounds a decision, and wait the time before it.
	timeout, wait time.Duration
	// decide makes a decision.
	decide func(ctx context.Context, c *simulation.Compilers, q *question) *answer
}

// filesFragment begins the fragment of the address with files.
const filesFragment = "#files."

// newHandler returns the handler of the server with an address, and the fragment of the address with which the page begins. Without files, it is empty.
func newHandler(host string, files *example) (handler http.Handler, fragment string, err error) {
	compilers, err := simulation.NewCompilers()
	if err != nil {
		return nil, "", err
	}
	s := &server{
		host: host, files: files, secret: rand.Text(), compilers: compilers, running: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), timeout: decideTimeout, wait: waitTimeout,
		decide: decide,
	}
	if files != nil {
		fragment = filesFragment + s.secret
	}
	handler, err = s.handler()
	return handler, fragment, err
}

func (s *server) handler() (http.Handler, error) {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, err
	}
	examples, err := readExamples()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	static := http.FileServerFS(files)
	for _, path := range []string{"/{$}", "/playground.js", "/playground.css", "/icon.svg"} {
		mux.Handle("GET "+path, static)
	}
	mux.HandleFunc("GET /api/v1/examples", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, examples) })
	mux.HandleFunc("GET /api/v1/files", s.serveFiles)
	mux.HandleFunc("POST /api/v1/decide", s.serveDecision)
	protected := http.NewCrossOriginProtection()
	protected.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusForbidden, "requests of other pages are refused")
	}))
	//guard:playground-requests-other-pages
	return s.guarded(protected.Handler(mux)), nil
}

// guarded refuses requests that do not name the address of the server. A page whose name an attacker resolves to 127.0.0.1 names itself.
func (s *server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, text := range headers {
			w.Header().Set(name, text)
		}
		//guard:playground-other-hosts
		if r.Host != s.host {
			fail(w, http.StatusMisdirectedRequest, fmt.Sprintf("this is no address of the playground: open http://%s/", s.host))
			return
		}
		//guard:playground-other-origins
		if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+s.host {
			fail(w, http.StatusForbidden, "requests of other pages are refused")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveFiles answers the request for the files, which names the secret.
func (s *server) serveFiles(w http.ResponseWriter, r *http.Request) {
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	//guard:playground-files-secret
	if s.files == nil || subtle.ConstantTimeCompare([]byte(secret), []byte(s.secret)) != 1 {
		fail(w, http.StatusForbidden, "these files were not given to this playground: open the address that the command has printed")
		return
	}
	write(w, http.StatusOK, s.files)
}

// The errors of requests.
var (
	errBusy     = errors.New("other decisions are being made: try again")
	errTimeout  = errors.New("the decision takes too long")
	errInternal = errors.New("the decision failed by a mistake in the playground")
)

// serveDecision answers the request for a decision.
func (s *server) serveDecision(w http.ResponseWriter, r *http.Request) {
	//guard:playground-forms
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		fail(w, http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
		return
	}
	q, status, err := read(w, r)
	if err != nil {
		fail(w, status, err.Error())
		return
	}
	waiting, cancel := context.WithTimeout(r.Context(), s.wait)
	defer cancel()
	select {
	case s.running <- struct{}{}:
	case <-waiting.Done():
		fail(w, http.StatusServiceUnavailable, errBusy.Error())
		return
	}
	//guard:playground-time-decisions
	ctx, cancel := context.WithTimeout(r.Context(), s.timeout)
	defer cancel()
	decided := make(chan *answer, 1)
	go func() {
		defer func() { <-s.running }() // compiling does not end with ctx, and counts until it is done
		defer func() {
			if recover() != nil {
				decided <- nil
			}
		}()
		decided <- s.decide(ctx, s.compilers, q)
	}()
	select {
	case a := <-decided:
		switch {
		case ctx.Err() != nil:
			fail(w, http.StatusServiceUnavailable, errTimeout.Error())
		case a == nil:
			fail(w, http.StatusInternalServerError, errInternal.Error())
		case len(a.Errors) > 0:
			write(w, http.StatusUnprocessableEntity, a)
		default:
			write(w, http.StatusOK, a)
		}
	case <-ctx.Done():
		fail(w, http.StatusServiceUnavailable, errTimeout.Error())
	}
}

// read reads the body of a request. The status is the code of the answer if there is an error.
func read(w http.ResponseWriter, r *http.Request) (q *question, status int, err error) {
	//guard:playground-size-requests
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	var raw json.RawMessage
	if err := decoder.Decode(&raw); err != nil {
		if _, isLong := errors.AsType[*http.MaxBytesError](err); isLong {
			return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the policies, the request and the object have more than %d bytes", maxBodyBytes)
		}
		return nil, http.StatusBadRequest, errors.New("the request is not JSON")
	}
	if decoder.More() {
		return nil, http.StatusBadRequest, errors.New("the request has more than one JSON object")
	}
	q = &question{}
	strict, err := kjson.UnmarshalStrict(raw, q)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the request is not as expected: %w", err)
	}
	return q, http.StatusOK, nil
}

// fail answers with an error that is about no editor.
func fail(w http.ResponseWriter, status int, message string) {
	write(w, status, &answer{Errors: []mistake{{Message: printable.Text(message)}}})
}

// write answers with JSON. An error while writing means that the client is gone.
func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
