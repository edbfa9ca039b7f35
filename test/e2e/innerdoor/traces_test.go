/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/proviso-authz/proviso/pkg/authorization/order"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// ownScope is the instrumentation scope of the spans that Proviso adds to those of every API server.
const ownScope = "github.com/proviso-authz/proviso/pkg/authorization"

// collector receives the traces of all servers.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans map[string]*tracepb.Span // by ID
	own   []*tracepb.Span          // those with ownScope
	all   strings.Builder
}

// Export implements collectorpb.TraceServiceServer.
func (c *collector) Export(_ context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(&c.all, request)
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans[string(span.SpanId)] = span
			}
			if scope.Scope.Name == ownScope {
				c.own = append(c.own, scope.Spans...)
			}
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// startCollector starts a collector, and returns the configuration of servers that send it all traces.
func startCollector(t *testing.T) (c *collector, file string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	mustBeNil(t, err)
	c = &collector{spans: map[string]*tracepb.Span{}}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	file = filepath.Join(t.TempDir(), "tracing.yaml")
	mustBeNil(t, os.WriteFile(file, fmt.Appendf(nil, "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\nsamplingRatePerMillion: 1000000\n", listener.Addr()), 0o600))
	return c, file
}

// lines returns a line for each span of Proviso, with the call of a server to which it belongs, its parent, its name, the decision and the number of conditions, and one for each call of etcd.
func (c *collector) lines() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines strings.Builder
	for _, span := range c.spans {
		parent := c.spans[string(span.ParentSpanId)].GetName()
		switch {
		case slices.Contains(c.own, span):
			decision, conditions := ownAttributes(span)
			fmt.Fprintf(&lines, "%s | %s | %s: %s, %d\n", c.call(span), parent, span.Name, decision, conditions)
		case strings.HasPrefix(span.Name, "etcdserverpb"):
			fmt.Fprintf(&lines, "%s | %s | %s\n", c.call(span), parent, span.Name)
		}
	}
	return lines.String()
}

// ownAttributes returns the attributes that spans of Proviso have.
func ownAttributes(span *tracepb.Span) (decision string, conditions int64) {
	for _, attribute := range span.Attributes {
		switch attribute.Key {
		case "proviso.decision":
			decision = attribute.Value.GetStringValue()
		case "proviso.conditions":
			conditions = attribute.Value.GetIntValue()
		}
	}
	return decision, conditions
}

// call returns the name of the call to which a span belongs, after the name of the call that caused it, if there is one.
func (c *collector) call(span *tracepb.Span) string {
	var calls []string
	for ; span != nil; span = c.spans[string(span.ParentSpanId)] {
		if span.Kind == tracepb.Span_SPAN_KIND_SERVER {
			calls = append([]string{span.Name}, calls...)
		}
	}
	return strings.Join(calls, " > ")
}

// TestTraces sends the traces of kube-apiserver and Proviso to a collector, and expects a span for each authorizer and each evaluation below the call of the server.
func TestTraces(t *testing.T) {
	t.Parallel()
	c, config := startCollector(t)
	r := newRig(t, "", func(c *cluster.Config) {
		c.Args = append(c.Args, "--tracing-config-file="+config)
		c.KubeAPIServerArgs = append(c.KubeAPIServerArgs, "--tracing-config-file="+config)
	})
	r.MustApply(t, `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: traced}
spec:
  description: the-description
  effect: Allow
  subjects: [{kind: User, name: the-user}]
  rules:
  - {verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}
  - {verbs: [create], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}
  condition: object.metadata.labels["the-label"] == "the-value"
`)
	const (
		maps     = "/api/v1/namespaces/default/configmaps"
		machines = "/apis/demo.proviso.dev/v1alpha1/namespaces/default/virtualmachines"
		reviews  = "/apis/authorization.proviso.dev/v1alpha1/selfsubjectaccessreviews"
		machine  = `{"apiVersion": "demo.proviso.dev/v1alpha1", "kind": "VirtualMachine", "metadata": {"name": "m", "labels": {%q: "the-value"}}, "spec": {"image": "the-image"}}`
	)
	poll.Eventually(t, "a write through kube-apiserver", func() string {
		code, answer := r.send(t, "the-user", http.MethodPost, maps, jsonType, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-", "labels": {"the-label": "the-value"}}}`)
		if code != http.StatusCreated {
			return answer
		}
		return ""
	})
	for _, request := range []struct {
		path, body string
		want       int
	}{
		{machines, fmt.Sprintf(machine, "another"), http.StatusForbidden}, // the condition fails: there is no such key
		{machines, fmt.Sprintf(machine, "the-label"), http.StatusCreated},
		{reviews, `{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "create", "version": "v1", "resource": "configmaps", "namespace": "default"}}}`, http.StatusCreated},
	} {
		if code, answer := r.Sender.At(r.ProvisoURL()).Send(t, certified("the-user"), http.MethodPost, request.path, jsonType, request.body); code != request.want {
			t.Errorf("%s: got %d %s", request.path, code, answer)
		}
	}
	const (
		authorize    = "POST /webhooks/authorize | POST /webhooks/authorize | "
		admit        = "POST /api/v1/namespaces/{:namespace}/configmaps > POST /webhooks/admit/{digest} | POST /webhooks/admit/{digest} | "
		postMachines = "POST /apis/demo.proviso.dev/v1alpha1/namespaces/{:namespace}/virtualmachines | "
		postReviews  = "POST /apis/authorization.proviso.dev/v1alpha1/selfsubjectaccessreviews | "
	)
	poll.Eventually(t, "the spans", func() string {
		return lacks(c.lines(), []string{
			authorize + "deny.policy.proviso.dev: no_opinion, 0", authorize + "policy.proviso.dev: conditional, 1", authorize + "namespaced.policy.proviso.dev: no_opinion, 0",
			admit + "deny.policy.proviso.dev: no_opinion, 0", admit + "policy.proviso.dev: conditional, 1", admit + "evaluate conditions: allow, 1",
			postMachines + "authorization | kube-apiserver: no_opinion, 0", postMachines + "authorization | policy.proviso.dev: conditional, 1",
			postMachines + "Create | evaluate conditions: allow, 1", postMachines + "Create | evaluate conditions: no_opinion, 1",
			postMachines + "evaluate conditions | namespaced.policy.proviso.dev: no_opinion, 0", // asked because the condition does not allow
			postMachines + "Create etcd3 | etcdserverpb.KV/Txn",
			postReviews + "authorization | kube-apiserver: allow, 0", postReviews + "Create | policy.proviso.dev: conditional, 1",
		})
	})
	c.wantNoContent(t)
}

// wantNoContent expects that spans have nothing of an object, a policy or a user: others may read traces than may read these. Like every API server, Proviso
// records paths of requests, which have the names of objects.
func (c *collector) wantNoContent(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range []string{"the-user", "the-description", "the-label", "the-value", "the-image", "no such key"} {
		if _, after, found := strings.Cut(c.all.String(), text); found {
			t.Errorf("a span has %q: %.200s", text, after)
		}
	}
	failed := 0 // spans with an error
	for _, span := range c.own {
		decision, _ := ownAttributes(span)
		isKnown := slices.Contains(append(order.Reserved(), "evaluate conditions"), span.Name) && slices.Contains([]string{"allow", "deny", "no_opinion", "conditional"}, decision)
		if !isKnown || len(span.Attributes) != 2 || len(span.Events) > 0 || span.Status.GetMessage() != "" {
			t.Errorf("a span has more than its name, a decision and a number: %v", span)
		}
		if span.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no span has an error: want one, of the condition that fails")
	}
}
