/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	utilwebhook "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// maxAnswerBytes bounds an answer. The largest valid answer has 512 conditions of 11 KiB, and JSON
// may double their size.
const maxAnswerBytes = 12 << 20

// endpoint is a URL to which reviews of one kind are posted.
type endpoint struct {
	name    string // of the authorizer
	client  rest.Interface
	backoff wait.Backoff
	metrics roundTrips
	// confidential is true if the reviews contain objects, which the text of an error could quote.
	confidential bool
}

// statuses decodes error responses of API servers.
var statuses = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme)
}()

// newClient returns a client that posts to the exact URL in config. timeout bounds each call.
func newClient(config *rest.Config, timeout time.Duration) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.Timeout = timeout
	// The number of requests is bounded elsewhere.
	config.QPS, config.RateLimiter = -1, nil
	// Warnings are meant for people who write reviews themselves.
	config.WarningHandler = rest.NoWarnings{}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = statuses.WithoutConversion()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	return rest.UnversionedRESTClientFor(config)
}

// bounded fails to read answers that are longer than maxAnswerBytes.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{Reader: http.MaxBytesReader(nil, response.Body, maxAnswerBytes), Closer: response.Body}
	}
	return response, err
}

// post posts a review in a form, and reads the answer. Each attempt counts for the bounds of the context. A call with a transient error is retried, as by the
// webhook authorizer of Kubernetes; an answer that cannot be read is an error without a retry. If the
// endpoint is confidential, the text of an error status is left out of the error.
func (e *endpoint) post(ctx context.Context, in form, review []byte, read func(answer []byte) error) error {
	if err := ctx.Err(); err != nil { // the backoff would not make the first attempt
		return fmt.Errorf("%w: %w", errNotCalled, err)
	}
	err := utilwebhook.WithExponentialBackoff(ctx, e.backoff, func() error {
		//guard:webhooks-bounds-calls
		release, err := AcquireCall(ctx, e.name)
		if err != nil {
			return err
		}
		defer release()
		start := time.Now()
		result := e.client.Post().MaxRetries(0).Body(review).Do(ctx)
		err = result.Error()
		if err == nil {
			err = readRaw(result, read)
		}
		e.metrics.record(e.name, resultOf(ctx, err), in, time.Since(start))
		return err
	}, utilwebhook.DefaultShouldRetry)
	if status := apierrors.APIStatus(nil); e.confidential && errors.As(err, &status) {
		code := status.Status().Code
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: fmt.Sprintf("the server answered %d", code)}}
	}
	return err
}

func readRaw(result rest.Result, read func([]byte) error) error {
	answer, err := result.Raw()
	if err != nil {
		return err
	}
	return read(answer)
}
