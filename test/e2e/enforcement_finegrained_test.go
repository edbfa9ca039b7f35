/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// TestFineGrainedChangesNothing has the gate FineGrainedAuthorization on, also behind the
// front door, without mappings, and makes the requests of the table through kube-apiserver, asks the
// reviews of the examples and applies their policies: everything ends as it does with the
// gate off. Besides, what is asked in reviews about each request of the table is answered as
// by a server with the gate off. It tries a third of the sets, or all with all cases: TestFields has the gate on for many more requests.
func TestFineGrainedChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFine(t)
	offURL, stop, err := f.Replica(t.Context())
	t.Cleanup(stop)
	must(t, err)
	on := &table{sets: readTable(t), kube: f.kube, clients: map[string]versioned.Interface{}, oracle: newOracle(t, f.kube)}
	on.proviso = f.as(t, "admin-direct", "")
	off := &table{kube: f.kube, proviso: f.as(t, "admin-direct", offURL)}
	for _, user := range []string{"alice", "bob", "carol"} {
		for _, route := range routes { // bob reviews the requests of others on the other one
			on.clients[user+route.suffix] = f.as(t, user+route.suffix, "")
		}
	}
	sets := cases.Sample(on.sets, 3)
	var requests, reviews atomic.Int32
	t.Run("sets", func(t *testing.T) {
		for _, set := range sets {
			t.Run(set.Set, func(t *testing.T) {
				t.Parallel()
				set.Rows = slices.DeleteFunc(set.Rows, func(row *tableRow) bool {
					return row.By == "kubectl" && row.Do == "client-apply" // sends what it finds out only then
				})
				for _, row := range set.Rows {
					row.By = ""
				}
				on.install(t, set)
				off.install(t, set)
				// The rows wait for the servers, and do not need each other.
				var ways sync.WaitGroup
				ways.Go(func() {
					for _, row := range set.Rows {
						c := &tableCase{tableRow: row, set: set, route: "kube"}
						t.Run("kube/"+row.Name, func(t *testing.T) { on.run(t, c, row.As) })
						requests.Add(1)
					}
				})
				ways.Go(func() {
					for _, row := range set.Rows {
						c := &tableCase{tableRow: row, set: set, route: "reviews"}
						t.Run("reviews/"+row.Name, func(t *testing.T) { reviews.Add(int32(compareReviews(t, c, off, on))) })
					}
				})
				ways.Wait()
			})
		}
		t.Run("examples", func(t *testing.T) {
			t.Parallel()
			f.checkExamples(t)
		})
	})
	t.Logf("%d requests, %d reviews", requests.Load(), reviews.Load())
	if want := int32(300 * len(sets) / len(on.sets) / 2); requests.Load() < want || reviews.Load() < 3*want {
		t.Errorf("%d requests and %d reviews prove little", requests.Load(), reviews.Load())
	}
}

// compareReviews asks two servers about a row in every mode, and returns how often.
func compareReviews(t *testing.T, c *tableCase, off, on *table) (reviews int) {
	t.Helper()
	modes := []authorizationv1alpha1.ConditionsMode{"", authorizationv1alpha1.ConditionsModeHumanReadable, authorizationv1alpha1.ConditionsModeOptimized}
	for _, mode := range modes {
		conditional := &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: mode}
		if mode == "" {
			conditional = nil
		}
		attributes := c.attributes(admitted{subresource: c.Sub}, c.firstCheck())
		if diff := cmp.Diff(off.askAdmin(t, c, attributes, conditional), on.askAdmin(t, c, attributes, conditional)); diff != "" {
			t.Errorf("the answer to a review in mode %q (-off +on):\n%s", mode, diff)
		}
	}
	return len(modes)
}

// as is a client in a context of the cluster, or of another server with the same users.
func (f *fine) as(t *testing.T, user, url string) versioned.Interface {
	t.Helper()
	c := f.config(t, user)
	if url != "" {
		c.Host = url
	}
	client, err := versioned.NewForConfig(c)
	must(t, err)
	return client
}

// checkExamples compares what becomes of the examples with their golden files, which are
// those of a server with the gate off.
func (f *fine) checkExamples(t *testing.T) {
	t.Helper()
	mustRun := func(user string, args ...string) string {
		t.Helper()
		out, errs, err := f.run(t, user, "", "", args...)
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, errs)
		}
		return out
	}
	reviews := examples(t)
	for _, user := range []string{"alice", "alice-direct"} {
		compareDocuments(t, reviews, mustRun(user, fromFiles(reviews, "create", "-o", "yaml")...))
	}
	about := func(file string) bool { return strings.HasPrefix(filepath.Base(file), "self-") }
	others := len(slices.DeleteFunc(slices.Clone(reviews), about))
	for _, user := range []string{"carol", "carol-direct"} {
		out, errs, _ := f.run(t, user, "", "", fromFiles(reviews, "create", "-o", "name")...)
		if got := strings.Count(errs, "(Forbidden)"); got != others || strings.Count(out, "\n") != len(reviews)-others || strings.Count(out, "selfsubjectaccessreview.") != len(reviews)-others {
			t.Errorf("%s was refused %d reviews, want %d, and those about herself alone allowed: %s: %s", user, got, others, out, errs)
		}
	}
	var policies, asked []string
	for _, tc := range useCases {
		policies, asked = append(policies, useCaseFile(tc.name, "policy.yaml")), append(asked, useCaseFile(tc.name, "review.yaml"))
	}
	mustRun("admin", fromFiles(policies, "apply")...)
	mustRun("admin", fromFiles(policies, "wait", "--for=condition=Ready", "--timeout=30s")...)
	compareDocuments(t, asked, mustRun("bob", fromFiles(asked, "create", "-o", "yaml")...))
	for _, tc := range useCases {
		if client := f.as(t, "bob", ""); tc.atOnce {
			checkAnswers(t, client, tc.name)
		} else {
			checkConditions(t, client, tc.name)
		}
	}
}

// fromFiles is a command line of kubectl that is about files: one process does for all.
func fromFiles(files []string, args ...string) []string {
	for _, file := range files {
		args = append(args, "-f", file)
	}
	return args
}

// compareDocuments compares what kubectl printed about files with their golden files.
func compareDocuments(t *testing.T, files []string, printed string) {
	t.Helper()
	documents := strings.Split(printed, "---\n")
	if len(documents) != len(files) {
		t.Fatalf("%d answers to %d reviews: %s", len(documents), len(files), printed)
	}
	for i, file := range files {
		golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".golden.yaml", documents[i])
	}
}
