/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/proviso-authz/proviso/pkg/registry/stored"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/store"
)

// author returns the context of a request by USER/NAMESPACE. Either may be missing.
func author(ctx context.Context, text string) context.Context {
	name, namespace, _ := strings.Cut(text, "/")
	if name != "" {
		ctx = genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: name})
	}
	if namespace != "" {
		ctx = genericapirequest.WithNamespace(ctx, namespace)
	}
	return ctx
}

// TestWritesAtOnce checks which writes begin while others have begun.
func TestWritesAtOnce(t *testing.T) {
	t.Parallel()
	type row struct {
		Namespaced bool
		Begun      []string
		Next       string
		Want       bool
	}
	rows.Run(t, "testdata/writes.yaml", func(t *testing.T, tc row) {
		begin := stored.NewWrites("things", tc.Namespaced)
		ended, cancel := context.WithCancel(t.Context())
		cancel() // a write that cannot begin at once does not wait
		var ends []func()
		for _, text := range tc.Begun {
			end, err := begin(author(t.Context(), text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			ends = append(ends, end)
		}
		end, err := begin(author(ended, tc.Next))
		if got := err == nil; got != tc.Want || got != (end != nil) {
			t.Errorf("%s: got %v, want it to begin: %v", tc.Next, err, tc.Want)
		}
		if err != nil {
			checkRefusal(t, err)
			for _, end := range ends {
				end()
			}
			if _, err := begin(author(ended, tc.Next)); err != nil {
				t.Errorf("after the others have ended: %v", err)
			}
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	after, ok := apierrors.SuggestsClientDelay(err)
	if !apierrors.IsTooManyRequests(err) || !ok || after != 1 || store.MessageOf(err) != "too many things are being written: try again later" {
		t.Errorf("got %v, after %d, want 429 with a delay of a second", err, after)
	}
}

// TestWritesWait checks how long a write waits for another one, and that it begins when the other one ends.
func TestWritesWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		after time.Duration // until the other write ends
		limit time.Duration // of the request; none if zero
		want  time.Duration
		began bool
	}{
		{"until the other one ends", 9 * time.Second, 0, 9 * time.Second, true},
		{"too long", time.Hour, 0, 10 * time.Second, false},
		{"until the request ends", time.Hour, 3 * time.Second, 3 * time.Second, false},
		{"in a request with more time", time.Hour, time.Minute, 10 * time.Second, false},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := stored.NewWrites("things", false)
				for range 2 {
					end, err := begin(author(t.Context(), "a"))
					if err != nil {
						t.Fatal(err)
					}
					time.AfterFunc(tc.after, end)
				}
				ctx := author(t.Context(), "a")
				if tc.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.limit)
					defer cancel()
				}
				start := time.Now()
				_, err := begin(ctx)
				if waited := time.Since(start); waited != tc.want || (err == nil) != tc.began {
					t.Errorf("waited %s and got %v, want %s, and that it begins: %v", waited, err, tc.want, tc.began)
				}
				if err != nil {
					checkRefusal(t, err)
				}
			})
		})
	}
}

// TestWritesThatWait checks how many writes wait. The others are refused at once, and those that wait begin in the end.
func TestWritesThatWait(t *testing.T) {
	t.Parallel()
	users := func(n, each int) (texts []string) {
		for i := range n {
			texts = append(texts, slices.Repeat([]string{fmt.Sprintf("u%d", i)}, each)...)
		}
		return texts
	}
	inNamespaces := func(n, each int) (texts []string) {
		for i := range n {
			texts = append(texts, slices.Repeat([]string{fmt.Sprintf("a/n%d", i)}, each)...)
		}
		return texts
	}
	for _, tc := range []struct {
		name       string
		namespaced bool
		sent       []string
		refused    int
		next       string
		want       bool
	}{
		{"of one user", false, slices.Repeat([]string{"a"}, 2+32), 0, "b", true},
		{"too many of one user", false, slices.Repeat([]string{"a"}, 2+32+5), 5, "b", true},
		{"of all", false, users(8, 32), 0, "b", true},
		{"too many of all", false, users(9, 32), 9*32 - 8 - 256, "b", false},
		{"namespaced: too many of one user in a namespace", true, inNamespaces(1, 2+32+5), 5, "a/m", true},
		{"namespaced: too many of one user", true, inNamespaces(5, 32), 160 - 4 - 128, "b/m", true},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := stored.NewWrites("things", tc.namespaced)
				open := make(chan struct{})
				var began, refused atomic.Int64
				for _, text := range tc.sent {
					go func() {
						end, err := begin(author(t.Context(), text))
						if err != nil {
							refused.Add(1)
							return
						}
						<-open
						end()
						began.Add(1)
					}()
				}
				synctest.Wait() // no time passes
				if got := int(refused.Load()); got != tc.refused {
					t.Errorf("refused %d of %d, want %d", got, len(tc.sent), tc.refused)
				}
				var next atomic.Bool
				go func() {
					end, err := begin(author(t.Context(), tc.next))
					if err == nil {
						end()
					}
					next.Store(err == nil)
				}()
				synctest.Wait()
				close(open)
				synctest.Wait()
				if got := next.Load(); got != tc.want {
					t.Errorf("%s: it began: %v, want %v", tc.next, got, tc.want)
				}
				if got := int(began.Load()); got != len(tc.sent)-tc.refused {
					t.Errorf("%d writes began, want %d", got, len(tc.sent)-tc.refused)
				}
			})
		})
	}
}
