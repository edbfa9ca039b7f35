/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// attempt sends one review, the i-th of its connection.
type attempt func(ctx context.Context, i int) error

// way is a way to ask for access, with as many connections as there are clients at a time.
type way struct {
	name        string
	connections []attempt
	elapsed     time.Duration
	latencies   []time.Duration
	// processor is the processor time of both servers. Unlike elapsed it hardly depends on what
	// else the machine does.
	processor time.Duration
}

// batch is how many reviews each connection sends before it is another way's turn.
const batch = 20

// round has every connection send a batch.
func (w *way) round(ctx context.Context) error {
	took, errs := make([][]time.Duration, len(w.connections)), make([]error, len(w.connections))
	var all sync.WaitGroup
	started := time.Now()
	for c, ask := range w.connections {
		all.Go(func() {
			for i := range batch {
				sent := time.Now()
				if errs[c] = ask(ctx, i); errs[c] != nil {
					return
				}
				took[c] = append(took[c], time.Since(sent))
			}
		})
	}
	all.Wait()
	w.elapsed += time.Since(started)
	w.latencies = append(w.latencies, slices.Concat(took...)...)
	return errors.Join(errs...)
}

// turn is round, and counts the processor time of both servers.
func (w *way) turn(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	before := serversTime(b, c)
	if err := w.round(b.Context()); err != nil {
		b.Fatal(w.name, err)
	}
	w.processor += serversTime(b, c) - before
}

// clockTick is the unit of times in /proc, which is the same for all architectures of Linux
// that Go supports.
const clockTick = 10 * time.Millisecond

// serversTime is the processor time that kube-apiserver and Proviso have used.
func serversTime(b *testing.B, c *cluster.Cluster) time.Duration {
	b.Helper()
	return processTime(b, c.KubeAPIServerPid()) + processTime(b, c.Pid())
}

// processTime is the processor time that a process has used.
func processTime(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// The name of the command, in parentheses, may have blanks. utime and stime are the
	// twelfth and thirteenth field after it.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	for _, ticks := range fields[11:13] {
		n, err := strconv.Atoi(ticks)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(n) * clockTick
	}
	return sum
}

func (w *way) perSecond() float64 { return float64(len(w.latencies)) / w.elapsed.Seconds() }

func (w *way) median() time.Duration { return percentile(w.latencies, 50) }

func percentile(latencies []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(latencies))
	return sorted[(len(sorted)-1)*p/100]
}

// BenchmarkSubjectAccessReview compares the ways of asking what a user may do, which take turns
// in one run, so that a busy machine is busy for all of them. One operation is one turn of each.
// The metrics are reviews per second, the median, and the processor time of both servers for each
// way, and for the ways of Proviso their ratios to kube-apiserver: rate/kube is better if larger,
// p50/kube and cpu/kube if smaller. The way "refused" is an invalid review, which Proviso refuses without
// asking kube-apiserver. It shows the least cost of one more server: a valid review also asks
// kube-apiserver, so its median is at least the sum of the medians of "kube" and "refused".
func BenchmarkSubjectAccessReview(b *testing.B) {
	c := start(b)
	prepareConditional(b, c)
	for _, asks := range []struct{ name, user string }{{"unconditional", "bob"}, {"conditional", "carol"}} {
		for _, connections := range []int{1, 16} {
			b.Run(fmt.Sprintf("review=%s/connections=%d", asks.name, connections), func(b *testing.B) {
				ways := waysOf(b, c, asks.user, connections)
				for _, w := range ways { // connect, and fill the caches
					w.turn(b, c)
					w.elapsed, w.latencies, w.processor = 0, nil, 0
				}
				for b.Loop() {
					for _, w := range ways {
						w.turn(b, c)
					}
				}
				report(b, ways)
			})
		}
	}
}

// report prints the metrics. The first way is kube-apiserver's own.
func report(b *testing.B, ways []*way) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // of all ways together, which says nothing
	kube := ways[0]
	for _, w := range ways {
		b.ReportMetric(w.perSecond(), w.name+"-reviews/s")
		b.ReportMetric(float64(w.median().Microseconds()), w.name+"-p50-us")
		b.ReportMetric(float64(w.processor.Microseconds())/float64(len(w.latencies)), w.name+"-cpu-us")
		if w != kube {
			b.ReportMetric(w.perSecond()/kube.perSecond(), w.name+"-rate/kube")
			b.ReportMetric(float64(w.median())/float64(kube.median()), w.name+"-p50/kube")
			b.ReportMetric(float64(w.processor)/float64(kube.processor), w.name+"-cpu/kube")
		}
	}
}

func waysOf(b *testing.B, c *cluster.Cluster, user string, connections int) []*way {
	b.Helper()
	kube, direct, aggregated, refused := &way{name: "kube"}, &way{name: "direct"}, &way{name: "aggregated"}, &way{name: "refused"}
	for range connections {
		kube.connections = append(kube.connections, asksKube(b, connect(b, c, "alice"), user))
		direct.connections = append(direct.connections, asksProviso(b, connect(b, c, "alice-direct"), user))
		aggregated.connections = append(aggregated.connections, asksProviso(b, connect(b, c, "alice"), user))
		refused.connections = append(refused.connections, asksInvalid(b, connect(b, c, "alice-direct")))
	}
	return []*way{kube, direct, aggregated, refused}
}

// asksInvalid asks about no request at all.
func asksInvalid(b *testing.B, config *rest.Config) attempt {
	b.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, _ int) error {
		_, err := client.AuthorizationV1alpha1().SubjectAccessReviews().Create(ctx, &authorizationv1alpha1.SubjectAccessReview{
			Spec: authorizationv1alpha1.SubjectAccessReviewSpec{User: "bob"}}, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) {
			return nil
		}
		return fmt.Errorf("%w: %w", errUnexpected, err)
	}
}

// creates is the check whether a user may create a machine.
func creates(user string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: "create", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo"}}
}

var errUnexpected = errors.New("unexpected answer")

func asksKube(b *testing.B, config *rest.Config, user string) attempt {
	b.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, _ int) error {
		review := &authorizationv1.SubjectAccessReview{Spec: creates(user)}
		got, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !got.Status.Allowed { // conditions are allowed where Proviso enforces them
			err = fmt.Errorf("%w: %v", errUnexpected, got.Status)
		}
		return err
	}
}

// asksProviso asks for conditions. carol is to get some, all others are to be allowed.
func asksProviso(b *testing.B, config *rest.Config, user string) attempt {
	b.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	spec := creates(user)
	return func(ctx context.Context, _ int) error {
		got, err := client.AuthorizationV1alpha1().SubjectAccessReviews().Create(ctx, &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: user, Groups: spec.Groups, ResourceAttributes: spec.ResourceAttributes,
			ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsMode(authorizationapi.ConditionsModeOptimized)},
		}}, metav1.CreateOptions{})
		if err == nil && got.Status.Allowed == (user == "carol") || err == nil && (len(got.Status.ConditionsChain) > 0) != (user == "carol") {
			err = fmt.Errorf("%w: %v", errUnexpected, got.Status)
		}
		return err
	}
}

// prepareConditional lets carol create machines on a condition, and waits until reviews show it.
func prepareConditional(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	client, err := versioned.NewForConfig(connect(b, c, cluster.Admin))
	if err != nil {
		b.Fatal(err)
	}
	policy := &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "carol-creates"}, Spec: policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectAllow, Condition: `object.spec.storageClassName == "dev"`, Subjects: []rbacv1.Subject{{Kind: "User", Name: "carol", APIGroup: rbacv1.GroupName}},
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"demo.proviso.dev"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"virtualmachines"}}},
	}}
	if _, err := client.PolicyV1alpha1().ClusterAuthorizationPolicies().Create(b.Context(), policy, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	ask := asksProviso(b, connect(b, c, "alice-direct"), "carol")
	err = wait.PollUntilContextTimeout(b.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return ask(ctx, 0) == nil, nil
	})
	if err != nil {
		b.Fatal("reviews show no conditions:", ask(b.Context(), 0))
	}
}

// connect returns a configuration with a connection of its own, and without a rate.
func connect(b *testing.B, c *cluster.Cluster, user string) *rest.Config {
	b.Helper()
	config, err := c.Client(user)
	if err != nil {
		b.Fatal(err)
	}
	config.QPS = -1
	config.Dial = (&net.Dialer{}).DialContext // clients with a dialer of their own share no connections
	return config
}

// flooding is how many connections of one user flood reviews.
const flooding = 200

// BenchmarkFlood measures what one user sees while another one floods reviews with 200
// connections: requests whose answers are not cached, and reviews. One operation is one of each.
// The metrics are the median and the 99th percentile of both, alone and during the flood, and
// the reviews per second of the flood.
func BenchmarkFlood(b *testing.B) {
	c := start(b)
	for _, route := range []struct{ name, suffix string }{{"direct", "-direct"}, {"aggregated", ""}} {
		requests, reviews := victim(b, c, "bob"+route.suffix)
		attackers := make([]attempt, 0, flooding)
		for range flooding {
			attackers = append(attackers, asksProviso(b, connect(b, c, "alice"+route.suffix), "bob"))
		}
		for _, attacked := range []bool{false, true} {
			b.Run(fmt.Sprintf("route=%s/flood=%t", route.name, attacked), func(b *testing.B) {
				stop := func(*testing.B) {}
				if attacked {
					stop = flood(b, attackers)
				}
				defer stop(b)
				for i := 0; b.Loop(); i++ {
					if err := errors.Join(requests.once(b.Context(), i), reviews.once(b.Context(), i)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(0, "ns/op")
				for _, w := range []*way{requests, reviews} {
					b.ReportMetric(percentile(w.latencies, 50).Seconds()*1000, w.name+"-p50-ms")
					b.ReportMetric(percentile(w.latencies, 99).Seconds()*1000, w.name+"-p99-ms")
					w.latencies = nil
				}
			})
		}
	}
}

// once sends one review or request over the first connection.
func (w *way) once(ctx context.Context, i int) error {
	sent := time.Now()
	err := w.connections[0](ctx, i)
	w.latencies = append(w.latencies, time.Since(sent))
	return err
}

// victim returns what the other user does. Each request is about another machine, so that
// kube-apiserver is asked about it. There is none, so that only those who may get it hear so.
func victim(b *testing.B, c *cluster.Cluster, user string) (requests, reviews *way) {
	b.Helper()
	client, err := versioned.NewForConfig(connect(b, c, user))
	if err != nil {
		b.Fatal(err)
	}
	var sent atomic.Int64
	get := func(ctx context.Context, _ int) error {
		_, err := client.DemoV1alpha1().VirtualMachines("demo").Get(ctx, fmt.Sprintf("missing-%d", sent.Add(1)), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%w: %w", errUnexpected, err)
	}
	self := func(ctx context.Context, _ int) error {
		review := &authorizationv1alpha1.SelfSubjectAccessReview{Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{ResourceAttributes: creates("").ResourceAttributes}}
		got, err := client.AuthorizationV1alpha1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !got.Status.Allowed {
			err = fmt.Errorf("%w: %v", errUnexpected, got.Status)
		}
		return err
	}
	return &way{name: "request", connections: []attempt{get}}, &way{name: "review", connections: []attempt{self}}
}

// flood has all attackers send reviews until stop is called, which reports how many were
// answered and how many failed.
func flood(b *testing.B, attackers []attempt) (stop func(*testing.B)) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	var answered, failed atomic.Int64
	for _, ask := range attackers {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := ask(ctx, i); err == nil {
					answered.Add(1)
				} else if ctx.Err() == nil {
					failed.Add(1)
				}
			}
		})
	}
	for answered.Load() < int64(len(attackers)) && b.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond) // until they have connected
	}
	started, before := time.Now(), answered.Load()
	return func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(answered.Load()-before)/time.Since(started).Seconds(), "flood-reviews/s")
		b.ReportMetric(float64(failed.Load()), "flood-failures")
		cancel()
		all.Wait()
	}
}
