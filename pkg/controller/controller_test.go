/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package controller_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/legacyregistry"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/freshness"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
)

// consumer records what a controller does. It is also its Staleness.
type consumer struct {
	freshness.Tracker
	mu    sync.Mutex
	probe error
	// revision is the current revision of the store, or a very late one if it is 0. ended has why the process must end.
	revision uint64
	ended    []error
	// standStill, if set, is what calls for the revision wait for, without regard to their context.
	standStill <-chan struct{}
	// noRevision is why the revision is not known, version the version of the list, and asked and probed count calls.
	noRevision    error
	version       string
	asked, probed int
	published     int
	observed      []string
	// writes counts the calls that write the status of an object, and failures has the errors of the first calls.
	writes   int
	failures []error
}

func locked[T any](c *consumer, f func() T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f()
}

func (c *consumer) writeStatus(context.Context, string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	if c.writes <= len(c.failures) {
		return c.failures[c.writes-1]
	}
	return nil
}

func (c *consumer) currentRevision(context.Context) (uint64, error) {
	if standStill := locked(c, func() <-chan struct{} { return c.standStill }); standStill != nil {
		<-standStill
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.revision == 0 {
		return math.MaxUint64, c.noRevision
	}
	return c.revision, c.noRevision
}

func (c *consumer) setRevision(revision uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision = revision
}

func (c *consumer) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, cause)
}

// start runs a controller of mappings for a consumer until the test ends.
func start(t *testing.T, c *consumer, bound time.Duration, objects ...runtime.Object) *controller.Controller[string] {
	t.Helper()
	client := fake.NewSimpleClientset(objects...)
	var started *controller.Controller[string]
	started, err := controller.New(controller.Config[string]{
		Name: "test", QueueName: "test_status", Objects: "the objects", Staleness: c, StalenessBound: bound,
		End:       c.end,
		Published: func() bool { return locked(c, func() bool { return c.published > 0 }) },
		Publish: func(context.Context) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.published++
			started.Enqueue("one")
		},
		WriteStatus: c.writeStatus,
	})
	if err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := locked(c, func() error { return c.probe })
		return err != nil && action.(clienttesting.ListActionImpl).ListOptions.Limit == 1, nil, err
	})
	if _, err := started.Follow(&policyv1alpha1.FieldPermissionMapping{}, clientstore.Of(client.PolicyV1alpha1().FieldPermissionMappings(), c.currentRevision), func(obj any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.observed = append(c.observed, obj.(*policyv1alpha1.FieldPermissionMapping).Name)
	}); err != nil {
		t.Fatal(err)
	}
	if err := started.Ready().Check(nil); err == nil || err.Error() != "the objects have not been loaded yet" {
		t.Errorf("before the start: got %v, want that nothing is loaded", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); started.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return started
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, wait.ForeverTestTimeout, true, func(context.Context) (bool, error) {
		return holds(), nil
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestPublishes(t *testing.T) {
	t.Parallel()
	c := &consumer{}
	started := start(t, c, time.Minute, &policyv1alpha1.FieldPermissionMapping{ObjectMeta: metav1.ObjectMeta{Name: "one", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}})
	eventually(t, "it is ready", func() bool { return started.Ready().Check(nil) == nil })
	for _, object := range controller.ObjectsOf[*policyv1alpha1.FieldPermissionMapping](started.Informers()[0]) {
		if object.ManagedFields != nil {
			t.Errorf("%s has managedFields, which no consumer reads", object.Name)
		}
	}
	eventually(t, "it observes the object", func() bool {
		return locked(c, func() bool { return strings.Join(c.observed, " ") == "one" })
	})
	eventually(t, "it writes the status", func() bool { return locked(c, func() bool { return c.writes > 0 }) })
}

// TestRetries checks that a status is written again after a conflict and after other errors, but not once the object is gone.
func TestRetries(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "things"}
	for _, tc := range []struct {
		name     string
		failures []error
		want     int
	}{
		{name: "conflict", failures: []error{apierrors.NewConflict(resource, "one", errors.New("changed"))}, want: 2},
		{name: "other errors", failures: []error{errors.New("lost"), errors.New("lost")}, want: 3},
		{name: "gone", failures: []error{apierrors.NewNotFound(resource, "one"), errors.New("must not be asked again")}, want: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &consumer{failures: tc.failures}
			start(t, c, time.Minute)
			eventually(t, "it writes the status", func() bool { return locked(c, func() bool { return c.writes >= tc.want }) })
			// The rate limiter's first delays are 5, 10 and 20 ms: a further write would come soon.
			time.Sleep(50 * time.Millisecond)
			if got := locked(c, func() int { return c.writes }); got != tc.want {
				t.Errorf("got %d writes, want %d", got, tc.want)
			}
		})
	}
}

// TestStoreIsLost checks that a store that cannot be read is reported although the watch connection stays open.
func TestStoreIsLost(t *testing.T) {
	t.Parallel()
	c := &consumer{}
	started := start(t, c, 20*time.Millisecond)
	eventually(t, "it is ready", func() bool { return started.Ready().Check(nil) == nil })
	lose := func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.probe = err
	}
	lose(errors.New("key /secret cannot be read"))
	eventually(t, "it is stale", func() bool { return c.Stale() != "" })
	if err := started.Ready().Check(nil); err == nil || !strings.HasPrefix(err.Error(), "the objects may be out of date: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want that the objects may be out of date, without the cause", err)
	}
	lose(nil)
	eventually(t, "it is ready again", func() bool { return c.Stale() == "" && started.Ready().Check(nil) == nil })
}

func TestNewNeedsEverything(t *testing.T) {
	t.Parallel()
	if _, err := controller.New(controller.Config[string]{Name: "test"}); err == nil || !strings.HasPrefix(err.Error(), "test: ") {
		t.Errorf("got %v, want an error that names the controller", err)
	}
}

// TestBrokenWatchIsNoticed checks that watch connections that are established, but break before they have delivered
// anything, count as a store that is out of reach. The probe does not show them.
func TestBrokenWatchIsNoticed(t *testing.T) {
	t.Parallel()
	c := &consumer{}
	list := func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		return &policyv1alpha1.FieldPermissionMappingList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
	}
	breaks := func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		w := watch.NewFakeWithChanSize(1, false)
		expired := apierrors.NewResourceExpired("too old").Status()
		w.Error(&expired)
		return w, nil
	}
	runWith(t, c, 50*time.Millisecond, list, breaks)
	eventually(t, "it is stale", func() bool { return c.Stale() != "" })
}

// functions are a controller.Client.
type functions struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func (c functions) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return c.list(ctx, options)
}

func (c functions) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.watch(ctx, options)
}

// TestProbesEveryKind lists objects of each kind that is followed, and finds out that one of the kinds cannot be listed.
func TestProbesEveryKind(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"", "clusterauthorizationpolicies", "authorizationpolicies"} {
		t.Run("without "+broken, func(t *testing.T) {
			t.Parallel()
			c, probed := &consumer{}, map[string]bool{}
			policies := fake.NewSimpleClientset()
			policies.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				// Without a selector, the store would answer in place of a watch cache that has stopped.
				if options := action.(clienttesting.ListActionImpl).ListOptions; options.Limit != 1 || options.LabelSelector == "" {
					return false, nil, nil
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				probed[action.GetResource().Resource] = action.GetNamespace() == ""
				return action.GetResource().Resource == broken, nil, errors.New("etcd is gone")
			})
			started, err := controller.New(controller.Config[string]{
				Name: "test", QueueName: "test_status", Objects: "the objects", Staleness: c, StalenessBound: 20 * time.Millisecond,
				End: c.end, Published: func() bool { return true }, Publish: func(context.Context) {}, WriteStatus: c.writeStatus,
			})
			if err != nil {
				t.Fatal(err)
			}
			of := policies.PolicyV1alpha1()
			if _, err := started.Follow(&policyv1alpha1.ClusterAuthorizationPolicy{}, clientstore.Of(of.ClusterAuthorizationPolicies(), c.currentRevision), func(any) {}); err != nil {
				t.Fatal(err)
			}
			if _, err := started.Follow(&policyv1alpha1.AuthorizationPolicy{}, clientstore.Of(of.AuthorizationPolicies(metav1.NamespaceAll), c.currentRevision), func(any) {}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); started.Run(ctx) }()
			t.Cleanup(func() { cancel(); <-done })
			eventually(t, "the kinds are probed", func() bool {
				return locked(c, func() bool {
					return probed["clusterauthorizationpolicies"] && (probed["authorizationpolicies"] || broken == "clusterauthorizationpolicies")
				})
			})
			eventually(t, "it is stale if a kind is broken", func() bool { return (c.Stale() != "") == (broken != "") })
		})
	}
}

// runWith runs a controller of what list and watch return until the test ends.
func runWith(t *testing.T, c *consumer, bound time.Duration, list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error),
) {
	t.Helper()
	started, err := controller.New(controller.Config[string]{
		Name: t.Name(), QueueName: "test_status", Objects: "the objects", Staleness: c, StalenessBound: bound,
		End:       c.end,
		Published: func() bool { return locked(c, func() bool { return c.published > 0 }) },
		Publish: func(context.Context) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.published++
		},
		WriteStatus: c.writeStatus,
	})
	if err != nil {
		t.Fatal(err)
	}
	probed := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		if options.Limit == 1 {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.probed++
		}
		return list(ctx, options)
	}
	if _, err := started.Follow(&policyv1alpha1.FieldPermissionMapping{}, clientstore.Of(functions{probed, watch}, c.currentRevision), func(any) {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); started.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// TestStaleObjects has a series for each controller: 1 while its objects are not loaded, or may be out of date.
func TestStaleObjects(t *testing.T) {
	t.Parallel()
	broken, c := atomic.Bool{}, &consumer{revision: 1}
	broken.Store(true)
	runWith(t, c, time.Minute, func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		if broken.Load() {
			return nil, errors.New("no etcd")
		}
		return &policyv1alpha1.FieldPermissionMappingList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
	}, func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil })
	is := func(want float64) func() bool {
		return func() bool {
			families, err := legacyregistry.DefaultGatherer.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				for _, series := range family.GetMetric() {
					if family.GetName() == "proviso_policy_stale" && series.GetLabel()[0].GetValue() == t.Name() {
						return series.GetGauge().GetValue() == want
					}
				}
			}
			return false
		}
	}
	eventually(t, "nothing is loaded", is(1))
	broken.Store(false)
	eventually(t, "the objects are up to date", is(0))
	c.SetStale("no news")
	eventually(t, "the objects may be out of date", is(1))
}

// TestProbesDoNotWaitForTheStore checks that a list of a probe ends before the watch cache would let the store answer, after three seconds, also where the
// bound leaves more time.
func TestProbesDoNotWaitForTheStore(t *testing.T) {
	t.Parallel()
	c, left := &consumer{}, make(chan time.Duration, 1)
	runWith(t, c, time.Minute, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		if deadline, ok := ctx.Deadline(); ok && options.Limit == 1 {
			select {
			case left <- time.Until(deadline):
			default:
			}
		}
		return &policyv1alpha1.FieldPermissionMappingList{}, nil
	}, func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil })
	select {
	case got := <-left:
		if got > 2*time.Second {
			t.Errorf("a probe may take %s, want two seconds at most", got)
		}
	case <-time.After(wait.ForeverTestTimeout):
		t.Error("no probe has a deadline")
	}
}

// TestStoreGoesBack checks that a store that has gone back to an earlier revision makes the objects stale for ever, and
// ends the process, although it can be read and the watch connection stays open.
func TestStoreGoesBack(t *testing.T) {
	t.Parallel()
	c := &consumer{revision: 20}
	started := start(t, c, 20*time.Millisecond)
	eventually(t, "it is ready", func() bool { return started.Ready().Check(nil) == nil })
	eventually(t, "it has seen a later revision", func() bool {
		c.setRevision(30)
		return locked(c, func() bool { return c.asked >= 3 })
	})
	if reason := c.Stale(); reason != "" {
		t.Fatalf("the revision grows: got %q, want that the objects are up to date", reason)
	}
	c.setRevision(25)
	eventually(t, "the process ends", func() bool { return locked(c, func() bool { return len(c.ended) > 0 }) })
	if err := started.Ready().Check(nil); err == nil || !strings.Contains(err.Error(), "earlier revision") || !strings.Contains(err.Error(), "restart the server") {
		t.Errorf("got %v, want that the store has gone back to an earlier revision", err)
	}
	// The store is written to, and its revision grows: what has been missed stays missed.
	c.setRevision(40)
	asked := locked(c, func() int { return c.asked })
	time.Sleep(50 * time.Millisecond)
	if got := locked(c, func() int { return c.asked }); got > asked+1 || c.Stale() == "" {
		t.Errorf("got %d more calls and %q, want that the objects stay stale", got-asked, c.Stale())
	}
	if ended := locked(c, func() []error { return c.ended }); len(ended) != 1 || !strings.Contains(ended[0].Error(), "the objects: ") {
		t.Errorf("got %v, want one error that names the objects", ended)
	}
}

// TestStoreIsBehindAnInformer checks that a store whose revision is lower than what an informer has seen is noticed by the
// first check.
func TestStoreIsBehindAnInformer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, seen string
		revision   uint64
		want       bool // that the process ends
	}{
		{name: "behind", seen: "31", revision: 30, want: true},
		{name: "equal", seen: "30", revision: 30},
		{name: "ahead", seen: "29", revision: 30},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &consumer{revision: tc.revision}
			runWith(t, c, time.Minute, func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &policyv1alpha1.FieldPermissionMappingList{ListMeta: metav1.ListMeta{ResourceVersion: tc.seen}}, nil
			}, func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil })
			eventually(t, "it has been asked", func() bool { return locked(c, func() bool { return c.probed > 0 || len(c.ended) > 0 }) })
			if ended := locked(c, func() bool { return len(c.ended) > 0 }); ended != tc.want || (c.Stale() != "") != tc.want {
				t.Errorf("the process ends: %v, stale: %q; want %v", ended, c.Stale(), tc.want)
			}
		})
	}
}

// TestUnknownRevisions checks that objects become stale if the revision of the store, or of an informer, is not known.
func TestUnknownRevisions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*consumer{
		"the store does not answer":       {noRevision: errors.New("no answer")},
		"the informer has seen no number": {version: "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runWith(t, c, 20*time.Millisecond, func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &policyv1alpha1.FieldPermissionMappingList{ListMeta: metav1.ListMeta{ResourceVersion: max(c.version, "1")}}, nil
			}, func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil })
			eventually(t, "it is stale", func() bool { return c.Stale() != "" })
			if ended := locked(c, func() []error { return c.ended }); len(ended) > 0 {
				t.Errorf("the process ends: %v", ended)
			}
		})
	}
}

// TestChecksThatStopAreNoticed checks that objects become stale if no check ends any more, as while the process stands still:
// nothing is left then that could say so.
func TestChecksThatStopAreNoticed(t *testing.T) {
	t.Parallel()
	c := &consumer{}
	started := start(t, c, 20*time.Millisecond)
	eventually(t, "it is ready", func() bool { return started.Ready().Check(nil) == nil })
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	c.mu.Lock()
	c.standStill = stop
	c.mu.Unlock()
	eventually(t, "it is stale", func() bool { return c.Stale() != "" })
	if err := started.Ready().Check(nil); err == nil || !strings.Contains(err.Error(), "the store has not been checked successfully for more than 20ms") {
		t.Errorf("got %v, want that the store has not been checked successfully", err)
	}
}
