/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/pkg/barrier"
)

// outcome is the outcome of a probe.
type outcome string

const (
	// loaded means that the sentinel refused the probe.
	loaded outcome = "loaded"
	// behind means that the server has not loaded the last number yet.
	behind outcome = "behind"
	// passed means that the server did not refuse the probe: it enforces no barrier.
	passed outcome = "passed"
	// failed means that the server did not answer, or refused the probe for another reason.
	failed outcome = "failed"
)

var outcomes = []outcome{loaded, behind, passed, failed}

const (
	// leaseName is the name of the Lease of the probes. It is never stored.
	leaseName = "proviso-barriers-probe"
	// maxAnswerBytes bounds what is read of an answer.
	maxAnswerBytes = 64 << 10
	// maxMessageBytes bounds what a state shows of it.
	maxMessageBytes = 256
)

// send sends a probe for a number. If the sentinel refuses it, refusedWith is the number in the message.
func send(ctx context.Context, client *http.Client, server, namespace string, number int64) (refusedWith int64, found result) {
	request, err := newProbe(ctx, server, namespace, number)
	if err != nil {
		return 0, result{failed, shortened(err.Error())}
	}
	response, err := client.Do(request)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) {
			err = of.Err // the rest of the message is the same for every probe
		}
		return 0, result{failed, shortened(err.Error())}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if response.StatusCode < http.StatusMultipleChoices {
		return math.MaxInt64, result{passed, ""}
	}
	status := &metav1.Status{}
	if err != nil || json.Unmarshal(body, status) != nil {
		return 0, result{failed, fmt.Sprintf("the answer is no Status: %d", response.StatusCode)}
	}
	if status.Reason == metav1.StatusReasonAlreadyExists {
		return math.MaxInt64, result{passed, ""}
	}
	if refusedWith, ok := barrier.NumberIn(status.Message); ok && response.StatusCode == http.StatusForbidden {
		return refusedWith, result{loaded, ""}
	}
	return 0, result{failed, shortened(fmt.Sprintf("refused, but not by the sentinel: %d %s", response.StatusCode, status.Message))}
}

// newProbe returns a dry run of the creation of a Lease.
func newProbe(ctx context.Context, server, namespace string, number int64) (*http.Request, error) {
	target, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	target = target.JoinPath("apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases")
	target.RawQuery = url.Values{"dryRun": {metav1.DryRunAll}}.Encode()
	lease := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: leaseName, Namespace: namespace, Labels: map[string]string{barrier.RolloutLabel: strconv.FormatInt(number, 10)}},
	}
	body, err := json.Marshal(lease)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

// shortened returns a message as states show it: on one line, and not too long.
func shortened(message string) string {
	message = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, message)
	if len(message) <= maxMessageBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessageBytes-len("…")], "") + "…"
}
