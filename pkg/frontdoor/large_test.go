/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
)

// The bounds of the front door, as docs/doors.md has them.
const (
	mostLarge     = 8
	mostOfOneUser = 2
	mostWaiting   = 6
	mostBuffers   = 32
	slotTimeout   = 500 * time.Millisecond
	answerTimeout = 1500 * time.Millisecond
	pastDeadline  = answerTimeout + time.Millisecond
	largeBytes    = 8<<10 + 1
	reasonNoSlot  = "too many large requests at the same time: try again later, or use a shorter selector"
	reasonPanic   = "the front door of Proviso failed: its log says where"
	reasonTooLate = "the policies did not decide in time: try again later"
)

// bubble is a front door without network, for tests whose clock is that of synctest: their time
// passes only when every goroutine waits.
type bubble struct {
	handler http.Handler
	client  *tls.ConnectionState
	// open ends the decisions on objects with the name held.
	open chan struct{}
}

// The names of objects whose evaluation by the policies takes longer, or fails.
const (
	held    = "held"
	panics  = "panics"
	tooSlow = "too-slow"
	// slowInNamespace is evaluated for longer than the policies of a namespace may take.
	slowInNamespace = "slow-in-namespace"
	// panicsLate panics after the deadline.
	panicsLate = "panics-late"
	// elsewhere is evaluated at once. Whether it is enforced is known too late.
	elsewhere = "elsewhere"
)

// readsUID has the front door evaluate a condition that reads the UID of the user, and is false.
var readsUID = policy{effect: deny, everyone: true, condition: `request.userInfo.uid == "never"`}

// during calls a function while a condition is evaluated.
type during struct {
	authorizer.Attributes
	evaluation func()
}

// GetUser returns a user whose UID conditions read.
func (d during) GetUser() user.Info { return uidHook{d.Attributes.GetUser(), d.evaluation} }

// panicking panics where policies are matched. CEL would make an error of a panic.
type panicking struct {
	authorizer.Attributes
	after time.Duration
}

// GetVerb panics.
func (p panicking) GetVerb() string {
	time.Sleep(p.after)
	panic("secret")
}

// evaluated returns the attributes of a request, whose evaluation takes as long as its name says.
func (b *bubble) evaluated(a authorizer.Attributes) authorizer.Attributes {
	switch a.GetName() {
	case held:
		return during{a, func() { <-b.open }}
	case tooSlow:
		return during{a, func() { time.Sleep(pastDeadline) }}
	case slowInNamespace:
		var once sync.Once
		return during{a, func() { once.Do(func() { time.Sleep(2 * namespaceTimeout) }) }}
	case heldInAudit:
		return selecting{a, func() { <-b.open }}
	case panics:
		return panicking{a, 0}
	case panicsLate:
		return panicking{a, pastDeadline}
	}
	return a
}

func newBubble(t *testing.T, policies map[string]policy) *bubble {
	t.Helper()
	return newBubbleAsking(t, policies, nil)
}

// newBubbleAsking is newBubble for a front door that asks for permission on fields.
func newBubbleAsking(t *testing.T, policies map[string]policy, fields *frontdoor.Fields) *bubble {
	t.Helper()
	return newBubbleWith(t, policies, fields, nil)
}

// newBubbleWith is newBubbleAsking for a front door with authorizers after the policies.
func newBubbleWith(t *testing.T, policies map[string]policy, fields *frontdoor.Fields, after *authorization.Chain) *bubble {
	t.Helper()
	b := &bubble{open: make(chan struct{})}
	all := map[string]policy{"reads-uid": readsUID}
	maps.Copy(all, policies)
	source := publish(t, all)
	door, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, AfterPolicies: after, Fields: fields, Places: places{enforces: func(a authorizer.Attributes) bool {
		if a.GetName() == elsewhere {
			time.Sleep(pastDeadline)
		}
		return a.GetName() != elsewhere
	}}.table()})
	if err != nil {
		t.Fatal(err)
	}
	ca := newAuthority(t, "ca")
	content, err := os.ReadFile(ca.Files().Cert)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := dynamiccertificates.NewStaticCAContent("clients", content)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Client("client", "kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := frontdoor.NewClients(provider.VerifyOptions, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.handler, b.client = frontdoor.NewHandlerChanging(door, clients, b.evaluated), &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate.Leaf}}
	return b
}

// reply is how a request ended.
type reply struct {
	code   int
	status authorizationv1.SubjectAccessReviewStatus
	after  time.Duration
}

func (r reply) String() string { return fmt.Sprintf("%d %+v after %s", r.code, r.status, r.after) }

// send sends a request and returns at once.
func (b *bubble) send(t *testing.T, r *http.Request) <-chan reply {
	t.Helper()
	replies := make(chan reply, 1)
	r.TLS = b.client
	go func() {
		started, recorder := time.Now(), httptest.NewRecorder()
		b.handler.ServeHTTP(recorder, r)
		var review authorizationv1.SubjectAccessReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil && recorder.Code == http.StatusOK {
			t.Error(err)
		}
		replies <- reply{recorder.Code, review.Status, time.Since(started)}
	}()
	return replies
}

// review is a request about an object, with at least so many bytes.
func review(user, object string, bytes int) *http.Request {
	return post(reviewBody(user, "", object, bytes))
}

func reviewBody(user, namespace, object string, bytes int) string {
	return fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": %q, "uid": %q, "groups": ["system:authenticated"],
	  "resourceAttributes": {"verb": "get", "version": "v1", "resource": "configmaps", "namespace": %q, "name": %q}}}`, user, strings.Repeat("x", bytes), namespace, object)
}

// ask waits for the answer to a large review, and to a small one.
func (b *bubble) ask(t *testing.T, user, object string) reply {
	t.Helper()
	return <-b.send(t, review(user, object, largeBytes))
}

func (b *bubble) askSmall(t *testing.T, user, object string) reply {
	t.Helper()
	return <-b.send(t, review(user, object, 0))
}

// hold sends large reviews of a user that are not decided before b.open is closed, and waits
// until each has its slot, waits for one, or is answered.
func (b *bubble) hold(t *testing.T, user string, count int) []<-chan reply {
	t.Helper()
	return b.holdSized(t, user, count, largeBytes)
}

// holdSized is hold for reviews of a size.
func (b *bubble) holdSized(t *testing.T, user string, count, bytes int) []<-chan reply {
	t.Helper()
	var replies []<-chan reply
	for range count {
		replies = append(replies, b.send(t, review(user, held, bytes)))
	}
	synctest.Wait()
	return replies
}

func wantNoOpinion(t *testing.T, what string, got reply, after time.Duration) {
	t.Helper()
	if got.code != http.StatusOK || got.status.Denied || got.status.Allowed || got.after != after {
		t.Errorf("%s: got %s, want no opinion after %s", what, got, after)
	}
}

func wantDenied(t *testing.T, what string, got reply, reason string, after time.Duration) {
	t.Helper()
	if got.code != http.StatusOK || !got.status.Denied || got.status.Allowed || got.status.Reason != reason || got.after != after {
		t.Errorf("%s: got %s, want denied after %s: %s", what, got, after, reason)
	}
}

// TestLargeReviewWithoutSlotIsDenied holds every slot: one more large review gets an answer, which
// is no error, and small ones do not wait.
func TestLargeReviewWithoutSlotIsDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		var replies []<-chan reply
		for i := range mostLarge / mostOfOneUser {
			replies = append(replies, b.hold(t, fmt.Sprint("user-", i), mostOfOneUser)...)
		}
		wantDenied(t, "one more large review", b.ask(t, "alice", "c"), reasonNoSlot, slotTimeout)
		wantNoOpinion(t, "a small review", b.askSmall(t, "alice", "c"), 0)
		wantNoOpinion(t, "a small review of one who has slots", b.askSmall(t, "user-0", "c"), 0)
		close(b.open)
		for _, replied := range replies {
			wantNoOpinion(t, "one that had a slot", <-replied, slotTimeout)
		}
		wantNoOpinion(t, "a large review afterwards", b.ask(t, "alice", "c"), 0)
	})
}

// TestLargeReviewsOfOneUser asks that one user has a share of the slots, and that a flood denies
// only its sender.
func TestLargeReviewsOfOneUser(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		sent      int
		wantSlots int // decided once they are let go
		wantLater int // denied after the time for which they may wait
		wantNow   int // denied at once
	}{
		{name: "as many as may be decided", sent: mostOfOneUser, wantSlots: mostOfOneUser},
		{name: "a third one", sent: mostOfOneUser + 1, wantSlots: mostOfOneUser, wantLater: 1},
		{name: "as many as may wait", sent: mostOfOneUser + mostWaiting, wantSlots: mostOfOneUser, wantLater: mostWaiting},
		{name: "a flood", sent: 400, wantSlots: mostOfOneUser, wantLater: mostWaiting, wantNow: 400 - mostOfOneUser - mostWaiting},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, nil)
				replies := b.hold(t, "alice", tc.sent)
				wantNoOpinion(t, "a large review of another user", b.ask(t, "bob", "c"), 0)
				wantNoOpinion(t, "a small review of the same user", b.askSmall(t, "alice", "c"), 0)
				time.Sleep(slotTimeout)
				synctest.Wait()
				close(b.open)
				counts := map[time.Duration]int{}
				slots := 0
				for _, replied := range replies {
					switch got := <-replied; {
					case got.status.Reason == reasonNoSlot && got.status.Denied:
						counts[got.after]++
					case got.code == http.StatusOK && !got.status.Denied:
						slots++
					default:
						t.Errorf("got %s", got)
					}
				}
				if slots != tc.wantSlots || counts[slotTimeout] != tc.wantLater || counts[0] != tc.wantNow || len(replies) != tc.wantSlots+tc.wantLater+tc.wantNow {
					t.Errorf("got %d decided and denied %v, want %d decided, %d denied after waiting and %d at once", slots, counts, tc.wantSlots, tc.wantLater, tc.wantNow)
				}
				wantNoOpinion(t, "a large review afterwards", b.ask(t, "alice", "c"), 0)
			})
		})
	}
}

// TestLargeReviewWaitsForASlot asks that a slot which becomes free in time is used.
func TestLargeReviewWaitsForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, never)
		b.hold(t, "bob", mostOfOneUser)
		third := b.send(t, review("bob", "c", largeBytes))
		time.Sleep(slotTimeout - time.Millisecond)
		close(b.open)
		wantNoOpinion(t, "a third review", <-third, slotTimeout-time.Millisecond)
		wantDenied(t, "what a policy denies", b.ask(t, "alice", "c"), `policy=p reason=Denied: it denies the request`, 0)
	})
}

// TestSlotsAreFreed has more large reviews end in some way than there are slots and buffers.
func TestSlotsAreFreed(t *testing.T) {
	t.Parallel()
	withBody := func(body io.Reader) *http.Request {
		r := post("")
		r.Body, r.ContentLength = io.NopCloser(body), -1
		return r
	}
	for _, tc := range []struct {
		name    string
		request func(*testing.T) *http.Request
		want    int
		reason  string
	}{
		{name: "a panic", request: func(*testing.T) *http.Request { return review("alice", panics, largeBytes) }, want: 200, reason: reasonPanic},
		{name: "a decision that is too slow", request: func(*testing.T) *http.Request { return review("alice", tooSlow, largeBytes) }, want: 200, reason: reasonTooLate},
		{name: "a body that ends early", request: func(*testing.T) *http.Request {
			return withBody(io.MultiReader(strings.NewReader(strings.Repeat(" ", largeBytes)), errReader{}))
		}, want: 400},
		{name: "a body that panics when it is read", request: func(*testing.T) *http.Request { return withBody(panicReader{}) }, want: 200, reason: reasonPanic},
		{name: "a body that does not come in time", request: func(*testing.T) *http.Request { return withBody(lateReader{}) }, want: 200, reason: reasonTooLate},
		{name: "a body that is no review", request: func(*testing.T) *http.Request { return withBody(strings.NewReader("x")) }, want: 400},
		{name: "a body that is longer than it may be", request: func(*testing.T) *http.Request { return withBody(strings.NewReader(strings.Repeat(" ", 2<<20))) }, want: 200, reason: tooLong.Reason},
		{name: "a client that is gone", request: func(t *testing.T) *http.Request {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return review("alice", "c", largeBytes).WithContext(ctx)
		}, want: 200, reason: `policy=reads-uid reason=Error: its condition could not be evaluated: the time was up`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, nil)
				for range mostBuffers + 1 {
					if got := <-b.send(t, tc.request(t)); got.code != tc.want || got.status.Reason != tc.reason || got.status.Denied != (tc.reason != "") {
						t.Fatalf("got %s, want %d %s", got, tc.want, tc.reason)
					}
				}
				time.Sleep(pastDeadline) // until the last evaluation ends
				wantNoOpinion(t, "a large review afterwards", b.ask(t, "alice", "c"), 0)
			})
		})
	}
}

// panicReader panics.
type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("secret") }

// lateReader is a body that does not come before the deadline.
type lateReader struct{}

func (lateReader) Read([]byte) (int, error) {
	return 0, fmt.Errorf("reading: %w", os.ErrDeadlineExceeded)
}

// TestBuffersAreBounded holds as many large bodies open as may be in memory. One more is denied,
// and small reviews do not wait.
func TestBuffersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		var writers []*io.PipeWriter
		var replies []<-chan reply
		for range mostBuffers {
			reader, writer := io.Pipe()
			r := post("")
			r.Body, r.ContentLength = reader, largeBytes
			writers, replies = append(writers, writer), append(replies, b.send(t, r))
		}
		synctest.Wait()
		wantDenied(t, "one more large review", b.ask(t, "alice", "c"), reasonNoSlot, slotTimeout)
		wantNoOpinion(t, "a small review", b.askSmall(t, "alice", "c"), 0)
		for i, writer := range writers {
			if _, err := io.WriteString(writer, reviewJSON); err != nil {
				t.Fatal(err)
			}
			_ = writer.Close()
			wantNoOpinion(t, "one that was read slowly", <-replies[i], slotTimeout)
		}
		wantNoOpinion(t, "a large review afterwards", b.ask(t, "alice", "c"), 0)
	})
}

// TestDecisionThatDoesNotEndIsDenied has the policies evaluate a request for longer than any
// client waits. The answer comes at the deadline, and the evaluation keeps its slot until it ends.
func TestDecisionThatDoesNotEndIsDenied(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]int{"a small review": 0, "a large review": largeBytes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, nil)
				ended := time.AfterFunc(time.Hour, func() { close(b.open) })
				wantDenied(t, "an evaluation that does not end", <-b.send(t, review("alice", held, bytes)), reasonTooLate, answerTimeout)
				if !ended.Stop() {
					t.Fatal("the answer came after the evaluation")
				}
				close(b.open)
			})
		})
	}
}

// TestSlotIsKeptUntilTheEvaluationEnds asks that an evaluation keeps its slot after its review was
// answered at the deadline: otherwise the sender could start evaluations without a bound.
func TestSlotIsKeptUntilTheEvaluationEnds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		bytes, most int
		reason      string
	}{
		{name: "large reviews", bytes: largeBytes, most: mostOfOneUser, reason: reasonNoSlot},
		{name: "small reviews", most: mostEvaluationsOfOneUser(), reason: reasonBusy},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, nil)
				ask := func(user string) reply { return <-b.send(t, review(user, "c", tc.bytes)) }
				for _, replied := range b.holdSized(t, "alice", tc.most, tc.bytes) {
					wantDenied(t, "an evaluation that does not end", <-replied, reasonTooLate, answerTimeout)
				}
				wantDenied(t, "one more", ask("alice"), tc.reason, slotTimeout)
				wantNoOpinion(t, "one of another user", ask("bob"), 0)
				close(b.open)
				synctest.Wait()
				wantNoOpinion(t, "one more once they have ended", ask("alice"), 0)
			})
		})
	}
}

// TestLatePanicIsContained asks that a panic after the answer does not end the process, and
// frees the slot.
func TestLatePanicIsContained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		for range mostOfOneUser + 1 {
			wantDenied(t, "an evaluation that panics late", b.ask(t, "alice", panicsLate), reasonTooLate, answerTimeout)
			time.Sleep(2 * time.Millisecond)
		}
		wantNoOpinion(t, "one more", b.ask(t, "alice", "c"), 0)
	})
}

// TestLateDecisionIsDenied asks that a decision which is too late is denied, since RBAC might
// allow the request otherwise.
func TestLateDecisionIsDenied(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		policies map[string]policy
		query    string
		object   string
		want     string
	}{
		{name: "in time", object: "c"},
		{name: "too late", object: tooSlow, want: reasonTooLate},
		{name: "Allow, too late", policies: onCondition, object: tooSlow, want: reasonTooLate},
		{name: "Deny, too late", policies: unlessIt, object: elsewhere, want: reasonTooLate},
		{name: "too late for a client that does not wait long", query: "?timeout=1s", object: tooSlow, want: reasonTooLate},
		{name: "too late for a client that waits long", query: "?timeout=30s", object: tooSlow, want: reasonTooLate},
		{name: "too late for a client that says nonsense", query: "?timeout=-1s&timeout=x", object: tooSlow, want: reasonTooLate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := review("alice", tc.object, 0)
				r.URL.RawQuery = strings.TrimPrefix(tc.query, "?")
				got := <-newBubble(t, tc.policies).send(t, r)
				if got.code != http.StatusOK || got.status.Allowed || got.status.Denied != (tc.want != "") || got.status.Reason != tc.want {
					t.Errorf("got %s, want %q", got, tc.want)
				}
				time.Sleep(pastDeadline) // until the evaluation ends
			})
		})
	}
}

// TestClientSaysHowLongItWaits asks that a review waits for a slot for a third of its time at most,
// so that time is left to decide it.
func TestClientSaysHowLongItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		b.hold(t, "alice", mostOfOneUser)
		for query, want := range map[string]time.Duration{"timeout=300ms": 50 * time.Millisecond, "timeout=3s": slotTimeout, "timeout=x": slotTimeout, "timeout=0s": slotTimeout, "": slotTimeout} {
			r := review("alice", "c", largeBytes)
			r.URL.RawQuery = query
			wantDenied(t, query, <-b.send(t, r), reasonNoSlot, want)
		}
		close(b.open)
	})
}
