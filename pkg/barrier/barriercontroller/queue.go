/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// The rates bound how fast policies are compiled and written, so that an author who changes many policies slows the own namespace
// only. kube-apiserver compiles a written barrier on each server, in about a millisecond for each clause.
const (
	// policyInterval is the least time between two writes of the barrier of one policy.
	policyInterval = time.Second
	// namespaceRate is the number of writes a second for policies of one namespace, after a burst of namespaceBurst.
	namespaceRate, namespaceBurst = 10, 20
	// totalRate is the number of writes a second, after a burst of totalBurst.
	totalRate, totalBurst = 50, 100
)

// The delays of a retry. A refused barrier is tried again because kube-apiserver may be another version by then.
const (
	firstRetry, lastRetry = 250 * time.Millisecond, time.Minute
)

// queues has the queue of cluster-scoped policies and mappings, and the queues of namespaces. Each queue has one worker: policies that share a bound are
// compared with it one after another, and cluster-scoped policies do not wait for those of namespaces.
type queues [1 + namespaceQueues]workqueue.TypedRateLimitingInterface[Key]

// namespaceQueues is the number of queues of namespaces. A barrier needs eight requests, each of which waits for a store.
const namespaceQueues = 4

func newQueues(c clock.WithTicker) (q queues) {
	const name = "barriers"
	for i := range q {
		fair := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Name: name, Clock: c, Queue: &turns{keys: map[string][]Key{}}})
		delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Name: name, Clock: c, Queue: fair})
		q[i] = workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.NewTypedItemExponentialFailureRateLimiter[Key](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[Key]{Name: name, Clock: c, DelayingQueue: delaying})
	}
	return q
}

// of returns the queue of a policy or a mapping. All keys of one namespace have the same queue.
func (q *queues) of(key Key) workqueue.TypedRateLimitingInterface[Key] {
	if key.Namespace == "" {
		return q[0]
	}
	hash := fnv.New32a()
	hash.Write([]byte(key.Namespace))
	return q[1+hash.Sum32()%namespaceQueues]
}

func (q *queues) Add(key Key) { q.of(key).Add(key) }

func (q *queues) AddAfter(key Key, delay time.Duration) { q.of(key).AddAfter(key, delay) }

func (q *queues) ShutDown() {
	for _, queue := range q {
		queue.ShutDown()
	}
}

// turns hands out one key of each namespace in turn. It implements workqueue.Queue.
type turns struct {
	keys map[string][]Key
	// order has the namespaces with keys. The first is the next.
	order []string
	size  int
}

var _ workqueue.Queue[Key] = &turns{}

func (t *turns) Touch(Key) {}

func (t *turns) Push(key Key) {
	if len(t.keys[key.Namespace]) == 0 {
		t.order = append(t.order, key.Namespace)
	}
	t.keys[key.Namespace] = append(t.keys[key.Namespace], key)
	t.size++
}

func (t *turns) Len() int { return t.size }

func (t *turns) Pop() Key {
	namespace := t.order[0]
	t.order = t.order[1:]
	keys := t.keys[namespace]
	t.size--
	if len(keys) == 1 {
		delete(t.keys, namespace)
		return keys[0]
	}
	t.keys[namespace] = keys[1:]
	t.order = append(t.order, namespace)
	return keys[0]
}

// pace bounds the rates of writes. Its methods may be called concurrently.
type pace struct {
	clock clock.PassiveClock
	total flowcontrol.PassiveRateLimiter

	mu         sync.Mutex
	written    map[Key]time.Time
	namespaces map[string]flowcontrol.PassiveRateLimiter
}

func newPace(c clock.PassiveClock) *pace {
	return &pace{
		clock: c, total: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(totalRate, totalBurst, c),
		written: map[Key]time.Time{}, namespaces: map[string]flowcontrol.PassiveRateLimiter{},
	}
}

// wait returns how long a write must wait, and 0 if it may begin. It counts the write in that case.
func (p *pace) wait(key Key) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.written[key]; ok {
		//guard:barriers-interval-one-policy
		if left := policyInterval - p.clock.Since(last); left > 0 {
			return left
		}
	}
	limiter := p.namespaces[key.Namespace]
	if limiter == nil {
		limiter = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(namespaceRate, namespaceBurst, p.clock)
		if key.Namespace == "" { // cluster-scoped policies have administrators as authors
			limiter = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(totalRate, totalBurst, p.clock)
		}
		p.namespaces[key.Namespace] = limiter
	}
	if !limiter.TryAccept() {
		return time.Second / namespaceRate
	}
	if !p.total.TryAccept() {
		return time.Second / totalRate
	}
	p.written[key] = p.clock.Now()
	return 0
}

// giveBack lets the next write for a key begin at once, because this one wrote nothing. It still counts for the rates.
func (p *pace) giveBack(key Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, key)
}

// purge forgets what has no effect any more. It may be called once in a minute: it gives each namespace a new burst.
func (p *pace) purge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, last := range p.written {
		if p.clock.Since(last) >= policyInterval {
			delete(p.written, key)
		}
	}
	clear(p.namespaces)
}
