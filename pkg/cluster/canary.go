/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/pkg/excerpt"
)

const (
	// maxParallel bounds how many servers are probed at the same time.
	maxParallel = 16
	// maxAnswerBytes bounds what is read of an answer.
	maxAnswerBytes = 64 << 10
	// maxMessageBytes bounds what a state shows of it.
	maxMessageBytes = 256
)

// ErrNoStatus is the error of Send if a request was refused with something else than a Status.
var ErrNoStatus = errors.New("the answer is no Status")

// Canary is sent to each kube-apiserver, round after round.
type Canary interface {
	// Servers reads from State which servers there are, and returns the addresses of those to probe.
	Servers() []string
	// Probe sends the canary to a server, and keeps what the answer shows with its time.
	Probe(ctx context.Context, address string)
}

// Round sends a canary to all servers once. It takes at most bound, and reads the list and the Leases again if they are of a time earlier than maxAge.
func (c *Cluster) Round(ctx context.Context, canary Canary, bound, maxAge time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if now, state := c.Clock.Now(), c.State(); now.Sub(state.ListedAt) >= maxAge || now.Sub(state.RenewedAt) >= maxAge {
		c.look(ctx)
	}
	Each(ctx, canary.Servers(), canary.Probe)
}

// Each calls probe for each server, for several at the same time, and returns when all calls have.
func Each(ctx context.Context, addresses []string, probe func(ctx context.Context, address string)) {
	var group errgroup.Group
	group.SetLimit(maxParallel)
	for _, address := range addresses {
		group.Go(func() error {
			probe(ctx, address)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
}

// Send sends a probe, and returns the Status of the answer with its HTTP status code. A successful answer has a Status that is no failure. err is an error
// from making the request, which Send returns. Errors do not have the URL, which may differ from probe to probe, so that states with the same cause
// can be compared.
func (c *Cluster) Send(request *http.Request, err error) (*metav1.Status, error) {
	if err != nil {
		return nil, err
	}
	client, err := c.client(request.URL.Scheme + "://" + request.URL.Host)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) {
			err = of.Err
		}
		return nil, err
	}
	defer response.Body.Close()
	//guard:cluster-long-answers
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	switch {
	case response.StatusCode < http.StatusMultipleChoices:
		return &metav1.Status{Status: metav1.StatusSuccess, Code: int32(response.StatusCode)}, nil //nolint:gosec // a status code
	case err != nil:
		return nil, err
	}
	status := &metav1.Status{}
	if err := json.Unmarshal(body, status); err != nil {
		return nil, fmt.Errorf("%w: %d", ErrNoStatus, response.StatusCode)
	}
	//guard:cluster-refusals-say-themselves
	status.Status, status.Code = metav1.StatusFailure, int32(response.StatusCode) //nolint:gosec // a status code
	return status, nil
}

// Passed reports whether the Status of an answer to a dry run shows that the server did not refuse it. A request for an object that exists has passed admission.
func Passed(status *metav1.Status) bool {
	//guard:cluster-probes-exists
	return status.Status != metav1.StatusFailure || status.Reason == metav1.StatusReasonAlreadyExists
}

// Shortened returns a message as states show it: on one line, and not too long.
func Shortened(message string) string {
	return excerpt.Of(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, message), maxMessageBytes)
}

// WriteText answers with a text. The client gets it when it is complete: write may hold a lock, and a client may read as slowly as it likes.
func WriteText(response http.ResponseWriter, write func(io.Writer)) {
	var text bytes.Buffer
	write(&text)
	response.Header().Set("Content-Type", "text/plain; charset=utf-8")
	response.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = response.Write(text.Bytes()) // a client that has disconnected needs no answer
}
