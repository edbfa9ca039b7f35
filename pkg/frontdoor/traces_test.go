/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/test/testutil/pki"
)

// TestTracedCalls asks that a call is traced below the span of its client, that others leave no trace, and that the time to read a review is bounded as without traces.
func TestTracedCalls(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	l := newTracedListener(t, newDoor(t, publish(t, always), enforcesMachines), sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	send := func(client *http.Client, path string, body io.Reader) (string, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+l.address+path, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Traceparent", "00-"+trace+"-"+parent+"-01")
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		return string(content), err
	}
	if answer, err := send(l.client(t, pki.Pair{}), frontdoor.AuthorizePath, strings.NewReader(reviewJSON)); err != nil || len(recorder.Ended()) > 0 {
		t.Errorf("a client without a certificate: got %s, %v, and %d spans", answer, err, len(recorder.Ended()))
	}
	client := l.client(t, l.clientPair(t, "kube-apiserver"))
	if answer, err := send(client, frontdoor.AuthorizePath, strings.NewReader(reviewJSON)); err != nil || !strings.Contains(answer, `"allowed":true`) {
		t.Errorf("got %s, %v", answer, err)
	}
	held := func() io.Reader {
		body, end := io.Pipe()
		t.Cleanup(func() { _ = end.Close() })
		return body
	}
	if answer, err := send(client, frontdoor.AuthorizePath+"?timeout=200ms", held()); err != nil || !strings.Contains(answer, "in time") {
		t.Errorf("a review that does not come: got %s, %v", answer, err)
	}
	if answer, err := send(client, "/other/reads", held()); err != nil || !strings.Contains(answer, "timeout") {
		t.Errorf("a review of another route that does not come: got %s, %v", answer, err)
	}
	calls := map[string]int{}
	for _, span := range recorder.Ended() {
		if span.Parent().SpanID().String() == parent && span.SpanContext().TraceID().String() == trace {
			calls[span.Name()]++
		}
	}
	if calls["POST "+frontdoor.AuthorizePath] != 2 || calls["POST /other/{name}"] != 1 {
		t.Errorf("got the calls %v", calls)
	}
}
